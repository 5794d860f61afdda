from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.channels.weixin import pacer as pacer_module
from actors.channels.weixin.pacer import LAPSE_MS, Pacer
from events.bot import Policy


def pacer(pace_ms: int = 1_000, burst: int = 2) -> Pacer:
    policy = Policy(pace_ms=pace_ms, pace_burst=burst)
    return Pacer(lambda: policy)


def test_a_burst_then_the_pace() -> None:
    paced = pacer(burst=3)
    assert [paced.take(f"s{i}", 10_000) for i in range(4)] == [10_000, 10_000, 10_000, 11_000]
    assert [paced.take("s3", t) for t in (10_999, 11_000)] == [11_000, 11_000]


def test_quiet_time_fills_the_burst_and_no_more() -> None:
    paced = pacer(burst=2)
    for at in (0, 0, 100_000, 100_000):
        assert paced.take("s", at) == at
    assert paced.take("s", 100_000) == 101_000


def test_places_are_in_the_order_of_asking() -> None:
    paced = pacer(burst=1)
    assert [paced.earliest(s, 0) for s in ("a", "b", "c")] == [0, 1_000, 2_000]
    assert paced.take("c", 0) == 2_000
    assert paced.take("a", 0) == 0
    assert paced.take("b", 1_000) == 1_000
    assert paced.take("c", 1_000) == 2_000
    assert paced.take("c", 2_000) == 2_000


def test_nobody_overtakes_a_place_that_is_kept() -> None:
    paced = pacer(burst=1)
    paced.take("a", 0)
    assert paced.earliest("b", 0) == 1_000
    assert paced.take("c", 1_000) == 2_000
    assert paced.take("b", 1_000) == 1_000


def test_a_place_lapses_after_its_time() -> None:
    paced = pacer(burst=1)
    assert paced.earliest("a", 0) == 0
    assert paced.take("b", LAPSE_MS) > LAPSE_MS
    assert paced.take("b", LAPSE_MS + 1) == LAPSE_MS + 1


def test_asking_again_keeps_a_place_but_not_for_ever() -> None:
    paced = pacer(burst=1)
    for at in range(0, LAPSE_MS + 1, 1_000):
        assert paced.earliest("a", at) == at
        assert paced.earliest("b", at) == at + 1_000
    assert paced.take("b", LAPSE_MS + 1) == LAPSE_MS + 1


def test_each_stream_has_one_place() -> None:
    paced = pacer(burst=1)
    assert [paced.earliest("a", 0), paced.earliest("a", 0), paced.earliest("b", 0)] == [0, 0, 1_000]


def test_numbers_change_at_run_time() -> None:
    numbers = [Policy(pace_ms=60_000, pace_burst=1)]
    paced = Pacer(lambda: numbers[0])
    assert [paced.take("a", 0), paced.take("a", 0)] == [0, 60_000]
    numbers[0] = Policy(pace_ms=1_000, pace_burst=2)
    assert paced.take("a", 0) == 1_000
    assert paced.take("a", 1_000) == 1_000
    numbers[0] = Policy(pace_ms=0, pace_burst=0)
    assert [paced.take("a", 1_000) for _ in range(9)] == [1_000] * 9


def test_places_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer_module, "PLACES_MAX", 1)
    paced = pacer(burst=1)
    assert [paced.earliest(s, 0) for s in ("a", "b", "c")] == [0, 1_000, 1_000]
    assert paced.take("a", 0) == 0


STEPS = st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from("abcdef"), st.booleans()), max_size=80)


@given(st.integers(1, 2_000), st.integers(1, 6), STEPS)
def test_never_more_than_the_burst_and_the_pace(pace_ms: int, burst: int, steps: list[tuple[int, str, bool]]) -> None:
    paced, now, taken = pacer(pace_ms, burst), 0, []
    for wait_ms, stream, takes in steps:
        now += wait_ms
        told = paced.take(stream, now) if takes else paced.earliest(stream, now)
        assert told >= now
        if takes and told == now:
            taken.append(now)
    for i, first in enumerate(taken):
        for j in range(i, len(taken)):
            assert j - i + 1 <= burst + (taken[j] - first) / pace_ms


@given(st.integers(1, 2_000), st.integers(1, 6), st.integers(1, 40))
def test_those_who_come_when_told_go_in_order_and_in_time(pace_ms: int, burst: int, streams: int) -> None:
    """Liveness: with everybody punctual, what was told first is true, and the order of asking is the order of going."""
    paced = pacer(pace_ms, burst)
    told = [(paced.earliest(f"s{i}", 0), i) for i in range(streams)]
    assert [t for t, _ in told] == [max(0, i - burst + 1) * pace_ms for i in range(streams)]
    assert [paced.take(f"s{i}", at) for at, i in told] == [at for at, _ in told]


def test_who_only_wants_to_know_takes_nobodys_place() -> None:
    paced = pacer(burst=1)
    paced.take("a", 0)
    assert paced.earliest("b", 0, keep=False) == 1_000
    assert paced.earliest("c", 0) == 1_000
    assert paced.earliest("b", 0, keep=False) == 2_000
    assert paced.earliest("c", 500, keep=False) == 1_000, "a place that is kept already is told"
    assert paced.take("c", 1_000) == 1_000
