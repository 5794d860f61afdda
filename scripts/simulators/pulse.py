"""A pulse: wakes everyone who waits for some state to change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Pulse:
    """Futures of those who wait for the next `beat`; waiting costs nothing until then."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self.closed = False

    def beat(self) -> None:
        """Wake all who wait now."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Wake all who wait, and let nobody wait any more: the server behind this stops."""
        self.closed = True
        self.beat()

    def next(self) -> asyncio.Future[None]:
        """Return a future that the next beat resolves; it is in place at once, so no beat after this call is missed."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self.closed:
            self.beat()
        return future

    async def until(self, condition: Callable[[], bool], timeout_ms: int | None = None) -> bool:
        """Return True as soon as `condition()` holds, False after `timeout_ms` of real time, or at the close."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not self.closed and not condition():
                    await self.next()
        return condition()
