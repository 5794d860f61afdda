"""What a seed draws before its world begins: the faults it enables, its numbers, and its commands. Plain data, so that it can be
shrunk: a world is a function of its plan."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from events.bot import DAY_MS, HOUR_MS, MINUTE_MS, Policy
from tests.world.dice import Bag, Dice

SECOND_MS = 1_000
START_MS = 1_750_000_000_000
LATE_MS = 25 * HOUR_MS
"""How long after the last command a message comes once more late: later than any window."""

FAULTS = (
    "refuse",  # the channel refuses sends: -2, -1, -3, -4, HTTP 4xx
    "penalty",  # it refuses everything for a while, account-wide
    "unconnected",  # a send provably never leaves
    "lost_before",  # its bytes never arrive, and nobody says so
    "lost_after",  # it arrives, and its answer does not
    "slow_net",  # seconds instead of milliseconds, both ways
    "late",  # an answer comes after the client's time is up
    "no_id",  # accepted without a message id
    "duplicates",  # messages again: same id, new id, a day later
    "replays",  # an empty cursor brings everything again
    "reorder",  # the messages of a poll in another order
    "tokens",  # tokens are missing, or old ones are refused
    "login",  # the login is lost; somebody logs in again
    "clocks",  # the wall clock steps, both ways; backwards over restarts
    "slow_log",
    "busy_log",
    "failed_log",  # a COMMIT fails: it happened, or it did not
    "crash",
    "sleep",  # the process stops for a while, and goes on
    "second",  # another instance takes over, the first one paused or not
    "half",  # another instance takes one of two accounts over
    "policy",  # numbers change mid-window
    "observe",  # the mode changes mid-window
    "passivate",  # more often than after some commands, as in every world
    "caches",  # agenda, bindings and snapshots are deleted and rebuilt, at more crashes than in every world
    "expiry",  # bodies expire
    "erasure",  # somebody wants them erased
    "access",  # who may talk changes; strangers wait for a yes
    "rebinding",  # a turn of a session is offered again after other peers were bound to it
    "agents",  # die, disconnect, answer twice or never
    "operators",  # drop, retry, discard, flush, pause, cancel
    "words",  # /more, /reset, /cancel
    "strangers",  # people who may not talk to the bot
)


class Command(msgspec.Struct, frozen=True):
    """Something that happens to the world: what, when (ms after the start), and its drawn numbers."""

    at: int
    what: str
    a: int = 0
    b: int = 0
    c: int = 0


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large a world is. Most are small: a defect that needs much to happen needs it seldom, and in small worlds of the right
    faults it shows after a hundredth of the time."""

    commands: tuple[int, int]
    peers: tuple[int, ...]  # to draw from, for each account beside its owner
    two_accounts: float  # how likely there are two
    parts: tuple[int, ...]  # to draw from: how many parts a text has, about
    heat: float  # how much more often than usual the enabled faults strike
    turns: tuple[int, ...]  # to draw from: about how many its commands bring about


MANY = 1 << 30
"""Turns of which there are always enough left."""

SMALL = Size(
    commands=(2, 6),
    peers=(0, 0, 1),
    two_accounts=0.15,
    parts=(0, 0, 0, 0, 1, 1, 2, 5),
    heat=2.5,
    turns=(50, 70, 90, 150),
)
BIG = Size(commands=(25, 70), peers=(0, 1, 2), two_accounts=0.25, parts=(0, 0, 1, 1, 2, 5, 14), heat=1, turns=(MANY,))

OF_SEVERAL = frozenset({"erasure", "rebinding"})
"""Faults that come to something only where the owner is not alone: the login's address stays, and a turn moves from peer to peer."""

BIG_ONES = 100
"""One world in so many is big."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole world."""

    seed: int
    faults: frozenset[str]
    commands: tuple[Command, ...]
    policy: Policy
    size: Size = BIG
    accounts: int = 1
    peers: int = 2  # for each account, beside its owner
    long_events: int = 5_000  # streams longer than this get a snapshot


def plan(seed: int) -> Plan:
    """The plan of a seed."""
    bag = Bag(seed)
    dice = bag["plan"]
    size = BIG if seed % BIG_ONES == 1 else SMALL
    faults = _draw_faults(dice)
    commands = commands_of(bag["commands"], faults, dice.between(*size.commands), dice.pick(size.turns))
    return Plan(
        seed=seed,
        faults=faults,
        commands=commands,
        policy=_policy(bag["policy"]),
        size=size,
        accounts=2 if dice.chance(size.two_accounts) or any(c.what == "half" for c in commands) else 1,
        peers=max(dice.pick(size.peers), 1 if faults & OF_SEVERAL else 0),
        long_events=dice.between(3, 15),
    )


