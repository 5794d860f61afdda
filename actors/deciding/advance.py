"""What is due after every command: old requests, the inbox, the backlog's bounds, the next send. Pure."""

from __future__ import annotations

from actors.deciding.chat import read_inbox
from actors.deciding.conclude import close_stale
from actors.deciding.dispatch import dispatch, notice
from actors.deciding.draft import Draft
from actors.deciding.gate import Lane, lane_now, next_due_at, next_lane
from actors.text import notices
from events import backlog
from events.base import Millis
from events.peer import OutputDropped


def advance(draft: Draft) -> Millis | None:
    """Add everything that is due now; when something is due without a new fact (ms), None = only with one. What only waits
    for its place in the pace is due now; `draft.paced_at` tells when that place comes."""
    close_stale(draft)
    said = read_inbox(draft)
    _bounds(draft)
    draft.paced_at = _send(draft)
    if said and draft.paced_at is None:
        _say(draft, notices.notice(said, draft.view.locale))
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
            notice(draft, notices.notice("waiting_for_agent", draft.view.locale))
            return None
        if dispatch(draft, lane):
            return None


def _say(draft: Draft, text: str) -> None:
    """A notice if the channel, the quota and the pace let it pass right now; it is never kept for later."""
    lane = lane_now(draft.state, draft.view, "notices", draft.now)
    if isinstance(lane, Lane) and draft.pace(draft.now) <= draft.now:
        notice(draft, text, lifted=lane.lifted)
