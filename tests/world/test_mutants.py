"""The worlds can fail: each planted defect is caught, within a number of seeds that is written here."""

from __future__ import annotations

import msgspec
import pytest

from tests.world.dice import Bag
from tests.world.mutants import MUTANTS
from tests.world.plan import Plan, commands_of, plan
from tests.world.runs import run

CAUGHT_WITHIN: dict[str, int] = {
    "missing_charge": 1,
    "no_carry": 2,
    "window_by_log_order": 2,
    "share_off_by_one": 2,
    "share_from_request": 3,
    "quota_off_by_one": 1,
    "no_reserve": 1,
    "over_limiting": 1,
    "no_fence_in_log": 1,
    "no_versions": 3,
    "agenda_not_written": 1,
    "stale_left_open": 1,
    "stale_given_back": 16,
    "sent_late": 2,
    "creation_times_exact": 1,
    "cursor_before_message": 4,
    "no_dedupe": 1,
    "dedupe_by_id_only": 2,
    "dedupe_by_text": 2,
    "newest_expires": 1,
    "lost_remainder": 1,
    "answers_newest_first": 1,
    "wakes_never": 1,
    "forgets_waiting": 4,
    "acts_before_durable": 1,
}
"""Seeds it took when this was written, from seed 1 on."""

MARGIN = 25
"""Further seeds that a mutant gets: a change of the plans moves the seeds that catch it."""

FOCUSED: dict[str, tuple[frozenset[str], int]] = {
    "refused_is_lost": (frozenset({"refuse", "caches"}), 60),
    "no_fence_at_outlet": (frozenset({"second", "slow_net"}), 60),
    "creation_times_passed_over": (frozenset({"slow_net"}), 30),
    "ahead_is_behind": (frozenset({"clocks", "slow_net"}), 30),
    "group_not_isolated": (frozenset({"slow_log", "duplicates"}), 60),
}
"""Defects that only certain faults bring out: the faults, and the most seeds it may take with them."""


def focused(seed: int, faults: frozenset[str]) -> Plan:
    """The plan of a seed under chosen faults."""
    return msgspec.structs.replace(plan(seed), faults=faults, commands=commands_of(Bag(seed)["commands"], faults, 60))


@pytest.mark.parametrize("name", CAUGHT_WITHIN)
def test_the_worlds_catch_it(name: str) -> None:
    with MUTANTS[name]():
        caught = any(run(plan(seed)).error is not None for seed in range(1, CAUGHT_WITHIN[name] + MARGIN))
    assert caught


@pytest.mark.slow
@pytest.mark.parametrize("name", FOCUSED)
def test_worlds_of_chosen_faults_catch_it(name: str) -> None:
    faults, most = FOCUSED[name]
    with MUTANTS[name]():
        caught = any(run(focused(seed, faults)).error is not None for seed in range(1, most + 1))
    assert caught


def test_every_mutant_is_listed() -> None:
    assert MUTANTS.keys() == CAUGHT_WITHIN.keys() | FOCUSED.keys()
