"""States of peers as the gateway shows them: quota, share, what waits and the one fact that blocks it. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.deciding.facts import DROPPED, SKIPPED, UNCONFIRMED, cut, fact_of, lane_of, login_command, unknown
from actors.deciding.gate import LaneName, forget_at, lane_block, next_lane
from actors.deciding.view import Block, BotView
from actors.gateway import views
from events import backlog, quota
from events.backlog import Dead, Output
from events.base import Millis
from events.peer_state import PeerState
from events.stories import OutputStory
from events.streams import Address

LANES: dict[LaneName, views.Lane] = {"remainders": "remainder", "answers": "answer", "pushes": "push"}


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """A peer as it is right now."""

    address: str
    stream: str
    state: PeerState
    view: BotView
    now: Millis
    show: Callable[[Millis], str]  # writes a time
    held: str = ""  # what keeps the whole account from sending, in one sentence; "" = nothing

    @property
    def quota(self) -> views.QuotaView:
        """Replies left in the current window."""
        return quota_view(self.state, self.view, self.now)

    @property
    def share(self) -> views.ShareView:
        """Push replies used."""
        return share_view(self.state, self.view, self.now)

    def why(self, lane: LaneName) -> tuple[str, Millis | None]:
        """Why a lane waits, and the earliest time at which it may leave."""
        if self.held:
            return self.held, None
        block = lane_block(self.state, self.view, lane, self.now)
        return ("about to leave", self.now) if block is None else (self.sentence(block), block.until)

    def sentence(self, block: Block) -> str:
        """A block in one sentence, with what ends it."""
        return fact_of(block, self.state, self.view, self.now, self.show).sentence

    def blocked(self) -> tuple[str, Millis | None]:
        """Why the peer's first waiting thing waits; ("", None) when nothing waits."""
        lane = next_lane(self.state, self.view, self.now)
        if isinstance(lane, Block) and lane.reason == "nothing_waits":
            return "", None
        if self.held:
            return self.held, None
        return (self.sentence(lane), lane.until) if isinstance(lane, Block) else ("about to leave", self.now)


def held_by(life: views.AccountState, address: Address) -> str:
    """What an account's state keeps from leaving, and what ends that."""
    match life:
        case "stopped" | "failed":
            return f"{address} is {life}; it waits until somebody runs `replyledger accounts start {address}`"
        case "starting":
            return f"{address} is starting; it waits until that is done"
        case "fenced":
            return f"a newer instance has {address}; it waits until that one sends it"
        case "login_needed":
            return f"nobody is logged in to {address}; it waits until {login_command(address.bot)}"
        case "running" | "login_lost":
            return ""


def quota_view(state: PeerState, view: BotView, now: Millis) -> views.QuotaView:
    """Replies left of the current window."""
    policy, window = view.policy, state.window
    if window is None or not quota.window_open(window, view.generation, policy, now):
        return views.QuotaView(left=0, of=policy.quota_replies)
    left = quota.quota_left(state.charges, window, policy)
    return views.QuotaView(
        left=left,
        of=policy.quota_replies,
        ends_at=quota.window_ends_at(window, policy),
        carried=quota.carried(state.charges, window.number),
    )


def share_view(state: PeerState, view: BotView, now: Millis) -> views.ShareView:
    """Push replies whose charge runs."""
    policy = view.policy
    used = quota.share_used(state.charges, policy, now)
    settled = [c.settled_at for c in state.charges if c.kind == "push" and c.settled_at is not None]
    ends = [s + policy.share_window_ms for s in settled if s + policy.share_window_ms > now]
    return views.ShareView(used=used, of=policy.share_replies, rolls_at=min(ends, default=None))


def fate_of_address(state: PeerState, view: BotView) -> tuple[views.Address, Millis | None]:
    """What becomes of a peer's address, and when that is only a matter of time."""
    if not state.erased_at:
        return "kept", None
    if state.forgotten:
        return "gone", None
    if view.pinned:
        return "login", None
    at = forget_at(state, view)
    return ("outcome", None) if at is None else ("until", at)


