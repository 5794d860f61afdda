"""Batches into SQLite, inside an open transaction of a plain sqlite3 connection.

The writer thread and the seeded simulator run this same code. `gather` reads what decides about the batches, `admit` checks
each against that and the ones before it, `insert` writes those that passed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from events.base import Millis
from store.admit import Admitted, Facts, Known, Tip, earlier, is_blank, woken
from store.prepare import Prepared
from store.records import AgendaRow, Batch
from store.rowsql import find_rows, write_rows

# OR FAIL: a row that the database refuses undoes the whole transaction (`SqliteCore`). By default SQLite would keep the means to
# undo the one statement, a copy of every page it touches; over many rows that costs more than the rows.
_EVENTS = "INSERT OR FAIL INTO events (position, stream, version, type, at, epoch, cause, data, digest) VALUES"
_BODIES = "INSERT OR FAIL INTO bodies (id, account, stream, kind, at, bytes, text, salt) VALUES"
_KEYS = "INSERT OR FAIL INTO keys (account, source, key, value, at) VALUES"
_UNKEY = "DELETE FROM keys WHERE account = ? AND source = 'message' AND value = ?"
_KEYS_HELD = "SELECT key, value FROM keys WHERE account = ? AND source = ? AND key IN ("
_STREAMS = "INSERT OR FAIL INTO streams (stream, account, peer, name) VALUES"
_STREAMS_AGAIN = "ON CONFLICT (stream) DO UPDATE SET peer = excluded.peer, name = excluded.name"
_AGENDA = "INSERT OR FAIL INTO agenda (stream, account, due_at, open_epoch, waiting, turn_open) VALUES"
_AGENDA_AGAIN = (
    "ON CONFLICT (stream) DO UPDATE SET due_at = excluded.due_at, open_epoch = excluded.open_epoch,"
    " waiting = excluded.waiting, turn_open = excluded.turn_open"
)
_AGENDA_WOKEN = (
    "ON CONFLICT (stream) DO UPDATE SET waiting = max(waiting, 1),"
    " due_at = coalesce(min(due_at, excluded.due_at), due_at, excluded.due_at)"
)
_BINDINGS = "INSERT OR FAIL INTO bindings (stream, account, session) VALUES"
_BINDINGS_AGAIN = "ON CONFLICT (stream) DO UPDATE SET session = excluded.session"


class Cache:
    """What the writer remembers of the database between transactions; void as soon as another connection has written."""

    def __init__(self) -> None:
        self.data_version = -1
        self.position = 0
        self.tips: dict[str, Tip] = {}
        self.streams: dict[str, Known] = {}

    def refresh(self, connection: sqlite3.Connection, cached_max: int) -> None:
        """Forget everything if another connection has committed since. Call inside the transaction."""
        (seen,) = connection.execute("PRAGMA data_version").fetchone()
        if seen != self.data_version or len(self.streams) > cached_max:
            self.tips.clear()
            self.streams.clear()
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
            self.position = row[0] if row else 0
            self.data_version = seen

    def learn(self, facts: Facts) -> None:
        """Remember what a committed transaction found and changed."""
        self.position = facts.position
        self.tips.update(facts.tips)
        self.streams.update(facts.streams)


def gather(connection: sqlite3.Connection, group: Sequence[Prepared], cache: Cache) -> Facts:
    """What decides about these batches, as it stands in this transaction."""
    epochs = connection.execute("SELECT account, epoch FROM epochs").fetchall()
    facts = Facts(position=cache.position, epochs=dict(epochs))
    _gather_streams(connection, group, cache, facts)
    batches = [p.batch for p in group if not p.bare]
    if not batches:
        return facts
    keys = {(b.account, k.source): None for b in batches for k in b.keys}
    for account, source in keys:
        wanted = [k.key for b in batches if b.account == account for k in b.keys if k.source == source]
        for key, value in find_rows(connection, _KEYS_HELD, wanted, (account, source)):
            facts.keys[account, source, key] = value
    bodies = [body.id for b in batches for body in b.bodies]
    facts.bodies.update([i for (i,) in find_rows(connection, "SELECT id FROM bodies WHERE id IN (", bodies)])
    peers = [(b.account, a.peer) for b in batches for a in b.addresses]
    for account, peer in peers:
        query = "SELECT stream FROM streams WHERE account = ? AND peer = ?"
        for (stream,) in connection.execute(query, (account, peer)):
            facts.peers[account, peer] = stream
    return facts


def _gather_streams(connection: sqlite3.Connection, group: Sequence[Prepared], cache: Cache, facts: Facts) -> None:
    names: set[str] = set()
    for prepared in group:
        names.update(prepared.streams)
        if not prepared.bare:
            names.update(prepared.batch.forget)
    missing = []
    for name in names:
        known = cache.streams.get(name)
        if known is None:
            missing.append(name)
            continue
        facts.streams[name] = known
        tip = cache.tips.get(name)
        if tip is not None:
            facts.tips[name] = tip
    query = (
        "SELECT s.stream, s.account, s.peer, s.name, e.version, e.at, e.digest FROM streams s LEFT JOIN events e"
        " ON e.stream = s.stream AND e.version = (SELECT max(version) FROM events WHERE stream = s.stream)"
        " WHERE s.stream IN ("
    )
    for stream, account, peer, name, version, at, digest in find_rows(connection, query, missing):
        facts.streams[stream] = Known(account, peer, name)
        if version is not None:
            facts.tips[stream] = Tip(version, at, digest)


def insert(connection: sqlite3.Connection, admitted: Sequence[Admitted]) -> None:
    """Write the batches that passed."""
    write_rows(connection, _EVENTS, [row for a in admitted for row in a.rows])
    _insert_directory(connection, [a for a in admitted if a.streams or not a.prepared.bare])
    others = [a for a in admitted if not a.prepared.bare]
    if others:
        _insert_texts(connection, others)
        _insert_caches(connection, others)


def _insert_directory(connection: sqlite3.Connection, admitted: Sequence[Admitted]) -> None:
    """Forgotten peers go first: a later batch of the group may tie such a peer to another stream."""
    if not admitted:
        return
    forgotten = [(stream,) for a in admitted for stream in a.prepared.batch.forget]
    connection.executemany("UPDATE streams SET peer = NULL, name = '' WHERE stream = ?", forgotten)
    changed = {stream: known for a in admitted for stream, known in a.streams.items()}
    rows = [(stream, k.account, k.peer, k.name) for stream, k in changed.items()]
    write_rows(connection, _STREAMS, rows, _STREAMS_AGAIN)


def _insert_texts(connection: sqlite3.Connection, admitted: Sequence[Admitted]) -> None:
    batches = [(a.prepared, a.prepared.batch) for a in admitted]
    bodies = [
        (body.id, b.account, body.stream, body.kind, body.at, size, body.text, body.salt)
        for p, b in batches
        for body, size in zip(b.bodies, p.body_bytes, strict=True)
    ]
    write_rows(connection, _BODIES, bodies)
    connection.executemany(_UNKEY, [(b.account, stream) for _, b in batches for stream in b.unkey])
    write_rows(connection, _KEYS, _keys([b for _, b in batches]))
    connection.executemany("DELETE FROM bodies WHERE id = ? AND account = ?", _erased([b for _, b in batches]))


def _keys(batches: Sequence[Batch]) -> list[tuple[str, str, str, str, Millis]]:
    """The rows of the group's keys, without those that it deletes again."""
    rows: list[tuple[str, str, str, str, Millis]] = []
    for batch in batches:
        rows += [(batch.account, k.source, k.key, k.value, batch.at) for k in batch.keys]
        if batch.unkey:
            rows = [r for r in rows if not (r[:2] == (batch.account, "message") and r[3] in batch.unkey)]
    return rows