def _draw_faults(dice: Dice) -> frozenset[str]:
    """A random subset: often few, sometimes most."""
    share = dice.pick((0.03, 0.1, 0.2, 0.35, 0.5, 0.8))
    return frozenset(f for f in FAULTS if dice.chance(share))


def _policy(dice: Dice) -> Policy:
    """Small numbers reach their bounds soon; one world in four has the default ones."""
    if dice.chance(0.25):
        return Policy()
    return Policy(
        quota_replies=dice.between(2, 6),
        share_replies=dice.between(1, 3),
        backlog_outputs=dice.between(2, 5),
        part_bytes=dice.pick((64, 128, 400)),
        answer_parts=dice.between(2, 10),
        pace_ms=dice.pick((100, 1_000)),
        pace_burst=dice.pick((1, 5)),
    )


def changed(policy: Policy, a: int, mode: str = "") -> Policy:
    """The policy that a command changes it to."""
    dice = Dice(f"policy {a}")
    to = msgspec.structs.replace
    if mode:
        return to(policy, mode=mode)
    return to(
        policy,
        quota_replies=dice.between(1, 8),
        share_replies=dice.between(0, 4),
        part_bytes=dice.pick((64, 200, 4_000)),
        backlog_outputs=dice.between(1, 6),
    )


ALWAYS: tuple[tuple[str, int], ...] = (("message", 4), ("turn", 6), ("burst", 1), ("bind", 1))

MESSAGE_FIRST = 0.8
"""So often the first that happens is that somebody writes: what follows meets an open window, and an agent at work."""

TURNS_OF = {
    "burst": 240,
    "sleep": 150,
    "cancel": 100,
    "restart": 100,
    "second": 100,
    "half": 80,
    "message": 70,
    "rebind": 70,
    "lose_caches": 60,
    "crash": 50,
    "disconnect": 40,
}
"""How many turns a command brings about, measured as a regression over a thousand worlds; the others are about 20."""

OF_FAULT: dict[str, tuple[tuple[str, int], ...]] = {
    "penalty": (("penalty", 2),),
    "duplicates": (("again", 4), ("again_late", 2)),
    "replays": (("again", 1), ("log_in", 2)),
    "login": (("lose_login", 2), ("log_in", 3)),
    "clocks": (("step_clock", 5), ("restart", 1)),
    "crash": (("crash", 6),),
    "failed_log": (("crash", 1),),
    "sleep": (("sleep", 5),),
    "second": (("second", 3),),
    "half": (("half", 4),),
    "policy": (("policy", 3),),
    "observe": (("observe", 1), ("enforce", 2)),
    "passivate": (("passivate", 4),),
    "caches": (("lose_caches", 3),),
    "expiry": (("expire", 3),),
    "erasure": (("erase", 3),),
    "access": (("access", 3), ("grant", 2), ("stranger", 2)),
    "rebinding": (("rebind", 3),),
    "agents": (("disconnect", 3),),
    "operators": (("operate", 5), ("pause", 1), ("resume", 2), ("cancel", 3)),
    "words": (("word", 3),),
    "strangers": (("stranger", 5),),
}


def commands_of(dice: Dice, faults: frozenset[str], count: int, turns: int = MANY) -> tuple[Command, ...]:
    """So many commands, or as many as bring about so many turns."""
    weighted = list(ALWAYS)
    for fault in sorted(faults):
        weighted.extend(OF_FAULT.get(fault, ()))
    names = [name for name, weight in weighted for _ in range(weight)]
    commands: list[Command] = []
    at = SECOND_MS
    for n in range(count):
        what = "message" if n == 0 and dice.chance(MESSAGE_FIRST) else dice.pick(names)
        at += _gap(dice) + (LATE_MS if what == "again_late" else 0)
        numbers = (dice.below(1 << 16), dice.below(1 << 16), dice.below(1 << 16))
        commands.append(Command(at, what, *numbers))
        turns -= TURNS_OF.get(what, 20)
        if turns <= 0:
            break
    return tuple(commands)


def _gap(dice: Dice) -> int:
    """Moments, minutes or hours; and often just about the lengths that rules are made of."""
    kinds: tuple[tuple[int, Callable[[], int]], ...] = (
        (30, lambda: dice.below(60)),
        (25, lambda: dice.below(3 * SECOND_MS)),
        (20, lambda: dice.below(2 * MINUTE_MS)),
        (12, lambda: dice.below(3 * HOUR_MS)),
        (3, lambda: dice.between(DAY_MS - 20 * SECOND_MS, DAY_MS + 20 * SECOND_MS)),
        (4, lambda: dice.below(12 * HOUR_MS)),
    )
    roll = dice.below(sum(weight for weight, _ in kinds))
    for weight, draw in kinds:
        if roll < weight:
            return draw()
        roll -= weight
    raise AssertionError("unreachable")
