"""The log as actors see it: each call returns a future to yield. In production a task on the loop, in worlds a slot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from actors.runtime.futures import FutureLike
from events.base import Recorded
from store.errors import LogBusy, LogUnusable
from store.log import Log
from store.records import Appended, Batch

PROBE_MS = 1_000
"""How often a log that took nothing is asked whether it would again."""


class LogPort(Protocol):
    """What bots and peers ask of the log. The futures are done on the scheduler's thread."""

    @property
    def salt(self) -> bytes:
        """The key of the fingerprints that belong to no body with a salt of its own."""
        ...

    def append(self, batch: Batch) -> FutureLike:
        """Future of store.records.Appended."""
        ...

    def read(self, stream: str, after: int, limit: int = 0) -> FutureLike:
        """Future of the events of a stream after a version, a tuple of Recorded; at most `limit`, 0 = all."""
        ...

    def snapshot(self, stream: str, fold_version: str) -> FutureLike:
        """Future of (version, bytes) of a stream's kept state, or of None."""
        ...

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> FutureLike:
        """Future of None: a long stream's state is kept."""
        ...

    def kept(self, ids: Iterable[str]) -> FutureLike:
        """Future of a mapping of body to store.records.Kept; what is gone is absent."""
        ...

    def held(self, account: str, stream: str, limit: int) -> FutureLike:
        """Future of (body, kind) of a stream's bodies, at most `limit`."""
        ...

    def taken(self, account: str, source: str, keys: Iterable[str]) -> FutureLike:
        """Future of the keys among these that are taken."""
        ...


class LoopLog:
    """A log's port on the asyncio loop. A task is never cancelled: an append that began is an append that may have happened."""

    def __init__(
        self,
        log: Log,
        on_failed: Callable[[BaseException], None],
        on_appended: Callable[[tuple[Recorded, ...]], None] = lambda _recorded: None,
        on_busy: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._log, self._on_failed, self._on_appended, self._on_busy = log, on_failed, on_appended, on_busy
        self._busy = False
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def salt(self) -> bytes:
        """The key of the fingerprints that belong to no body with a salt of its own."""
        return self._log.salt

    def append(self, batch: Batch) -> FutureLike:
        """Append in a task of its own."""
        return self._task(self._log.append(batch))

    def read(self, stream: str, after: int, limit: int = 0) -> FutureLike:
        """Read in a task of its own."""
        return self._task(self._log.read(stream, after, limit))

    def snapshot(self, stream: str, fold_version: str) -> FutureLike:
        """Read a kept state in a task of its own."""
        return self._task(self._log.snapshot(stream, fold_version))

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> FutureLike:
        """Keep a state in a task of its own."""
        return self._task(self._log.put_snapshot(stream, version, fold_version, data))

    def kept(self, ids: Iterable[str]) -> FutureLike:
        """Read texts in a task of its own."""
        return self._task(self._log.kept(tuple(ids)))

    def held(self, account: str, stream: str, limit: int) -> FutureLike:
        """Look for bodies in a task of its own."""
        return self._task(self._log.held(account, stream, limit))

    def taken(self, account: str, source: str, keys: Iterable[str]) -> FutureLike:
        """Look keys up in a task of its own."""
        return self._task(self._log.taken(account, source, tuple(keys)))

    def _task(self, coroutine: Any) -> FutureLike:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        """A log that cannot be used ends the process: a failed commit, an event that cannot be read. The log tells at the next start."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LogUnusable):
            self._on_failed(error)
        elif isinstance(error, LogBusy):
            self._on_busy(str(error))
            if not self._busy:
                self._busy = True
                self._task(self._until_it_takes())
        elif error is None and isinstance(appended := task.result(), Appended):
            self._takes_again()
            self._on_appended(appended.recorded)

    def _takes_again(self) -> None:
        if self._busy:
            self._busy = False
            self._on_busy("")

    async def _until_it_takes(self) -> None:
        """Ask now and then: it may be long until somebody has something to append."""
        while self._busy:
            await asyncio.sleep(PROBE_MS / 1000)
            with contextlib.suppress(LogBusy):
                await self._log.takes()
                self._takes_again()
