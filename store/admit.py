"""Whether one batch may go into the log, and the rows it becomes there. Pure: every store asks the same code.

The facts are those of the database *and* of the batches admitted before it in the same transaction.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from events.base import Millis, Recorded
from store.chain import GENESIS, link
from store.errors import AddressTaken, AppendRefused, DuplicateKey, Fenced, VersionConflict
from store.prepare import Prepared
from store.records import ANY, AddressRow, AgendaRow, Appended, Batch

KeyName = tuple[str, str, str]
"""(account, source, key)"""

EventRow = tuple[int, str, int, str, int, int, str, bytes, bytes]
"""position, stream, version, type, at, epoch, cause, data, digest"""


class Tip(msgspec.Struct, frozen=True, gc=False):
    """The end of a stream."""

    version: int
    at: Millis
    digest: bytes


EMPTY = Tip(0, 0, GENESIS)
"""The end of a stream that has no events."""


class Known(msgspec.Struct):
    """A stream in the directory: its account, and the peer behind it unless there is none or it was forgotten."""

    account: str
    peer: str | None = None
    name: str = ""


class Facts(msgspec.Struct):
    """What decides about a batch."""

    position: int = 0
    epochs: dict[str, int] = {}
    tips: dict[str, Tip] = {}
    keys: dict[KeyName, str] = {}
    streams: dict[str, Known] = {}
    peers: dict[tuple[str, str], str] = {}  # (account, peer) to stream
    bodies: set[str] = set()


class Admitted(msgspec.Struct, gc=False):
    """A batch that passed, as rows."""

    prepared: Prepared
    rows: list[EventRow]
    tips: dict[str, Tip]
    streams: dict[str, Known]
    appended: Appended


def admit(prepared: Prepared, facts: Facts) -> Admitted:
    """The rows of a batch. Raises AppendRefused; changes nothing."""
    batch = prepared.batch
    if facts.epochs.get(batch.account) != batch.epoch:
        _check_fence(batch, facts)
    if batch.keys:
        _check_keys(batch, facts)
    if batch.bodies:
        _check_bodies(batch, facts)
    return _rows(prepared, facts, _directory(prepared, facts))


def accept(admitted: Admitted, facts: Facts) -> None:
    """Let the facts include an admitted batch."""
    facts.position += len(admitted.rows)
    facts.tips.update(admitted.tips)
    for stream, known in admitted.streams.items():
        _settle(facts, stream, known)
    if admitted.prepared.bare:
        return
    batch = admitted.prepared.batch
    for key in batch.keys:
        facts.keys[batch.account, key.source, key.key] = key.value
    for name in unkeyed(batch, facts):
        del facts.keys[name]
    if batch.bodies:
        facts.bodies.update([b.id for b in batch.bodies])
    if batch.erase:
        facts.bodies.difference_update(batch.erase)


def unkeyed(batch: Batch, facts: Facts) -> list[KeyName]:
    """The keys among the facts that the batch deletes."""
    if not batch.unkey:
        return []
    return [n for n, value in facts.keys.items() if n[:2] == (batch.account, "message") and value in batch.unkey]


def woken(row: AgendaRow, due_at: Millis | None) -> AgendaRow:
    """The row, due no later than `due_at`, and with something waiting."""
    return msgspec.structs.replace(row, due_at=earlier(row.due_at, due_at), waiting=max(row.waiting, 1))


def earlier(first: Millis | None, second: Millis | None) -> Millis | None:
    """The earlier of two times, where None is never."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def is_blank(row: AgendaRow) -> bool:
    """Whether a stream waits for nothing; such rows are not kept."""
    return row.due_at is None and row.open_epoch is None and row.waiting == 0 and not row.turn_open


def _settle(facts: Facts, stream: str, known: Known) -> None:
    old = facts.streams.get(stream)
    if old is not None and old.peer is not None and old.peer != known.peer:
        facts.peers.pop((old.account, old.peer), None)
    facts.streams[stream] = known
    if known.peer is not None:
        facts.peers[known.account, known.peer] = stream


