"""When turns run: on the asyncio loop in production, or drawn by a seed in simulations. One thread in both."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from actors.runtime.clock import BootClock, Clock, Ids, SystemIds
from actors.runtime.errors import OffloadFull
from actors.runtime.futures import FutureLike
from actors.runtime.limits import (
    OFFLOAD_LIMIT,
    OFFLOAD_THREADS,
    PUMP_TURNS,
    TIMER_RECHECK_MS,
    TURN_BUDGET,
)
from actors.runtime.simulated import SimProcess, SimScheduler
from actors.runtime.timers import TimerHandle, TimerQueue

__all__ = ["LoopScheduler", "Scheduler", "SimProcess", "SimScheduler", "offload"]

T = TypeVar("T")


class Scheduler(Protocol):
    """Where actors run; all methods are for the scheduler's own thread."""

    @property
    def clock(self) -> Clock:
        """The time that actors live in."""

    @property
    def ids(self) -> Ids:
        """The chance that actors live with."""

    @property
    def turn_budget(self) -> int:
        """Messages that one actor handles before the others get their turn."""

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Call `fn` after the running turn."""

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Call `fn` when `clock.now()` reaches `due_ms`; what is past, soon."""

    def future(self) -> FutureLike:
        """Return a new reply slot."""

    def offload(self, fn: Callable[[], Any]) -> FutureLike:
        """Run `fn`, which takes over 5 ms, off the thread of the turns; OffloadFull beyond the limit."""


def offload(scheduler: Scheduler, fn: Callable[[], Any]) -> FutureLike:
    """Run work of over 5 ms in the background; its future is done on the scheduler's thread."""
    return scheduler.offload(fn)


class LoopScheduler:
    """Turns on the running asyncio loop, real time. Close it to end its threads and timers."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        turn_budget: int = TURN_BUDGET,
    ) -> None:
        self.clock: Clock = clock or BootClock()
        self.ids: Ids = ids or SystemIds()
        self.turn_budget = turn_budget
        self._loop = loop or asyncio.get_running_loop()
        self._ready: deque[Callable[[], object]] = deque()
        self._pumping = False
        self._timers = TimerQueue()
        self._wake: asyncio.TimerHandle | None = None
        self._wake_due = 0
        self._pool: ThreadPoolExecutor | None = None
        self._offloaded = 0

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Call `fn` after the running turn; from another thread use `call_soon_threadsafe`."""
        self._ready.append(fn)
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def call_soon_threadsafe(self, fn: Callable[[], object]) -> None:
        """Call `fn` on the scheduler's thread; the one method for other threads."""
        self._loop.call_soon_threadsafe(self.call_soon, fn)

    def _pump(self) -> None:
        """Run what is ready now, boundedly, so that sockets and timers of the loop get their turn."""
        ready = self._ready
        try:
            for _ in range(min(len(ready), PUMP_TURNS)):
                ready.popleft()()
        finally:
            if ready:
                self._loop.call_soon(self._pump)
            else:
                self._pumping = False

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Call `fn` when `clock.now()` reaches `due_ms`; what is past, soon."""
        handle = self._timers.push(due_ms, fn)
        self._arm()
        return handle

    def _arm(self) -> None:
        """Wake at the next due time, and at least every TIMER_RECHECK_MS: the loop's own clock stops in a sleep."""
        due = self._timers.next_due()
        if due is None or (self._wake is not None and self._wake_due <= due):
            return
        if self._wake is not None:
            self._wake.cancel()
        wait_ms = max(0, min(due - self.clock.now(), TIMER_RECHECK_MS))
        self._wake_due = due
        self._wake = self._loop.call_later(wait_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._wake = None
        for handle in self._timers.pop_due(self.clock.now()):
            self.call_soon(handle.fire)
        self._arm()

    def clock_moved(self) -> None:
        """Look at the timers anew: a clock that can jump has jumped."""
        if self._wake is not None:
            self._wake.cancel()
        self._fire()

    def future(self) -> asyncio.Future[Any]:
        """Return a new reply slot, awaitable on the loop."""
        return self._loop.create_future()

    def offload(self, fn: Callable[[], T]) -> asyncio.Future[T]:
        """Run `fn` in a small thread pool; its future is done on the loop."""
        if self._offloaded >= OFFLOAD_LIMIT:
            raise OffloadFull(f"{OFFLOAD_LIMIT} jobs")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(OFFLOAD_THREADS, thread_name_prefix="offload")
        self._offloaded += 1
        future = self._loop.run_in_executor(self._pool, fn)
        future.add_done_callback(self._onloaded)
        return future

    def _onloaded(self, _future: object) -> None:
        self._offloaded -= 1

    def close(self) -> None:
        """Forget all timers and what is ready; wait for background work that runs, drop what has not begun."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._timers = TimerQueue()
        self._ready.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
