"""What is due after every command: old requests, the inbox, the backlog's bounds, the next send. Pure."""

from __future__ import annotations

from actors.deciding.chat import Saying, read_inbox
from actors.deciding.conclude import close_stale
from actors.deciding.dispatch import dispatch, say
from actors.deciding.draft import Draft
from actors.deciding.erase import forget
from actors.deciding.gate import Lane, lane_now, next_due_at, next_lane
from events import backlog, quota
from events.base import Millis
from events.peer import OutputDropped
from events.peer_sends import TURN_WAITS

BEFORE_THE_REST = ("more_is_kept",)
"""Notices that go before what waits: they tell how much of it is left."""


def advance(draft: Draft) -> Millis | None:
    """Add everything that is due now; when something is due without a new fact (ms), None = only with one. What only waits
    for its place in the pace is due now; `draft.paced_at` tells when that place comes."""
    close_stale(draft)
    saying = read_inbox(draft)
    _bounds(draft)
    forget(draft)
    if saying and saying.name in BEFORE_THE_REST and _reply_to_spare(draft):
        _say(draft, saying)
    draft.paced_at = _send(draft)
    if saying and saying.name not in BEFORE_THE_REST and draft.paced_at is None:
        _say(draft, saying)
    return next_due_at(draft.state, draft.view, draft.now)


def _bounds(draft: Draft) -> None:
    """The backlog's size and age, and the age of remainders. What an open request carries stays until its outcome."""
    state, policy = draft.state, draft.view.policy
    for output in backlog.over_age(state.queue, state.carried, policy, draft.now):
        draft.add(OutputDropped(output=output, reason="expired"))
    for output in backlog.over_count(draft.state.queue, state.carried, 0, policy):
        draft.add(OutputDropped(output=output, reason="backlog_full"))
    for output in state.answers:
        if output.output not in state.carried and output.accepted_at + policy.quota_window_ms <= draft.now:
            draft.add(OutputDropped(output=output, reason="remainder_expired"))


def _send(draft: Draft) -> Millis | None:
    """Request the next part, if one may leave; when the pace allows it, if that is what it waits for."""
    while True:
        lane = next_lane(draft.state, draft.view, draft.now)
        if not isinstance(lane, Lane):
            return None
        paced_at = draft.pace(draft.now)
        if paced_at > draft.now:
            return paced_at
        if lane.name == "notices":
            say(draft, TURN_WAITS)
            return None
        if dispatch(draft, lane):
            return None


def _say(draft: Draft, saying: Saying) -> None:
    """A notice if the channel, the quota and the pace let it pass right now; it is never kept for later."""
    lane = lane_now(draft.state, draft.view, "notices", draft.now)
    if isinstance(lane, Lane) and draft.pace(draft.now) <= draft.now:
        say(draft, saying.name, saying.count, lifted=lane.lifted)


def _reply_to_spare(draft: Draft) -> bool:
    """Whether a notice that goes before what it speaks of leaves a reply for that, and one for each open turn."""
    state, policy = draft.state, draft.view.policy
    left = quota.quota_left(state.charges, state.window, policy)
    return policy.mode == "observe" or left > state.open_turns + 1
