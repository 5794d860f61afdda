"""A peer as the log tells it: the state, and the fold of its events.

`evolve` reads no clock and no policy: what a decision depended on is in its events. The state is bounded, whatever the stream's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from events import quota
from events.backlog import Dead, Fate, Output, bury
from events.base import Carried, Event, Kind, Millis, Part
from events.errors import FoldError
from events.peer import (
    AccessGranted,
    AccessRefused,
    BodyErased,
    ContextTokenDropped,
    ContextTokenSeen,
    DuplicateSuppressed,
    FallbackUsed,
    MessageReceived,
    OperatorActed,
    OutputDropped,
    OutputSkipped,
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
from events.quota import Charge, Window

FOLD_VERSION = 1
"""Raised whenever the fold changes; a snapshot of another version is ignored."""

_to = msgspec.structs.replace


class Token(Part, frozen=True, kw_only=True):
    """The newest context token."""

    body: str
    message: str
    generation: int


class Message(Part, frozen=True, kw_only=True):
    """A message of the peer that is not yet a turn."""

    message: str
    body: str
    at: Millis
    sent_at: Millis
    total: int = 0  # bytes of its text
    contents: tuple[str, ...] = ("text",)
    media: tuple[str, ...] = ()
    quote: str = ""


class OpenTurn(Part, frozen=True, kw_only=True):
    """The turn that an agent must still answer."""

    turn_id: str
    message: Message
    session: str
    started_at: Millis
    agent: str = ""  # who has it, "" = nobody yet
    noticed: bool = False  # its sender was told that it waits


class OpenRequest(Part, frozen=True, kw_only=True):
    """A request without an outcome."""

    request: str
    kind: Kind
    epoch: int
    login: int
    requested_at: Millis
    body: str
    token: str = ""
    carried: tuple[Carried, ...] = ()
    left_out: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1
    remainder: bool = False
    quote: str = ""


class PeerState(Part, frozen=True, kw_only=True):
    """What the log says of a peer."""

    version: int = 0
    at: Millis = 0
    session: str = ""
    resets: int = 0
    access: bool = False  # granted by an operator, beside what the configuration grants
    token: Token | None = None
    window: Window | None = None
    charges: tuple[Charge, ...] = ()
    inbox: tuple[Message, ...] = ()
    turn: OpenTurn | None = None
    queue: tuple[Output, ...] = ()  # the backlog, oldest first
    answers: tuple[Output, ...] = ()  # answers and remainders, oldest first
    request: OpenRequest | None = None
    retry_at: Millis = 0  # after a send that provably never left
    retries: int = 0
    dead: tuple[Dead, ...] = ()

    @property
    def window_number(self) -> int:
        """The current window's number, 0 without one."""
        return self.window.number if self.window else 0

    @property
    def open_turns(self) -> int:
        """Turns that will want a reply: the open one and the messages behind it."""
        return len(self.inbox) + (1 if self.turn else 0)

    @property
    def carried(self) -> frozenset[str]:
        """Outputs that the open request carries."""
        return frozenset(c.output for c in self.request.carried) if self.request else frozenset()

    @property
    def remainders(self) -> tuple[Output, ...]:
        """Answers that an earlier window could not finish."""
        return tuple(a for a in self.answers if a.window < self.window_number)

    @property
    def waiting(self) -> int:
        """How many outputs wait."""
        return len(self.queue) + len(self.answers)


def evolve(state: PeerState, event: Event, *, version: int, at: Millis, epoch: int) -> PeerState:
    """The state after one event of the peer's stream. Raises FoldError when the version does not follow."""
    if version != state.version + 1:
        raise FoldError(f"version {version} cannot follow {state.version}")
    fold = FOLDS.get(type(event))
    if fold is None:
        raise FoldError(f"{type(event).__name__} is not an event of a peer")
    return _to(fold(state, event, at, epoch), version=version, at=at)


# --- what the peer says -------------------------------------------------------------------------------------------


