"""One simulated process: its own wall clock, which may be set wrong when it starts and may step while it runs."""

from __future__ import annotations

from collections.abc import Callable

from actors.runtime.scheduler import SimProcess, SimScheduler
from actors.runtime.simulated import _describe
from actors.runtime.timers import TimerHandle


class WorldScheduler(SimScheduler):
    """Describes each turn only if it is `told` to: describing takes a tenth of a world, and a world that failed can be run again."""

    told = False
    _mixed = 0

    def _record(self, fn: Callable[[], object]) -> None:
        if self.told:
            super()._record(fn)
        else:  # numbers hash alike in every process
            self._mixed = hash((self._mixed, self.clock._now, len(self._ready)))

    def digest(self) -> str:
        self.note(str(self._mixed))
        return super().digest()


class WallClock:
    """The world's time, off by a constant: what a boot clock makes of a wall clock that was wrong at the start."""

    def __init__(self, world: WorldScheduler, offset_ms: int) -> None:
        self._clock, self.offset_ms = world.clock, offset_ms
        self.stepped_ms, self.boot_id = 0, "the one boot of a world"

    def now(self) -> int:
        return self._clock._now + self.offset_ms

    def monotonic(self) -> int:
        return self._clock.monotonic()

    def boot_ms(self) -> int:
        return self._clock.monotonic()

    def go_on(self, at_ms: int) -> int:
        """Take a time for now, at the start."""
        moved = at_ms - self.now()
        self.offset_ms += moved
        return moved

    def catch_up(self, at_ms: int) -> int:
        """Go on from a time that the log has."""
        moved = max(0, at_ms - self.now())
        self.offset_ms += moved
        return moved

    def step_ms(self) -> int:
        """How far the wall clock stepped away since the start."""
        return self.stepped_ms


class Machine(SimProcess):
    """A process with such a clock."""

    def __init__(self, world: WorldScheduler, name: str, offset_ms: int = 0) -> None:
        super().__init__(world, name)
        self.world = world
        self.wall = WallClock(world, offset_ms)
        self.clock = self.wall  # type: ignore[assignment]
        self._pauses: list[tuple[int, int]] = []  # (from, to), by the world's clock

    @property
    def paused(self) -> bool:
        return self._held is not None

    def pause(self) -> None:
        if not self.paused:
            self._paused_at = self.world.clock.now()
        super().pause()

    def resume(self) -> None:
        self._pauses.append((self._paused_at, self.world.clock.now()))
        super().resume()

    def runs_at(self, at: int) -> int:
        """When the process next runs, by the world's clock: at once, unless it is paused then, and perhaps again at its resumption."""
        for since, to in self._pauses:
            if since <= at < to:
                at = to
        return at

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        timer = HeldTimer(due_ms, fn)
        timer.inner = super().call_at(due_ms - self.wall.offset_ms, timer.fire)
        return timer


class HeldTimer(TimerHandle):
    """A timer that can be cancelled even after it became due while its process was paused."""

    __slots__ = ("inner",)

    inner: TimerHandle | None

    def __init__(self, due_ms: int, fn: Callable[[], object]) -> None:
        self.queue = None
        self.due_ms, self.fn, self.inner = due_ms, fn, None

    def cancel(self) -> None:
        self.fn = None
        if self.inner is not None:
            self.inner.cancel()

    def describe(self) -> str:
        return _describe(self.fn) if self.fn is not None else "a cancelled timer"
