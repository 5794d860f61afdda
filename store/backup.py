"""A copy of the log while it is being written: one consistent state, in one file, on the disk when the call returns."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

from store.errors import BackupExists, CannotOpen
from store.limits import BUSY_MS
from store.opening import check_contents, check_file, refusal
from store.thread import file_uri


async def backup(source: Path, target: Path) -> int:
    """Copy the log at `source` to the new file `target`; its size in bytes. Raises BackupExists or CannotOpen."""
    return await asyncio.to_thread(backup_now, source, target)


def backup_now(source: Path, target: Path) -> int:
    """The same, in the caller's thread."""
    if not check_file(source):
        raise CannotOpen(f"there is no log at {source}")
    if target.exists():
        raise BackupExists(f"{target} exists; name a new file")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        _copy(source, partial)
        _sync(partial)
        os.link(partial, target)  # unlike a rename it never replaces what appeared meanwhile
    except FileExistsError as error:
        raise BackupExists(f"{error.filename2 or error.filename} exists; name a new file") from error
    except OSError as error:
        raise CannotOpen(f"{target} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    _sync(target.parent)
    return target.stat().st_size


def _copy(source: Path, partial: Path) -> None:
    """One pass under one read transaction: a copy in steps would begin anew with each commit of another process."""
    log = sqlite3.connect(file_uri(source, "ro"), uri=True, timeout=BUSY_MS / 1000)
    try:
        copy = sqlite3.connect(file_uri(partial, "rw"), uri=True, isolation_level=None)
        try:
            check_contents(log, source)
            log.backup(copy, pages=-1)
            # A single file, which can be read on a read-only medium; the log turns to WAL again when it is opened to write.
            copy.execute("PRAGMA journal_mode = DELETE")
        finally:
            copy.close()
    except sqlite3.Error as error:
        raise refusal(error, source) from error
    finally:
        log.close()


def _sync(what: Path) -> None:
    handle = os.open(what, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
