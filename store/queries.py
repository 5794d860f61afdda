"""What readers ask of the log in SQLite: plain functions on a sqlite3 connection, each one short read transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from events.base import Millis, Recorded
from events.codec import decode
from events.errors import CodecError
from store import schema
from store.chain import Root, root
from store.errors import EventUnreadable
from store.limits import INTEGER_MAX
from store.records import AddressRow, AgendaRow, Binding, Claim, Head, Kept, Row
from store.rowsql import find_rows

Con = sqlite3.Connection

_OF_STREAM = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events"
    " WHERE stream = ? AND version > ? ORDER BY version LIMIT ?"
)
_BEFORE_KEY = (
    "SELECT version FROM events WHERE stream = ? AND at < (SELECT k.at FROM streams s JOIN keys k ON k.account = s.account"
    " AND k.source = ? AND k.key = ? WHERE s.stream = ?) ORDER BY version DESC LIMIT 1"
)
_PAGE = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events"
    " WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"
)
_ROW_PAGE = (
    "SELECT position, stream, version, type, at, epoch, cause, data, digest FROM events"
    " WHERE position > ? ORDER BY position LIMIT ?"
)

_SALTED = "SELECT id, text, salt FROM bodies WHERE id IN ("
_UNSALTED = "SELECT id, text, x'' FROM bodies WHERE id IN ("  # a log of schema 1 that nobody has opened to write since


def recorded(rows: Iterable[tuple[Any, ...]]) -> Iterator[Recorded]:
    """Rows of the events table, each decoded when it is asked for. Raises EventUnreadable."""
    for position, stream, version, tag, at, epoch, cause, data in rows:
        try:
            event = decode(tag, data)
        except CodecError as error:
            raise EventUnreadable(stream, version, position=position, why=error) from error
        yield Recorded(
            position=position,
            stream=stream,
            version=version,
            type=tag,
            at=at,
            epoch=epoch,
            cause=cause,
            event=event,
        )


def read(con: Con, stream: str, after: int, limit: int) -> tuple[Recorded, ...]:
    """Events of a stream after a version."""
    return tuple(recorded(con.execute(_OF_STREAM, (stream, after, limit or -1))))


def read_since_key(con: Con, stream: str, source: str, key: str) -> tuple[Recorded, ...]:
    """Events of a stream from those on that took a key of its account; all of them where it has no such key. Times never go back
    within a stream, so what is older than the key came before."""
    (before,) = con.execute(_BEFORE_KEY, (stream, source, key, stream)).fetchone() or (0,)
    return read(con, stream, before, 0)


def page(con: Con, after: int, until: int, size: int) -> tuple[Recorded, ...]:
    """The next events of the whole log, up to `until` (0 = the end). Its rows are fetched at once, which is a tenth faster."""
    return tuple(recorded(con.execute(_PAGE, (after, until or INTEGER_MAX, size)).fetchall()))


def flaws(con: Con) -> tuple[str, ...]:
    """What an examination of the whole file finds wrong, at most a few sentences of SQLite's."""
    found = [str(row[0]) for row in con.execute("PRAGMA integrity_check(3)")]
    return () if found == ["ok"] else tuple(found)


def row_page(con: Con, after: int, size: int) -> tuple[Row, ...]:
    """The next rows of the whole log, as they are stored."""
    return tuple([stored_row(row) for row in con.execute(_ROW_PAGE, (after, size))])


def stored_row(row: tuple[Any, ...]) -> Row:
    """A row as it is stored."""
    position, stream, version, tag, at, epoch, cause, data, digest = row
    return Row(
        position=position,
        stream=stream,
        version=version,
        type=tag,
        at=at,
        epoch=epoch,
        cause=cause,
        data=data,
        digest=digest,
    )


def position(con: Con) -> int:
    """The last position that was ever given."""
    row = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    return row[0] if row else 0


def position_at(con: Con, at: Millis) -> int:
    """The last position before the first event later than `at`, found by bisection: exact while the clock of the log went
    forward, near it where a clock was set back. 0 if all are later."""
    low, high = 0, position(con)
    while low < high:
        middle = (low + high + 1) // 2
        row = con.execute("SELECT at FROM events WHERE position >= ? ORDER BY position LIMIT 1", (middle,)).fetchone()
        if row is not None and row[0] <= at:
            low = middle
        else:
            high = middle - 1
    return low


