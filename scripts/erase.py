"""`replyledger erase --peer ADDRESS | --delivery ID`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from actors.gateway.api import EraseOrder
from actors.gateway.views import Erased
from scripts.asking import spool
from scripts.asking.asker import Offline, asker, who
from scripts.configuration.config import load
from scripts.exits import Misused
from scripts.printing import Printer
from scripts.verbs import start, verb

app = verb()

TIED = "the address and the fingerprints of its messages"
"""What goes last."""


class Report(Erased, frozen=True, kw_only=True):
    """What was erased, what stays, and what went of the turns that wait in files."""

    spooled: int  # turns in files that went
    unread: tuple[str, ...]  # files there that cannot be read, so that nobody knows whose they are


@app.command()
def erase(
    ctx: typer.Context,
    *,
    peer: Annotated[str, typer.Option("--peer", "-p", help="Everything of this peer.", metavar="ADDRESS")] = "",
    delivery: Annotated[str, typer.Option("--delivery", "-d", help="All that tells of one.", metavar="ID")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    offline: Offline = False,
) -> None:
    """Erase a peer, or one delivery, for good: texts, names, reply handles, what waits. When something was sent, and what it cost,
    stays in the log without a name. Says what went, and what stays and why."""
    given, printer = start(ctx)
    if bool(peer) == bool(delivery):
        raise Misused("give exactly one of --peer ADDRESS and --delivery ID")
    if not yes:
        _confirm(peer, delivery)
    order = EraseOrder(peer=peer, delivery=delivery, who=who())
    found = asker(given, offline=offline).post(Erased, "/v1/erase", order)
    report = _with_spool(found, load(given.config).state_dir)
    printer.row(report, "\n".join(_lines(report, printer)))


def _confirm(peer: str, delivery: str) -> None:
    if not sys.stdin.isatty():
        raise Misused("what is erased does not come back; confirm it with --yes")
    what = f"everything of {peer}, also what waits for it" if peer else f"delivery {delivery}, also if it waits"
    typer.confirm(f"Erase {what}? It does not come back.", abort=True, err=True)


def _with_spool(found: Erased, state_dir: Path) -> Report:
    """The same for turns that were left in files. Those for a session go where nobody else is bound to it."""
    if found.turn_id:
        went = spool.forget(state_dir, turn_id=found.turn_id)
    else:
        went = spool.forget(state_dir, to=found.addresses, session=found.session if found.session_alone else "")
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    return msgspec.convert({**fields, "spooled": went.gone, "unread": tuple(map(str, went.unread))}, Report)


def _lines(report: Report, printer: Printer) -> Iterator[str]:
    what = f"delivery of turn {report.turn_id}" if report.turn_id else report.peer
    yield f"erased: {what}"
    yield from (f"  {line}" for line in _gone(report))
    yield "stays:"
    yield from (f"  {line}" for line in _stays(report, printer))


def _gone(report: Report) -> Iterator[str]:
    yield (
        f"texts {report.texts}, reply handles {report.tokens}, media keys {report.media},"
        f" raw answers of the channel {report.errors}"
    )
    if not report.turn_id:
        yield "the name" + (f", and {TIED}" if report.address == "gone" else "")
    if report.deliveries:
        yield f"waited, and will not be sent: {', '.join(report.deliveries)}"
    if report.messages:
        yield f"messages that waited for an agent: {report.messages}"
    if report.turn:
        yield f"the open turn {report.turn} was cancelled"
    if report.session:
        yield f"bound to session {report.session} no more"
    if report.spooled:
        yield f"turns in the spool: {report.spooled}"


def _stays(report: Report, printer: Printer) -> Iterator[str]:
    if not report.turn_id:
        yield f"requests in the ledger: {report.requests}, with times, sizes and ids, under {report.stream}: what was spent stays provable"
        yield "the channel's ids of messages, for 35 days: what it delivers again is recognised"
    else:
        yield "when it was sent, and what it cost"
    yield from _address(report, printer)
    if report.in_flight:
        yield f"request {report.in_flight} was on its way, and cannot be called back; its text is erased here"
    if not report.files_clean:
        yield "copies in the log's files, as long as somebody reads them (a backup, `events tail`); the gateway tries again every hour"
    yield from (f"{path} cannot be read: see yourself whose it is" for path in report.unread)
    yield "what agents, backups and the channel itself keep is not ours to erase"


def _address(report: Report, printer: Printer) -> Iterator[str]:
    back = "whoever comes back before that is known by it, so that nothing is spent twice"
    match report.address:
        case "until":
            assert report.address_until is not None
            yield f"{TIED}, until {printer.time(report.address_until)}; they go by themselves. {back.capitalize()}"
        case "outcome":
            yield f"{TIED}, until the outcome of what is on its way counts no more; they go by themselves. {back.capitalize()}"
        case "login":
            yield f"{TIED}: the account is logged in as this peer. After `accounts logout` they go by themselves"
        case "gone" | "kept":
            return
