"""Bounds of the backlog: count, age, the newest, and what an open request carries."""

from __future__ import annotations

import pytest

from events import backlog
from events.backlog import DEAD_KEPT, Dead, Output
from events.bot import HOUR_MS, Policy

T = 1_750_000_000_000


def output(name: str, accepted_at: int = T) -> Output:
    return Output(output=name, turn_id=f"t-{name}", body=f"b-{name}", total=1, accepted_at=accepted_at)


def queue(count: int) -> tuple[Output, ...]:
    return tuple(output(str(n), T + n) for n in range(count))


def names(outputs: tuple[Output, ...]) -> list[str]:
    return [o.output for o in outputs]


NOBODY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("count", "incoming", "carried", "gone"),
    [
        (3, 0, "", ""),
        (4, 0, "", "0"),
        (6, 0, "", "0 1 2"),
        (3, 1, "", "0"),
        (2, 1, "", ""),
        (4, 0, "0", "1"),
        (4, 0, "0 1 2", ""),
        (5, 0, "0 1 2", "3"),
        (3, 1, "0 1 2", ""),
        (0, 1, "", ""),
        (1, 0, "", ""),
    ],
)
def test_the_oldest_that_are_not_in_flight_make_room(count: int, incoming: int, carried: str, gone: str) -> None:
    found = backlog.over_count(queue(count), frozenset(carried.split()), incoming, Policy(backlog_outputs=3))
    assert names(found) == gone.split()


def test_a_backlog_of_none_keeps_the_newest() -> None:
    assert names(backlog.over_count(queue(3), NOBODY, 0, Policy(backlog_outputs=0))) == ["0", "1"]


@pytest.mark.parametrize(("after_ms", "gone"), [(-1, []), (0, ["0"]), (1, ["0", "1"]), (HOUR_MS, ["0", "1"])])
def test_too_old_to_the_millisecond_and_never_the_newest(after_ms: int, gone: list[str]) -> None:
    assert names(backlog.over_age(queue(3), NOBODY, Policy(), T + HOUR_MS + after_ms)) == gone


def test_nothing_in_flight_is_too_old() -> None:
    assert names(backlog.over_age(queue(3), frozenset("0"), Policy(), T + 2 * HOUR_MS)) == ["1"]


@pytest.mark.parametrize(
    ("count", "carried", "at"),
    [(0, "", None), (1, "", None), (2, "", T + HOUR_MS), (3, "0", T + 1 + HOUR_MS), (3, "0 1", None)],
)
def test_when_the_next_is_too_old(count: int, carried: str, at: int | None) -> None:
    flying = frozenset(carried.split())
    assert backlog.next_age_at(queue(count), flying, Policy()) == at
    if at is not None:
        assert backlog.over_age(queue(count), flying, Policy(), at - 1) == ()
        assert backlog.over_age(queue(count), flying, Policy(), at)


def dead(name: str, reason: str = "expired") -> Dead:
    return Dead(output=output(name), fate="dropped", reason=reason, at=T)


def test_an_output_is_buried_once_and_last() -> None:
    entries = backlog.bury(backlog.bury(backlog.bury((), dead("a")), dead("b")), dead("a", "operator"))
    assert entries == (dead("b"), dead("a", "operator"))


def test_the_list_of_the_dead_is_bounded() -> None:
    entries: tuple[Dead, ...] = ()
    for n in range(DEAD_KEPT + 5):
        entries = backlog.bury(entries, dead(str(n)))
    assert len(entries) == DEAD_KEPT
    assert entries[0].output.output == "5"
