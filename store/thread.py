"""A SQLite connection in a thread of its own, through aiosqlite: any function on it costs one hop there and one back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import aiosqlite

from store.errors import LogClosed

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]


class _JobConnection(sqlite3.Connection):
    """aiosqlite offers single calls of sqlite3, each a hop, and no public way to run a function over there. On this
    connection its `commit()` does that: it runs the next job, which begins and ends transactions by itself."""

    jobs: deque[Callable[[], None]]

    def commit(self) -> None:
        """Run the next job."""
        self.jobs.popleft()()


class ConnectionThread:
    """Runs functions on one connection, one at a time, in the order of the calls. A job goes on when its caller is cancelled."""

    def __init__(self, uri: str, *, busy_ms: int) -> None:
        self._uri, self._busy_ms = uri, busy_ms
        self._jobs: deque[Callable[[], None]] = deque()
        self._connection: sqlite3.Connection | None = None
        self._refused: sqlite3.Error | None = None
        self._thread = aiosqlite.Connection(self._connect, 64)
        self._runs_in: threading.Thread | None = None
        self._opening: asyncio.Future[None] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Open the connection. Raises sqlite3.Error. Call `close` even so, and when this was cancelled."""
        self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def run(self, job: Job[T]) -> T:
        """What the function returns or raises over there. Raises LogClosed after `close`."""
        if self._closing is not None or self._connection is None or self._refused is not None:
            raise LogClosed
        connection = self._connection
        results: list[T] = []
        self._jobs.append(lambda: results.append(_done(job, connection)))
        await self._thread.commit()
        return results[0]

    async def close(self) -> None:
        """Finish what was begun, close the connection, end the thread."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._end())
        await asyncio.shield(self._closing)

    async def _open(self) -> None:
        await self._thread
        if self._refused is not None:
            raise self._refused

    async def _end(self) -> None:
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)  # `start` has told it
        await self._thread.close()
        if self._runs_in is not None:
            self._runs_in.join()  # it has answered its last call and only returns: microseconds

    def _connect(self) -> sqlite3.Connection:
        """Over there. Never raises: of a connection that was never made, aiosqlite ends the thread without a way to await that,
        and the thread would speak to a loop that may be closed by then. A stand-in is closed like any other."""
        self._runs_in = threading.current_thread()
        try:
            connection = self._connected(self._uri)
        except sqlite3.Error as error:
            self._refused = error
            connection = self._connected("file::memory:")
        self._connection = connection
        return connection

    def _connected(self, uri: str) -> _JobConnection:
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=self._busy_ms / 1000,
            isolation_level=None,
            cached_statements=512,
            factory=_JobConnection,
        )
        connection.jobs = self._jobs
        return connection


def _done(job: Job[T], connection: sqlite3.Connection) -> T:
    """What a job returns. SQLite's words about a damaged file quote it, and the module that raises them takes them for UTF-8."""
    try:
        return job(connection)
    except UnicodeDecodeError as error:
        damage = sqlite3.DatabaseError("it holds bytes where text is due")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage from error


def file_uri(path: Path, mode: str) -> str:
    """The URI of a database file; `mode` is ro or rw."""
    return f"{path.absolute().as_uri()}?mode={mode}"
