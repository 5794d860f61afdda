"""Windows, charges and the share: insufficient, sufficient, exactly spent; boundaries to the millisecond."""

from __future__ import annotations

import random
from typing import get_args

import pytest

from events import quota
from events.base import Kind
from events.bot import DAY_MS, HOUR_MS, SHARE_WINDOW_MS_MAX, Policy
from events.quota import Charge, Window

T = 1_750_000_000_000
POLICY = Policy()


def charge(
    name: str,
    settled_at: int | None = T,
    *,
    kind: Kind = "push",
    window: int = 1,
    remainder: bool = False,
    requested_at: int = T - 1000,
) -> Charge:
    return Charge(
        request=name, kind=kind, requested_at=requested_at, settled_at=settled_at, window=window, remainder=remainder
    )


def window(number: int = 1, opened_at: int = T, generation: int = 1) -> Window:
    return Window(number=number, message=f"m{number}", opened_at=opened_at, generation=generation)


@pytest.mark.parametrize(
    ("sent_at", "received_at", "opened_at"),
    [(T - 500, T, T - 500), (T, T, T), (T + 500, T, T), (0, T, T), (-5, T, T)],
    ids=["sent earlier", "at once", "a clock ahead", "no creation time", "nonsense"],
)
def test_a_window_opens_at_the_earlier_of_sent_and_received(sent_at: int, received_at: int, opened_at: int) -> None:
    assert quota.opened(None, "m1", sent_at, received_at, 1) == window(opened_at=opened_at)


@pytest.mark.parametrize(
    ("sent_at", "not_before", "opened_at"),
    [
        (T - 500, T - 501, T - 500),
        (T - 500, T - 499, T - 499),
        (1, T - 5_000, T - 5_000),
        (0, T - 5_000, T),
        (T + 500, T - 5_000, T),
        (T - 500, T + 1, T),
    ],
)
def test_a_creation_time_of_a_clock_far_behind_ends_no_window(sent_at: int, not_before: int, opened_at: int) -> None:
    """Or ours is far ahead, because the log was once written in the future: its time never goes back."""
    assert quota.opened(None, "m1", sent_at, T, 1, not_before) == window(opened_at=opened_at)


def test_windows_are_numbered() -> None:
    assert quota.opened(window(7), "m8", T, T, 2) == window(8, generation=2)


@pytest.mark.parametrize(
    ("now", "generation", "is_open"),
    [
        (T, 1, True),
        (T + DAY_MS - 20_000 - 1, 1, True),
        (T + DAY_MS - 20_000, 1, False),
        (T, 2, False),
        (T, 0, False),
    ],
)
def test_a_window_is_open_for_as_long_as_what_is_asked_for_can_be_there_before_its_end(
    now: int, generation: int, is_open: bool
) -> None:
    assert quota.window_open(window(), generation, POLICY, now) == is_open


def test_without_a_window_nothing_is_open_or_left() -> None:
    assert not quota.window_open(None, 1, POLICY, T)
    assert quota.quota_left((), None, POLICY) == 0


@pytest.mark.parametrize(("spent", "left"), [(0, 10), (9, 1), (10, 0), (11, 0)])
def test_quota_left(spent: int, left: int) -> None:
    charges = tuple(charge(f"r{n}", kind="answer") for n in range(spent))
    other = (charge("old", window=0), charge("new", window=2))
    assert quota.quota_left((*other, *charges), window(), POLICY) == left


@pytest.mark.parametrize(
    ("settled_at", "carried"),
    [(None, True), (T - 1, False), (T, True), (T + 1, True)],
    ids=["still open", "settled before", "settled then", "settled after"],
)
def test_what_a_new_window_carries(settled_at: int | None, carried: bool) -> None:
    (after,) = quota.carry((charge("r", settled_at, window=1),), 2, not_before=T)
    assert after.window == (2 if carried else 1)


def test_what_was_carried_is_counted_in_its_window_alone() -> None:
    before = (charge("old", T - 1, window=1), charge("late", T, window=1), charge("open", None, window=1))
    after = (*quota.carry(before, 2, not_before=T), charge("new", None, window=2))
    assert [quota.carried(after, window) for window in (1, 2, 3)] == [0, 2, 0]
    assert (quota.spent(after, 2), quota.carried(quota.release(after, "open"), 2)) == (3, 1)


def test_an_unknown_that_may_still_arrive_is_carried() -> None:
    (after,) = quota.carry((charge("r", settled_at=T + 20_000),), 2, not_before=T + 19_999)
    assert after.window == 2


def test_settle_and_release_touch_one_request() -> None:
    charges = (charge("a", None), charge("b", None))
    assert quota.settle(charges, "a", T + 5) == (charge("a", T + 5), charge("b", None))
    assert quota.release(charges, "a") == (charge("b", None),)
    assert quota.release(charges, "c") == charges


def test_settling_again_moves_nothing_else() -> None:
    assert quota.settle((charge("a", T),), "b", T + 9) == (charge("a", T),)


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (charge("open", None, window=0), True),
        (charge("this window", T - SHARE_WINDOW_MS_MAX * 2, kind="answer", window=1), True),
        (charge("older answer", T, kind="answer", window=0), False),
        (charge("older notice", T, kind="notice", window=0), False),
        (charge("push in the longest share", T - SHARE_WINDOW_MS_MAX, window=0), True),
        (charge("push before it", T - SHARE_WINDOW_MS_MAX - 1, window=0), False),
    ],
    ids=lambda c: c.request if isinstance(c, Charge) else "",
)
def test_prune_keeps_what_may_still_count(one: Charge, kept: bool) -> None:
    assert quota.prune((one,), 1, T) == ((one,) if kept else ())


