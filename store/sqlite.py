"""The log in SQLite: one writer connection in aiosqlite's thread, and one that only reads.

Concurrent appends share a commit: what arrives while one is in flight goes into the next. An append returns when its commit is
durable (WAL, synchronous=FULL). Cancelling the caller does not cancel the append.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self, TypeVar

from events.base import Millis, Recorded
from store import queries, schema
from store.core import Outcome, SqliteCore
from store.errors import AppendRefused, CannotOpen, LogBusy, LogClosed, LogFailed, NotOurLog, ReadOnlyLog
from store.limits import (
    APPENDS_WAITING_MAX,
    BUSY_MS,
    BYTES_WAITING_MAX,
    CLAIM_TRIES,
    DISK_RESERVE_BYTES,
    FOLLOW_POLL_MS,
    GROUP_BATCHES_MAX,
    GROUP_BYTES_MAX,
)
from store.opening import check_contents, check_events, check_file, check_place, check_writable, refusal
from store.prepare import Prepared, prepare
from store.reader import SqliteReader
from store.records import BARE, Appended, Batch, Claim, Start
from store.thread import ConnectionThread, file_uri

T = TypeVar("T")

_Waiting = tuple[Prepared, "asyncio.Future[Appended]"]


class SqliteLog(SqliteReader):
    """A log that can be written. Use `open`; close it, for its threads keep the process alive."""

    def __init__(
        self, path: Path, reads: ConnectionThread, writes: ConnectionThread, core: SqliteCore, salt: bytes
    ) -> None:
        super().__init__(path, reads)
        self._writes, self._core, self._salt = writes, core, salt
        self._waiting: deque[_Waiting] = deque()
        self._bytes_waiting = 0
        self._writer: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._failure = ""
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, salt: bytes = b"", at: Millis = 0) -> Self:
        """Open a log, or make a new one, which keeps `salt` (16 to 64 bytes) and `at` (ms) for ever. Raises CannotOpen."""
        path = _checked(path, salt)
        writes = ConnectionThread(file_uri(path, "rw"), busy_ms=BUSY_MS)
        reads = ConnectionThread(file_uri(path, "ro"), busy_ms=BUSY_MS)
        try:
            await writes.start()
            kept = await writes.run(lambda connection: set_up(connection, path, salt, at))
            core = await writes.run(lambda connection: SqliteCore(connection, free_space(path)))
            await reads.start()
        except BaseException as error:
            await writes.close()
            await reads.close()
            if isinstance(error, sqlite3.Error):
                raise refusal(error, path) from error
            raise
        return cls(path, reads, writes, core, kept)

    @property
    def salt(self) -> bytes:
        """The key of the fingerprints that belong to no body with a salt of its own."""
        return self._salt

    async def append(self, batch: Batch) -> Appended:
        """Put a batch into the log, durably. Raises AppendRefused (nothing happened) or LogFailed (unknown)."""
        self._check_usable()
        prepared = prepare(batch)
        if len(self._waiting) >= APPENDS_WAITING_MAX or self._bytes_waiting + prepared.size > BYTES_WAITING_MAX:
            raise LogBusy(f"{len(self._waiting)} appends of {self._bytes_waiting} bytes wait already")
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._waiting.append((prepared, future))
        self._bytes_waiting += prepared.size
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="log writer")
        return await future

    async def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Claim:
        """Take the account over: the next epoch, and BotStarted, in one transaction."""
        for left in reversed(range(CLAIM_TRIES)):
            try:
                return await self._change(lambda: self._core.claim(account, instance, at, start))
            except LogBusy:
                if not left:
                    raise
        raise AssertionError("unreachable")

    async def takes(self) -> None:
        """Return if the log would take an append now. Raises LogBusy, or LogUnusable."""
        await self._change(self._core.takes)

    async def prune_keys(self, account: str, source: str, before: Millis) -> int:
        """Forget keys older than `before` (ms). Raises ValueError for sources that are kept for ever."""
        return await self._change(lambda: self._core.prune_keys(account, source, before))

    async def checkpoint(self) -> bool:
        """Empty the WAL, so that erased text is in no file of the log. False while a reader, here or elsewhere, holds it."""
        return await self._change(self._core.checkpoint)

    async def transact(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run a change of the caches in a transaction of its own."""
        return await self._change(lambda: self._core.transact(change))

    async def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> None:
        """Keep the state of a long stream (over 5,000 events) as a cache for `snapshot`."""
        await self.transact(lambda connection: queries.put_snapshot(connection, stream, version, fold_version, data))

    async def follow(self, after: int) -> AsyncIterator[tuple[Recorded, ...]]:
        """Events after a position as they are committed."""
        while True:
            news = self._news
            async for page in self.page(after):
                yield page
                after = page[-1].position
            try:
                await asyncio.wait_for(news.wait(), FOLLOW_POLL_MS / 1000)
            except TimeoutError:
                continue

    async def close(self) -> None:
        """Let go of the log once everything in flight is done. Appends from now on raise LogClosed."""
        self._closed = True
        if self._writer is not None:
            await asyncio.wait([self._writer])
        await super().close()
        await self._writes.close()
        self._spread_news()

    def _check_usable(self) -> None:
        if self._failure:
            raise LogFailed(self._failure)
        if self._closed:
            raise LogClosed

    async def _change(self, change: Callable[[], T]) -> T:
        self._check_usable()
        try:
            result = await self._writes.run(lambda _: change())
        except LogFailed as error:
            self._failure = str(error)
            raise
        except sqlite3.Error as error:
            raise LogBusy(f"the log cannot be written now: {error}") from error
        self._spread_news()
        return result

    def _spread_news(self) -> None:
        """Wake the followers; those who come later wait for the next news."""
        self._news.set()
        self._news = asyncio.Event()

    async def _write(self) -> None:
        """Commit what waits, group by group, until nothing does."""
        try:
            while self._waiting:
                await self._commit(self._take_group())
        finally:
            self._writer = None
            self._give_up()

    def _take_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        size = 0
        while self._waiting and len(group) < GROUP_BATCHES_MAX and size < GROUP_BYTES_MAX:
            one = self._waiting.popleft()
            size += one[0].size
            group.append(one)
        self._bytes_waiting -= size
        return group

    async def _commit(self, group: list[_Waiting]) -> None:
        prepared = [p for p, _ in group]
        try:
            outcomes: list[Outcome] = await self._writes.run(lambda _: self._core.append_group(prepared))
        except LogBusy as error:
            outcomes = [LogBusy(str(error)) for _ in group]
        except LogFailed as error:  # foreseen: everybody who waits is told, and ends
            self._failure = str(error)
            _fail(group, self._failure)
            return
        except BaseException as error:
            self._failure = str(error) or f"the writer stopped: {type(error).__name__}"
            _fail(group, self._failure)
            raise
        self._spread_news()
        for (_, future), outcome in zip(group, outcomes, strict=True):
            _tell(future, outcome)

    def _give_up(self) -> None:
        """After a failure: what waits will not be tried, for nobody knows what the log holds."""
        if self._failure:
            _fail(list(self._waiting), self._failure)
            self._waiting.clear()
            self._bytes_waiting = 0


