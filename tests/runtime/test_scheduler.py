"""Turns on the asyncio loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors.runtime.clock import ManualClock
from actors.runtime.errors import OffloadFull
from actors.runtime.limits import OFFLOAD_LIMIT, PUMP_TURNS, TIMER_RECHECK_MS
from actors.runtime.scheduler import LoopScheduler, offload


async def test_offload_runs_elsewhere_and_completes_here() -> None:
    scheduler = LoopScheduler()
    assert await offload(scheduler, threading.get_ident) != threading.get_ident()
    done_on: list[int] = []
    future = offload(scheduler, lambda: None)
    future.add_done_callback(lambda _: done_on.append(threading.get_ident()))
    await future
    await asyncio.sleep(0)
    assert done_on == [threading.get_ident()]
    with pytest.raises(ZeroDivisionError):
        await offload(scheduler, lambda: 1 // 0)
    scheduler.close()


async def test_offload_is_bounded() -> None:
    scheduler = LoopScheduler()
    gate = threading.Event()
    futures = [offload(scheduler, gate.wait) for _ in range(OFFLOAD_LIMIT)]
    with pytest.raises(OffloadFull):
        offload(scheduler, gate.wait)
    gate.set()
    await asyncio.gather(*futures)
    await offload(scheduler, gate.wait)
    scheduler.close()


async def test_timers_fire_in_order_and_can_be_cancelled() -> None:
    scheduler = LoopScheduler()
    now, seen, done = scheduler.clock.now(), [], asyncio.Event()
    scheduler.call_at(now + 20, done.set)
    scheduler.call_at(now + 10, lambda: seen.append((10, scheduler.clock.now() >= now + 10)))
    scheduler.call_at(now + 15, lambda: seen.append("cancelled")).cancel()
    scheduler.call_at(now - 5_000, lambda: seen.append("past"))
    await asyncio.wait_for(done.wait(), 5)
    assert seen == ["past", (10, True)]
    scheduler.close()


class SleepyLoop:
    """A loop that only notes what it is asked to call later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Any]] = []

    def call_soon(self, fn: Any) -> None:
        fn()

    def call_later(self, delay_s: float, fn: Any) -> SleepyLoop:
        self.later.append((delay_s, fn))
        return self

    def cancel(self) -> None:
        pass


def test_far_timers_look_at_the_clock_in_between_because_machines_sleep() -> None:
    loop, clock, seen = SleepyLoop(), ManualClock(), []
    scheduler = LoopScheduler(loop, clock)  # type: ignore[arg-type] # the part of a loop that timers use
    scheduler.call_at(3_600_000, lambda: seen.append(clock.now()))
    assert loop.later[-1][0] == TIMER_RECHECK_MS / 1000
    clock.advance(TIMER_RECHECK_MS)
    loop.later[-1][1]()
    assert seen == []
    clock.advance(2 * 3_600_000)  # the lid was closed; the loop's own clock stood still
    loop.later[-1][1]()
    assert seen == [TIMER_RECHECK_MS + 7_200_000]
    assert len(loop.later) == 2


async def test_other_threads_have_one_way_in() -> None:
    scheduler, done = LoopScheduler(), asyncio.Event()
    seen: list[int] = []

    def here() -> None:
        seen.append(threading.get_ident())
        done.set()

    thread = threading.Thread(target=lambda: scheduler.call_soon_threadsafe(here))
    thread.start()
    await asyncio.wait_for(done.wait(), 5)
    thread.join()
    assert seen == [threading.get_ident()]


async def test_an_error_in_a_turn_is_visible_and_stops_nobody_else() -> None:
    scheduler, done = LoopScheduler(), asyncio.Event()
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context["exception"]))
    scheduler.call_soon(lambda: 1 // 0)
    scheduler.call_soon(done.set)
    await asyncio.wait_for(done.wait(), 5)
    assert [type(error) for error in errors] == [ZeroDivisionError]


async def test_the_pump_leaves_the_loop_its_turn() -> None:
    scheduler, order = LoopScheduler(), []
    for number in range(3 * PUMP_TURNS):
        scheduler.call_soon(lambda number=number: order.append(number))
    asyncio.get_running_loop().call_soon(lambda: order.append("socket"))
    while len(order) < 3 * PUMP_TURNS + 1:
        await asyncio.sleep(0)
    assert order.index("socket") == PUMP_TURNS


async def test_close_forgets_what_was_planned() -> None:
    scheduler, seen = LoopScheduler(), []
    scheduler.call_soon(lambda: seen.append("ready"))
    scheduler.call_at(scheduler.clock.now() + 1, lambda: seen.append("timer"))
    scheduler.close()
    await asyncio.sleep(0.005)
    assert seen == []
