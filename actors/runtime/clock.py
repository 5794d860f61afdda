"""The only module that reads time or entropy; everything else is handed a `Clock` or `Ids`.

Times are `int` milliseconds since the Unix epoch (`now`) or since an arbitrary start (`monotonic`). `now()` never goes
back: it is the wall time at construction plus what the boot clock, which also runs while the machine sleeps, has
counted since. A step of the wall clock does not move it; `step_ms()` shows the step and `adopt()` takes it over.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

NS_PER_MS = 1_000_000


class Clock(Protocol):
    """A source of time in milliseconds."""

    def now(self) -> int:
        """Return ms since the Unix epoch; never decreases."""

    def monotonic(self) -> int:
        """Return ms since an arbitrary start; counts suspended time, unaffected by `adopt`."""


def boot_ns() -> int:
    """Return ns since boot, sleep included where the system counts it (Linux), else the monotonic clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boottime is None else time.clock_gettime_ns(boottime)


def boot_id() -> str:
    """Return what names the machine's boot (Linux), "" where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def stopwatch_ns() -> int:
    """Return ns of the finest clock, for benchmarks only."""
    return time.perf_counter_ns()


class BootClock:
    """The clock of a running process: wall time at construction + elapsed boot clock. Tests inject the readers (ns) and the boot.

    `boot_id` names the machine's boot, "" where nothing does.
    """

    __slots__ = ("_base_ms", "_boot", "_boot_start_ns", "_wall", "boot_id")

    def __init__(
        self,
        wall: Callable[[], int] | None = None,
        boot: Callable[[], int] | None = None,
        boot_name: Callable[[], str] = boot_id,
    ) -> None:
        self.boot_id = boot_name()
        self._wall = wall or time.time_ns
        self._boot = boot or boot_ns
        self._boot_start_ns = self._boot()
        self._base_ms = self._wall() // NS_PER_MS

    def now(self) -> int:
        """Return ms since the Unix epoch, unmoved by steps of the wall clock."""
        return self._base_ms + self.monotonic()

    def monotonic(self) -> int:
        """Return ms of boot clock since construction."""
        return (self._boot() - self._boot_start_ns) // NS_PER_MS

    def boot_ms(self) -> int:
        """Return ms of boot clock since the machine booted."""
        return self._boot() // NS_PER_MS

    def go_on(self, at_ms: int) -> int:
        """Take `at_ms` for now and return by how many ms that is later. Only before anybody was told the time: `now()` may go back."""
        moved = at_ms - self.now()
        self._base_ms += moved
        return moved

    def step_ms(self) -> int:
        """Return how far the wall clock is ahead (+) or behind (-) of `now()`, in ms; drift counts like a step."""
        return self._wall() // NS_PER_MS - self.now()

    def catch_up(self, at_ms: int) -> int:
        """Move `now()` forward to `at_ms`, if it is behind that, and return by how many ms."""
        moved = max(0, at_ms - self.now())
        self._base_ms += moved
        return moved

    def adopt(self) -> int:
        """Move `now()` forward to the wall clock and return by how many ms; a wall clock behind is not adopted (0).

        Moving forward lets windows end and shares roll, so only an explicit decision (an operator's) calls this.
        """
        moved = max(0, self.step_ms())
        self._base_ms += moved
        return moved


class ManualClock:
    """A clock that moves only when told to: tests and simulations."""

    __slots__ = ("_monotonic", "_now", "_step")

    def __init__(self, now_ms: int = 0) -> None:
        self._now = now_ms
        self._monotonic = 0
        self._step = 0

    def now(self) -> int:
        """Return ms since the Unix epoch."""
        return self._now

    def monotonic(self) -> int:
        """Return ms since construction."""
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Let `ms` pass; time never goes back."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self._now += ms
        self._monotonic += ms

    def step_wall(self, ms: int) -> None:
        """Pretend that the wall clock stepped by `ms` (either way) while `now()` ran on."""
        self._step += ms

    def step_ms(self) -> int:
        """Return the steps of the wall clock that were not adopted, in ms."""
        return self._step

    def adopt(self) -> int:
        """Move `now()` forward by a positive step and return it; a negative one is not adopted (0)."""
        moved = max(0, self._step)
        self._now += moved
        self._step -= moved
        return moved


class Ids(Protocol):
    """A source of identifiers and of chance."""

    def token(self, nbytes: int) -> str:
        """Return `nbytes` random bytes as lower-case hex."""

    def uint32(self) -> int:
        """Return a random integer of 32 bits."""

    def jitter(self, low: float, high: float) -> float:
        """Return a random number in [low, high]."""


class SystemIds:
    """Ids of the operating system's entropy."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = secrets.SystemRandom()

    def token(self, nbytes: int) -> str:
        """Return `nbytes` random bytes as lower-case hex."""
        return secrets.token_hex(nbytes)

    def uint32(self) -> int:
        """Return a random integer of 32 bits."""
        return secrets.randbits(32)

    def jitter(self, low: float, high: float) -> float:
        """Return a random number in [low, high]."""
        return self._random.uniform(low, high)


class SeededIds:
    """Ids that repeat with their seed: tests and simulations. Never for secrets."""

    __slots__ = ("_random",)

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 (repeatable on purpose)

    def token(self, nbytes: int) -> str:
        """Return `nbytes` bytes of the seed's sequence as lower-case hex."""
        return self._random.randbytes(nbytes).hex()

    def uint32(self) -> int:
        """Return the next integer of 32 bits."""
        return self._random.getrandbits(32)

    def jitter(self, low: float, high: float) -> float:
        """Return the next number in [low, high]."""
        return self._random.uniform(low, high)

    def below(self, limit: int) -> int:
        """Return the next integer in [0, limit)."""
        return int(self._random.random() * limit)