def _tell(future: asyncio.Future[Appended], outcome: Outcome) -> None:
    if future.done():  # its caller was cancelled
        return
    if isinstance(outcome, AppendRefused):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _fail(group: list[_Waiting], why: str) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(LogFailed(why))


def _checked(path: Path, salt: bytes) -> Path:
    """The absolute path of a file that SQLite may open."""
    path = path.absolute()
    check_place(path)
    if not check_file(path):
        _make_file(path, salt)
    check_writable(path)
    return path


def _make_file(path: Path, salt: bytes) -> None:
    """An empty file that only this user can read, in a folder that only this user can enter."""
    if not 16 <= len(salt) <= 64:
        raise CannotOpen(f"there is no log at {path}; a new one needs a salt of 16 to 64 bytes")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ReadOnlyLog(f"{path} cannot be made: {error.strerror}; name a folder that can be written") from error


def connect(path: Path, *, salt: bytes = b"", at: Millis = 0) -> SqliteCore:
    """The log at `path` without any thread, for the seeded simulator. Close `core.connection` afterwards."""
    path = _checked(path, salt)
    connection = sqlite3.connect(file_uri(path, "rw"), uri=True, timeout=BUSY_MS / 1000, isolation_level=None)
    try:
        set_up(connection, path, salt, at)
    except BaseException:
        connection.close()
        raise
    return SqliteCore(connection)


def set_up(connection: sqlite3.Connection, path: Path, salt: bytes, at: Millis) -> bytes:
    """Make the connection durable and the tables those of this version; the salt of the log. Raises CannotOpen or sqlite3.Error."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    marked = schema.version(connection)
    if tables or marked:
        check_contents(connection, path)
    if tables:
        check_events(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA cache_size = -32768")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    if marked < schema.SCHEMA:
        _bring_up(connection, salt, at)
    check_contents(connection, path)
    kept = queries.meta(connection)
    if "salt" not in kept:
        raise NotOurLog(f"{path} has tables of ours and no salt: it is damaged; restore a backup")
    return bytes.fromhex(kept["salt"])


def _bring_up(connection: sqlite3.Connection, salt: bytes, at: Millis) -> None:
    """Make the tables, or bring older ones up to date, all or nothing. Two processes may start at once: the second finds what the
    first did."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            schema.create(connection, salt, at)
        elif schema.version(connection) < schema.SCHEMA:
            schema.migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def free_space(path: Path) -> Callable[[], int]:
    """Tells how many bytes the disk has above the reserve."""

    def free_bytes() -> int:
        disk = os.statvfs(path.parent)
        return disk.f_bavail * disk.f_frsize - DISK_RESERVE_BYTES

    return free_bytes
