"""What happens in worlds: each kind of fault that they are to have, where it is drawn, and how often it happened. Counted where it
takes effect, not where it is planned: a crash of a process that is gone already, or a policy without an open window, does not count.

python -m tests.world --seeds A-B --count        prints the counts of some seeds; with `--write` FAULTS.md is written anew
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from events.codec import CLASSES

TABLE = Path(__file__).with_name("FAULTS.md")


class Kind(NamedTuple):
    """A kind of fault."""

    what: str  # as it is counted
    where: str  # where it is drawn


KINDS: dict[str, tuple[Kind, ...]] = {
    "refusals": (
        Kind("refused with -2", "network.py `_refusal`"),
        Kind("refused with -1", "network.py `_refusal`"),
        Kind("refused with -3", "network.py `_refusal`"),
        Kind("refused with -4", "network.py `_refusal`"),
        Kind("refused with 403", "network.py `_refusal`"),
    ),
    "timeouts before and after delivery": (
        Kind("lost before it arrived", "network.py `_lost`"),
        Kind("arrived, its answer lost", "network.py `_lost`"),
        Kind("answer after the client's time", "network.py `_way`"),
        Kind("connection broken", "network.py `send`"),
        Kind("no connection", "network.py `connect_ms`, `poll`"),
        Kind("slow network", "network.py `_way`, `_poll_ms`, `_way_to_poll_ms`; world.py `say`"),
        Kind("accepted without an id", "network.py `_arrived`"),
    ),
    "duplicate inbound": (
        Kind("message again, same id", "doing.py `_again`, world.py `_heard`"),
        Kind("message again, new id", "doing.py `_again`, world.py `_heard`"),
        Kind("message again, no id", "doing.py `_again`"),
        Kind("message again after 25 h", "doing.py `_again_late`; plan.py lets the time pass"),
        Kind("everything again for an empty cursor", "network.py `_polled`"),
    ),
    "reordering": (Kind("messages of a poll in another order", "network.py `_answer`"),),
    "stale tokens": (
        Kind("message without a token", "world.py `say`"),
        Kind("old token refused", "server.py `send`"),
    ),
    "login loss and re-login": (
        Kind("login lost", "doing.py `_lose_login`"),
        Kind("logged in anew", "doing.py `_log_in`, ending.py `_heal`"),
    ),
    "account-wide penalties": (
        Kind("penalty begun", "doing.py `_penalty`"),
        Kind("refused by penalty", "network.py `_arrived`"),
    ),
    "clock jumps both ways inside a 24 h window": (
        Kind("clock forward in a window", "doing.py `_step_clock`"),
        Kind("clock back in a window", "doing.py `_step_clock`"),
        Kind("clock set back at a start", "world.py `_set_back_ms`"),
        Kind("clock set forward at a start", "world.py `_set_back_ms`"),
    ),
    "slow commits": (Kind("slow commit", "disk.py `_begin`"),),
    "failed commits": (
        Kind("failed commit, nothing of it there", "disk.py `_fail`"),
        Kind("failed commit, all of it there", "disk.py `_fail`"),
        Kind("busy log", "disk.py `_finish`"),
    ),
    "crash at any await": (
        Kind("crash", "doing.py `_crash`: in up to 60 turns, whatever is under way"),
        Kind("crash with a commit under way", "the same"),
        Kind("crash with a send under way", "the same"),
        Kind("unacknowledged append gone", "disk.py `die`"),
        Kind("unacknowledged append there", "disk.py `die`"),
        Kind("stopped in good order", "doing.py `_restart`"),
        Kind("process stopped for a while", "doing.py `_sleep`"),
    ),
    "a second instance, the first paused and resumed": (
        Kind("second instance beside a running one", "doing.py `_second`"),
        Kind("second instance beside a paused one", "doing.py `_second`"),
        Kind("replaced while paused, and resumed", "doing.py `_second`, `_sleep`"),
        Kind("replaced", "gateway.py `_fenced`"),
    ),
    "policy change and observe mode mid-window": (
        Kind("policy changed in a window", "operators.py `_policy`"),
        Kind("observe mode in a window", "operators.py `_observe`"),
        Kind("back to enforce mode in a window", "operators.py `_enforce`, ending.py"),
    ),
    "retry after rebinding": (Kind("turn again after rebinding", "operators.py `_rebind`"),),
    "expiry and erasure of bodies": (
        Kind("bodies expired", "operators.py `_expire`"),
        Kind("bodies erased", "operators.py `_erase`"),
    ),
    "two accounts of which one is fenced": (Kind("one of two accounts replaced", "doing.py `_half`"),),
    "passivation": (Kind("passivated", "doing.py `command`: after 15 % of all commands; `_passivate`"),),
    "caches deleted": (
        Kind(
            "agenda deleted",
            "world.py `kill`: at a quarter of the crashes that leave no process; doing.py `_lose_caches`",
        ),
        Kind("bindings deleted", "the same"),
        Kind("snapshots deleted", "the same (heads are a view of the events: there is no such cache)"),
    ),
    "SQLite": (Kind("world on SQLite", "runs.py: one seed in twenty"),),
    "agents and people besides": (
        Kind("agent failed or repeated itself", "people.py"),
        Kind("agent away", "doing.py `_disconnect`"),
        Kind("paused by an operator", "operators.py `_pause`"),
        Kind("who may talk changed", "operators.py `_access`"),
        Kind("stranger wrote", "doing.py `_stranger`"),
    ),
}
"""By the fault, in plain words."""

EVENTS: tuple[str, ...] = tuple(sorted(CLASSES))
"""Every type of event."""


def all_kinds() -> tuple[str, ...]:
    """What must happen, over the seeds of CI."""
    return (*(k.what for kinds in KINDS.values() for k in kinds), *(f"event {name}" for name in EVENTS))


def render(counts: Counter[str], worlds: int) -> str:
    """The counts as a page."""
    lines = [
        "# What happens in the worlds",
        "",
        "Every kind of fault that worlds are to have, where it is drawn, and how often it happened: counted where it takes effect.",
        "Written by `python -m tests.world --seeds 1-5000 --count --write`; `test_worlds.py` asserts that each happens in CI's seeds.",
        "",
        f"Over {worlds:,} worlds with {counts['turns']:,} turns:",
        "",
        "| fault | happened | where it is drawn | times |",
        "|---|---|---|---|",
    ]
    for words, kinds in KINDS.items():
        lines += [f"| {words} | {k.what} | {k.where} | {counts[k.what]:,} |" for k in kinds]
    lines += ["", "| event | times |", "|---|---|"]
    lines += [f"| {name} | {counts[f'event {name}']:,} |" for name in EVENTS]
    return "\n".join(lines) + "\n"


def named(page: str) -> list[str]:
    """The page's table without its counts."""
    return [line.rpartition(" | ")[0] for line in page.splitlines() if line.startswith("|")]
