"""What may leave now, and if nothing may, the one fact that blocks it. Pure.

Lanes go in this order: remainders, answers, notices, pushes. A lane that is blocked by something of its own does not block the next one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.deciding.view import Block, BotView
from events import backlog, quota
from events.backlog import Output
from events.base import Millis
from events.bot import Policy
from events.peer_state import PeerState

LaneName = Literal["remainders", "answers", "notices", "pushes"]


class Lane(msgspec.Struct, frozen=True):
    """A lane that may send now. `lifted`: in observe mode, the limit that enforce mode would have waited for."""

    name: LaneName
    lifted: str = ""


LANES: tuple[LaneName, ...] = ("remainders", "answers", "notices", "pushes")


NOTHING_WAITS = Block("nothing_waits")


def next_lane(state: PeerState, view: BotView, now: Millis) -> Lane | Block:
    """The lane that sends next, or the block of the first lane that has something to send."""
    first: Block | None = None
    for name in LANES:
        if not _has(state, view, name, now):
            continue
        found = lane_now(state, view, name, now)
        if isinstance(found, Lane):
            return found
        first = first or found
    return first or NOTHING_WAITS


def lane_now(state: PeerState, view: BotView, name: LaneName, now: Millis) -> Lane | Block:
    """A lane if it may send at `now`, else what blocks it. Does not look at what is in it."""
    block = hard_block(state, view, name, now)
    if block is not None:
        return block
    limit = limit_block(state, view, name, now)
    if limit is not None and view.policy.mode == "enforce":
        return limit
    return Lane(name, lifted=limit.reason if limit else "")


def lane_block(state: PeerState, view: BotView, name: LaneName, now: Millis) -> Block | None:
    """Why a lane with something in it cannot send at `now`; None if it can."""
    found = lane_now(state, view, name, now)
    return found if isinstance(found, Block) else None


def hard_block(state: PeerState, view: BotView, name: LaneName, now: Millis) -> Block | None:
    """What the channel, the login, an operator or the order of sends forbids."""
    if state.request is not None:
        return Block("open_request")
    if view.generation == 0:
        return Block("no_login")
    if view.login_lost:
        return Block("login_lost")
    if view.paused_until is None or view.paused_until > now:
        return Block("paused", view.paused_until)
    if state.token is None or state.token.generation != view.generation:
        return Block("no_token")
    if state.retry_at > now:
        return Block("retry_later", state.retry_at)
    if name in ("remainders", "answers") and not unheld(state, name):
        return Block("held_until_message")
    return None


def limit_block(state: PeerState, view: BotView, name: LaneName, now: Millis) -> Block | None:
    """What our own count forbids; observe mode lifts it."""
    policy = view.policy
    if not quota.window_open(state.window, view.generation, policy, now):
        return Block("window_closed")
    left = quota.quota_left(state.charges, state.window, policy)
    if left == 0:
        return Block("quota_spent")
    match name:
        case "remainders":
            return _half_block(state, policy, left)
        case "answers":
            return None
        case "notices":
            return None if left > min(1, state.open_turns) else Block("reserved_for_answers")
        case "pushes":
            return _push_block(state, policy, left, now)


def unheld(state: PeerState, name: LaneName) -> tuple[Output, ...]:
    """The remainders, or the answers, that are not held until the peer's next message."""
    return tuple(a for a in of_lane(state, name) if a.held != state.window_number)


def of_lane(state: PeerState, name: LaneName) -> tuple[Output, ...]:
    """The outputs of a lane, oldest first; a notice has none."""
    match name:
        case "remainders":
            return state.remainders
        case "answers":
            return tuple(a for a in state.answers if a.window >= state.window_number)
        case "notices":
            return ()
        case "pushes":
            return state.queue


def notice_due_at(state: PeerState, view: BotView) -> Millis | None:
    """When the sender of the open turn is to be told that no agent is there, or None."""
    turn, after_ms = state.turn, view.policy.notice_after_ms
    if turn is None or turn.noticed or view.agents > 0 or after_ms == 0:
        return None
    return max(turn.message.at, view.agentless_since) + after_ms


def next_due_at(state: PeerState, view: BotView, now: Millis) -> Millis | None:
    """When the peer is to be looked at again without any new fact; None = only a fact can change something."""
    ages = (backlog.next_age_at(state.queue, state.carried, view.policy), remainder_ends_at(state, view.policy))
    times = [*ages, forget_at(state, view)]
    for name in LANES:
        if _has(state, view, name, now):
            block = lane_block(state, view, name, now)
            times.append(block.until if block else now)
    notice = notice_due_at(state, view)
    if notice is not None and notice > now:
        times.append(notice)
    return min((t for t in times if t is not None), default=None)


def forget_at(state: PeerState, view: BotView) -> Millis | None:
    """When the address of an erased peer may go: once nothing that was spent counts any more, or whoever comes back under a new
    name would be given it twice. None: it is gone, nobody wants it gone, it is the login's, or only an outcome can tell."""
    if not state.erased_at or state.forgotten or view.pinned or state.request is not None:
        return None
    return quota.runs_out_at(state.charges, state.window, view.policy)


def remainder_ends_at(state: PeerState, policy: Policy) -> Millis | None:
    """When the oldest unfinished answer is too old to be continued, or None."""
    free = (a for a in state.answers if a.output not in state.carried)
    return min((a.accepted_at + policy.quota_window_ms for a in free), default=None)


def _has(state: PeerState, view: BotView, name: LaneName, now: Millis) -> bool:
    if name == "notices":
        due = notice_due_at(state, view)
        return due is not None and due <= now
    if name == "pushes":
        return bool(state.queue)
    return bool(state.answers) and bool(of_lane(state, name))


def _half_block(state: PeerState, policy: Policy, left: int) -> Block | None:
    """Remainders leave to new answers half of what the window had when it opened, and the last reply if one is to come."""
    used = sum(1 for c in state.charges if c.remainder and not c.carried and c.window == state.window_number)
    half = quota.fresh(state.charges, state.window_number, policy) // 2
    expected = state.open_turns > 0 or bool(unheld(state, "answers"))
    last = left == 1 and expected and policy.quota_replies > 1
    return Block("reserved_for_answers") if last or used >= max(1, half) else None


def _push_block(state: PeerState, policy: Policy, left: int, now: Millis) -> Block | None:
    free_at = quota.share_free_at(state.charges, policy, now)
    if free_at != now:
        inside = (
            free_at is not None and state.window is not None and free_at < quota.window_ends_at(state.window, policy)
        )
        return Block("share_spent", free_at if inside else None)
    return Block("reserved_for_answers") if left <= state.open_turns else None
