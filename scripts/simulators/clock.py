"""Clocks for simulated days, and the only module of the simulators that reads real time.

All times are int milliseconds. `now()` (since the epoch) and `monotonic()` never decrease, whatever a source says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import aiohttp
import msgspec

from scripts.simulators.errors import ClockWentBackError
from scripts.simulators.pulse import Pulse

log = logging.getLogger(__name__)

SIMULATED_START_MS = 1_790_000_000_000
"""Where a manual clock starts: an ordinary day in September 2026."""

RETRY_MS = 200
"""Pause between two attempts to reach a clock source that does not answer."""

FOLLOW_HOLD_MS = 20_000
"""How long a follower lets its source hold one `/changed` request."""

OnJump = Callable[[int], None]
"""Called with the new `now()` after a clock jumped (or was frozen, or thawed)."""


class Clock(Protocol):
    """What everything that needs time is given."""

    def now(self) -> int:
        """Return milliseconds since the epoch; never less than before."""
        ...

    def monotonic(self) -> int:
        """Return milliseconds since some fixed instant; never less than before."""
        ...

    def on_jump(self, callback: OnJump) -> Callable[[], None]:
        """Call `callback` after each jump; returns a function that ends this."""
        ...

    async def reached(self, at: int) -> None:
        """Return when `now()` has reached `at`, by time passing or by a jump."""
        ...


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a clock source, as it answers every request."""

    now: int
    monotonic: int
    version: int
    frozen: bool


def real_ms() -> int:
    """Return the wall time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return the machine's monotonic time in milliseconds."""
    return time.monotonic_ns() // 1_000_000


class _Jumping(ABC):
    """The waiting and telling that all clocks share; `stands_still` says that only jumps move it."""

    stands_still = False

    def __init__(self) -> None:
        self._listeners: list[OnJump] = []

    @abstractmethod
    def now(self) -> int:
        """Return milliseconds since the epoch; never less than before."""

    def on_jump(self, callback: OnJump) -> Callable[[], None]:
        """Call `callback` after each jump; returns a function that ends this."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    async def reached(self, at: int) -> None:
        """Return when `now()` has reached `at`, by time passing or by a jump."""
        pulse = Pulse()
        forget = self.on_jump(lambda _now: pulse.beat())
        try:
            while (left_ms := at - self.now()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if self.stands_still else left_ms / 1000):
                        await pulse.next()
        finally:
            forget()

    def _tell(self) -> None:
        now = self.now()
        for callback in list(self._listeners):
            callback(now)


class SystemClock(_Jumping):
    """The machine's time: wall time at the start plus what the monotonic clock says has passed."""

    def __init__(self) -> None:
        super().__init__()
        self._offset_ms = real_ms() - steady_ms()

    def now(self) -> int:
        """Return milliseconds since the epoch."""
        return steady_ms() + self._offset_ms

    def monotonic(self) -> int:
        """Return the machine's monotonic milliseconds."""
        return steady_ms()


class ManualClock(_Jumping):
    """A clock that only moves when told: for tests inside one process."""

    stands_still = True

    def __init__(self, now: int = SIMULATED_START_MS) -> None:
        super().__init__()
        self._now = self._start = now

    def now(self) -> int:
        """Return milliseconds since the epoch."""
        return self._now

    def monotonic(self) -> int:
        """Return milliseconds since this clock was made."""
        return self._now - self._start

    def advance(self, ms: int) -> None:
        """Jump `ms` forward."""
        self.set(self._now + ms)

    def set(self, now: int) -> None:
        """Jump to `now`; `ClockWentBackError` when that lies in the past."""
        if now < self._now:
            raise ClockWentBackError
        self._now = now
        self._tell()


class FollowedClock(_Jumping):
    """A clock that follows a clock source in another process: passes at rate 1 by itself, jumps with it.

    `async with FollowedClock(url) as clock:` has read the source once before the body runs. While the source does not
    answer, time goes on from the last reading (`lost` is then True).
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url.rstrip("/")
        self._reading = Reading(now=0, monotonic=0, version=-1, frozen=True)
        self._taken_at = steady_ms()
        self._last_now = self._last_monotonic = 0
        self._task: asyncio.Task[None] | None = None
        self._http: aiohttp.ClientSession | None = None
        self.lost = False

    @property
    def stands_still(self) -> bool:  # type: ignore[override]  # a constant of the other clocks, a state of this one
        """Whether the source is frozen."""
        return self._reading.frozen

    def now(self) -> int:
        """Return the source's milliseconds since the epoch."""
        self._last_now = max(self._last_now, self._reading.now + self._passed_ms())
        return self._last_now

    def monotonic(self) -> int:
        """Return the source's monotonic milliseconds."""
        self._last_monotonic = max(self._last_monotonic, self._reading.monotonic + self._passed_ms())
        return self._last_monotonic

    async def start(self) -> None:
        """Read the source once (an error of the HTTP client when it is not there), then follow it."""
        self._http = aiohttp.ClientSession()
        try:
            self._take(await self._ask(self._http, "/now"))
        except BaseException:
            await self._http.close()
            raise
        self._task = asyncio.create_task(self._follow(self._http), name="followed-clock")

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._http is not None:
            await self._http.close()

    async def __aenter__(self) -> FollowedClock:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _passed_ms(self) -> int:
        return 0 if self._reading.frozen else steady_ms() - self._taken_at

    def _take(self, reading: Reading) -> None:
        jumped = reading.version != self._reading.version
        self._reading, self._taken_at = reading, steady_ms()
        if jumped:
            self._tell()

    async def _follow(self, http: aiohttp.ClientSession) -> None:
        while True:
            since = self._reading.version
            try:
                self._take(await self._ask(http, f"/changed?since={since}&timeout_ms={FOLLOW_HOLD_MS}"))
                self.lost = False
            except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
                if not self.lost:
                    log.warning("the clock source does not answer, time goes on without it: %s", error)
                self.lost = True
                await asyncio.sleep(RETRY_MS / 1000)

    async def _ask(self, http: aiohttp.ClientSession, path: str) -> Reading:
        timeout = aiohttp.ClientTimeout(total=(FOLLOW_HOLD_MS + 10_000) / 1000)
        async with http.get(self._url + path, timeout=timeout) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read(), type=Reading)
