"""Seeded worlds in the budget of a test run; `python -m tests.world --seeds A-B` runs any number."""

from __future__ import annotations

from collections import Counter
from functools import cache

import msgspec
import pytest

from tests.world import doing
from tests.world.checks import Violation
from tests.world.ending import TURNS_LEAST
from tests.world.happenings import TABLE, all_kinds, named, render
from tests.world.mutants import MUTANTS
from tests.world.oracle import LEAST
from tests.world.plan import ALWAYS, FAULTS, OF_FAULT, START_MS, Command, plan
from tests.world.runs import Ran, report_of, run, run_seed, shrink
from tests.world.world import World

SEEDS = 60
"""Worlds of a fast run, one in twenty of them on SQLite."""

TWICE = 20
"""Worlds that run twice."""

SLOW_SEEDS = 5_000
CHUNK = 250

TURNS_USUAL = 270
"""What half of the worlds have at most: longer ones are fewer in the same time."""


def held(first: int, last: int, *, twice: bool = False) -> Together:
    """Run worlds, which must hold."""
    together = Together()
    for seed in range(first, last + 1):
        ran = run_seed(seed, sqlite=seed % 20 == 0, twice=twice)
        assert ran.error is None, report_of(ran)
        together.add(ran)
    return together


class Together:
    """What became of some worlds."""

    def __init__(self) -> None:
        self.delivered = self.deliverable = 0.0
        self.turns: list[int] = []
        self.happened: Counter[str] = Counter()

    def add(self, ran: Ran) -> None:
        self.delivered += ran.delivered
        self.deliverable += ran.deliverable
        self.turns.append(ran.turns)
        self.happened += ran.happened


@pytest.mark.parametrize("first", range(1, SEEDS, 20))
def test_worlds_hold(first: int) -> None:
    held(first, first + 19)


def test_worlds_are_the_same_every_time() -> None:
    held(1, TWICE, twice=True)


@cache
def chunk(first: int) -> Together:
    return held(first, first + CHUNK - 1)


CHUNKS = range(SEEDS + 1, SLOW_SEEDS, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first", CHUNKS)
def test_thousands_of_worlds_hold(first: int) -> None:
    """And of what one who knows everything would have delivered in them, the gateways delivered 95 %."""
    together = chunk(first)
    assert together.delivered >= LEAST * together.deliverable
    assert min(together.turns) >= TURNS_LEAST


@pytest.mark.slow
def test_every_fault_and_every_event_happens_in_them() -> None:
    happened = Counter[str]()
    for first in CHUNKS:
        happened += chunk(first).happened
    assert not [kind for kind in all_kinds() if happened[kind] == 0]


def test_the_table_of_faults_is_of_these_kinds() -> None:
    assert named(TABLE.read_text(encoding="utf-8")) == named(render(Counter(), 0))


def test_the_oracle_sees_what_is_held_back() -> None:
    """A gateway that gives up what was not sent delivers too little, even if nobody looks at the moment."""
    delivered = deliverable = 0.0
    with MUTANTS["never_tried_again"](), pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.world.liveness.Liveness.before_jump", lambda _self, _gap: None)
        for seed in range(2, 100):
            ran = run(plan(seed))
            delivered += ran.delivered
            deliverable += ran.deliverable
    assert delivered < LEAST * deliverable


def test_the_seeds_of_a_run_enable_every_fault() -> None:
    enabled = frozenset[str]().union(*(plan(seed).faults for seed in range(1, SEEDS)))
    assert enabled == frozenset(FAULTS)


def test_worlds_are_worlds() -> None:
    """They send, refuse, lose, crash, forget: enough of each happens for the checks to mean something."""
    happened: Counter[str] = Counter()
    turns = []
    for seed in range(1, 601):
        world = World(plan(seed))
        world.run()
        turns.append(world.scheduler.turns)
        happened.update(row.type for row in world.disk.committed)
        happened.update(command.what for command in world.plan.commands)
        happened["taken"] += sum(len(s.taken) for s in world.servers.values())
        happened["starts"] += len(world.gateways)
        happened["snapshots"] += world.disk.snapshots
    assert min(turns) >= TURNS_LEAST
    assert sorted(turns)[len(turns) // 2] <= TURNS_USUAL
    few = {what: happened[what] for what, least in ENOUGH.items() if happened[what] < least}
    assert not few, happened
    commands = {what for what, _ in (*ALWAYS, *(pair for pairs in OF_FAULT.values() for pair in pairs))}
    assert not {what for what in commands if happened[what] == 0}


ENOUGH = {
    "send_succeeded": 1_200,
    "send_failed": 80,
    "send_unknown": 50,
    "unknown_resolved": 15,
    "duplicate_suppressed": 50,
    "context_token_dropped": 20,
    "login_lost": 20,
    "output_dropped": 100,
    "body_erased": 10,
    "access_refused": 50,
    "access_granted": 7,
    "clock_stepped": 15,
    "taken": 1_200,
    "starts": 250,
    "snapshots": 50,
}
"""What 600 worlds have at least."""


def test_a_failure_is_shrunk_to_what_it_takes() -> None:
    noise = tuple(Command(at, "message", at, at, at) for at in range(1_000, 200_000, 20_000))
    boom = Command(300_000, "boom")

    def failing(_self: object, _command: object) -> None:
        raise Violation("G0", "boom")

    setattr(doing.Doing, "_boom", failing)  # noqa: B010
    try:
        whole = msgspec.structs.replace(plan(3), commands=(*noise, boom))
        small = shrink(run(whole))
        told = report_of(small, shrink=False)
    finally:
        delattr(doing.Doing, "_boom")
    assert small.plan.commands == (boom,)
    assert small.plan.faults == frozenset()
    assert f"{START_MS + boom.at} DO boom 0 0 0\n" in told
    assert "bot-weixin:main" in told, "the turns before it are told"
