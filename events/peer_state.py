"""The fold of a peer's events.

`evolve` reads no clock and no policy: what a decision depended on is in its events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from events import peer_sends as sends
from events import quota
from events.backlog import ERASED, Dead, Fate, Output
from events.base import Event, Millis
from events.errors import FoldError
from events.peer import (
    AccessGranted,
    AccessRefused,
    AddressForgotten,
    BodyErased,
    ContextTokenDropped,
    ContextTokenSeen,
    DuplicateSuppressed,
    FallbackUsed,
    MessageReceived,
    OperatorActed,
    OutputDropped,
    OutputSkipped,
    PeerErased,
    SendFailed,
    SendRequested,
    SendSucceeded,
    SendUnknown,
    SessionBound,
    SessionReset,
    SessionUnbound,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnHandedOver,
    TurnStarted,
    UnknownResolved,
)
from events.peer_shapes import FORMER_KEPT, Message, OpenRequest, OpenTurn, PeerState, Token

__all__ = ["FOLDS", "FOLD_VERSION", "Message", "OpenRequest", "OpenTurn", "PeerState", "Token", "evolve"]

FOLD_VERSION = 4
"""Raised whenever the fold changes; a snapshot of another version is ignored."""

_to = msgspec.structs.replace
_finish = msgspec.structs.force_setattr


def evolve(state: PeerState, event: Event, version: int, at: Millis, epoch: int) -> PeerState:
    """The state after one event of the peer's stream. Raises FoldError when the version does not follow."""
    if version != state.version + 1:
        raise FoldError(f"version {version} cannot follow {state.version}")
    fold = FOLDS.get(type(event))
    if fold is None:
        raise FoldError(f"{type(event).__name__} is not an event of a peer")
    after = fold(state, event, at, epoch)
    if after is state:
        return _to(state, version=version, at=at)
    # A new state that nobody has seen yet: finished in place, for a second copy would double the cost of most folds.
    _finish(after, "version", version)
    _finish(after, "at", at)
    return after


# --- what the peer says -------------------------------------------------------------------------------------------


def _message_received(state: PeerState, event: MessageReceived, at: Millis, _epoch: int) -> PeerState:
    window = quota.opened(state.window, event.message, event.sent_at, at, event.generation, event.not_before)
    charges = quota.prune(quota.carry(state.charges, window.number, event.not_before), window.number, at)
    message = Message(
        message=event.message,
        body=event.body,
        at=at,
        sent_at=event.sent_at,
        total=event.total,
        contents=event.contents,
        media=event.media,
        quote=event.quote,
    )
    after = _to(state, window=window, charges=charges, inbox=(*state.inbox, message))
    return _to(after, erased_at=0, forgotten=False) if state.erased_at else after


def _token_seen(state: PeerState, event: ContextTokenSeen, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, token=Token(body=event.body, message=event.message, generation=event.generation))


def _token_dropped(state: PeerState, event: ContextTokenDropped, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, token=None) if state.token and state.token.body == event.body else state


def _access_granted(state: PeerState, _event: AccessGranted, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, access=True)


def _access_refused(state: PeerState, event: AccessRefused, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, inbox=_without_message(state, event.message))


# --- sessions and turns -------------------------------------------------------------------------------------------


def _session_bound(state: PeerState, event: SessionBound, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, session=event.session)


def _session_unbound(state: PeerState, _event: SessionUnbound, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, session="")


def _session_reset(state: PeerState, event: SessionReset, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, resets=state.resets + 1, inbox=_without_message(state, event.message))


def _turn_started(state: PeerState, event: TurnStarted, at: Millis, _epoch: int) -> PeerState:
    for message in state.inbox:
        if message.message == event.message:
            break
    else:
        raise FoldError(f"turn {event.turn_id} starts from message {event.message}, which does not wait")
    if state.turn is not None:
        raise FoldError(f"turn {event.turn_id} starts while {state.turn.turn_id} is open")
    turn = OpenTurn(turn_id=event.turn_id, message=message, session=event.session, started_at=at)
    return _to(state, turn=turn, inbox=_without_message(state, event.message))


def _turn_handed_over(state: PeerState, event: TurnHandedOver, _at: Millis, _epoch: int) -> PeerState:
    if state.turn is None or state.turn.turn_id != event.turn_id:
        raise FoldError(f"turn {event.turn_id} is handed over but not open")
    return _to(state, turn=_to(state.turn, agent=event.agent, former=_former(state.turn, event.agent)))


def _former(turn: OpenTurn, agent: str) -> tuple[str, ...]:
    """Who had a turn before it goes to `agent`."""
    had = (*turn.former, turn.agent) if turn.agent else turn.former
    if not had:
        return ()
    return tuple(dict.fromkeys(a for a in had if a != agent))[-FORMER_KEPT:]


def _turn_completed(state: PeerState, event: TurnCompleted, at: Millis, _epoch: int) -> PeerState:
    output = Output(
        output=event.output,
        turn_id=event.turn_id,
        body=event.body,
        total=event.total,
        accepted_at=at,
        origin=event.origin,
        window=state.window_number,
        quote=event.quote,
    )
    if event.origin == "inbound":
        ended = state.turn is not None and state.turn.turn_id == event.turn_id
        return _to(state, turn=None if ended else state.turn, answers=(*state.answers, output))
    return _to(state, queue=(*state.queue, output))


