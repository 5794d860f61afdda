"""When turns run: on the asyncio loop in production, or drawn by a seed in simulations. One thread in both."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from actors.runtime.clock import BootClock, Clock, Ids, ManualClock, SeededIds, SystemIds
from actors.runtime.errors import NotIdle, OffloadFull
from actors.runtime.futures import FutureLike, Slot
from actors.runtime.limits import (
    OFFLOAD_LIMIT,
    OFFLOAD_THREADS,
    PUMP_TURNS,
    SIMULATED_TURNS,
    TIMER_RECHECK_MS,
    TRACE_TURNS,
    TURN_BUDGET,
)
from actors.runtime.timers import TimerHandle, TimerQueue

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


class SimScheduler:
    """Turns in an order drawn by a seed, in virtual time that jumps to the next timer when nothing is ready.

    One message is one turn. `digest()` identifies the run: equal seeds and code give equal digests. `on_turn` is called
    after each turn, for invariants; an error there, or a BaseException in a turn, leaves `step`.
    """

    def __init__(self, seed: int, start_ms: int = 0) -> None:
        self.seed = seed
        self.clock = ManualClock(start_ms)
        self.ids = SeededIds(seed)
        self.turn_budget = 1
        self.turns = 0
        self.on_turn: Callable[[], object] | None = None
        self.trace: deque[str] = deque(maxlen=TRACE_TURNS)
        self._draw = SeededIds(
            f"{seed}/order"
        )  # apart from `ids`, so that asking for an id does not change the order of turns
        self._ready: list[Callable[[], object]] = []
        self._timers = TimerQueue()
        self._digest = hashlib.blake2b(digest_size=16)

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Make `fn` one of the turns to draw from."""
        self._ready.append(fn)

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Make `fn` a turn to draw from when virtual time reaches `due_ms`."""
        return self._timers.push(due_ms, fn)

    def future(self) -> Slot:
        """Return a new reply slot."""
        return Slot()

    def offload(self, fn: Callable[[], Any]) -> Slot:
        """Run `fn` as a turn of its own."""
        slot = Slot()

        def work() -> None:
            try:
                result = fn()
            except Exception as error:  # noqa: BLE001 (whoever waits gets it)
                slot.set_exception(error)
            else:
                slot.set_result(result)

        self.call_soon(work)
        return slot

    def step(self, until_ms: int | None = None) -> bool:
        """Run one turn, jumping to the next timer (not beyond `until_ms`) if none is ready; False if there is none."""
        if not self._ready and not self._jump(until_ms):
            return False
        ready = self._ready
        index = self._draw.below(len(ready))
        ready[index], ready[-1] = ready[-1], ready[index]
        fn = ready.pop()
        self.turns += 1
        self._record(fn)
        fn()
        if self.on_turn is not None:
            self.on_turn()
        return True

    def _jump(self, until_ms: int | None) -> bool:
        due = self._timers.next_due()
        if due is None or (until_ms is not None and due > until_ms):
            return False
        self.clock.advance(max(0, due - self.clock.now()))
        self._ready.extend(handle.fire for handle in self._timers.pop_due(self.clock.now()))
        return True

    def _record(self, fn: Callable[[], object]) -> None:
        describe = getattr(getattr(fn, "__self__", None), "describe", None)
        what = describe() if describe is not None else getattr(fn, "__qualname__", type(fn).__name__)
        self.note(f"{self.clock.now()} {what}")

    def note(self, line: str) -> None:
        """Add a line to the trace and the digest; no message texts."""
        self.trace.append(line)
        self._digest.update(line.encode() + b"\n")

    def digest(self) -> str:
        """Return the fingerprint of the run so far."""
        return self._digest.hexdigest()

    def run_until_idle(self, max_turns: int = SIMULATED_TURNS) -> int:
        """Run until nothing is ready and no timer is set; return the turns taken, NotIdle beyond `max_turns`."""
        return self._run(max_turns, None)

    def run_ready(self, max_turns: int = SIMULATED_TURNS) -> int:
        """Run what is ready without letting time pass; return the turns taken."""
        return self._run(max_turns, self.clock.now())

    def run_for(self, ms: int, max_turns: int = SIMULATED_TURNS) -> int:
        """Let `ms` of virtual time pass with everything due in it; return the turns taken."""
        until = self.clock.now() + ms
        turns = self._run(max_turns, until)
        self.clock.advance(until - self.clock.now())
        return turns

    def run_until(self, future: FutureLike, max_turns: int = SIMULATED_TURNS) -> Any:
        """Run until `future` is done and return its result; NotIdle if it never is."""
        for _ in range(max_turns):
            if future.done() or not self.step():
                break
        if not future.done():
            raise NotIdle(f"seed {self.seed}: still waiting after {self.turns} turns")
        return future.result()

    def _run(self, max_turns: int, until_ms: int | None) -> int:
        for turn in range(max_turns):
            if not self.step(until_ms):
                return turn
        if self._ready or self._jump(until_ms):
            raise NotIdle(f"seed {self.seed}: {max_turns} turns")
        return max_turns
