"""The agenda: one timer for all peers."""

from __future__ import annotations

import pytest

from actors.agenda import WAKE_MAX, Agenda
from actors.runtime.scheduler import SimScheduler


@pytest.fixture
def scheduler() -> SimScheduler:
    return SimScheduler(1, 1_000)


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def agenda(scheduler: SimScheduler, woken: list[str]) -> Agenda:
    return Agenda(scheduler, woken.append)


def test_streams_wake_when_they_are_due(agenda: Agenda, scheduler: SimScheduler, woken: list[str]) -> None:
    agenda.set("b", 3_000)
    agenda.set("a", 2_000)
    scheduler.run_for(999)
    assert woken == []
    scheduler.run_for(1)
    assert woken == ["a"]
    scheduler.run_for(1_000)
    assert woken == ["a", "b"]
    assert len(agenda) == 0


def test_what_is_past_is_due_now(agenda: Agenda, scheduler: SimScheduler, woken: list[str]) -> None:
    agenda.set("a", 5)
    scheduler.run_for(0)
    assert woken == ["a"]


@pytest.mark.parametrize("again", [1_500, 4_000, None])
def test_the_last_time_counts(agenda: Agenda, scheduler: SimScheduler, woken: list[str], again: int | None) -> None:
    agenda.set("a", 2_000)
    agenda.set("a", again)
    assert agenda.due("a") == again
    scheduler.run_for((again or 10_000) - 1_001)
    assert woken == []
    scheduler.run_for(1)
    assert woken == ([] if again is None else ["a"])
    scheduler.run_for(10_000)
    assert woken == ([] if again is None else ["a"]), "and once only"


def test_setting_the_same_time_again_wakes_once(agenda: Agenda, scheduler: SimScheduler, woken: list[str]) -> None:
    for _ in range(3):
        agenda.set("a", 2_000)
        agenda.set("a", 3_000)
        agenda.set("a", 2_000)
    scheduler.run_for(5_000)
    assert woken == ["a"]


def test_many_at_once_wake_in_portions(agenda: Agenda, scheduler: SimScheduler, woken: list[str]) -> None:
    for n in range(WAKE_MAX + 1):
        agenda.set(f"{n:04}", 2_000)
    scheduler.run_for(999)
    scheduler.clock.advance(1)
    scheduler.step()
    assert len(woken) == WAKE_MAX
    scheduler.run_for(0)
    assert sorted(woken) == [f"{n:04}" for n in range(WAKE_MAX + 1)]


def test_a_closed_one_wakes_nobody(agenda: Agenda, scheduler: SimScheduler, woken: list[str]) -> None:
    agenda.set("a", 2_000)
    agenda.close()
    scheduler.run_for(5_000)
    assert (woken, len(agenda)) == ([], 0)
