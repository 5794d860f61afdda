"""May this file be opened as a log, and if not, why: checks before and after SQLite sees it. Nothing is changed by a refusal."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from events.codec import CLASSES, decode
from events.errors import EventError
from events.upcast import STEPS
from store.errors import CannotOpen, EventUnreadable, LogLocked, NetworkFileSystem, NewerLog, NotOurLog, ReadOnlyLog
from store.schema import APPLICATION_ID, SCHEMA

NETWORK_TYPES: Final = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.davfs2",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
"""File systems, as /proc/self/mountinfo names them, that other machines may write to."""

_KNOWN: Final = tuple({**CLASSES, **STEPS})
_STRANGE: Final = "".join(
    (
        "SELECT position, stream, version, type, data FROM events WHERE type NOT IN (",
        ", ".join("?" * len(_KNOWN)),
        ") ORDER BY position LIMIT 1",
    )
)
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_WRITE_VERSION: Final = 18
"""Where the header says how the file is written. https://www.sqlite.org/fileformat.html"""

_NO_WAL: Final = b"\x01"
_MOUNTINFO: Final = Path("/proc/self/mountinfo")


def check_place(path: Path, mountinfo: str | None = None) -> None:
    """Refuse a log on a network file system. Raises NetworkFileSystem. Without a mount table (not Linux) nothing is refused."""
    table = mountinfo if mountinfo is not None else _read_mountinfo()
    kind = file_system(path, table)
    if kind in NETWORK_TYPES:
        raise NetworkFileSystem(
            f"{path} is on a network file system ({kind}), where locks and durability cannot be trusted;"
            " set state_dir to a local disk"
        )


def _read_mountinfo() -> str:
    return _MOUNTINFO.read_text() if _MOUNTINFO.exists() else ""


def file_system(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds a path, or "" if the table does not say. `path` must be absolute."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        mount, dash, filesystem = line.partition(" - ")
        fields = mount.split()
        if not dash or len(fields) < 5:
            continue
        point = Path(_unescape(fields[4]))
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), filesystem.split()[0]
    return kind


def _unescape(point: str) -> str:
    """Mount points write space, tab, newline and backslash as octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, char)
    return point


def check_file(path: Path) -> bool:
    """Whether there is a log at all. Raises NotOurLog for a file that is no SQLite database; an empty file is no log yet."""
    if not path.exists():
        return False
    if not path.is_file():
        raise NotOurLog(f"{path} is not a file; the log is one file")
    try:
        with path.open("rb") as file:
            magic = file.read(_HEADER_BYTES)
    except PermissionError as error:
        raise CannotOpen(
            f"{path} cannot be read: {error.strerror}; the log belongs to the user who runs the gateway"
        ) from error
    if magic and magic[: len(_SQLITE_MAGIC)] != _SQLITE_MAGIC:
        raise NotOurLog(f"{path} is not a SQLite database, so it is no log of ours; name another file or folder")
    _check_wal(path, magic)
    return bool(magic)


def _check_wal(path: Path, header: bytes) -> None:
    """Refuse a WAL that belongs to another state of the file. SQLite would delete that of an empty file, and mix that of a log with
    the backup which was put in the log's place. Raises NotOurLog."""
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if not size:
        return
    if not header:
        raise NotOurLog(
            f"{path} is empty, but {wal.name} beside it holds {size} bytes: the file was cut off, and is damaged;"
            " restore a backup, and keep the WAL for whoever wants to rescue more"
        )
    if header[_WRITE_VERSION : _WRITE_VERSION + 1] == _NO_WAL:
        raise NotOurLog(
            f"{path} is a backup or a copy, and {wal.name} beside it belongs to the log that was there before;"
            f" take {wal.name} and {path.name}-shm away, then start again"
        )


def check_writable(path: Path) -> None:
    """Raises ReadOnlyLog unless the log and its folder (for WAL and shared memory) can be written."""
    for what in (path.parent, path):
        if what.exists() and not _writable(what):
            raise ReadOnlyLog(f"{what} cannot be written; the log needs its folder and its files writable")


def _writable(what: Path) -> bool:
    # Root passes every permission check; a read-only mount stops it too.
    return os.access(what, os.W_OK)


def check_contents(connection: sqlite3.Connection, path: Path) -> None:
    """Whether the database is a log that this program can read. Raises NotOurLog or NewerLog."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise refusal(error, path) from error
    if application != APPLICATION_ID:
        raise NotOurLog(
            f"{path} is a SQLite database of something else (application id {application}); name another file"
        )
    if schema > SCHEMA:
        raise NewerLog(
            f"{path} has schema {schema}, this program knows up to {SCHEMA}; use the version that wrote it, or a newer one"
        )


def check_events(connection: sqlite3.Connection, path: Path) -> None:
    """Whether every event is of a type that this program knows, by one pass over the table (0.2 s for a million). A program that
    finds out later has taken the account from the newer one that may be running. Raises NewerLog."""
    try:
        found = connection.execute(_STRANGE, _KNOWN).fetchone()
    except sqlite3.Error as error:
        raise refusal(error, path) from error
    if found is None:
        return
    position, stream, version, tag, data = found
    try:
        decode(tag, data)
    except EventError as why:
        raise NewerLog(f"{path}: {EventUnreadable(stream, version, position=position, why=why)}") from why


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite found bytes that no database holds."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def refusal(error: sqlite3.Error, path: Path) -> CannotOpen:
    """What an error of SQLite means for one who wanted to open the log."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogLocked(f"{path} is locked by another process; stop it, or wait until it is done")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return ReadOnlyLog(f"{path} cannot be written ({error}); the log needs its folder and its files writable")
    if code == sqlite3.SQLITE_FULL:
        return CannotOpen(f"the disk of {path} is full; the log needs some room to start")
    if is_damage(error):
        return NotOurLog(f"{path} is not a log, or is damaged ({error}); restore a backup")
    return CannotOpen(f"{path} cannot be opened: {error}")
