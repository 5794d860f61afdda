"""Seeded worlds in the budget of a test run; `python -m tests.world --seeds A-B` runs any number."""

from __future__ import annotations

import msgspec
import pytest

from tests.world.checks import Violation
from tests.world.plan import FAULTS, START_MS, Command, plan
from tests.world.runs import report_of, run, run_seed, shrink
from tests.world.world import World

SEEDS = 60
"""Worlds of a test run, one in twenty of them on SQLite, the first ones twice."""

TWICE = 6
CHUNK = 10


@pytest.mark.parametrize("first", range(1, SEEDS, CHUNK))
def test_worlds_hold(first: int) -> None:
    for seed in range(first, first + CHUNK):
        ran = run_seed(seed, sqlite=seed % 20 == 0, twice=seed <= TWICE)
        assert ran.error is None, report_of(ran)


def test_the_seeds_of_a_run_enable_every_fault() -> None:
    enabled = frozenset[str]().union(*(plan(seed).faults for seed in range(1, SEEDS)))
    assert enabled == frozenset(FAULTS)


def test_worlds_are_worlds() -> None:
    """They send, refuse, lose, crash: enough of each happens for the checks to mean something."""
    happened: dict[str, int] = {}
    for seed in range(1, 25):
        world = World(plan(seed))
        world.run()
        for row in world.disk.committed:
            happened[row.type] = happened.get(row.type, 0) + 1
        happened["taken"] = happened.get("taken", 0) + sum(len(s.taken) for s in world.servers.values())
        happened["starts"] = happened.get("starts", 0) + len(world.gateways)
    for what, least in (
        ("send_succeeded", 500),
        ("send_failed", 50),
        ("send_unknown", 20),
        ("taken", 500),
        ("starts", 50),
    ):
        assert happened[what] >= least, happened


def test_a_failure_is_shrunk_to_what_it_takes() -> None:
    noise = tuple(Command(at, "message", at, at, at) for at in range(1_000, 200_000, 20_000))
    boom = Command(300_000, "boom")

    def failing(_self: object, _command: object) -> None:
        raise Violation("G0", "boom")

    from tests.world import doing

    setattr(doing.Doing, "_boom", failing)  # noqa: B010
    try:
        whole = msgspec.structs.replace(plan(3), commands=(*noise, boom))
        small = shrink(run(whole))
    finally:
        delattr(doing.Doing, "_boom")
    assert small.plan.commands == (boom,)
    assert small.plan.faults == frozenset()
    assert small.trace[-1] == f"{START_MS + boom.at} DO boom 0 0 0"
