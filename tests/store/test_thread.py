from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from store.errors import LogClosed
from store.thread import ConnectionThread, file_uri


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "odd name?#%.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    return path


async def test_functions_run_in_order_in_one_other_thread(database: Path) -> None:
    thread = ConnectionThread(file_uri(database, "rw"), busy_ms=10)
    await thread.start()
    order: list[tuple[int, str]] = []

    def note(number: int) -> int:
        order.append((number, threading.current_thread().name))
        return number * 2

    results = await asyncio.gather(*[thread.run(lambda _, n=n: note(n)) for n in range(50)])
    assert results == [n * 2 for n in range(50)]
    assert [n for n, _ in order] == list(range(50))
    assert {name for _, name in order} != {threading.current_thread().name}
    assert len({name for _, name in order}) == 1
    await thread.close()


async def test_errors_come_back_and_the_next_job_still_runs(database: Path) -> None:
    thread = ConnectionThread(file_uri(database, "rw"), busy_ms=10)
    await thread.start()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await thread.run(lambda c: c.execute("SELECT * FROM missing"))
    assert await thread.run(lambda c: c.execute("SELECT 5").fetchone()) == (5,)
    await thread.close()
    await thread.close()
    with pytest.raises(LogClosed):
        await thread.run(lambda _: None)


async def test_a_job_goes_on_when_its_caller_is_cancelled(database: Path) -> None:
    thread = ConnectionThread(file_uri(database, "rw"), busy_ms=10)
    await thread.start()
    call = asyncio.create_task(thread.run(lambda c: c.execute("INSERT INTO t VALUES (1)").rowcount))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert await thread.run(lambda c: c.execute("SELECT count(*) FROM t").fetchone()) == (1,)
    await thread.close()


async def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    """Its thread has ended when `close` returns: one that lives longer speaks to a loop that may be closed by then."""
    threads = threading.active_count()
    for _ in range(50):
        thread = ConnectionThread(file_uri(tmp_path / "none.db", "rw"), busy_ms=10)
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            await thread.start()
        with pytest.raises(LogClosed):
            await thread.run(lambda _: None)
        await thread.close()
        assert threading.active_count() == threads


async def test_close_returns_when_the_thread_has_ended(database: Path) -> None:
    threads = threading.active_count()
    for _ in range(50):
        thread = ConnectionThread(file_uri(database, "rw"), busy_ms=10)
        await thread.start()
        await thread.close()
        assert threading.active_count() == threads


async def test_a_start_that_is_cancelled_leaves_a_connection_to_close(database: Path) -> None:
    threads = threading.active_count()
    for turns_of_the_loop in range(4):
        thread = ConnectionThread(file_uri(database, "rw"), busy_ms=10)
        call = asyncio.create_task(thread.start())
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await thread.close()
        assert threading.active_count() == threads


async def test_one_that_was_never_started_is_closed(database: Path) -> None:
    threads = threading.active_count()
    await ConnectionThread(file_uri(database, "rw"), busy_ms=10).close()
    assert threading.active_count() == threads