def delivery_view(room: Room, output: str, turn_id: str) -> views.DeliveryView:
    """An output by the peer's live state; one that the state has forgotten was delivered whole."""
    state, reason, earliest = standing(room, output)
    return views.DeliveryView(
        delivery=output,
        turn_id=turn_id,
        peer=room.address,
        state=state,
        reason=reason,
        earliest=earliest,
        quota=room.quota,
        share=room.share,
    )


def standing(room: Room, output: str) -> tuple[views.State, str, Millis | None]:
    """(state, reason, earliest) of an output."""
    if output in room.state.carried:
        return "requested", "it is on its way; its outcome is not known yet", None
    lane = lane_of(room.state, output)
    if lane is not None:
        reason, earliest = room.why(lane)
        return "queued", reason, earliest
    dead = next((d for d in room.state.dead if d.output.output == output), None)
    if dead is None:
        return "delivered", "it was delivered", None
    return (*dead_standing(dead), None)


def dead_standing(dead: Dead) -> tuple[views.State, str]:
    """(state, reason) of an output that waits no more."""
    match dead.fate:
        case "skipped":
            return "skipped", SKIPPED.get(dead.reason, dead.reason)
        case "dropped":
            return "dropped", DROPPED.get(dead.reason, dead.reason)
        case "cut":
            return "delivered", cut(dead.output.start, dead.output.total)
        case "unconfirmed":
            return "unconfirmed", UNCONFIRMED
        case "unknown":
            return "unknown", unknown(dead.reason)
        case "erased":
            return "erased", "its text was erased"


def story_standing(story: OutputStory) -> tuple[views.State, str]:
    """(state, reason) of an output by its history."""
    known = {"skipped": SKIPPED, "dropped": DROPPED}.get(story.fate, _FATES)
    reason = (
        cut(story.delivered_bytes, story.total, kept=story.body_erased_at is None)
        if story.cut
        else known.get(story.reason or story.fate, story.reason)
    )
    return story.fate, reason


_FATES = {
    "delivered": "it was delivered",
    "unconfirmed": UNCONFIRMED,
    "unknown": unknown(""),
    "erased": "its text was erased",
    "expired": "its text was too old, and went",
}


def waiting_views(room: Room) -> tuple[views.WaitingView, ...]:
    """What waits, in the order in which it leaves."""
    return tuple(_waiting(room, o) for o in (*room.state.answers, *room.state.queue))


def _waiting(room: Room, output: Output) -> views.WaitingView:
    lane = lane_of(room.state, output.output) or "pushes"
    state, reason, earliest = standing(room, output.output)
    return views.WaitingView(
        delivery=output.output,
        peer=room.address,
        lane=LANES[lane],
        state="requested" if state == "requested" else "queued",
        turn_id=output.turn_id,
        origin=output.origin,
        bytes=output.total,
        start=output.start,
        accepted_at=output.accepted_at,
        expires_at=_expires_at(room, output, lane),
        reason=reason,
        earliest=earliest,
    )


def _expires_at(room: Room, output: Output, lane: LaneName) -> Millis | None:
    policy = room.view.policy
    if lane != "pushes":
        return output.accepted_at + policy.quota_window_ms
    newest = room.state.queue[-1].output == output.output
    return None if newest else backlog.next_age_at((output, output), frozenset(), policy)


def backlog_view(room: Room) -> views.BacklogView:
    """A peer's backlog."""
    reason, earliest = room.blocked()
    return views.BacklogView(
        peer=room.address,
        reason=reason,
        earliest=earliest,
        quota=room.quota,
        share=room.share,
        waiting=waiting_views(room),
    )


def dead_view(address: str, dead: Dead) -> views.DeadView:
    """A dead output; whether its text is still there is the caller's to say."""
    return views.DeadView(
        delivery=dead.output.output,
        peer=address,
        fate=dead.fate,
        reason=dead_standing(dead)[1],
        at=dead.at,
        turn_id=dead.output.turn_id,
        origin=dead.output.origin,
        bytes=dead.output.total,
        start=dead.output.start,
        request=dead.request,
        retrievable=bool(dead.output.body),
    )
