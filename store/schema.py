"""The tables of the log in SQLite.

`events` is the log; `bodies`, `keys`, `epochs`, `streams` and `meta` are facts beside it; `agenda`, `bindings` and
`snapshots` are caches that replay rebuilds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from events.base import Millis

SCHEMA: Final = 2
"""Version of these tables; a log with a higher one was written by a newer program."""

APPLICATION_ID: Final = 0x52_50_4C_47
"""Marks the file as ours (`RPLG`)."""

RARE: Final = (
    # Few events are in these, so that a rare one is found without a look at all requests. Only a request pays, for one look at its bytes.
    "CREATE INDEX unknowns ON events (stream, version) WHERE type = 'send_unknown'",
    "CREATE INDEX failures ON events (stream, version) WHERE type = 'send_failed'",
    """CREATE INDEX notices ON events (at)
        WHERE type = 'send_requested' AND instr(data, CAST('"kind":"notice"' AS BLOB)) > 0""",
)

TABLES: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE epochs (
        account TEXT PRIMARY KEY, epoch INTEGER NOT NULL, instance TEXT NOT NULL, replaces TEXT NOT NULL,
        claimed_at INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE events (
        position INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, version INTEGER NOT NULL, type TEXT NOT NULL,
        at INTEGER NOT NULL, epoch INTEGER NOT NULL, cause TEXT NOT NULL, data BLOB NOT NULL, digest BLOB NOT NULL,
        UNIQUE (stream, version))""",
    # Partial, so that only sends pay for the ledger.
    "CREATE INDEX requests ON events (at) WHERE type = 'send_requested'",
    "CREATE INDEX requests_of ON events (stream, at) WHERE type = 'send_requested'",
    """CREATE INDEX outcomes ON events (stream, version, type)
        WHERE type IN ('send_succeeded', 'send_failed', 'send_unknown', 'unknown_resolved')""",
    "CREATE INDEX resolutions ON events (stream, version) WHERE type = 'unknown_resolved'",
    *RARE,
    """CREATE TRIGGER events_stay BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'events are never changed'); END""",
    """CREATE TRIGGER events_remain BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END""",
    """CREATE TABLE bodies (
        id TEXT NOT NULL UNIQUE, account TEXT NOT NULL, stream TEXT NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL,
        bytes INTEGER NOT NULL, text TEXT NOT NULL, salt BLOB NOT NULL DEFAULT x'')""",
    "CREATE INDEX bodies_by_age ON bodies (account, at)",
    """CREATE TABLE keys (
        account TEXT NOT NULL, source TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
        PRIMARY KEY (account, source, key)) WITHOUT ROWID""",
    # The directory of streams. `peer` and `name` can be erased; which account a stream belongs to cannot.
    """CREATE TABLE streams (
        stream TEXT PRIMARY KEY, account TEXT NOT NULL, peer TEXT, name TEXT NOT NULL,
        UNIQUE (account, peer)) WITHOUT ROWID""",
    # A view, so that it cannot differ from the events.
    """CREATE VIEW heads AS SELECT e.stream, e.version, e.at, e.digest FROM streams s JOIN events e
        ON e.stream = s.stream AND e.version = (SELECT max(version) FROM events WHERE stream = s.stream)""",
    """CREATE TABLE agenda (
        stream TEXT PRIMARY KEY, account TEXT NOT NULL, due_at INTEGER, open_epoch INTEGER, waiting INTEGER NOT NULL,
        turn_open INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE bindings (
        stream TEXT PRIMARY KEY, account TEXT NOT NULL, session TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE snapshots (
        stream TEXT PRIMARY KEY, version INTEGER NOT NULL, fold_version TEXT NOT NULL, data BLOB NOT NULL)
        WITHOUT ROWID""",
)

STEPS: Final[Mapping[int, tuple[str, ...]]] = {
    # A salt for each body; those that are there keep the log's. A gateway of schema 1 that still runs writes on until it is fenced.
    1: ("ALTER TABLE bodies ADD COLUMN salt BLOB NOT NULL DEFAULT x''", *RARE),
}
"""What makes the tables of a version those of the next."""


def create(connection: sqlite3.Connection, salt: bytes, at: Millis) -> None:
    """Make the tables in an empty database; `salt` and `at` (ms) are kept for ever. Runs in the caller's transaction."""
    for statement in TABLES:
        connection.execute(statement)
    meta = {"schema": str(SCHEMA), "created_at": str(at), "salt": salt.hex(), "simulated": "0"}
    connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", meta.items())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def version(connection: sqlite3.Connection) -> int:
    """The version of the tables as they are."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def migrate(connection: sqlite3.Connection) -> None:
    """Make the tables of an older version those of this one. Runs in the caller's transaction; events stay as they are."""
    for older in range(version(connection), SCHEMA):
        for statement in STEPS.get(older, ()):
            connection.execute(statement)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA),))
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
