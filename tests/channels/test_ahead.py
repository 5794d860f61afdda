"""What dates of answers tell of the channel's clock: to the millisecond, and against a true difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.channels.ahead import BUCKET_MS, DATE_STEP_MS, SLACK_MS, Ahead, dated_ms

NOW = BUCKET_MS * 1_000_000  # a half hour begins
YEAR_MS = 365 * 86_400_000


def heard(*answers: tuple[int, int, int]) -> Ahead:
    """Answers as (date, asked, read), each from NOW on."""
    ahead = Ahead()
    for dated, asked, read in answers:
        ahead.heard(NOW + dated, NOW + asked, NOW + read)
    return ahead


def test_nothing_is_known_without_an_answer() -> None:
    assert Ahead().most_ms(NOW) is None


@pytest.mark.parametrize(
    ("answers", "most"),
    [
        ([(0, 0, 0)], 1_000),
        ([(0, 0, 35_000)], 1_000),
        ([(35_000, 0, 35_000)], 36_000),
        ([(35_000, 0, 35_000), (35_000, 35_100, 35_200)], 900),
        ([(35_000, 35_100, 35_200), (70_000, 35_300, 70_300)], 900),
        ([(0, 999, 999)], 1),
        ([(0, 999, 1_000), (1_000, 1_000, 1_001)], 1),
        ([(-YEAR_MS, 0, 10)], 1_000 - YEAR_MS),
        ([(YEAR_MS, 0, 10)], 1_000 + YEAR_MS),
    ],
)
def test_the_best_answer_counts(answers: list[tuple[int, int, int]], most: int) -> None:
    assert heard(*answers).most_ms(NOW + 80_000) == most


@pytest.mark.parametrize(
    ("dated", "read", "at"),
    [
        (0, 300, 300),
        (0, 2_000, 2_000),
        (
            0,
            2_001,
            2_000,
        ),  # the clocks differ by less than a second, it travels 5 s at most, and a machine may be 2 s ahead
        (0, 180_000, 2_000),
        (180_000, 180_000, 180_000),
        (-10_000, 180_000, 0),  # no earlier than it was asked for
        (None, 180_000, 0),
    ],
)
def test_an_answer_that_lay_about_was_there_by_its_date(dated: int | None, read: int, at: int) -> None:
    """A process that was stopped for three minutes reads what came at the first second of them."""
    date = None if dated is None else NOW + dated
    assert heard((0, 0, 0)).read_at(date, NOW, NOW + read, 5_000) == NOW + at


def test_where_nothing_tells_an_answer_proves_nothing_after_its_question() -> None:
    assert Ahead().read_at(NOW, NOW - 40_000, NOW, 5_000) == NOW - 40_000
    contradicted = heard((0, 0, 0), (YEAR_MS, 0, 0))
    assert contradicted.read_at(NOW + YEAR_MS, NOW, NOW + 180_000, 5_000) == NOW


@given(
    offset=st.integers(-YEAR_MS, YEAR_MS),
    apart=st.lists(st.integers(0, SLACK_MS), min_size=1, max_size=4),
    calls=st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(0, 43_000), st.floats(0, 1), st.integers(0, 3)), min_size=1
    ),
    stopped=st.integers(0, 3_600_000),
)
def test_no_answer_is_said_to_have_come_later_than_it_can_have(
    offset: int, apart: list[int], calls: list[tuple[int, int, float, int]], stopped: int
) -> None:
    """The channel is several machines whose clocks are apart by up to SLACK_MS, and any of them answers. Our process is stopped while
    the last answer is on its way."""
    ahead, now, travels = Ahead(), NOW, 5_000
    for left, (pause, took, when, machine) in reversed(list(enumerate(calls))):
        asked = now + pause
        answered = asked + round(took * when)
        now = answered + min(took, travels) + (0 if left else stopped)
        dated = (answered + offset + apart[machine % len(apart)]) // 1_000 * 1_000
        ahead.heard(dated, asked, now)
        assert ahead.read_at(dated, asked, now, travels) - travels <= answered


@pytest.mark.parametrize(("late", "most"), [(2 * BUCKET_MS - 1, 1_000), (2 * BUCKET_MS, None)])
def test_an_answer_counts_for_its_half_hour_and_the_next(late: int, most: int | None) -> None:
    assert heard((0, 0, 0)).most_ms(NOW + late) == most


def test_what_is_known_goes_from_one_half_hour_to_the_next() -> None:
    ahead = heard((0, 0, 0), (BUCKET_MS, BUCKET_MS - 500, BUCKET_MS))
    assert ahead.most_ms(NOW + BUCKET_MS) == 1_000
    assert ahead.most_ms(NOW + 2 * BUCKET_MS) == 1_500


@pytest.mark.parametrize(
    ("dated", "known"),
    [
        (-DATE_STEP_MS - SLACK_MS, True),
        (-DATE_STEP_MS - SLACK_MS - 1, False),
        (DATE_STEP_MS + SLACK_MS, True),
        (DATE_STEP_MS + SLACK_MS + 1, False),
        (-YEAR_MS, False),
        (YEAR_MS, False),
    ],
)
def test_answers_that_contradict_each_other_prove_that_a_clock_was_set(dated: int, known: bool) -> None:
    """Which one is wrong nobody can say."""
    ahead = heard((0, 0, 0), (dated, 0, 0))
    assert (ahead.most_ms(NOW) is not None) == known


def test_after_a_contradiction_the_next_answer_counts_alone() -> None:
    assert heard((0, 0, 0), (-YEAR_MS, 0, 0), (5_000, 10, 20)).most_ms(NOW) == 5_990


def test_a_contradiction_with_the_half_hour_before_counts_as_well() -> None:
    assert heard((0, 0, 0), (0, BUCKET_MS, BUCKET_MS)).most_ms(NOW + BUCKET_MS) is None


@given(
    offset=st.integers(-100 * YEAR_MS, 100 * YEAR_MS),
    calls=st.lists(
        st.tuples(st.integers(0, BUCKET_MS), st.integers(0, 43_000), st.floats(0, 1)), min_size=1, max_size=30
    ),
)
def test_the_true_difference_is_below_the_bound_and_the_bound_is_as_good_as_the_best_call(
    offset: int, calls: list[tuple[int, int, float]]
) -> None:
    """Each call: how long after the last it was asked, how long it took, and where in that time its answer was dated."""
    ahead, now, takes = Ahead(), NOW, []
    for pause, took, when in calls:
        asked, now = now + pause, now + pause + took
        at_server = asked + round(took * when) + offset
        ahead.heard(at_server // 1_000 * 1_000, asked, now)
        takes.append((now, round(took * when) + DATE_STEP_MS))
        most = ahead.most_ms(now)
        assert most is not None, "the same clocks never contradict each other"
        assert offset < most <= offset + min(t for at, t in takes if at // BUCKET_MS >= now // BUCKET_MS - 1)


@given(
    step=st.integers(SLACK_MS + 2 * DATE_STEP_MS, YEAR_MS),
    forward=st.booleans(),
    took=st.integers(0, 43_000),
    later=st.integers(0, BUCKET_MS),
)
def test_a_clock_that_was_set_is_found_out(step: int, forward: bool, took: int, later: int) -> None:
    """By an answer that came at once. What makes a bound untrue is a step forward, and the answer to a poll, which comes at once when
    it brings a message, proves that however long the poll was held."""
    ahead, asked = heard((0, 0, 0)), NOW + later
    read = asked + (took if forward else 0)
    ahead.heard((read + (step if forward else -step)) // 1_000 * 1_000, asked, read)
    assert ahead.most_ms(read) is None


@pytest.mark.parametrize(
    ("header", "ms"),
    [
        ("Mon, 21 Sep 2026 14:13:20 GMT", 1_790_000_000_000),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Mon, 21 Sep 2026 14:13:20 -0000", None),
        ("Mon, 21 Sep 2026 14:13:20 +0800", None),
        ("Mon, 32 Sep 2026 14:13:20 GMT", None),
        ("1790000000", None),
        ("soon", None),
        ("", None),
    ],
)
def test_dates(header: str, ms: int | None) -> None:
    assert dated_ms(header) == ms


@given(st.text())
def test_no_header_makes_it_fail(header: str) -> None:
    dated_ms(header)
    dated_ms(f"Mon, {header} 2026 14:13:20 GMT")
