"""Who has something due, and when: one timer for all peers of an account, live or passivated."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from actors.runtime.scheduler import Scheduler
from actors.runtime.timers import TimerHandle
from events.base import Millis

WAKE_MAX = 500
"""How many peers are woken at once; the rest follow in the next turn of the loop."""


class Agenda:
    """Wakes each stream at the earliest time that was set last for it."""

    def __init__(self, scheduler: Scheduler, wake: Callable[[str], None]) -> None:
        self._scheduler = scheduler
        self._wake = wake
        self._due: dict[str, Millis] = {}
        self._heap: list[tuple[Millis, str]] = []
        self._timer: TimerHandle | None = None
        self._timer_due: Millis = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._due)

    def due(self, stream: str) -> Millis | None:
        """When a stream will be woken."""
        return self._due.get(stream)

    def set(self, stream: str, due_at: Millis | None) -> None:
        """Wake a stream at `due_at`, instead of whenever it would have been; None = not at all."""
        if due_at is None:
            self._due.pop(stream, None)
            return
        if self._closed or self._due.get(stream) == due_at:
            return
        self._due[stream] = due_at
        heapq.heappush(self._heap, (due_at, stream))
        self._arm()

    def close(self) -> None:
        """Wake nobody any more, whatever is set."""
        self._closed = True
        self._due.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._drop_stale()
        if not self._heap:
            return
        due_at = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due_at:
                return
            self._timer.cancel()
        self._timer_due = due_at
        self._timer = self._scheduler.call_at(due_at, self._fire)

    def _drop_stale(self) -> None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _fire(self) -> None:
        self._timer = None
        now = self._scheduler.clock.now()
        for _ in range(WAKE_MAX):
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now:
                break
            _, stream = heapq.heappop(self._heap)
            del self._due[stream]
            self._wake(stream)
        self._arm()