def test_between_messages_only_age_ends_a_charge() -> None:
    """A peer's charges over many messages: the shorter way finds the same as the whole one."""
    dice, charges, at = random.Random(11), tuple[Charge, ...](), T
    for number in range(1, 400):
        at += dice.randrange(2 * DAY_MS)
        charges = quota.prune(quota.carry(charges, number, at - 1000), number, at)
        for one in range(dice.randrange(4)):
            at += dice.randrange(DAY_MS)
            kept = quota.prune_within(charges, number, at)
            assert kept == quota.prune(charges, number, at)
            kind = dice.choice(get_args(Kind))
            charges = (*kept, charge(f"{number}-{one}", None, kind=kind, window=number, requested_at=at))
            at += dice.randrange(60_000)
            charges = quota.settle(charges, f"{number}-{one}", at + dice.choice((0, 15_000)))


@pytest.mark.parametrize(
    ("now", "used"), [(T, 1), (T + DAY_MS - 1, 1), (T + DAY_MS, 0)], ids=["at once", "a millisecond before", "a day"]
)
def test_a_push_is_charged_until_a_day_after_its_outcome(now: int, used: int) -> None:
    assert quota.share_used((charge("r"),), POLICY, now) == used


def test_only_pushes_use_the_share_and_open_ones_do_as_long_as_they_are() -> None:
    charges = (charge("a", kind="answer"), charge("n", kind="notice"), charge("p", None))
    assert quota.share_used(charges, POLICY, T + 100 * DAY_MS) == 1


SHARES: list[tuple[str, tuple[Charge, ...], int, int | None]] = [
    ("nothing spent", (), 3, T),
    ("one left", (charge("a"), charge("b")), 3, T),
    ("exactly spent: the first rolls", tuple(charge(str(n), T - n * HOUR_MS) for n in range(3)), 3, T + 22 * HOUR_MS),
    ("one too many: the second rolls", tuple(charge(str(n), T - n * HOUR_MS) for n in range(4)), 3, T + 22 * HOUR_MS),
    ("lowered to one: the last rolls", tuple(charge(str(n), T - n * HOUR_MS) for n in range(3)), 1, T + DAY_MS),
    ("one open, two settled", (charge("o", None), charge("a", T - HOUR_MS), charge("b")), 3, T + 23 * HOUR_MS),
    ("only an outcome can tell", (charge("o", None),), 1, None),
    ("two must go and one is open", (charge("o", None), charge("a")), 1, None),
    ("no share at all", (), 0, None),
    ("no share at all, and one spent", (charge("a"),), 0, None),
]


@pytest.mark.parametrize(("charges", "share", "free_at"), [row[1:] for row in SHARES], ids=[row[0] for row in SHARES])
def test_when_the_share_is_free(charges: tuple[Charge, ...], share: int, free_at: int | None) -> None:
    policy = Policy(share_replies=share)
    assert quota.share_free_at(charges, policy, T) == free_at
    if free_at is not None and free_at > T:
        assert quota.share_free_at(charges, policy, free_at - 1) == free_at
        assert quota.share_free_at(charges, policy, free_at) == free_at
        assert quota.share_used(charges, policy, free_at) == share - 1


def test_where_nothing_was_spent_there_is_nothing_to_settle() -> None:
    assert quota.settle((), "r1", T) == ()


@pytest.mark.parametrize(("carried", "fresh"), [(0, 3), (2, 1), (3, 0), (5, 0)])
def test_a_window_opens_with_its_quota_less_what_was_carried(carried: int, fresh: int) -> None:
    """A policy lowered meanwhile leaves no debt."""
    charges = quota.carry(tuple(charge(f"r{n}") for n in range(carried)), 2, T)
    assert quota.fresh((*charges, charge("own", window=2)), 2, Policy(quota_replies=3)) == fresh


RUNS_OUT: list[tuple[str, tuple[Charge, ...], Window | None, int | None]] = [
    ("nothing at all", (), None, 0),
    ("a window alone", (), window(opened_at=T - 5), T - 5 + DAY_MS),
    ("a charge after the window opened", (charge("a", T + 7),), window(), T + 7 + 2 * DAY_MS),
    ("the latest of several", (charge("a", T + 7), charge("b", T + 3, kind="notice")), None, T + 7 + 2 * DAY_MS),
    ("an open request", (charge("a", T + 7), charge("b", None)), window(), None),
    ("a window that ends last", (charge("a", T - 3 * DAY_MS),), window(), T + DAY_MS),
]


@pytest.mark.parametrize(("charges", "last", "ends"), [row[1:] for row in RUNS_OUT], ids=[row[0] for row in RUNS_OUT])
def test_when_nothing_counts_any_more(charges: tuple[Charge, ...], last: Window | None, ends: int | None) -> None:
    assert quota.runs_out_at(charges, last, Policy(share_window_ms=2 * DAY_MS)) == ends
