from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from events.peer import SessionBound
from store import limits
from store.core import SqliteCore
from store.errors import AppendRefused, Fenced, LogBusy, LogClosed, LogFailed
from store.prepare import prepare
from store.records import Appended, Key, Write
from store.sqlite import SqliteLog, connect
from tests.store.conftest import ANNA, BEN, BOT, SALT, batch, body, write


async def test_durability_settings(log: SqliteLog) -> None:
    def pragma(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "secure_delete")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await log._writes.run(pragma) == ["wal", 2, 1]


async def test_events_cannot_be_changed_or_deleted(log: SqliteLog) -> None:
    for statement in ("UPDATE events SET at = 1", "DELETE FROM events", "DELETE FROM events WHERE position = 1"):
        with pytest.raises(AppendRefused, match="never"):
            await asyncio.wait_for(refused(log, statement), 5)
    assert len(await log.read(f"bot-{BOT}")) == 1


async def refused(log: SqliteLog, statement: str) -> None:
    try:
        await log._writes.run(lambda connection: connection.execute(statement).fetchall())
    except sqlite3.IntegrityError as error:
        raise AppendRefused(str(error)) from error


async def test_concurrent_appends_share_commits(log: SqliteLog) -> None:
    groups: list[int] = []
    real = log._core.append_group

    def counted(group):
        groups.append(len(group))
        return real(group)

    log._core.append_group = counted  # type: ignore[method-assign]
    await asyncio.gather(*[log.append(batch(write())) for _ in range(100)])
    assert sum(groups) == 100
    assert len(groups) <= 3


