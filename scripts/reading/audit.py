"""`replyledger audit`: one row for each reply that was charged, from the events alone.

A row says what a spent reply bought: whom it went to, which turns it carried, which slot of which window and which part of the
share it took, under which epoch and instance, and what is known of it. `--free` adds the requests that spent nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from actors.deciding.facts import carried
from actors.gateway.views import LedgerRow
from events.base import Kind, Millis
from events.bot import BotStarted
from events.history import history
from events.stories import History, RequestStory, Result
from scripts.printing import Printer
from scripts.reading.names import Names, find_peer, read_names
from store.log import Reader


class AuditRow(LedgerRow, frozen=True, kw_only=True):
    """A row of the ledger with what only the log knows."""

    stream: str
    window: int  # number of the window it was charged to
    outcome_at: Millis | None  # when its outcome was recorded, None while open
    failure: str  # class of a refusal, or why an outcome is unknown; "" otherwise
    code: int  # the channel's code, or the HTTP status, of a refusal
    lifted: str  # in observe mode: the limit that would have made it wait


NEW_COLUMNS = ("carried",)
"""Columns that are newer than the first release: they stand last, where they move no other."""

COLUMNS = (*(name for name in AuditRow.__struct_fields__ if name not in NEW_COLUMNS), *NEW_COLUMNS)


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows; empty = all. `since` inclusive, `until` exclusive, in ms."""

    peer: str = ""
    since: Millis | None = None
    until: Millis | None = None
    kinds: tuple[Kind, ...] = ()
    outcomes: tuple[Result, ...] = ()
    free: bool = False
    csv: bool = False


async def audit(
    reader: Reader, options: AuditOptions, printer: Printer, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Print the rows in commit order; returns how many."""
    rows = await ledger(reader, options, progress)
    if options.csv:
        _print_csv(rows, printer)
        return len(rows)
    for row in rows:
        printer.row(row, "" if printer.json else describe(row, printer))
    printer.talk(_sum_up(rows, options))
    return len(rows)


async def ledger(
    reader: Reader, options: AuditOptions, progress: Callable[[int], None] = lambda _: None
) -> list[AuditRow]:
    """The rows in commit order, stream by stream, so that no more than one history is in memory; `progress` hears how many
    events were read. Raises NotFound or Ambiguous for the peer."""
    names = await read_names(reader)
    asked = await find_peer(reader, names, options.peer) if options.peer else ""
    instances = await _instances(reader, names)
    rows: list[AuditRow] = []
    done = 0
    for stream in (asked,) if asked else names.peers:
        events = await reader.read(stream)
        rows += [row for row in rows_of(history(events), stream, names, instances) if wanted(row, options)]
        done += len(events)
        progress(done)
    return sorted(rows, key=lambda row: row.position)


async def _instances(reader: Reader, names: Names) -> dict[tuple[str, int], str]:
    """The instance of each (bot's stream, epoch)."""
    return {
        (r.stream, r.epoch): r.event.instance
        for account in names.accounts
        for r in await reader.read(f"bot-{account}")
        if isinstance(r.event, BotStarted)
    }


def rows_of(told: History, stream: str, names: Names, instances: Mapping[tuple[str, int], str]) -> Iterator[AuditRow]:
    """One row for each request of a peer."""
    for story in told.requests.values():
        outputs = (told.outputs.get(one.output) for one in story.carried)
        yield _row(
            story,
            stream,
            names.show(stream),
            tuple(output.turn_id for output in outputs if output),
            instances.get((names.bot_of(stream), story.epoch), ""),
        )


def _row(story: RequestStory, stream: str, peer: str, turn_ids: tuple[str, ...], instance: str) -> AuditRow:
    charge = story.charge
    return AuditRow(
        position=story.position,
        at=story.at,
        peer=peer,
        stream=stream,
        kind=story.kind,
        turn_ids=turn_ids,
        part=story.part,
        parts=story.parts,
        window=charge.window,
        window_opened_by=charge.opened_by,
        slot=charge.slot,
        slots=charge.slots,
        share=charge.share,
        shares=charge.shares,
        epoch=story.epoch,
        instance=instance,
        request=story.request,
        client_id=story.client_id,
        message_id=story.message_id,
        outcome=story.result,
        charged=story.charged,
        bytes=story.total,
        carried=charge.carried,
        outcome_at=story.outcome_at,
        failure=story.failure or story.reason,
        code=story.code,
        lifted=story.lifted,
    )


def wanted(row: AuditRow, options: AuditOptions) -> bool:
    """Whether a row was asked for."""
    return (
        (row.charged or options.free)
        and (options.since is None or row.at >= options.since)
        and (options.until is None or row.at < options.until)
        and (not options.kinds or row.kind in options.kinds)
        and (not options.outcomes or row.outcome in options.outcomes)
    )


def describe(row: AuditRow, printer: Printer) -> str:
    """A row as one line."""
    share = f"  share {row.share}/{row.shares}" if row.shares else ""
    part = f"  part {row.part}/{row.parts}" if row.parts > 1 else ""
    outcome = row.outcome + (f" {row.failure}" if row.failure else "") + (f" {row.code}" if row.code else "")
    return (
        f"{printer.time(row.at)}  {row.peer}  {row.kind:<6}  {outcome}{'' if row.charged else ' (free)'}"
        f"  slot {row.slot}/{row.slots}{carried(row.carried)} of {row.window_opened_by or 'no window'}{share}{part}  {row.bytes} B"
        f"  epoch {row.epoch} {row.instance or '?'}  {row.request}  {row.client_id}"
        f"  {row.message_id or '-'}  {','.join(row.turn_ids) or '-'}"
        + (f"  (enforce would have waited: {row.lifted})" if row.lifted else "")
    )


def _sum_up(rows: Iterable[AuditRow], options: AuditOptions) -> str:
    counted = [row.charged for row in rows]
    free = f", {len(counted) - sum(counted)} free" if options.free else ""
    return f"{sum(counted)} charged{free}"


def _print_csv(rows: Iterable[AuditRow], printer: Printer) -> None:
    """RFC 4180, with a header; several turn ids are parted by spaces. Cells that a spreadsheet would run as a formula are
    quoted by an apostrophe: ids come from agents and channels."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in COLUMNS])
    printer.raw(text.getvalue())


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        value = " ".join(value)
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")):
        return f"'{value}"
    return "" if value is None else value