def bodies(con: Con, ids: Iterable[str]) -> dict[str, str]:
    """Texts by id."""
    return dict(find_rows(con, "SELECT id, text FROM bodies WHERE id IN (", ids))


def kept(con: Con, ids: Iterable[str]) -> dict[str, Kept]:
    """Texts by id, each with what keys its fingerprints. Whoever knows the id of a body with a salt read it from a log that was
    migrated already, so the two looks need no common transaction."""
    rows = find_rows(con, _SALTED if schema.version(con) > 1 else _UNSALTED, ids)
    common = b"" if all(salt for _, _, salt in rows) else bytes.fromhex(meta(con)["salt"])
    return {body: Kept(text, salt or common) for body, text, salt in rows}


def key(con: Con, source: str, name: str) -> dict[str, str]:
    """Account to value of a key."""
    query = (
        "SELECT k.account, k.value FROM epochs e JOIN keys k ON k.account = e.account AND k.source = ? AND k.key = ?"
    )
    return dict(con.execute(query, (source, name)).fetchall())


def taken(con: Con, account: str, source: str, keys: Iterable[str]) -> frozenset[str]:
    """Which keys an account holds."""
    query = "SELECT key FROM keys WHERE account = ? AND source = ? AND key IN ("
    found = [k for (k,) in find_rows(con, query, keys, (account, source))]
    return frozenset(found)


def key_prefix(con: Con, source: str, prefix: str, limit: int) -> tuple[tuple[str, str, str], ...]:
    """(account, key, value) of the keys that begin so."""
    query = (
        "SELECT k.account, k.key, k.value FROM epochs e JOIN keys k ON k.account = e.account AND k.source = ?"
        " AND k.key >= ? AND k.key < ? ORDER BY k.key, k.account LIMIT ?"
    )
    return tuple(con.execute(query, (source, prefix, prefix + "\U0010ffff", limit)).fetchall())


def values(con: Con, account: str, source: str, keys: Iterable[str]) -> dict[str, str]:
    """The values of those of these keys that an account holds."""
    query = "SELECT key, value FROM keys WHERE account = ? AND source = ? AND key IN ("
    return dict(find_rows(con, query, keys, (account, source)))


def key_counts(con: Con, account: str) -> dict[str, int]:
    """How many keys of each source an account holds."""
    return dict(
        con.execute("SELECT source, count(*) FROM keys WHERE account = ? GROUP BY source", (account,)).fetchall()
    )


def key_values(con: Con, account: str, source: str, prefix: str, since: Millis) -> dict[str, int]:
    """How often each value stands among the keys that begin so and were taken since then."""
    query = "SELECT value, count(*) FROM keys WHERE account = ? AND source = ? AND key >= ? AND key < ? AND at >= ? GROUP BY value"
    return dict(con.execute(query, (account, source, prefix, prefix + "\U0010ffff", since)).fetchall())


def newest_key(con: Con, account: str, source: str, prefix: str, value: str) -> Millis:
    """When the newest key that begins so and has this value was taken, 0 if there is none."""
    query = (
        "SELECT coalesce(max(at), 0) FROM keys WHERE account = ? AND source = ? AND key >= ? AND key < ? AND value = ?"
    )
    (at,) = con.execute(query, (account, source, prefix, prefix + "\U0010ffff", value)).fetchone()
    return int(at)


def keys_after(con: Con, account: str, source: str, after: str, limit: int) -> tuple[str, ...]:
    """The next keys of an account after one, in their order."""
    query = "SELECT key FROM keys WHERE account = ? AND source = ? AND key > ? ORDER BY key LIMIT ?"
    return tuple([key for (key,) in con.execute(query, (account, source, after, limit))])


def agenda(con: Con, account: str) -> tuple[AgendaRow, ...]:
    """An account's agenda, earliest due first, rows without a due time last."""
    query = (
        "SELECT stream, due_at, open_epoch, waiting, turn_open FROM agenda WHERE account = ?"
        " ORDER BY due_at IS NULL, due_at, stream"
    )
    return tuple([_agenda_row(row) for row in con.execute(query, (account,))])


