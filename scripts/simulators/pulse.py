"""A pulse: wakes everyone who waits for some state to change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Pulse:
    """Futures of those who wait for the next `beat`; waiting costs nothing until then."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Wake all who wait now."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def next(self) -> asyncio.Future[None]:
        """Return a future that the next beat resolves; it is in place at once, so no beat after this call is missed."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    async def until(self, condition: Callable[[], bool], timeout_ms: int | None = None) -> bool:
        """Return True as soon as `condition()` holds, False when `timeout_ms` of real time passed before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not condition():
                    await self.next()
        return condition()
