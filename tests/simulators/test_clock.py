from __future__ import annotations

import asyncio

import aiohttp
import pytest

from scripts.simulators import clock as clock_module
from scripts.simulators.clock import FollowedClock, ManualClock, SystemClock
from scripts.simulators.clock_source import ClockSource, running
from scripts.simulators.errors import ClockWentBackError
from scripts.simulators.pulse import Pulse

HOUR = 3_600_000


def source_at(now: int, *, frozen: bool = True) -> tuple[ClockSource, ManualClock]:
    passing = ManualClock(0)
    return ClockSource(passing, now=now, frozen=frozen), passing


async def told(clock: FollowedClock, expected: int) -> None:
    async with asyncio.timeout(5):
        await clock.reached(expected)


def jumps_of(clock: FollowedClock) -> Pulse:
    pulse = Pulse()
    clock.on_jump(lambda _now: pulse.beat())
    return pulse


def test_the_system_clock_tells_milliseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    readings = [(clock.now(), clock.monotonic()) for _ in range(1000)]
    assert readings == sorted(readings)
    assert readings[0][0] > 1_700_000_000_000


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(1000)
    jumps: list[int] = []
    forget = clock.on_jump(jumps.append)
    clock.advance(5)
    clock.set(2000)
    forget()
    clock.advance(1)
    assert (clock.now(), clock.monotonic(), jumps) == (2001, 1001, [1005, 2000])


def test_a_manual_clock_does_not_go_back() -> None:
    with pytest.raises(ClockWentBackError):
        ManualClock(1000).set(999)


async def test_reached_waits_for_the_jump() -> None:
    clock = ManualClock(0)
    waiting = asyncio.create_task(clock.reached(100))
    for at in (50, 99):
        clock.set(at)
        await asyncio.sleep(0)
        assert not waiting.done()
    clock.set(100)
    await asyncio.wait_for(waiting, 1)


async def test_reached_returns_by_time_passing() -> None:
    clock = SystemClock()
    at = clock.now() + 5
    await asyncio.wait_for(clock.reached(at), 5)
    assert clock.now() >= at


async def test_a_follower_jumps_with_its_source() -> None:
    source, _ = source_at(1000)
    async with running(source) as url, FollowedClock(url) as clock:
        assert (clock.now(), clock.monotonic()) == (1000, 0)
        jumps: list[int] = []
        clock.on_jump(jumps.append)
        source.advance(HOUR)
        await told(clock, 1000 + HOUR)
        assert (clock.now(), clock.monotonic(), jumps) == (1000 + HOUR, HOUR, [1000 + HOUR])


async def test_time_passes_for_a_follower_unless_frozen() -> None:
    source, _ = source_at(1000, frozen=False)
    async with running(source) as url, FollowedClock(url) as clock:
        await told(clock, 1010)
        jumped = jumps_of(clock)
        source.freeze(True)
        assert await jumped.until(lambda: clock.stands_still, 5000)
        assert clock.now() == clock.now() >= 1010


async def test_a_follower_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [10_000]
    monkeypatch.setattr(clock_module, "steady_ms", lambda: steady[0])
    source, _ = source_at(1000, frozen=False)
    async with running(source) as url, FollowedClock(url) as clock:
        steady[0] += 500  # here time passed, at the source (whose own clock stands still) it did not
        assert (clock.now(), clock.monotonic()) == (1500, 500)
        jumped = jumps_of(clock)
        source.freeze(True)
        assert await jumped.until(lambda: clock.stands_still, 5000)
        assert (clock.now(), clock.monotonic()) == (1500, 500)


async def test_a_follower_outlives_its_source_and_finds_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "RETRY_MS", 1)
    source, _ = source_at(1000)
    async with running(source) as url:
        clock = FollowedClock(url)
        await clock.start()
    try:
        while not clock.lost:
            await asyncio.sleep(0.001)
        assert clock.now() == 1000
        port = int(url.rpartition(":")[2])
        later, _ = source_at(9000)
        later.advance(1)
        async with running(later, port=port):
            await told(clock, 9001)
            assert not clock.lost
    finally:
        await clock.stop()


async def test_a_follower_does_not_start_without_a_source() -> None:
    source, _ = source_at(1000)
    async with running(source) as url:
        pass
    with pytest.raises(aiohttp.ClientConnectionError):
        await FollowedClock(url).start()
