"""What a gateway in Python cannot do without: how much of a raw insert's speed the least possible append could keep.

Producers on the event loop await one future each; each event is encoded once and hashed once; what came meanwhile is written by one
statement over many rows and committed in a thread. No fence, no versions, no keys, no bounds, no refusals, and nobody is told
what was appended. The distance from the raw rows to this is the price of asyncio and of a chain; from this to the log, of its checks.
"""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from events.codec import encode_tagged
from store.chain import GENESIS, link
from store.records import Batch
from store.rowsql import write_rows
from store.sqlite import set_up

EVENTS = "INSERT OR FAIL INTO events (position, stream, version, type, at, epoch, cause, data, digest) VALUES"

Waiting = tuple[str, str, bytes, int, "asyncio.Future[None]"]
"""stream, tag, data, at, and who waits."""


class Floor:
    """The least log: one event an append, to streams that nobody else writes, in a log that is there."""

    def __init__(self, connection: sqlite3.Connection, position: int) -> None:
        """Use `open`."""
        self._connection, self._position = connection, position
        self._ends: dict[str, tuple[int, bytes]] = {}  # version and digest of each stream
        self._waiting: list[Waiting] = []
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1)

    @classmethod
    async def open(cls, path: Path) -> Self:
        """With the gateway's own pragmas."""
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        set_up(connection, path, b"", 0)
        (position,) = connection.execute("SELECT max(position) FROM events").fetchone()
        return cls(connection, position)

    async def read(self, _stream: str) -> tuple[()]:
        """Nothing: it writes to new streams only."""
        return ()

    async def append(self, batch: Batch) -> None:
        """Put the batch's one event into the log, durably."""
        (write,) = batch.writes
        tag, data = encode_tagged(write.events[0])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((write.stream, tag, data, batch.at, future))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await future

    async def _write(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, group)
            for *_, future in group:
                future.set_result(None)
        self._writer = None

    def _commit(self, group: list[Waiting]) -> None:
        rows = []
        for stream, tag, data, at, _ in group:
            self._position += 1
            version, digest = self._ends.get(stream, (0, GENESIS))
            columns = (self._position, stream, version + 1, tag, at, 1, "", data)
            digest = link(digest, columns)
            self._ends[stream] = version + 1, digest
            rows.append((*columns, digest))
        self._connection.execute("BEGIN IMMEDIATE")
        write_rows(self._connection, EVENTS, rows)
        self._connection.execute("COMMIT")

    async def close(self) -> None:
        """End the thread, and let go of the log."""
        self._thread.shutdown()
        self._connection.close()