def _message_received(state: PeerState, event: MessageReceived, at: Millis, _epoch: int) -> PeerState:
    window = quota.opened(state.window, event.message, event.sent_at, at, event.generation)
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
    return _to(state, window=window, charges=charges, inbox=(*state.inbox, message))


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
    message = next((m for m in state.inbox if m.message == event.message), None)
    if message is None:
        raise FoldError(f"turn {event.turn_id} starts from message {event.message}, which does not wait")
    turn = OpenTurn(turn_id=event.turn_id, message=message, session=event.session, started_at=at)
    return _to(state, turn=turn, inbox=_without_message(state, event.message))


def _turn_handed_over(state: PeerState, event: TurnHandedOver, _at: Millis, _epoch: int) -> PeerState:
    if state.turn is None or state.turn.turn_id != event.turn_id:
        raise FoldError(f"turn {event.turn_id} is handed over but not open")
    return _to(state, turn=_to(state.turn, agent=event.agent))


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
        return _to(_close_turn(state, event.turn_id), answers=(*state.answers, output))
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
    return _ended(state, event.output, "cut" if event.output.start else "dropped", event.reason, at)


def _operator_acted(state: PeerState, event: OperatorActed, at: Millis, _epoch: int) -> PeerState:
    names = frozenset(o.output for o in event.outputs)
    inbox = _without_message(state, event.message)
    fresh = tuple(
        _to(o, accepted_at=at, refusals=0, held=-1, remainder_parts=0, window=state.window_number)
        for o in event.outputs
    )
    match event.what:
        case "retry":
            return _to(_forget(state, names), queue=(*_others(state.queue, names), *fresh), inbox=inbox)
        case "more":
            return _to(_forget(state, names), answers=(*_others(state.answers, names), *fresh), inbox=inbox)
        case "discard":
            return _to(_forget(state, names), inbox=inbox)
        case "flush":
            return _to(state, retry_at=0, inbox=inbox)
        case "drop":
            return _to(state, inbox=inbox)


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


# --- sends --------------------------------------------------------------------------------------------------------


def _send_requested(state: PeerState, event: SendRequested, at: Millis, epoch: int) -> PeerState:
    if state.request is not None:
        raise FoldError(f"request {event.request} while {state.request.request} is open")
    request = OpenRequest(
        request=event.request,
        kind=event.kind,
        epoch=epoch,
        login=event.login,
        requested_at=at,
        body=event.body,
        token=event.token,
        carried=event.carried,
        left_out=event.left_out,
        part=event.part,
        parts=event.parts,
        remainder=event.remainder,
        quote=event.quote,
    )
    charge = Charge(
        request=event.request,
        kind=event.kind,
        requested_at=at,
        window=state.window_number,
        remainder=event.remainder,
    )
    turn = _to(state.turn, noticed=True) if state.turn and event.kind == "notice" else state.turn
    charges = (*quota.prune(state.charges, state.window_number, at), charge)
    return _to(state, request=request, charges=charges, retry_at=0, turn=turn)


def _send_succeeded(state: PeerState, event: SendSucceeded, at: Millis, _epoch: int) -> PeerState:
    request = _closing(state, event.request)
    state = _to(state, request=None, retries=0, charges=quota.settle(state.charges, event.request, at))
    for carried in request.carried:
        state = _arrived(state, request, carried, event.message_id, at)
    return state


def _arrived(state: PeerState, request: OpenRequest, carried: Carried, message_id: str, at: Millis) -> PeerState:
    """An output after a part of it was accepted."""
    output = _find(state, carried.output)
    if output is None:
        return state
    parts = output.remainder_parts + (1 if request.remainder else 0)
    after = _to(output, start=carried.end, refusals=0, remainder_parts=parts)
    if not message_id:
        state = _to(state, dead=bury(state.dead, _dead(after, "unconfirmed", "no_message_id", at, request.request)))
    if output in state.answers and not carried.whole:
        return _to(state, answers=_replaced(state.answers, after))
    if message_id and not carried.whole:
        state = _to(state, dead=bury(state.dead, _dead(after, "cut", "longer_than_a_part", at, request.request)))
    return _remove(state, carried.output)


