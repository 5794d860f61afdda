"""How many worlds a planted defect needs: measured, kept in MUTANTS.md, and held against it by the tests.

python -m tests.world --mutants        measures all of them anew and rewrites MUTANTS.md
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.world.checks import Violation
from tests.world.dice import Bag
from tests.world.mutants import MUTANTS
from tests.world.plan import Plan, commands_of, plan
from tests.world.runs import run

TABLE = Path(__file__).with_name("MUTANTS.md")

MOST = 400
"""Worlds that a defect gets when it is measured."""

FOCUS: dict[str, frozenset[str]] = {
    "no_fence_at_outlet": frozenset({"second", "slow_net"}),
    "no_fence_in_log": frozenset({"second"}),
    "erased_in_name_only": frozenset({"expiry"}),
    "group_not_isolated": frozenset({"slow_log", "duplicates"}),
    "agenda_not_written": frozenset({"crash"}),
    "creation_times_passed_over": frozenset({"slow_net"}),
    "ahead_is_behind": frozenset({"clocks", "slow_net"}),
    "stopped_answers_prove": frozenset({"late", "sleep", "slow_net"}),
    "boot_forgotten": frozenset({"clocks", "crash"}),
    "wakes_never": frozenset({"passivate"}),
    "window_to_its_last_moment": frozenset({"crash"}),
    "pause_ignored": frozenset({"operators"}),
    "left_out_is_lost": frozenset({"refuse", "operators"}),
    "expired_by_clock": frozenset({"expiry"}),
    "forgets_waiting": frozenset({"crash"}),
    "clock_follows_the_wall": frozenset({"clocks"}),
    "refused_is_lost": frozenset({"refuse", "caches"}),
    "retried_elsewhere": frozenset({"rebinding"}),
}
"""Defects that certain faults bring out soonest: they are measured in larger worlds of just those."""

COMMANDS = 40
"""How many commands such a world has."""


class Row(msgspec.Struct, frozen=True):
    """A line of the table."""

    name: str
    what: str
    faults: str  # "any", or the chosen ones
    by: str  # the rule that was broken, or the error
    seeds: int


def what(name: str) -> str:
    """What a defect changes."""
    return " ".join((MUTANTS[name].__doc__ or "").split())


def plan_for(name: str, seed: int) -> Plan:
    """The plan of a seed, under the faults that are chosen for a defect."""
    faults = FOCUS.get(name)
    if faults is None:
        return plan(seed)
    commands = commands_of(Bag(seed)["commands"], faults, COMMANDS)
    return msgspec.structs.replace(plan(seed), faults=faults, commands=commands)


def measure(name: str, most: int = MOST) -> tuple[str, int] | None:
    """(what caught it, after how many worlds), None if none of `most` did."""
    with MUTANTS[name]():
        for seed in range(1, most + 1):
            ran = run(plan_for(name, seed))
            if ran.error is not None:
                return (ran.error.rule if isinstance(ran.error, Violation) else type(ran.error).__name__), seed
    return None


def rows() -> dict[str, Row]:
    """The table as it stands."""
    found: dict[str, Row] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[4].isdigit():
            found[cells[0]] = Row(*cells[:4], int(cells[4]))
    return found


def render(table: list[Row]) -> str:
    """The table as a page."""
    head = (
        "# Planted defects\n\nEach is one small change to the code under test (`mutants.py`, `mutants_of_rules.py`), and is caught by the "
        "worlds. `seeds`: how many\nworlds it took, from seed 1 on; with chosen faults, worlds of just those. `test_mutants.py` runs all "
        "of them with twice as many and\nsome more. Measured by `python -m tests.world --mutants`.\n\n"
        "| mutant | what it changes | faults | caught by | seeds |\n|---|---|---|---|---|\n"
    )
    return head + "".join(f"| {r.name} | {r.what} | {r.faults} | {r.by} | {r.seeds} |\n" for r in table)


def measure_all() -> list[str]:
    """Measure every defect and write the table; the names of those that nothing caught."""
    table, missed = [], []
    for name in MUTANTS:
        caught = measure(name)
        if caught is None:
            missed.append(name)
        else:
            table.append(Row(name, what(name), ", ".join(sorted(FOCUS.get(name, ()))) or "any", *caught))
    TABLE.write_text(render(table), encoding="utf-8")
    return missed
