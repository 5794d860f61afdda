"""The caches of the log, rebuilt from the events and compared with them.

What a stream waits for is the domain's knowledge: `agenda_of` folds a stream's events to its agenda row and its binding.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from events.base import Millis, Recorded
from store.admit import is_blank
from store.log import Reader
from store.records import AgendaRow, Binding
from store.sqlite import SqliteLog

AgendaOf = Callable[[str, tuple[Recorded, ...]], tuple[AgendaRow, Binding | None]]
"""Takes a stream and all its events; the binding is None, or has session "", where there is none."""

TRIES = 3
"""How often a stream that is being written to is looked at before a difference counts."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cache says something else than the events."""

    stream: str
    cache: str  # agenda or binding
    stored: str
    rebuilt: str


class _Stored(msgspec.Struct):
    """The caches' rows of one stream."""

    agenda: AgendaRow | None = None
    binding: Binding | None = None


async def rebuild(log: SqliteLog, agenda_of: AgendaOf) -> int:
    """Make agenda and bindings anew; how many streams. Streams that move meanwhile are folded again, so that it may run
    beside appends."""
    accounts = await log.accounts_of()
    await log.transact(_drop_strays)
    for stream, account in accounts.items():
        while not await _rebuild_stream(log, stream, account, agenda_of):
            continue
    return len(accounts)


async def _rebuild_stream(log: SqliteLog, stream: str, account: str, agenda_of: AgendaOf) -> bool:
    """False if the stream moved meanwhile."""
    events = await log.read(stream)
    row, binding = agenda_of(stream, events)

    def put(connection: sqlite3.Connection) -> bool:
        query = "SELECT coalesce(max(version), 0) FROM events WHERE stream = ?"
        (version,) = connection.execute(query, (stream,)).fetchone()
        if version != len(events):
            return False
        _put_rows(connection, account, row, binding)
        return True

    return await log.transact(put)


def _put_rows(connection: sqlite3.Connection, account: str, row: AgendaRow, binding: Binding | None) -> None:
    connection.execute("DELETE FROM agenda WHERE stream = ?", (row.stream,))
    connection.execute("DELETE FROM bindings WHERE stream = ?", (row.stream,))
    if not is_blank(row):
        connection.execute(
            "INSERT INTO agenda (stream, account, due_at, open_epoch, waiting, turn_open) VALUES (?, ?, ?, ?, ?, ?)",
            (row.stream, account, row.due_at, row.open_epoch, row.waiting, int(row.turn_open)),
        )
    if binding is not None and binding.session:
        connection.execute(
            "INSERT INTO bindings (stream, account, session) VALUES (?, ?, ?)", (row.stream, account, binding.session)
        )


def _drop_strays(connection: sqlite3.Connection) -> None:
    """Rows of streams that do not exist."""
    connection.execute("DELETE FROM agenda WHERE stream NOT IN (SELECT stream FROM streams)")
    connection.execute("DELETE FROM bindings WHERE stream NOT IN (SELECT stream FROM streams)")


async def compare(log: Reader, agenda_of: AgendaOf) -> tuple[Difference, ...]:
    """Where the caches differ from the events. A stored due time may be earlier than the rebuilt one, for a wake only ever makes
    it earlier, and does not count what waits: only whether something does."""
    stored = await _stored(log)
    differences: list[Difference] = []
    for stream in sorted(stored.keys() | (await log.accounts_of()).keys()):
        found = await _compare_stream(log, stream, stored.get(stream, _Stored()), agenda_of)
        for _ in range(TRIES):
            if not found:
                break
            fresh = (await _stored(log)).get(stream, _Stored())
            found = await _compare_stream(log, stream, fresh, agenda_of)
        differences += found
    return tuple(differences)


async def _stored(log: Reader) -> dict[str, _Stored]:
    found: dict[str, _Stored] = {}
    for _, binding in await log.bindings():
        found.setdefault(binding.stream, _Stored()).binding = binding
    for claim in await log.claims():
        for row in await log.agenda(claim.account):
            found.setdefault(row.stream, _Stored()).agenda = row
    return found


async def _compare_stream(log: Reader, stream: str, stored: _Stored, agenda_of: AgendaOf) -> list[Difference]:
    events = await log.read(stream)
    row, binding = agenda_of(stream, events)
    session = binding.session if binding else ""
    stored_session = stored.binding.session if stored.binding else ""
    kept = stored.agenda or AgendaRow(stream=stream)
    pairs: list[tuple[str, bool, Any, Any]] = [
        ("binding", session == stored_session, stored_session, session),
        ("agenda", _agrees(kept, row), kept, row),
    ]
    return [
        Difference(stream=stream, cache=cache, stored=str(old), rebuilt=str(new))
        for cache, same, old, new in pairs
        if not same
    ]


def _agrees(stored: AgendaRow, rebuilt: AgendaRow) -> bool:
    return (
        not _is_later(stored.due_at, rebuilt.due_at)
        and stored.open_epoch == rebuilt.open_epoch
        and (stored.waiting > 0) == (rebuilt.waiting > 0)
        and stored.turn_open == rebuilt.turn_open
    )


def _is_later(stored: Millis | None, rebuilt: Millis | None) -> bool:
    return rebuilt is not None and (stored is None or stored > rebuilt)
