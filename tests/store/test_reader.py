from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from store import queries
from store import reader as reader_module
from store.errors import CannotOpen, LogClosed, LogDamaged, LogUnreadable
from store.reader import SqliteReader, copy_log
from store.sqlite import SqliteLog
from tests.store.conftest import ANNA, BOT, batch, body, write


async def test_reading_while_a_gateway_writes(path: Path, log: SqliteLog) -> None:
    reader = await SqliteReader.open(path)
    for version in range(1, 20):
        await log.append(batch(write()))
        assert len(await reader.read(ANNA)) == version
    assert await reader.position() == 20
    assert await reader.epoch(BOT) == 1
    await reader.close()


async def test_a_reader_between_pages_does_not_hold_the_log(path: Path, log: SqliteLog) -> None:
    reader = await SqliteReader.open(path)
    await log.append(batch(write(count=20)))
    async for _ in reader.page(until=21, size=5):
        await log.append(batch(write(), erase=("whatever",)))  # without it there is nothing to clean
        assert await log.checkpoint()
    await reader.close()


async def test_reading_a_copied_log_with_its_wal(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    await log.append(batch(write(), bodies=(body("b"),)))
    copy = tmp_path / "copy" / "log.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    reader = await SqliteReader.open(copy)
    assert await reader.position() == 2
    assert await reader.bodies(["b"]) == {"b": "hello"}
    await reader.close()


async def test_a_read_only_medium_is_copied_with_its_wal(
    tmp_path: Path, path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only mount, where SQLite can make no shared-memory file: simulated, for root may write anywhere."""
    await log.append(batch(write()))
    medium = tmp_path / "medium" / "log.db"
    medium.parent.mkdir()
    shutil.copy(path, medium)
    shutil.copy(f"{path}-wal", f"{medium}-wal")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    real = reader_module._connect

    async def connect(where: Path):
        if where == medium:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return await real(where)

    monkeypatch.setattr(reader_module, "_connect", connect)
    before = sorted(p.name for p in medium.parent.iterdir())
    reader = await SqliteReader.open(medium)
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert await reader.position() == 2
    await reader.close()
    assert list(temporary.iterdir()) == []
    assert sorted(p.name for p in medium.parent.iterdir()) == before


async def test_a_log_that_moves_is_not_copied(path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr(reader_module, "_stamps", lambda p: {p: (0, next(ticks))})
    with pytest.raises(CannotOpen, match="being written"):
        copy_log(path)


async def test_a_reader_changes_nothing(path: Path, log: SqliteLog) -> None:
    reader = await SqliteReader.open(path)
    with pytest.raises(LogUnreadable, match="readonly"):
        await reader._ask(lambda c: c.execute("UPDATE meta SET value = ''"))
    await reader.close()
    with pytest.raises(LogClosed):
        await reader.position()


async def test_many_readers_at_once(path: Path, log: SqliteLog) -> None:
    await log.append(batch(write(count=100)))
    readers = await asyncio.gather(*[SqliteReader.open(path) for _ in range(5)])
    found = await asyncio.gather(*[r.read(ANNA) for r in readers])
    assert {len(events) for events in found} == {100}
    for reader in readers:
        await reader.close()


@pytest.mark.parametrize("pages", ["rows", "page"])
async def test_a_damaged_file_that_gives_a_row_for_ever_is_no_endless_log(
    path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch, pages: str
) -> None:
    """As SQLite did on a file with a few changed bytes: `position > 39` found row 39."""
    await log.append(batch(write(count=5)))
    reader = await SqliteReader.open(path)
    name = {"rows": "row_page", "page": "page"}[pages]
    honest = getattr(queries, name)

    def again(connection: sqlite3.Connection, after: int, *rest: int) -> object:
        found = honest(connection, after, *rest)
        return found or honest(connection, after - 1, *rest)

    monkeypatch.setattr(queries, name, again)
    seen: list[int] = []

    async def read_all() -> None:
        async for page in getattr(reader, pages)():
            seen.extend(r.position for r in page)

    with pytest.raises(LogDamaged, match="position 6 comes after 6"):
        await read_all()
    assert seen[:6] == [1, 2, 3, 4, 5, 6]
    await reader.close()