def _turn_failed(state: PeerState, event: TurnFailed, _at: Millis, _epoch: int) -> PeerState:
    return _close_turn(state, event.turn_id)


def _turn_cancelled(state: PeerState, event: TurnCancelled, _at: Millis, _epoch: int) -> PeerState:
    return _to(_close_turn(state, event.turn_id), inbox=_without_message(state, event.message))


def _close_turn(state: PeerState, turn_id: str) -> PeerState:
    return _to(state, turn=None) if state.turn and state.turn.turn_id == turn_id else state


# --- outputs ------------------------------------------------------------------------------------------------------


def _output_skipped(state: PeerState, event: OutputSkipped, at: Millis, _epoch: int) -> PeerState:
    return _ended(state, event.output, "skipped", event.reason, at)


def _output_dropped(state: PeerState, event: OutputDropped, at: Millis, _epoch: int) -> PeerState:
    if event.reason == ERASED:
        return _forget(sends.remove(state, event.output.output), frozenset((event.output.output,)))
    return _ended(state, event.output, "cut" if event.output.start else "dropped", event.reason, at)


def _operator_acted(state: PeerState, event: OperatorActed, at: Millis, _epoch: int) -> PeerState:
    names = frozenset(o.output for o in event.outputs)
    inbox = _without_message(state, event.message)
    fresh = tuple(
        _to(o, accepted_at=at, refusals=0, held=-1, remainder_parts=0, window=state.window_number)
        for o in event.outputs
    )
    match event.what:
        case "retry" | "more":
            return _to(_revived(state, names, fresh, all_answers=event.what == "more"), inbox=inbox)
        case "discard":
            return _to(_forget(state, names), inbox=inbox)
        case "flush":
            return _to(state, retry_at=0, inbox=inbox)
        case "drop" | "cancel":
            return _to(state, inbox=inbox)


def _revived(state: PeerState, names: frozenset[str], fresh: tuple[Output, ...], *, all_answers: bool) -> PeerState:
    """Outputs wait again, each in one lane: an answer never becomes a push."""
    answers = tuple(o for o in fresh if all_answers or o.origin == "inbound")
    pushes = tuple(o for o in fresh if o not in answers)
    return _to(
        _forget(state, names),
        queue=(*sends.others(state.queue, names), *pushes),
        answers=(*sends.others(state.answers, names), *answers),
    )


def _body_erased(state: PeerState, event: BodyErased, _at: Millis, _epoch: int) -> PeerState:
    gone = frozenset(event.bodies)
    return _to(
        state,
        queue=tuple(o for o in state.queue if o.body not in gone),
        answers=tuple(o for o in state.answers if o.body not in gone),
        dead=tuple(d for d in state.dead if d.output.body not in gone),
        inbox=tuple(m for m in state.inbox if m.body not in gone),
        token=None if state.token and state.token.body in gone else state.token,
    )


def _peer_erased(state: PeerState, _event: PeerErased, at: Millis, _epoch: int) -> PeerState:
    """Only what is spent stays. What an open request carries is over, too, whatever becomes of that."""
    return _to(state, queue=(), answers=(), dead=(), inbox=(), token=None, access=False, erased_at=at)


def _address_forgotten(state: PeerState, _event: AddressForgotten, _at: Millis, _epoch: int) -> PeerState:
    return _to(state, forgotten=True)


# --- pieces -------------------------------------------------------------------------------------------------------


def _ended(state: PeerState, output: Output, fate: Fate, reason: str, at: Millis) -> PeerState:
    return sends.buried(sends.remove(state, output.output), Dead(output=output, fate=fate, reason=reason, at=at))


def _forget(state: PeerState, names: frozenset[str]) -> PeerState:
    return _to(state, dead=tuple(d for d in state.dead if d.output.output not in names))


def _without_message(state: PeerState, message: str) -> tuple[Message, ...]:
    return tuple([m for m in state.inbox if m.message != message]) if message else state.inbox


def _unchanged(state: PeerState, _event: Event, _at: Millis, _epoch: int) -> PeerState:
    return state


FOLDS: dict[type[Event], Callable[[PeerState, Any, Millis, int], PeerState]] = {
    MessageReceived: _message_received,
    DuplicateSuppressed: _unchanged,
    ContextTokenSeen: _token_seen,
    ContextTokenDropped: _token_dropped,
    SessionBound: _session_bound,
    SessionUnbound: _session_unbound,
    SessionReset: _session_reset,
    TurnStarted: _turn_started,
    TurnHandedOver: _turn_handed_over,
    TurnCompleted: _turn_completed,
    TurnFailed: _turn_failed,
    TurnCancelled: _turn_cancelled,
    OutputSkipped: _output_skipped,
    OutputDropped: _output_dropped,
    SendRequested: sends.send_requested,
    SendSucceeded: sends.send_succeeded,
    SendFailed: sends.send_failed,
    SendUnknown: sends.send_unknown,
    UnknownResolved: sends.unknown_resolved,
    FallbackUsed: _unchanged,
    OperatorActed: _operator_acted,
    AccessGranted: _access_granted,
    AccessRefused: _access_refused,
    BodyErased: _body_erased,
    PeerErased: _peer_erased,
    AddressForgotten: _address_forgotten,
}
"""The fold of each event of a peer's vocabulary."""