def _erased(batches: Sequence[Batch]) -> list[tuple[str, str]]:
    """(body, account) of what the group erases: not what a later batch of it brings."""
    erased: set[tuple[str, str]] = set()
    for batch in batches:
        brought = {body.id for body in batch.bodies}
        erased = {one for one in erased if one[0] not in brought}
        erased |= {(body, batch.account) for body in batch.erase}
    return sorted(erased)


def _insert_caches(connection: sqlite3.Connection, admitted: Sequence[Admitted]) -> None:
    replaced, wakes = _agenda_changes(admitted)
    rows = [(s, account, r.due_at, r.open_epoch, r.waiting, int(r.turn_open)) for s, (account, r) in replaced.items()]
    blank = [(s,) for s, (_, r) in replaced.items() if is_blank(r)]
    dropped = {s for (s,) in blank}
    write_rows(connection, _AGENDA, [r for r in rows if r[0] not in dropped], _AGENDA_AGAIN)
    connection.executemany("DELETE FROM agenda WHERE stream = ?", blank)
    woken_rows = [(s, account, due_at, None, 1, 0) for s, (account, due_at) in wakes.items()]
    write_rows(connection, _AGENDA, woken_rows, _AGENDA_WOKEN)
    bound = {
        r.stream: (r.stream, a.prepared.batch.account, r.session) for a in admitted for r in a.prepared.batch.bindings
    }
    write_rows(connection, _BINDINGS, [row for row in bound.values() if row[2]], _BINDINGS_AGAIN)
    connection.executemany("DELETE FROM bindings WHERE stream = ?", [(r[0],) for r in bound.values() if not r[2]])


def _agenda_changes(
    admitted: Sequence[Admitted],
) -> tuple[dict[str, tuple[str, AgendaRow]], dict[str, tuple[str, Millis | None]]]:
    """Rows that replace what the table has, and wakes of rows that it may have, with what came last per stream."""
    replaced: dict[str, tuple[str, AgendaRow]] = {}
    wakes: dict[str, tuple[str, Millis | None]] = {}
    for one in admitted:
        batch = one.prepared.batch
        for row in batch.agenda:
            replaced[row.stream] = (batch.account, row)
            wakes.pop(row.stream, None)
        for row in batch.wake:
            if row.stream in replaced:
                replaced[row.stream] = (batch.account, woken(replaced[row.stream][1], row.due_at))
            else:
                before = wakes.get(row.stream)
                due_at = earlier(before[1], row.due_at) if before else row.due_at
                wakes[row.stream] = (batch.account, due_at)
    return replaced, wakes
