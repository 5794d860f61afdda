"""Timers: one heap for any number of them, and timers by name that replace each other."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Protocol


class TimerHandle:
    """One pending timer; `cancel` is final and may be called at any time, even between becoming due and running."""

    __slots__ = ("due_ms", "fn", "queue")

    def __init__(self, queue: TimerQueue, due_ms: int, fn: Callable[[], object]) -> None:
        self.queue: TimerQueue | None = queue
        self.due_ms = due_ms
        self.fn: Callable[[], object] | None = fn

    def cancel(self) -> None:
        """Forget the timer; nothing happens when it fired or was cancelled."""
        if self.fn is not None:
            self.fn = None
            if self.queue is not None:
                self.queue.forget()

    def fire(self) -> None:
        """Run the function once, unless the timer was cancelled."""
        fn, self.fn = self.fn, None
        if fn is not None:
            fn()


class TimerQueue:
    """Timers by due time (ms), equal times in the order they were set; cancelled ones are cleared out in bulk."""

    __slots__ = ("_cancelled", "_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._serial = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def push(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Add a timer."""
        handle = TimerHandle(self, due_ms, fn)
        self._serial += 1
        heapq.heappush(self._heap, (due_ms, self._serial, handle))
        return handle

    def forget(self) -> None:
        """Count one cancellation; rebuild the heap when most of it is cancelled."""
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].fn is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_due(self) -> int | None:
        """Return when the next timer is due (ms), None without timers."""
        while self._heap and self._heap[0][2].fn is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> list[TimerHandle]:
        """Remove the timers that are due at `now_ms` and return them, earliest first, to be fired."""
        heap, fired = self._heap, []
        while heap and heap[0][0] <= now_ms:
            handle = heapq.heappop(heap)[2]
            if handle.fn is None:
                self._cancelled -= 1
            else:
                handle.queue = None
                fired.append(handle)
        return fired


class TimerScheduler(Protocol):
    """The part of a scheduler that timers need."""

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Call `fn` at `due_ms` of the scheduler's clock."""


class KeyedTimers:
    """Timers by key, at most one each: setting a key again replaces its timer."""

    __slots__ = ("_pending", "_scheduler")

    def __init__(self, scheduler: TimerScheduler) -> None:
        self._scheduler = scheduler
        self._pending: dict[Hashable, TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def set(self, key: Hashable, due_ms: int, fn: Callable[[], object]) -> None:
        """Call `fn` at `due_ms`, instead of what was set for `key` before."""
        self.cancel(key)

        def fire() -> None:
            del self._pending[key]
            fn()

        self._pending[key] = self._scheduler.call_at(due_ms, fire)

    def due(self, key: Hashable) -> int | None:
        """Return when the timer of `key` is due (ms), None without one."""
        handle = self._pending.get(key)
        return None if handle is None else handle.due_ms

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        handle = self._pending.pop(key, None)
        if handle is not None:
            handle.cancel()

    def clear(self) -> None:
        """Forget all timers."""
        for key in tuple(self._pending):
            self.cancel(key)
