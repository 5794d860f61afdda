from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors.runtime.actor import Actor
from actors.runtime.clock import ManualClock
from actors.runtime.directory import Directory
from actors.runtime.errors import NotIdle, OffloadFull
from actors.runtime.limits import OFFLOAD_LIMIT, PUMP_TURNS, TIMER_RECHECK_MS, TRACE_TURNS
from actors.runtime.scheduler import LoopScheduler, SimScheduler, offload


class Counter(Actor):
    """Counts, with a read-then-write over a wait when told to be careless."""

    def __init__(self, scheduler: SimScheduler, shared: dict[str, int]) -> None:
        super().__init__()
        self.scheduler, self.shared = scheduler, shared

    def on_receive(self, message: Any) -> Any:
        read = self.shared["n"]
        future = self.scheduler.future()
        self.scheduler.call_at(self.scheduler.clock.now() + 5, lambda: future.set_result(None))
        if message == "careless":
            yield future
        self.shared["n"] = read + 1


def world(seed: int, message: str) -> tuple[SimScheduler, dict[str, int]]:
    scheduler, shared = SimScheduler(seed), {"n": 0}
    directory = Directory(scheduler, lambda key: Counter(scheduler, shared))
    for key in range(20):
        scheduler.call_at(key, lambda key=key: directory.tell(key, message))
    scheduler.run_until_idle()
    return scheduler, shared


@pytest.mark.parametrize("seed", range(20))
def test_equal_seeds_give_equal_runs(seed: int) -> None:
    first, second = world(seed, "careless")[0], world(seed, "careless")[0]
    assert first.digest() == second.digest()
    assert first.trace == second.trace
    assert first.turns == second.turns > 60
    assert [first.ids.token(8) for _ in range(3)] == [second.ids.token(8) for _ in range(3)]


def test_seeds_differ() -> None:
    assert len({world(seed, "careless")[0].digest() for seed in range(20)}) == 20


def test_a_race_shows_and_its_absence_too() -> None:
    assert all(world(seed, "careless")[1]["n"] < 20 for seed in range(10))
    assert all(world(seed, "careful")[1]["n"] == 20 for seed in range(10))


def test_asking_for_ids_does_not_change_the_order_of_turns() -> None:
    def order(ask: bool) -> list[int]:
        scheduler, seen = SimScheduler(3), []
        for number in range(20):
            scheduler.call_soon(lambda number=number: seen.append(number))
            if ask:
                scheduler.ids.uint32()
        scheduler.run_until_idle()
        return seen

    assert order(ask=True) == order(ask=False) != list(range(20))


def test_virtual_time_jumps_to_the_next_timer() -> None:
    scheduler = SimScheduler(1, start_ms=1_000)
    seen: list[tuple[str, int]] = []
    for name, due in (("late", 7_201_000), ("past", 0), ("soon", 1_500)):
        scheduler.call_at(due, lambda name=name: seen.append((name, scheduler.clock.now())))
    cancelled = scheduler.call_at(2_000, lambda: seen.append(("cancelled", 0)))
    cancelled.cancel()
    assert scheduler.run_until_idle() == 3
    assert seen == [("past", 1_000), ("soon", 1_500), ("late", 7_201_000)]
    assert scheduler.clock.monotonic() == 7_200_000
    assert not scheduler.step()


def test_run_for_lets_exactly_that_time_pass() -> None:
    scheduler = SimScheduler(1)
    seen: list[int] = []

    def tick() -> None:
        seen.append(scheduler.clock.now())
        scheduler.call_at(scheduler.clock.now() + 100, tick)

    scheduler.call_soon(tick)
    assert scheduler.run_ready() == 1
    scheduler.run_for(250)
    assert seen == [0, 100, 200]
    assert scheduler.clock.now() == 250
    with pytest.raises(NotIdle, match="seed 1"):
        scheduler.run_until_idle(max_turns=50)
    assert scheduler.turns == 53


def test_exactly_the_limit_of_turns_is_idle() -> None:
    scheduler = SimScheduler(1)
    scheduler.call_soon(lambda: None)
    assert scheduler.run_until_idle(max_turns=1) == 1


def test_run_until_returns_the_result_or_says_that_none_comes() -> None:
    scheduler = SimScheduler(1)
    future, never = scheduler.future(), scheduler.future()
    scheduler.call_at(10, lambda: future.set_result("x"))
    scheduler.call_at(20, lambda: None)
    assert scheduler.run_until(future) == "x"
    assert scheduler.clock.now() == 10
    with pytest.raises(NotIdle):
        scheduler.run_until(never)


def test_invariants_are_checked_after_each_turn() -> None:
    scheduler, shared = SimScheduler(1), {"n": 0}

    def check() -> None:
        assert shared["n"] < 3, "invariant"

    def add() -> None:
        shared["n"] += 1

    scheduler.on_turn = check
    for _ in range(10):
        scheduler.call_soon(add)
    with pytest.raises(AssertionError, match="invariant"):
        scheduler.run_until_idle()
    assert scheduler.turns == 3


def test_the_trace_names_turns_and_stays_short() -> None:
    scheduler = SimScheduler(1)
    directory = Directory(scheduler, lambda key: Counter(scheduler, {"n": 0}))
    for _ in range(3):
        directory.tell("peer-1", "careless")
    scheduler.run_until_idle()
    assert scheduler.trace[0] == "0 peer-1 hydrate"
    assert "5 peer-1 resume" in scheduler.trace
    assert not any("careless" in line for line in scheduler.trace)
    for _ in range(100):
        scheduler.call_soon(lambda: None)
    scheduler.run_until_idle()
    assert len(scheduler.trace) == TRACE_TURNS


def test_simulated_offload_is_a_turn_of_its_own() -> None:
    scheduler = SimScheduler(1)
    good, bad = offload(scheduler, lambda: 6 * 7), offload(scheduler, lambda: 1 // 0)
    assert not good.done()
    scheduler.run_until_idle()
    assert good.result() == 42
    with pytest.raises(ZeroDivisionError):
        bad.result()


# --- the asyncio loop ---


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
