"""A log of schema 1, as the program before wrote it: read as it is, brought up to date by the first opening to write.

`golden/schema_1.sql` is the dump of such a log: a message, two turns of which one was delivered and one refused, a failed one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from events.peer import SendRequested
from events.peer_state import PeerState, evolve
from events.streams import fingerprint
from store import queries, schema
from store.log import Reader
from store.memory_core import MemoryCore
from store.opening import check_contents
from store.reader import SqliteReader
from store.records import Kept
from store.sqlite import SqliteLog, connect
from store.verify import verify
from tests.store.conftest import SALT, batch, body, write

DUMP = Path(__file__).parent / "golden" / "schema_1.sql"
OLD_SALT = b"salt of the stage"
PEER = "peer-0a365976c9129014728b2093b1885028"
TEXTS = {
    "b-a39e86851f1865d9": "yes",
    "b-983f464529b4c7f3": "token-1",
    "b-0e52f5810e36de7f": "no",
    "b-5b7428e7a8e70be4": "later",
    "b-2f10a1856d4d7660": '{"ret":-2}',
    "b-f1c72c491158c502": "failed run",
}


@pytest.fixture
def old(path: Path) -> Path:
    """A log of schema 1."""
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.executescript(DUMP.read_text())
    connection.close()
    return path


def tables(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


async def check_old_facts(reader: Reader) -> None:
    """The chain, the state and the fingerprints of sent texts are what they were."""
    verdict = await verify(reader)
    assert (verdict.count, verdict.rows) == (0, 17)
    events = await reader.read(PEER)
    state = PeerState()
    for r in events:
        state = evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)
    assert ([o.turn_id for o in state.queue], state.version) == (["t2"], 12)
    kept = await reader.kept(TEXTS)
    assert kept == {b: Kept(text, OLD_SALT) for b, text in TEXTS.items()}
    sent = [r.event for r in events if isinstance(r.event, SendRequested)]
    assert [fingerprint(kept[e.body].salt, kept[e.body].text) for e in sent] == [e.digest for e in sent]
    assert len(sent) == 2


async def test_an_old_log_is_read_as_it_is(old: Path) -> None:
    before = old.read_bytes()
    reader = await SqliteReader.open(old)
    await check_old_facts(reader)
    assert (await reader.meta())["schema"] == "1"
    await reader.close()
    assert old.read_bytes() == before, "reading migrates nothing"


async def test_opening_to_write_migrates(old: Path) -> None:
    log = await SqliteLog.open(old)
    await check_old_facts(log)
    assert (await log.meta())["schema"] == str(schema.SCHEMA)
    await log.claim("weixin:main", "new", 1_900_000_000_000)
    salted = body("b-new", "hello", stream=PEER, salt=SALT)
    await log.append(batch(write(PEER), epoch=2, bodies=(salted, body("b-plain", stream=PEER))))
    assert await log.kept(["b-new", "b-plain"]) == {"b-new": Kept("hello", SALT), "b-plain": Kept("hello", OLD_SALT)}
    await log.close()


def test_a_migrated_log_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    migrated, new = connect(old).connection, connect(tmp_path / "new" / "log.db", salt=SALT).connection
    assert tables(migrated) == tables(new)
    assert queries.meta(migrated)["schema"] == queries.meta(new)["schema"] == MemoryCore().meta["schema"]
    migrated.close()
    new.close()


async def test_two_processes_that_start_at_once_migrate_once(old: Path) -> None:
    one, two = await asyncio.gather(SqliteLog.open(old), SqliteLog.open(old))
    for log in (one, two):
        await check_old_facts(log)
        await log.close()


@pytest.mark.parametrize("statements", range(5))
async def test_a_process_that_is_killed_while_it_migrates(old: Path, statements: int) -> None:
    command = [sys.executable, "-m", "tests.store.migrating", str(old), str(statements)]
    child = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
    assert await child.wait() == 9
    reader = await SqliteReader.open(old)
    assert (await reader.meta())["schema"] == "1"
    await check_old_facts(reader)
    await reader.close()
    log = await SqliteLog.open(old)
    assert (await log.meta())["schema"] == str(schema.SCHEMA)
    await check_old_facts(log)
    await log.close()


async def test_a_reader_outlives_the_migration_of_its_log(old: Path) -> None:
    reader = await SqliteReader.open(old)
    assert set((await reader.kept(TEXTS)).values()) == {Kept(t, OLD_SALT) for t in TEXTS.values()}
    log = await SqliteLog.open(old)
    await log.claim("weixin:main", "new", 1_900_000_000_000)
    await log.append(batch(write(PEER), epoch=2, bodies=(body("b-new", stream=PEER, salt=SALT),)))
    assert await reader.kept(["b-new"]) == {"b-new": Kept("hello", SALT)}
    await log.close()
    await reader.close()


def test_a_gateway_of_schema_1_that_still_runs_is_not_disturbed(old: Path) -> None:
    """It is fenced in a moment; until then its texts have the log's salt, as it thinks."""
    running = sqlite3.connect(old, isolation_level=None)
    insert = "INSERT INTO bodies (id, account, stream, kind, at, bytes, text) VALUES (?, 'weixin:main', ?, 'output', 1, 2, 'hi')"
    running.execute(insert, ("b-1", PEER))
    migrated = connect(old).connection
    running.execute(insert, ("b-2", PEER))
    running.close()
    assert queries.kept(migrated, ["b-1", "b-2"]) == {"b-1": Kept("hi", OLD_SALT), "b-2": Kept("hi", OLD_SALT)}
    migrated.close()


def test_an_older_program_refuses_the_newer_tables(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect(old).connection
    monkeypatch.setattr("store.opening.SCHEMA", 1)
    with pytest.raises(Exception, match="has schema 2, this program knows up to 1"):
        check_contents(connection, old)
    connection.close()