def _agenda_row(row: tuple[Any, ...]) -> AgendaRow:
    stream, due_at, open_epoch, waiting, turn_open = row
    return AgendaRow(stream=stream, due_at=due_at, open_epoch=open_epoch, waiting=waiting, turn_open=bool(turn_open))


def addresses(con: Con, account: str) -> tuple[AddressRow, ...]:
    """An account's peers that were not forgotten."""
    query = "SELECT stream, peer, name FROM streams WHERE account = ? AND peer IS NOT NULL ORDER BY stream"
    return tuple([AddressRow(stream=s, peer=p, name=n) for s, p, n in con.execute(query, (account,))])


def accounts_of(con: Con) -> dict[str, str]:
    """The account of every stream."""
    return dict(con.execute("SELECT stream, account FROM streams ORDER BY stream").fetchall())


def account_of(con: Con, stream: str) -> str:
    """The account of one stream, "" if it is unknown."""
    row: tuple[str] | None = con.execute("SELECT account FROM streams WHERE stream = ?", (stream,)).fetchone()
    return row[0] if row else ""


def bindings(con: Con) -> tuple[tuple[str, Binding], ...]:
    """(account, binding) of each bound peer."""
    rows = con.execute("SELECT account, stream, session FROM bindings ORDER BY stream")
    return tuple([(account, Binding(stream=stream, session=session)) for account, stream, session in rows])


def heads(con: Con) -> tuple[Head, ...]:
    """Every head by stream."""
    rows = con.execute("SELECT stream, version, at, digest FROM heads ORDER BY 1")
    return tuple([Head(stream=s, version=v, at=at, digest=d) for s, v, at, d in rows])


def claims(con: Con) -> tuple[Claim, ...]:
    """The fence rows."""
    rows = con.execute("SELECT account, epoch, instance, replaces, claimed_at FROM epochs ORDER BY account")
    return tuple([Claim(account=a, epoch=e, instance=i, replaces=r, claimed_at=c) for a, e, i, r, c in rows])


def epoch(con: Con, account: str) -> int:
    """An account's epoch, 0 before its first claim."""
    row = con.execute("SELECT epoch FROM epochs WHERE account = ?", (account,)).fetchone()
    return row[0] if row else 0


def expired(con: Con, account: str, before: Millis, limit: int) -> tuple[tuple[str, str], ...]:
    """(stream, body) of the bodies older than `before`, oldest first."""
    query = "SELECT stream, id FROM bodies WHERE account = ? AND at < ? ORDER BY at, rowid LIMIT ?"
    return tuple(con.execute(query, (account, before, limit)).fetchall())


def held(con: Con, account: str, stream: str, limit: int) -> tuple[tuple[str, str], ...]:
    """(body, kind) of a stream's bodies, oldest first. No index: only an erasure asks, and every append would pay."""
    query = "SELECT id, kind FROM bodies WHERE account = ? AND stream = ? ORDER BY at, rowid LIMIT ?"
    return tuple(con.execute(query, (account, stream, limit)).fetchall())


def meta(con: Con) -> Mapping[str, str]:
    """Facts about the log."""
    return dict(con.execute("SELECT name, value FROM meta ORDER BY name").fetchall())


def root_now(con: Con) -> Root:
    """The root over all heads, in one transaction."""
    con.execute("BEGIN")
    try:
        return root(position(con), {head.stream: (head.version, head.digest) for head in heads(con)})
    finally:
        con.execute("COMMIT")


def snapshot(con: Con, stream: str, fold_version: str) -> tuple[int, bytes] | None:
    """(version, state) of a stream's snapshot, unless another fold made it."""
    query = "SELECT version, data FROM snapshots WHERE stream = ? AND fold_version = ?"
    row: tuple[int, bytes] | None = con.execute(query, (stream, fold_version)).fetchone()
    return row


def put_snapshot(con: Con, stream: str, version: int, fold_version: str, data: bytes) -> None:
    """Keep a stream's state in place of the one before. A cache: anybody may delete it."""
    con.execute(
        "INSERT OR REPLACE INTO snapshots (stream, version, fold_version, data) VALUES (?, ?, ?, ?)",
        (stream, version, fold_version, data),
    )
