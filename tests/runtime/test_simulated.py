"""Turns drawn by a seed."""

from __future__ import annotations

from typing import Any

import pytest

from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.runtime.errors import NotIdle
from actors.runtime.limits import TRACE_TURNS
from actors.runtime.scheduler import SimProcess, SimScheduler, offload


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


# --- processes of a simulated world ---


def test_a_killed_process_runs_nothing_it_planned() -> None:
    world = SimScheduler(1)
    old, new, seen = SimProcess(world, "old"), SimProcess(world, "new"), []
    for process in (old, new):
        process.call_soon(lambda process=process: seen.append((process.name, "soon")))
        process.call_at(10, lambda process=process: seen.append((process.name, "later")))
        process.offload(lambda process=process: seen.append((process.name, "work")))
    world.call_at(20, lambda: seen.append(("server", "later")))
    world.run_ready()
    old.kill()
    world.run_until_idle()
    assert sorted(seen[:4]) == [("new", "soon"), ("new", "work"), ("old", "soon"), ("old", "work")]
    assert seen[4:] == [("new", "later"), ("server", "later")]


def test_a_killed_process_takes_its_actors_with_it() -> None:
    world, shared = SimScheduler(1), {"n": 0}
    process = SimProcess(world, "gateway")
    directory = Directory(process, lambda key: Counter(world, shared))
    directory.tell("a", "careless")
    directory.tell("a", "careless")
    world.run_for(7)  # the first has waited its 5 ms, the second waits
    assert shared == {"n": 1}
    process.kill()
    world.run_until_idle()
    assert shared == {"n": 1}


def test_a_paused_process_catches_up() -> None:
    world = SimScheduler(1)
    process, seen = SimProcess(world, "gateway"), []
    process.call_at(10, lambda: seen.append(world.clock.now()))
    process.call_soon(lambda: seen.append("soon"))
    process.pause()
    process.pause()
    world.run_for(50)
    assert seen == []
    process.resume()
    world.run_until_idle()
    assert sorted(seen, key=str) == [50, "soon"]
    process.resume()
    process.pause()
    process.call_soon(lambda: seen.append("never"))
    world.run_ready()
    process.kill()
    process.resume()
    world.run_until_idle()
    assert "never" not in seen


def test_the_trace_names_the_process() -> None:
    world = SimScheduler(1)
    process = SimProcess(world, "gateway")
    Directory(process, lambda key: Counter(world, {"n": 0})).tell("peer-1", "x")
    process.call_at(5, world.digest)
    world.run_until_idle()
    assert world.trace[0] == "0 gateway: peer-1 hydrate"
    assert "5 timer gateway: SimScheduler.digest" in world.trace
