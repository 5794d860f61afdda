"""The worlds can fail: each planted defect is caught, within the number of seeds that MUTANTS.md has."""

from __future__ import annotations

import pytest

from tests.world.caught import FOCUS, TABLE, measure, render, rows, what
from tests.world.mutants import MUTANTS

ROWS = rows()

MARGIN = 25
"""Further seeds, beside twice those of the table: a change of the plans moves the seeds that catch a defect."""

LEAST = 40


OF_A_DEFECT_GONE_STALE = ("AttributeError", "ImportError", "NameError", "TypeError")


def assert_caught(name: str) -> None:
    """By a rule, or by an error of the gateway; not because the defect itself does not fit the code any more."""
    caught = measure(name, 2 * ROWS[name].seeds + MARGIN)
    assert caught is not None
    assert caught[0] not in OF_A_DEFECT_GONE_STALE, f"{name} does not fit the code any more: {caught}"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_worlds_catch_it(name: str) -> None:
    assert_caught(name)


@pytest.mark.parametrize(
    "name", ["missing_charge", "over_limiting", "accepted_before_durable", "snapshot_without_charges"]
)
def test_the_worlds_catch_some_at_once(name: str) -> None:
    assert_caught(name)


def test_the_table_is_of_these_mutants() -> None:
    assert list(ROWS) == list(MUTANTS)
    assert len(MUTANTS) >= LEAST
    assert [r.what for r in ROWS.values()] == [what(name) for name in MUTANTS]
    assert [r.faults for r in ROWS.values()] == [", ".join(sorted(FOCUS.get(name, ()))) or "any" for name in MUTANTS]
    assert TABLE.read_text(encoding="utf-8") == render(list(ROWS.values()))
