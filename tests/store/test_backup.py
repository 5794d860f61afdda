from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from store.backup import backup
from store.errors import BackupExists, CannotOpen, NotOurLog
from store.reader import SqliteReader
from store.sqlite import SqliteLog
from store.verify import verify
from tests.store.conftest import batch, body, write


async def test_a_backup_taken_while_the_log_is_written(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    await log.append(batch(write(count=2000), bodies=(body("b", "x" * 500_000),)))
    published = await log.root()
    stop = False

    async def write_on() -> None:
        while not stop:
            await log.append(batch(write()))

    writer = asyncio.create_task(write_on())
    target = tmp_path / "backup.db"
    assert await backup(path, target) == target.stat().st_size
    stop = True
    await writer
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir() if p.name != "state"] == ["backup.db"]
    copy = await SqliteReader.open(target)
    assert (await verify(copy, published)).sound
    assert await copy.bodies(["b"]) == {"b": "x" * 500_000}
    await copy.close()


async def test_a_backup_can_be_written_again(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    await backup(path, tmp_path / "again.db")
    again = await SqliteLog.open(tmp_path / "again.db")
    await again.append(batch(write()))
    await again.close()


async def test_nothing_is_overwritten(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    target = tmp_path / "mine"
    target.write_text("mine")
    with pytest.raises(BackupExists, match="new file"):
        await backup(path, target)
    assert target.read_text() == "mine"


async def test_what_cannot_be_backed_up(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    with pytest.raises(CannotOpen, match="no log"):
        await backup(tmp_path / "none", tmp_path / "b")
    (tmp_path / "text").write_text("text")
    with pytest.raises(NotOurLog):
        await backup(tmp_path / "text", tmp_path / "b")
    with pytest.raises(CannotOpen, match="cannot be written"):
        await backup(path, tmp_path / "no" / "such" / "folder")
    assert not (tmp_path / "b").exists()
