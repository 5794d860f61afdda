"""Running seeds, shrinking what fails, and telling of it."""

from __future__ import annotations

import gc
import logging
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.world.checks import Violation
from tests.world.plan import Plan, plan
from tests.world.world import World

LAST_TURNS = 30
SHRINK_RUNS = 120
SHRINK_TURNS = 1_000_000
"""How much is run to make a failure smaller."""


@dataclass
class Ran:
    """What became of a world."""

    plan: Plan
    sqlite: bool
    digest: str = ""
    turns: int = 0
    error: BaseException | None = None
    trace: tuple[str, ...] = ()
    delivered: float = 0  # outputs
    deliverable: float = 0  # as the oracle had it
    happened: Counter[str] = field(default_factory=Counter)  # by `happenings.KINDS`

    @property
    def kind(self) -> str:
        """By which two failures are the same."""
        if isinstance(self.error, Violation):
            return self.error.rule
        return type(self.error).__name__


def run(plan_: Plan, *, sqlite: bool = False, told: bool = False) -> Ran:
    """Run a world of a plan; `told`: with a trace of its last turns, should it fail."""
    with _quiet():
        ran = _run(plan_, sqlite=sqlite, told=told)
        gc.collect(0)  # all of the world goes now, before it is looked through as something that stays
    return ran


def _run(plan_: Plan, *, sqlite: bool, told: bool) -> Ran:
    world = World(plan_, sqlite=sqlite, told=told)
    ran = Ran(plan_, sqlite)
    try:
        ran.digest = world.run()
    except Exception as error:
        ran.error = error
        trace: deque[str] = world.scheduler.trace
        ran.trace = tuple(trace)[-LAST_TURNS:]
    ran.turns = world.scheduler.turns
    ran.delivered, ran.deliverable = world.checks.oracle.reckoning()
    ran.happened = world.happened + Counter(f"event {row.type}" for row in world.disk.committed)
    ran.happened["turns"] = ran.turns
    return ran


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of troubles that were drawn, and no collecting of rubbish, which goes with its world."""
    collecting, logger = gc.isenabled(), logging.getLogger("replyledger")
    level = logger.level
    gc.disable()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if collecting:
            gc.enable()


def run_seed(seed: int, *, sqlite: bool = False, twice: bool = False) -> Ran:
    """Run the world of a seed; twice: its digests must be equal."""
    ran = run(plan(seed), sqlite=sqlite)
    if twice and ran.error is None:
        again = run(plan(seed), sqlite=sqlite)
        if again.digest != ran.digest:
            ran.error = again.error or Violation("G4", f"seed {seed} ran differently the second time")
    return ran


def shrink(ran: Ran) -> Ran:
    """A smaller plan that fails in the same way: without faults, then without commands."""
    best, left, turns = ran, SHRINK_RUNS, SHRINK_TURNS

    def attempt(**changes: Any) -> bool:
        nonlocal best, left, turns
        if left <= 0 or turns <= 0:
            return False
        left -= 1
        tried = run(msgspec.structs.replace(best.plan, **changes), sqlite=best.sqlite)
        turns -= tried.turns
        if tried.error is not None and tried.kind == ran.kind:
            best = tried
            return True
        return False

    for fault in sorted(best.plan.faults):
        attempt(faults=best.plan.faults - {fault})
    size = max(1, len(best.plan.commands) // 2)
    while True:
        start = 0
        while start < len(best.plan.commands):
            commands = best.plan.commands
            if not attempt(commands=commands[:start] + commands[start + size :]):
                start += size
        if size == 1 or left <= 0:
            break
        size //= 2
    if best.plan.accounts > 1:
        attempt(accounts=1)
    if best.plan.peers:
        attempt(peers=0)
    return best


def report_of(ran: Ran, *, shrink: bool = True) -> str:
    """Seed, shrunk plan and last turns of a failure."""
    small = globals()["shrink"](ran) if shrink else ran
    small = run(small.plan, sqlite=small.sqlite, told=True)
    stack = "".join(traceback.format_exception(small.error)[-6:])
    lines = [
        f"seed {ran.plan.seed}{' on SQLite' if ran.sqlite else ''}: {small.error!r}",
        f"  faults: {', '.join(sorted(small.plan.faults)) or 'none'}",
        f"  policy: {small.plan.policy}",
        f"  accounts {small.plan.accounts}, peers {small.plan.peers}; {len(small.plan.commands)} commands:",
        *(f"    {c.at:>12} {c.what} {c.a} {c.b} {c.c}" for c in small.plan.commands),
        "  last turns:",
        *(f"    {line}" for line in small.trace),
        stack,
    ]
    return "\n".join(lines)
