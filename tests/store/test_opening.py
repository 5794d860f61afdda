from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from store import opening
from store.errors import CannotOpen, EventUnreadable, LogLocked, NetworkFileSystem, NewerLog, NotOurLog, ReadOnlyLog
from store.opening import check_place, file_system
from store.reader import SqliteReader
from store.sqlite import SqliteLog
from tests.store.conftest import BOT, SALT

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /mnt/share rw,relatime shared:5 - nfs4 server:/export rw
31 22 0:41 / /mnt/with\\040space rw - cifs //server/x rw
32 30 8:1 / /mnt/share/local rw - xfs /dev/sdb rw
33 22 0:42 / /mnt/ssh rw - fuse.sshfs host:/ rw
34 22 0:43 / /mnt/over rw - ext4 /dev/vdb rw
35 22 0:44 / /mnt/over rw - 9p none rw
garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x/log.db", "ext4"),
        ("/mnt/share/log.db", "nfs4"),
        ("/mnt/shared/log.db", "ext4"),
        ("/mnt/share/local/log.db", "xfs"),
        ("/mnt/with space/state/log.db", "cifs"),
        ("/mnt/over/log.db", "9p"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


def test_network_file_systems_are_refused() -> None:
    for path in ("/mnt/share/s/log.db", "/mnt/with space/log.db", "/mnt/ssh/log.db"):
        with pytest.raises(NetworkFileSystem, match="local disk"):
            check_place(Path(path), MOUNTS)
    check_place(Path("/mnt/share/local/log.db"), MOUNTS)
    check_place(Path("/anywhere"), "")


async def test_a_log_on_a_network_file_system_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_read_mountinfo", lambda: "22 1 0:1 / / rw - nfs server:/ rw\n")
    with pytest.raises(NetworkFileSystem):
        await SqliteLog.open(path, salt=SALT)
    assert not path.parent.exists()


def other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (name)")
    connection.close()


def empty_other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()


def newer_log(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE meta (name)")
    connection.execute(f"PRAGMA application_id = {0x52504C47}")
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def damaged(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda p: p.write_text("hello, I am a diary"), NotOurLog, "not a SQLite database"),
        (lambda p: p.mkdir(), NotOurLog, "one file"),
        (other_database, NotOurLog, "something else"),
        (newer_log, NewerLog, "schema 99"),
        (damaged, NotOurLog, "damaged"),
    ],
)
async def test_files_that_are_no_log_are_left_alone(path: Path, make, error: type[CannotOpen], says: str) -> None:
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    for opened in (SqliteLog.open(path, salt=SALT), SqliteReader.open(path)):
        with pytest.raises(error, match=says) as caught:
            await opened
        assert str(path) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert [p.name for p in path.parent.iterdir()] == ["log.db"]


async def test_private_files(path: Path, log: SqliteLog) -> None:
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = list(path.parent.iterdir())
    assert {p.name for p in files} == {"log.db", "log.db-wal", "log.db-shm"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o600}


async def test_a_locked_log(path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    await log.close()
    monkeypatch.setattr("store.sqlite.BUSY_MS", 50)
    monkeypatch.setattr("store.reader.BUSY_MS", 50)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        for opened in (SqliteLog.open(path), SqliteReader.open(path)):
            with pytest.raises(LogLocked, match="another process"):
                await opened
    finally:
        connection.close()
    again = await SqliteLog.open(path)
    assert await again.epoch(BOT) == 1
    await again.close()


async def test_what_cannot_be_written(path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    await log.close()
    real = os.access
    for closed in (path, path.parent):
        monkeypatch.setattr(
            "store.opening.os.access", lambda what, mode, no=closed: what != no and real(what, mode)
        )  # root may write anywhere, so permissions alone show nothing here
        with pytest.raises(ReadOnlyLog, match="writable"):
            await SqliteLog.open(path)


async def test_no_log_to_read_and_no_salt_to_make_one(path: Path) -> None:
    with pytest.raises(CannotOpen, match="no log"):
        await SqliteReader.open(path)
    with pytest.raises(CannotOpen, match="salt"):
        await SqliteLog.open(path)
    assert not path.parent.exists()


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotOpen):
        await SqliteLog.open(tmp_path / "file" / "log.db", salt=SALT)


async def test_salt_and_birth_stay(path: Path, log: SqliteLog) -> None:
    await log.close()
    again = await SqliteLog.open(path, salt=b"another salt of the second start", at=99)
    meta = await again.meta()
    assert again.salt == SALT
    assert meta["created_at"] == "7"
    await again.close()


async def test_an_empty_file_becomes_a_log(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    log = await SqliteLog.open(path, salt=SALT)
    assert await log.position() == 0
    await log.close()


async def test_another_programs_database_without_tables(path: Path) -> None:
    path.parent.mkdir()
    empty_other_database(path)
    with pytest.raises(CannotOpen):
        await SqliteLog.open(path, salt=SALT)


async def planted(path: Path, tag: str, data: bytes) -> None:
    """A log whose second event is not of this version."""
    log = await SqliteLog.open(path, salt=SALT)
    await log.claim(BOT, "i-1", 1)
    await log.close()
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO events (stream, version, type, at, epoch, cause, data, digest) VALUES (?, 2, ?, 2, 1, '', ?, x'00')",
        (f"bot-{BOT}", tag, data),
    )
    connection.commit()
    connection.close()


async def test_a_log_with_an_event_of_a_newer_version_is_not_opened_to_write_and_stays_as_it_was(path: Path) -> None:
    await planted(path, "sung", b'{"type":"sung"}')
    with pytest.raises(NewerLog, match=rf"position 2 \(bot-{BOT}, version 2\).*'sung'.*run the version that wrote it"):
        await SqliteLog.open(path, salt=SALT)
    reader = await SqliteReader.open(path)
    assert [c.epoch for c in await reader.claims()] == [1]
    await reader.close()


@pytest.mark.parametrize(
    ("data", "right"),
    [
        (b'{"type":"bot_stopped","reason":"x","wings":2}', "a newer one"),
        (b'{"type":"bot_stopped","reason":7}', "restore a backup"),
    ],
)
async def test_an_event_that_cannot_be_read_is_named_by_its_place(path: Path, data: bytes, right: str) -> None:
    await planted(path, "bot_stopped", data)
    log = await SqliteLog.open(path, salt=SALT)
    try:
        with pytest.raises(
            EventUnreadable, match=rf"position 2 \(bot-{BOT}, version 2\).*bot_stopped.*{right}"
        ) as caught:
            await log.read(f"bot-{BOT}")
        assert (caught.value.stream, caught.value.version, caught.value.position) == (f"bot-{BOT}", 2, 2)
    finally:
        await log.close()