async def test_group_size_is_limited(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.sqlite.GROUP_BATCHES_MAX", 7)
    groups: list[int] = []
    real = log._core.append_group
    log._core.append_group = lambda group: groups.append(len(group)) or real(group)  # type: ignore[method-assign, func-returns-value]
    await asyncio.gather(*[log.append(batch(write())) for _ in range(50)])
    assert max(groups) == 7
    monkeypatch.setattr("store.sqlite.GROUP_BYTES_MAX", 10_000)
    groups.clear()
    await asyncio.gather(*[log.append(batch(write(), bodies=(body(f"b{n}", "x" * 6_000),))) for n in range(4)])
    assert groups == [2, 2]


async def test_too_much_waiting_is_refused_and_nothing_lost(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.sqlite.APPENDS_WAITING_MAX", 10)
    results = await asyncio.gather(*[log.append(batch(write())) for _ in range(15)], return_exceptions=True)
    assert [type(r) for r in results] == [Appended] * 10 + [LogBusy] * 5
    monkeypatch.setattr("store.sqlite.BYTES_WAITING_MAX", 50_000)
    large = [batch(bodies=(body(f"b{n}", "x" * 20_000),)) for n in range(4)]
    results = await asyncio.gather(*[log.append(b) for b in large], return_exceptions=True)
    assert [type(r) for r in results] == [Appended] * 2 + [LogBusy] * 2
    await log.append(batch(write()))
    assert len(await log.read(ANNA)) == 11
    assert log._bytes_waiting == 0


async def test_a_locked_database_refuses_the_group_before_commit(path: Path) -> None:
    core = connect(path, salt=SALT)
    core.claim(BOT, "one", 1)
    core.connection.execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogBusy, match="locked"):
            core.append_group([prepare(batch(write())), prepare(batch(write(BEN)))])
        other.execute("ROLLBACK")
        assert len(core.append_group([prepare(batch(write())), prepare(batch(write(BEN)))])) == 2
    finally:
        other.close()
        core.connection.close()


async def test_a_full_database_refuses_the_group_before_commit(log: SqliteLog) -> None:
    pages = await log._writes.run(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await log._writes.run(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 2}").fetchone())
    text = "x" * 100_000
    results = await asyncio.gather(
        log.append(batch(write(), bodies=(body("big", text),))), log.append(batch(write())), return_exceptions=True
    )
    assert [type(r) for r in results] == [LogBusy, LogBusy]
    assert await log.read(ANNA) == ()
    await log._writes.run(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchone())
    await log.append(batch(write(), bodies=(body("big", text),)))
    assert await log.bodies(["big"]) == {"big": text}


async def test_a_nearly_full_disk_refuses_before_anything_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.sqlite.DISK_RESERVE_BYTES", 2**62)
    log = await SqliteLog.open(path, salt=SALT)
    await log.claim(BOT, "one", 1)
    for refused in (log.append(batch(write())), log.takes()):
        with pytest.raises(LogBusy, match="disk"):
            await refused
    monkeypatch.setattr("store.sqlite.DISK_RESERVE_BYTES", 0)
    await log.takes()
    await log.append(batch(write()))
    await log.close()


class FailingCommit:
    """A connection whose COMMIT fails, as after an EIO."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *rest):
        if sql == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(sql, *rest)

    def __getattr__(self, name: str):
        return getattr(self._connection, name)


async def test_a_failed_commit_ends_the_log(log: SqliteLog) -> None:
    real = log._core.connection
    log._core.connection = FailingCommit(real)  # type: ignore[assignment]
    appends = [asyncio.create_task(log.append(batch(write()))) for _ in range(300)]
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert {type(r) for r in results} == {LogFailed}
    log._core.connection = real
    for refused_call in (log.append(batch(write())), log.claim(BOT, "two", 1)):
        with pytest.raises(LogFailed, match="disk I/O error"):
            await refused_call
    assert log._core.connection is real


async def test_an_io_error_before_the_commit_ends_the_log_too(path: Path) -> None:
    core = connect(path, salt=SALT)
    core.claim(BOT, "one", 1)

    class Broken(FailingCommit):
        def execute(self, sql: str, *rest):
            if "INTO events" in sql:
                raise sqlite3.OperationalError("disk I/O error")
            return self._connection.execute(sql, *rest)

    real, core.connection = core.connection, Broken(core.connection)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(LogFailed):
            core.append(batch(write()))
    real.close()


async def test_a_constraint_that_the_checks_do_not_know_harms_no_neighbour(log: SqliteLog) -> None:
    """The trigger stands for any refusal of the database itself."""
    await log._writes.run(
        lambda c: c.execute(
            "CREATE TRIGGER odd BEFORE INSERT ON keys WHEN NEW.key = 'odd' BEGIN SELECT RAISE(ABORT, 'odd'); END"
        )
    )
    batches = [batch(write(), keys=(Key(source="turn", key=key),)) for key in ("a", "odd", "b", "c")]
    results = await asyncio.gather(*[log.append(b) for b in batches], return_exceptions=True)
    assert [type(r) for r in results] == [Appended, AppendRefused, Appended, Appended]
    assert [r.version for r in await log.read(ANNA)] == [1, 2, 3]
    assert await log.key("turn", "odd") == {}


async def test_rows_that_a_refused_statement_had_written_are_undone(log: SqliteLog) -> None:
    """Rows of a group share a statement, which keeps no means to undo itself: the transaction must be undone."""
    await log._writes.run(lambda c: c.execute("CREATE UNIQUE INDEX odd ON keys (value) WHERE value = 'odd'"))
    batches = [
        batch(write(), keys=(Key(source="turn", key=key, value=value),))
        for key, value in (("a", "1"), ("b", "odd"), ("c", "odd"), ("d", "4"))
    ]
    results = await asyncio.gather(*[log.append(b) for b in batches], return_exceptions=True)
    assert [type(r) for r in results] == [Appended, Appended, AppendRefused, Appended]
    assert [r.version for r in await log.read(ANNA)] == [1, 2, 3]
    assert await log.taken(BOT, "turn", ["a", "b", "c", "d"]) == {"a", "b", "d"}


async def test_two_writers_never_trust_old_heads(path: Path, log: SqliteLog) -> None:
    """Each keeps heads in memory; what the other wrote in between must count."""
    other = await SqliteLog.open(path)
    for n in range(10):
        await log.append(batch(write(expected=2 * n)))
        await other.append(batch(write(expected=2 * n + 1)))
    assert [r.version for r in await log.read(ANNA)] == list(range(1, 21))
    claim = await other.claim(BOT, "two", 60)
    assert (claim.epoch, claim.replaces) == (2, "one")
    assert await log.epoch(BOT) == 2
    with pytest.raises(Fenced):
        await log.append(batch(write()))
    await other.close()


async def test_a_claim_while_another_process_writes(path: Path, log: SqliteLog) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    timer.start()
    claim = await log.claim(BOT, "two", 60)
    assert claim.epoch == 2
    timer.join()
    other.close()


async def test_many_takeovers_between_two_instances(path: Path, log: SqliteLog) -> None:
    """Two instances take the account from each other while both append: no row of an old epoch after a claim's."""
    other = await SqliteLog.open(path)

    async def live(mine: SqliteLog, name: str) -> None:
        for n in range(60):
            claim = await mine.claim(BOT, name, 1)
            for _ in range(n % 4):
                appends = [mine.append(batch(write(f"peer-{i:016x}"), epoch=claim.epoch)) for i in range(3)]
                results = await asyncio.gather(*appends, return_exceptions=True)
                assert {type(r) for r in results} <= {Appended, Fenced}

    try:
        await asyncio.gather(live(log, "a"), live(other, "b"))
        last = await other.claim(BOT, "b", 1)
        with pytest.raises(Fenced):
            await log.append(batch(write(), epoch=last.epoch - 1))
    finally:
        await other.close()
    current = 0
    async for page in log.rows():
        for row in page:
            current += row.type == "bot_started"
            assert row.epoch == current
    assert current == 122


async def test_followers_see_what_another_process_committed(path: Path, log: SqliteLog) -> None:
    other = await SqliteLog.open(path)

    async def first() -> int:
        async for page in log.follow(1):
            return page[0].position
        raise AssertionError

    follower = asyncio.create_task(first())
    await asyncio.sleep(0)
    await other.append(batch(write()))
    assert await asyncio.wait_for(follower, 5) == 2
    await other.close()


async def test_erased_text_is_in_no_file(path: Path, log: SqliteLog) -> None:
    secret = "the-secret-" * 20
    await log.append(batch(write(), bodies=(body("secret", secret), body("kept", "kept-text-" * 20))))
    await log.append(batch(Write(BEN, 0, (SessionBound(session="s"),))))
    assert await log.checkpoint()
    assert any(b"the-secret-" in p.read_bytes() for p in path.parent.iterdir())
    await log.append(batch(write(), erase=("secret",)))
    assert await log.checkpoint()
    assert not any(b"the-secret-" in p.read_bytes() for p in path.parent.iterdir())
    assert any(b"kept-text-" in p.read_bytes() for p in path.parent.iterdir())


async def test_where_nothing_was_erased_nobody_is_kept_out_for_a_clean_up(path: Path, log: SqliteLog) -> None:
    """A process that is stopped in it would keep its successor from claiming the account (the demo found it)."""
    wal = path.with_name("log.db-wal")
    assert await log.checkpoint()  # an earlier process may have left something
    assert wal.stat().st_size == 0
    await log.append(batch(write()))
    assert await log.checkpoint()
    assert wal.stat().st_size > 0
    await log.append(batch(write(), erase=("whatever",)))
    assert await log.checkpoint()
    assert wal.stat().st_size == 0


async def test_a_checkpoint_says_when_a_reader_holds_it(path: Path, log: SqliteLog) -> None:
    await log._writes.run(lambda c: c.execute("PRAGMA busy_timeout = 20").fetchone())
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchone()
    await log.append(batch(write()))
    assert not await log.checkpoint()
    reader.close()
    assert await log.checkpoint()


async def test_closing_in_flight_then_refusing(log: SqliteLog) -> None:
    appends = [asyncio.create_task(log.append(batch(write()))) for _ in range(600)]
    await asyncio.sleep(0)
    await log.close()
    assert len(await asyncio.gather(*appends)) == 600
    with pytest.raises(LogClosed):
        await log.append(batch(write()))


async def test_a_cancelled_writer_leaves_nobody_waiting(log: SqliteLog) -> None:
    """As when the loop is torn down: what was in flight is unknown."""
    append = asyncio.create_task(log.append(batch(write())))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert log._writer is not None
    log._writer.cancel()
    with pytest.raises(LogFailed):
        await append
    with pytest.raises(LogFailed):
        await log.append(batch(write()))


def test_the_same_code_without_threads(path: Path) -> None:
    core = connect(path, salt=SALT, at=3)
    threads = threading.active_count()
    assert isinstance(core, SqliteCore)
    assert core.claim(BOT, "one", 1).epoch == 1
    assert core.append(batch(write(expected=0, count=2))).recorded[1].version == 2
    outcomes = core.append_group([prepare(batch(write(expected=0))), prepare(batch(write(expected=2)))])
    assert [type(o).__name__ for o in outcomes] == ["VersionConflict", "Appended"]
    assert threading.active_count() == threads
    core.connection.close()


def test_cached_heads_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.core.HEADS_CACHED_MAX", 10)
    core = connect(path, salt=SALT)
    core.claim(BOT, "one", 1)
    for n in range(40):
        core.append(batch(write(f"peer-{n:016x}", 0)))
        assert len(core._cache.tips) <= 12
    core.append(batch(write(f"peer-{0:016x}", 1)))
    core.connection.close()


def test_limits_are_ordered() -> None:
    assert limits.BATCH_BYTES_MAX <= limits.BYTES_WAITING_MAX
    assert limits.GROUP_BATCHES_MAX <= limits.APPENDS_WAITING_MAX
