"""More planted defects: rules of delivery that are broken, texts that stay or go, and turns that are taken in wrongly."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import msgspec

from actors.account import Account
from actors.channels.ahead import Ahead
from actors.deciding import chat, conclude, decide, dispatch, gate
from actors.deciding.commands import AcceptTurn
from actors.gateway.acceptance import Acceptance, Accepted
from actors.ports import Unknown
from actors.recall import Folding
from events import backlog, peer_sends, quota
from events.bot import BotState
from events.peer import BodyErased, OutputDropped, SendFailed, SendSucceeded
from events.peer_state import PeerState
from events.streams import delivery_id
from tests.world.machine import WallClock
from tests.world.planting import folded, patched

_to = msgspec.structs.replace
Planted = AbstractContextManager[None]


# --- when something may leave -------------------------------------------------------------------------------------


def window_to_its_last_moment() -> Planted:
    """A send may begin until the very end of its window."""
    return patched((quota, "window_ends_at", lambda window, policy: window.opened_at + policy.quota_window_ms))


def clock_follows_the_wall() -> Planted:
    """Windows and shares end by the wall clock: a step of it frees them."""
    real = WallClock.now
    return patched((WallClock, "now", lambda self: real(self) + max(0, self.stepped_ms)))


def lanes_turned_round() -> Planted:
    """Pushes go before answers, and answers before remainders."""
    return patched((gate, "LANES", tuple(reversed(gate.LANES))))


def remainders_take_all() -> Planted:
    """Remainders leave nothing to new answers."""
    return patched((gate, "_half_block", lambda _state, _policy, _left: None))


def pause_ignored() -> Planted:
    """A pause keeps nobody from sending."""
    real = gate.hard_block
    return patched((gate, "hard_block", lambda s, view, name, now: real(s, _to(view, paused_until=0), name, now)))


def policy_of_the_start() -> Planted:
    """A policy that changes while the account runs is not looked at."""
    real = Account.learn

    def learn(self: Account, state: BotState) -> None:
        policy, policy_id = self.view.policy, self.view.policy_id
        real(self, state)
        if policy_id:
            self.view = _to(self.view, policy=policy, policy_id=policy_id)

    return patched((Account, "learn", learn))


def two_at_once() -> Planted:
    """A peer may have two open requests."""
    real = gate.hard_block

    def hard_block(state: PeerState, view: Any, name: Any, now: int) -> Any:
        return real(_to(state, request=None), view, name, now)

    return patched((gate, "hard_block", hard_block))


def stopped_answers_prove() -> Planted:
    """An answer that lay about while the process was stopped is taken for one that came when it was read."""
    return patched((Ahead, "read_at", lambda _self, _dated, _asked_at, read_at, _travels_ms: read_at))


# --- outcomes -----------------------------------------------------------------------------------------------------


def unknown_sent_again() -> Planted:
    """What may have arrived is sent once more."""
    real = conclude.conclude

    def again(draft: Any, command: Any) -> None:
        request = draft.state.request
        if request and request.request == command.request and isinstance(command.outcome, Unknown):
            draft.add(SendFailed(request=command.request, failure="not_sent", retry_at=draft.now))
        else:
            real(draft, command)

    return patched((decide, "conclude", again))


def never_tried_again() -> Planted:
    """What was provably not sent waits for ever."""
    return patched((conclude, "_backoff_ms", lambda _retries: 10**12))


def left_out_is_lost() -> Planted:
    """What a push left out is dropped when it is refused as well."""
    real = conclude._refused

    def refused(draft: Any, request: Any, outcome: Any) -> None:
        real(draft, request, outcome)
        for output in draft.state.queue:
            if output.output in request.left_out:
                draft.add(OutputDropped(output=output, reason="merged_out"))

    return patched((conclude, "_refused", refused))


def parts_repeated() -> Planted:
    """An answer goes on where its last part began."""
    real = peer_sends.send_succeeded

    def succeeded(state: PeerState, event: Any, at: int, epoch: int) -> PeerState:
        after = real(state, event, at, epoch)
        starts = {o.output: o.start for o in state.answers}
        return _to(after, answers=tuple(_to(o, start=starts[o.output]) for o in after.answers))

    return folded(SendSucceeded, succeeded)


# --- the backlog --------------------------------------------------------------------------------------------------


def newest_falls_out() -> Planted:
    """A full backlog drops its newest output."""

    def over_count(queue: Any, carried: Any, incoming: int, policy: Any) -> Any:
        free = [o for o in queue if o.output not in carried]
        excess = len(queue) + incoming - policy.backlog_outputs
        return tuple(reversed(free))[: max(0, excess)]

    return patched((backlog, "over_count", over_count))


def backlog_turned_round() -> Planted:
    """The newest output stands first in a push."""
    real = dispatch.merge
    return patched((dispatch, "merge", lambda texts, part_bytes: real(list(reversed(texts)), part_bytes)))


# --- texts --------------------------------------------------------------------------------------------------------


def expired_by_clock() -> Planted:
    """Texts go at their age, whatever waits for them."""

    def expire(draft: Any, command: Any) -> None:
        draft.add(BodyErased(bodies=command.bodies, reason="expired"))
        draft.erase = command.bodies
        draft.reply = command.bodies

    return patched((decide, "expire", expire))


def erased_in_name_only() -> Planted:
    """The log says that a text is erased, and has it still."""
    real = decide.expire

    def expire(draft: Any, command: Any) -> None:
        real(draft, command)
        draft.erase = ()

    return patched((decide, "expire", expire))


def snapshot_without_charges() -> Planted:
    """A kept state lacks what was spent."""
    real = Folding.read

    def read(self: Any, data: bytes) -> Any:
        state = real(self, data)
        return _to(state, charges=()) if isinstance(state, PeerState) else state

    return patched((Folding, "read", read))


# --- turns and people ---------------------------------------------------------------------------------------------


def strangers_welcome() -> Planted:
    """Whoever writes is answered."""
    return patched((chat, "_may_talk", lambda _draft: True))


def accepted_before_durable() -> Planted:
    """A turn is acknowledged while it is on its way into the log."""
    real = Acceptance.ask

    async def ask(self: Any, place: Any, command: Any) -> Any:
        if isinstance(command, AcceptTurn):
            place.life.account.peers.tell(place.stream, command)
            return delivery_id(place.stream, command.turn_id)
        return await real(self, place, command)

    return patched((Acceptance, "ask", ask))


def retried_elsewhere() -> Planted:
    """The same turn once more goes to whoever is bound to its session by then."""
    real = Acceptance._again

    async def again(self: Any, turn_id: str, offer: Any, known: Any, agent: str) -> Any:
        if not offer.session or agent:
            return await real(self, turn_id, offer, known, agent)
        found = []
        for place in await self._targets(offer):
            delivery = delivery_id(place.stream, turn_id)
            if await self._compared(delivery, offer) == "absent":
                await self.ask(
                    place,
                    AcceptTurn(turn_id=turn_id, origin=offer.origin, status=offer.status, text=offer.text, session=""),
                )
            found.append((place, delivery))
        return Accepted(turn_id, tuple(found), repeated=True)

    return patched((Acceptance, "_again", again))


MORE = (
    window_to_its_last_moment,
    clock_follows_the_wall,
    lanes_turned_round,
    remainders_take_all,
    pause_ignored,
    policy_of_the_start,
    two_at_once,
    stopped_answers_prove,
    unknown_sent_again,
    never_tried_again,
    left_out_is_lost,
    parts_repeated,
    newest_falls_out,
    backlog_turned_round,
    expired_by_clock,
    erased_in_name_only,
    snapshot_without_charges,
    strangers_welcome,
    accepted_before_durable,
    retried_elsewhere,
)
