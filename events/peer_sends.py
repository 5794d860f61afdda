"""The folds of sends: what a request reserves, and what each outcome does to the outputs that it carried."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

import msgspec

from events import quota
from events.backlog import Dead, Output, bury
from events.base import Carried, Millis
from events.errors import FoldError
from events.peer import SendFailed, SendRequested, SendSucceeded, SendUnknown, UnknownResolved
from events.peer_shapes import OpenRequest, PeerState, Unknown
from events.quota import Charge

_to = msgspec.structs.replace

TURN_WAITS: Literal["waiting_for_agent"] = "waiting_for_agent"
"""The notice that tells the sender of the open turn that it waits."""

LATE_MS = 600_000
"""How long after an unknown request settled its outcome may still come; an outlet listens for a minute."""


def send_requested(state: PeerState, event: SendRequested, at: Millis, epoch: int) -> PeerState:
    """Open the request and charge it."""
    if state.request is not None:
        raise FoldError(f"request {event.request} while {state.request.request} is open")
    window = state.window_number
    request = OpenRequest(
        request=event.request,
        kind=event.kind,
        epoch=epoch,
        login=event.login,
        requested_at=at,
        window=window,
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
        window=window,
        remainder=event.remainder,
    )
    tells = event.kind == "notice" and event.notice in ("", TURN_WAITS)
    turn = _to(state.turn, noticed=True) if state.turn and tells else state.turn
    charges = (*quota.prune_within(state.charges, window, at), charge)
    return _to(state, request=request, charges=charges, retry_at=0, turn=turn)


def send_succeeded(state: PeerState, event: SendSucceeded, at: Millis, _epoch: int) -> PeerState:
    """Its charge runs out from now on; what it carried has arrived, or, without a message id, perhaps."""
    request = _closing(state, event.request)
    over = []
    for carried in request.carried:
        if event.message_id and carried.whole:
            over.append(carried.output)
        else:
            state = _arrived(state, request, carried, event.message_id, at)
    return _to(
        state,
        request=None,
        retries=0,
        charges=quota.settle(state.charges, event.request, at),
        queue=others(state.queue, over),
        answers=others(state.answers, over),
    )


def _arrived(state: PeerState, request: OpenRequest, carried: Carried, message_id: str, at: Millis) -> PeerState:
    """An output that still wants something after a part of it was accepted."""
    output = _find(state, carried.output)
    if output is None:
        return state
    parts = output.remainder_parts + (1 if request.remainder else 0)
    after = _to(output, start=carried.end, refusals=0, remainder_parts=parts)
    if not message_id:
        entry = Dead(output=output, fate="unconfirmed", reason="no_message_id", at=at, request=request.request)
        state = buried(state, entry)
    if output in state.answers and not carried.whole:
        return _to(state, answers=_replaced(state.answers, after))
    if message_id:
        entry = Dead(output=after, fate="cut", reason="longer_than_a_part", at=at, request=request.request)
        state = buried(state, entry)
    return remove(state, carried.output)


def send_failed(state: PeerState, event: SendFailed, at: Millis, _epoch: int) -> PeerState:
    """Give the charge back unless the channel kept it; everything it carried still waits."""
    request = _closing(state, event.request)
    charges = (
        quota.settle(state.charges, event.request, at) if event.charged else quota.release(state.charges, event.request)
    )
    retries = state.retries + 1 if event.retry_at else 0
    state = _to(state, request=None, charges=charges, retry_at=event.retry_at, retries=retries)
    return _refused(state, request) if event.failure == "blocked" else state


def _refused(state: PeerState, request: OpenRequest) -> PeerState:
    """What a refused request carried waits for a message after the one whose token it had."""
    names = frozenset(c.output for c in request.carried)

    def mark(o: Output) -> Output:
        return _to(o, refusals=o.refusals + 1, held=request.window) if o.output in names else o

    return _to(state, queue=tuple(map(mark, state.queue)), answers=tuple(map(mark, state.answers)))


def send_unknown(state: PeerState, event: SendUnknown, at: Millis, _epoch: int) -> PeerState:
    """Its charge stands; what it carried is not sent again, and the later parts of an answer are held."""
    request = _closing(state, event.request)
    unknowns = (*_awaited(state, at), Unknown(event.request, event.settled_at))
    charges = quota.settle(state.charges, event.request, event.settled_at)
    state = _to(state, request=None, charges=charges, unknowns=unknowns)
    for carried in request.carried:
        state = _lost(state, request, carried, event.reason, at)
    return state


def _lost(state: PeerState, request: OpenRequest, carried: Carried, reason: str, at: Millis) -> PeerState:
    """An output after a part of it went nobody knows where."""
    output = _find(state, carried.output)
    if output is None:
        return state
    continues = output in state.answers and not carried.whole
    reached = 0 if continues else carried.end
    entry = Dead(output=output, fate="unknown", reason=reason, at=at, request=request.request, reached=reached)
    state = buried(state, entry)
    if not continues:
        return remove(state, carried.output)
    parts = output.remainder_parts + (1 if request.remainder else 0)
    after = _to(output, start=carried.end, held=request.window, remainder_parts=parts)
    return _to(state, answers=_replaced(state.answers, after))


def _awaited(state: PeerState, at: Millis, resolved: str = "") -> tuple[Unknown, ...]:
    """The unknown requests whose outcome may still come, without one that it came for."""
    return tuple([u for u in state.unknowns if u.request != resolved and u.settled_at + LATE_MS > at])


def unknown_resolved(state: PeerState, event: UnknownResolved, at: Millis, _epoch: int) -> PeerState:
    """What was listed as unknown is listed as what it is, or, delivered, no more."""
    dead = tuple(
        resolved
        for d in state.dead
        if (resolved := _resolved(d, event) if d.request == event.request and d.fate == "unknown" else d)
    )
    charges = state.charges if event.delivered else quota.release(state.charges, event.request)
    return _to(state, dead=dead, charges=charges, unknowns=_awaited(state, at, event.request))


def _resolved(dead: Dead, event: UnknownResolved) -> Dead | None:
    if not event.delivered:
        return _to(dead, fate="dropped", reason="not_delivered")
    if not event.message_id:
        return _to(dead, fate="unconfirmed", reason="no_message_id")
    if 0 < dead.reached < dead.output.total:
        output = _to(dead.output, start=dead.reached)
        return _to(dead, output=output, fate="cut", reason="longer_than_a_part")
    return None


# --- pieces -------------------------------------------------------------------------------------------------------


def remove(state: PeerState, output: str) -> PeerState:
    """Let an output wait no more."""
    queue = tuple([o for o in state.queue if o.output != output]) if state.queue else ()
    answers = tuple([o for o in state.answers if o.output != output]) if state.answers else ()
    return _to(state, queue=queue, answers=answers)


def buried(state: PeerState, dead: Dead) -> PeerState:
    """List an output among those that did not, or not wholly, arrive."""
    return _to(state, dead=bury(state.dead, dead))


def others(outputs: tuple[Output, ...], names: Container[str]) -> tuple[Output, ...]:
    """The outputs but for some."""
    return tuple([o for o in outputs if o.output not in names]) if outputs else outputs


def _closing(state: PeerState, request: str) -> OpenRequest:
    if state.request is None or state.request.request != request:
        raise FoldError(f"an outcome of request {request}, which is not open")
    return state.request


def _find(state: PeerState, output: str) -> Output | None:
    return next((o for o in (*state.answers, *state.queue) if o.output == output), None)


def _replaced(outputs: tuple[Output, ...], new: Output) -> tuple[Output, ...]:
    return tuple(new if o.output == new.output else o for o in outputs)