def _send_failed(state: PeerState, event: SendFailed, at: Millis, _epoch: int) -> PeerState:
    request = _closing(state, event.request)
    charges = (
        quota.settle(state.charges, event.request, at) if event.charged else quota.release(state.charges, event.request)
    )
    retries = state.retries + 1 if event.retry_at else 0
    state = _to(state, request=None, charges=charges, retry_at=event.retry_at, retries=retries)
    return _refused(state, request) if event.failure == "blocked" else state


def _refused(state: PeerState, request: OpenRequest) -> PeerState:
    """What a refused request carried waits for the peer's next message."""
    names = frozenset(c.output for c in request.carried)

    def mark(o: Output) -> Output:
        return _to(o, refusals=o.refusals + 1, held=state.window_number) if o.output in names else o

    return _to(state, queue=tuple(map(mark, state.queue)), answers=tuple(map(mark, state.answers)))


def _send_unknown(state: PeerState, event: SendUnknown, at: Millis, _epoch: int) -> PeerState:
    request = _closing(state, event.request)
    state = _to(state, request=None, charges=quota.settle(state.charges, event.request, event.settled_at))
    for carried in request.carried:
        output = _find(state, carried.output)
        if output is None:
            continue
        state = _to(state, dead=bury(state.dead, _dead(output, "unknown", event.reason, at, event.request)))
        if output in state.answers and not carried.whole:
            parts = output.remainder_parts + (1 if request.remainder else 0)
            after = _to(output, start=carried.end, held=state.window_number, remainder_parts=parts)
            state = _to(state, answers=_replaced(state.answers, after))
        else:
            state = _remove(state, carried.output)
    return state


def _unknown_resolved(state: PeerState, event: UnknownResolved, _at: Millis, _epoch: int) -> PeerState:
    if event.delivered:
        return _to(state, dead=tuple(d for d in state.dead if d.request != event.request or d.fate != "unknown"))
    dead = tuple(
        _to(d, fate="dropped", reason="not_delivered") if d.request == event.request and d.fate == "unknown" else d
        for d in state.dead
    )
    return _to(state, dead=dead, charges=quota.release(state.charges, event.request))


def _unchanged(state: PeerState, _event: Event, _at: Millis, _epoch: int) -> PeerState:
    return state


# --- pieces -------------------------------------------------------------------------------------------------------


def _closing(state: PeerState, request: str) -> OpenRequest:
    if state.request is None or state.request.request != request:
        raise FoldError(f"an outcome of request {request}, which is not open")
    return state.request


def _find(state: PeerState, output: str) -> Output | None:
    return next((o for o in (*state.answers, *state.queue) if o.output == output), None)


def _remove(state: PeerState, output: str) -> PeerState:
    names = frozenset((output,))
    return _to(state, queue=_others(state.queue, names), answers=_others(state.answers, names))


def _ended(state: PeerState, output: Output, fate: Fate, reason: str, at: Millis) -> PeerState:
    return _to(_remove(state, output.output), dead=bury(state.dead, _dead(output, fate, reason, at)))


def _forget(state: PeerState, names: frozenset[str]) -> PeerState:
    return _to(state, dead=tuple(d for d in state.dead if d.output.output not in names))


def _dead(output: Output, fate: Fate, reason: str, at: Millis, request: str = "") -> Dead:
    return Dead(output=output, fate=fate, reason=reason, at=at, request=request)


def _others(outputs: Iterable[Output], names: frozenset[str]) -> tuple[Output, ...]:
    return tuple(o for o in outputs if o.output not in names)


def _replaced(outputs: tuple[Output, ...], new: Output) -> tuple[Output, ...]:
    return tuple(new if o.output == new.output else o for o in outputs)


def _without_message(state: PeerState, message: str) -> tuple[Message, ...]:
    return tuple(m for m in state.inbox if m.message != message) if message else state.inbox


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
    SendRequested: _send_requested,
    SendSucceeded: _send_succeeded,
    SendFailed: _send_failed,
    SendUnknown: _send_unknown,
    UnknownResolved: _unknown_resolved,
    FallbackUsed: _unchanged,
    OperatorActed: _operator_acted,
    AccessGranted: _access_granted,
    AccessRefused: _access_refused,
    BodyErased: _body_erased,
}
"""The fold of each event of a peer's vocabulary."""