def _check_fence(batch: Batch, facts: Facts) -> None:
    epoch = facts.epochs.get(batch.account, 0)
    if epoch != batch.epoch:
        raise Fenced(f"{batch.account} is at epoch {epoch}; an append under epoch {batch.epoch} is not taken")


def _check_keys(batch: Batch, facts: Facts) -> None:
    fresh: dict[tuple[str, str], str] = {}
    for key in batch.keys:
        value = facts.keys.get((batch.account, key.source, key.key), fresh.get((key.source, key.key)))
        if value is not None:
            raise DuplicateKey(key.source, key.key, value)
        fresh[key.source, key.key] = key.value


def _check_bodies(batch: Batch, facts: Facts) -> None:
    fresh: set[str] = set()
    for body in batch.bodies:
        if body.id in facts.bodies or body.id in fresh:
            raise AppendRefused(f"the body {body.id} is already in the log")
        fresh.add(body.id)


def _directory(prepared: Prepared, facts: Facts) -> dict[str, Known]:
    """Directory entries that the batch adds or changes."""
    batch, account = prepared.batch, prepared.batch.account
    changed: dict[str, Known] = {}
    for name in prepared.streams:
        known = facts.streams.get(name)
        if known is None:
            changed[name] = Known(account)
        elif known.account != account:
            _refuse_stranger(name, known, batch)
    if prepared.bare:
        return changed
    for stream in batch.forget:
        known = changed.get(stream) or facts.streams.get(stream)
        if known is not None:
            if known.account != account:
                _refuse_stranger(stream, known, batch)
            changed[stream] = Known(account)
    for row in batch.addresses:
        _tie(batch, row, facts, changed)
    return changed


def _refuse_stranger(stream: str, known: Known, batch: Batch) -> NoReturn:
    raise AppendRefused(f"{stream} is a stream of {known.account}, not of {batch.account}")


def _tie(batch: Batch, row: AddressRow, facts: Facts, changed: dict[str, Known]) -> None:
    owner = next((s for s, k in changed.items() if k.peer == row.peer), None)
    owner = owner or facts.peers.get((batch.account, row.peer))
    known = changed.get(row.stream) or facts.streams[row.stream]
    if owner is not None and owner not in (row.stream, *batch.forget):
        raise AddressTaken(row.stream, owner)
    if known.peer is None:
        changed[row.stream] = Known(batch.account, row.peer, row.name)
    elif known.peer != row.peer:
        raise AddressTaken(row.stream, row.stream)


def _rows(prepared: Prepared, facts: Facts, streams: dict[str, Known]) -> Admitted:
    batch = prepared.batch
    position, epoch, cause = facts.position, batch.epoch, batch.cause
    tips: dict[str, Tip] = {}
    rows: list[EventRow] = []
    recorded: list[Recorded] = []
    for write, encoded in zip(batch.writes, prepared.encoded):  # noqa: B905 - `prepare` made them, and this runs for every event
        stream = write.stream
        tip = tips.get(stream) or facts.tips.get(stream) or EMPTY
        version, digest = tip.version, tip.digest
        at = batch.at if batch.at >= tip.at else tip.at  # noqa: FURB136 - `max` takes three times as long
        if write.expected not in (ANY, version):
            raise VersionConflict(stream, write.expected, version)
        for event, (tag, data) in zip(write.events, encoded):  # noqa: B905 - the same
            position += 1
            version += 1
            columns = (position, stream, version, tag, at, epoch, cause, data)
            digest = link(digest, columns)
            rows.append((position, stream, version, tag, at, epoch, cause, data, digest))
            recorded.append(
                Recorded(
                    position=position,
                    stream=stream,
                    version=version,
                    type=tag,
                    at=at,
                    epoch=epoch,
                    cause=cause,
                    event=event,
                )
            )
        if write.events:
            tips[stream] = Tip(version, at, digest)
    return Admitted(prepared, rows, tips, streams, Appended(recorded=tuple(recorded)))
