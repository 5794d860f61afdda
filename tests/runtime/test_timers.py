from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.scheduler import SimScheduler
from actors.runtime.timers import KeyedTimers, TimerQueue


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans())), st.integers(0, 60))
def test_due_timers_come_in_order_without_the_cancelled(timers: list[tuple[int, bool]], now_ms: int) -> None:
    queue = TimerQueue()
    seen: list[int] = []
    handles = [queue.push(due, lambda number=number: seen.append(number)) for number, (due, _) in enumerate(timers)]
    for handle, (_, cancelled) in zip(handles, timers, strict=True):
        if cancelled:
            handle.cancel()
            handle.cancel()
    kept = [(due, number) for number, (due, cancelled) in enumerate(timers) if not cancelled]
    assert len(queue) == len(kept)
    assert queue.next_due() == (min(kept)[0] if kept else None)
    for handle in queue.pop_due(now_ms):
        handle.fire()
    assert seen == [number for due, number in sorted(kept) if due <= now_ms]
    assert len(queue) == len([due for due, _ in kept if due > now_ms])


def test_a_timer_cancelled_after_it_became_due_does_not_run() -> None:
    queue = TimerQueue()
    seen: list[int] = []
    queue.push(1, lambda: seen.append(1))
    for due in (2, 3, 4):
        queue.push(due, lambda: None)
    (handle,) = queue.pop_due(1)
    handle.cancel()
    handle.fire()
    assert seen == []
    assert len(queue) == 3


def test_cancelled_timers_do_not_pile_up() -> None:
    queue = TimerQueue()
    for due in range(10_000):
        queue.push(due, lambda: None).cancel()
    assert len(queue._heap) <= 2


def test_setting_a_key_again_replaces_its_timer() -> None:
    scheduler = SimScheduler(1)
    timers, seen = KeyedTimers(scheduler), []
    timers.set("a", 10, lambda: seen.append("first"))
    timers.set("a", 20, lambda: seen.append("second"))
    timers.set("b", 15, lambda: seen.append("b"))
    timers.set("c", 5, lambda: seen.append("c"))
    timers.cancel("c")
    timers.cancel("nobody")
    assert (timers.due("a"), timers.due("c"), len(timers)) == (20, None, 2)
    scheduler.run_until_idle()
    assert seen == ["b", "second"]
    assert len(timers) == 0


def test_a_timer_may_set_itself_again() -> None:
    scheduler = SimScheduler(1)
    timers, seen = KeyedTimers(scheduler), []

    def tick() -> None:
        seen.append(scheduler.clock.now())
        if len(seen) < 3:
            timers.set("tick", scheduler.clock.now() + 10, tick)

    timers.set("tick", 10, tick)
    timers.set("other", 100, lambda: None)
    scheduler.run_for(50)
    assert seen == [10, 20, 30]
    timers.clear()
    assert scheduler.run_until_idle() == 0
