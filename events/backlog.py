"""Outputs that wait: the backlog of pushes and its bounds, answers and their remainders, and what became of the rest."""

from __future__ import annotations

from typing import Literal

from events.base import Millis, Origin, Part
from events.bot import Policy

DEAD_KEPT = 20
"""How many outputs that were not, or not wholly, delivered a peer's state remembers; the log remembers all of them."""

Fate = Literal["skipped", "dropped", "cut", "unconfirmed", "unknown", "erased"]

ERASED = "erased"
"""The reason of outputs that were dropped because somebody had them erased: they are not listed, for nothing of them is left."""


class Output(Part, frozen=True, kw_only=True):
    """The text of a turn, on its way. For an answer `start` is how many of its bytes are settled."""

    output: str  # the delivery id
    turn_id: str
    body: str
    total: int  # bytes of its text
    accepted_at: Millis
    origin: Origin = "api"
    start: int = 0
    refusals: int = 0  # how often the channel refused it with a token
    window: int = 0  # number of the window in which an answer was accepted
    held: int = -1  # number of the window in which an answer's later parts are held, or -1
    remainder_parts: int = 0  # how many parts went out as a remainder
    quote: str = ""  # our id of the message it asks to quote


class Dead(Part, frozen=True, kw_only=True):
    """An output that waits no more and did not wholly arrive: listed, and retrievable while its body lives."""

    output: Output
    fate: Fate
    reason: str
    at: Millis
    request: str = ""  # the request that ended it, if one did
    reached: int = 0  # how far into its text an unknown request went that was its last


def over_count(queue: tuple[Output, ...], carried: frozenset[str], incoming: int, policy: Policy) -> tuple[Output, ...]:
    """The oldest outputs that must go so that `incoming` more fit into the backlog. What an open request carries stays, and so
    does the newest: it would make room for outputs that are just leaving."""
    excess = len(queue) + incoming - policy.backlog_outputs
    free = [o for o in queue[: len(queue) if incoming else -1] if o.output not in carried]
    return tuple(free[: max(0, excess)])


def over_age(queue: tuple[Output, ...], carried: frozenset[str], policy: Policy, now: Millis) -> tuple[Output, ...]:
    """The outputs that are too old at `now`. The newest of the backlog never is."""
    return tuple(o for o in queue[:-1] if o.output not in carried and o.accepted_at + policy.backlog_age_ms <= now)


def next_age_at(queue: tuple[Output, ...], carried: frozenset[str], policy: Policy) -> Millis | None:
    """When the next output of the backlog will be too old, or None."""
    return min((o.accepted_at + policy.backlog_age_ms for o in queue[:-1] if o.output not in carried), default=None)


def bury(dead: tuple[Dead, ...], entry: Dead) -> tuple[Dead, ...]:
    """The bounded list with one more entry, which replaces an older one of the same output."""
    kept = tuple(d for d in dead if d.output.output != entry.output.output)
    return (*kept, entry)[-DEAD_KEPT:]
