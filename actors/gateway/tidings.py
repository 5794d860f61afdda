"""Which deliveries moved on, from the events of peers, for the agents that wait to hear of them.

An answer that goes in several parts is over with its last one, and is then what its least certain part is, as receipts say.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actors.agents.recent import Recent
from actors.deciding.facts import DROPPED, HELD, SKIPPED, UNCONFIRMED, cut, unknown
from actors.gateway.views import State
from events.base import Carried, Recorded
from events.peer import (
    OutputDropped,
    OutputSkipped,
    SendFailed,
    SendRequested,
    SendSucceeded,
    SendUnknown,
    UnknownResolved,
)

REMEMBERED_MAX = 10_000
"""Requests and outputs of unknown outcome that are remembered, in case it becomes known; of older ones agents hear no more."""


class Tiding(msgspec.Struct, frozen=True):
    """A delivery's new state."""

    delivery: str
    state: State
    reason: str = ""


class _Sent(msgspec.Struct, frozen=True):
    """A request: what it carries, and whether nothing follows it (what does not fit into a push is cut)."""

    carried: tuple[Carried, ...]
    push: bool

    def over(self, one: Carried) -> bool:
        """Whether an output is over with this request."""
        return one.whole or self.push


class _Doubt(msgspec.Struct):
    """What is not certain of an output: by request, and whether nothing more of it is to come."""

    by_request: dict[str, Tiding] = {}
    over: Tiding | None = None  # what it is once nothing is in doubt


class Tidings:
    """Follows the requests of this process."""

    def __init__(self) -> None:
        self._open: dict[str, _Sent] = {}
        self._unknown: Recent[str, _Sent] = Recent(REMEMBERED_MAX)
        self._doubts: Recent[str, _Doubt] = Recent(REMEMBERED_MAX)

    def of(self, recorded: tuple[Recorded, ...]) -> Iterator[Tiding]:
        """What these events say of deliveries."""
        for r in recorded:
            match r.event:
                case SendRequested():
                    yield from self._requested(r.event)
                case SendSucceeded(request=request, message_id=message_id):
                    yield from self._arrived(request, self._open.pop(request, None), message_id)
                case SendFailed(request=request):
                    sent = self._open.pop(request, None)
                    again = "the try did not go through; it waits again"
                    yield from (Tiding(c.output, "queued", again) for c in (sent.carried if sent else ()))
                case SendUnknown(request=request, reason=reason):
                    yield from self._lost(request, reason)
                case UnknownResolved():
                    yield from self._resolved(r.event)
                case OutputDropped(output=output, reason=reason):
                    yield Tiding(output.output, "dropped", DROPPED.get(reason, reason))
                case OutputSkipped(output=output, reason=reason):
                    yield Tiding(output.output, "skipped", SKIPPED.get(reason, reason))
                case _:
                    pass

    def _requested(self, event: SendRequested) -> Iterator[Tiding]:
        self._open[event.request] = _Sent(event.carried, event.kind == "push")
        for one in event.carried:
            if one.start == 0:
                self._doubts.drop(one.output)  # it is sent anew, and what became of it before counts no more
            yield Tiding(one.output, "requested", "it is on its way; its outcome is not known yet")

    def _arrived(self, request: str, sent: _Sent | None, message_id: str) -> Iterator[Tiding]:
        for one in sent.carried if sent else ():
            if not message_id:
                self._doubt(request, Tiding(one.output, "unconfirmed", UNCONFIRMED))
            if sent and sent.over(one):
                yield self._over(_whole_or_cut(one))

    def _lost(self, request: str, reason: str) -> Iterator[Tiding]:
        sent = self._open.pop(request, None)
        if sent is None:
            return
        self._unknown.set(request, sent)
        for one in sent.carried:
            self._doubt(request, Tiding(one.output, "unknown", unknown(reason)))
            yield self._over(_whole_or_cut(one)) if sent.over(one) else Tiding(one.output, "queued", HELD.sentence)

    def _resolved(self, event: UnknownResolved) -> Iterator[Tiding]:
        """What nobody knew is known: of outputs that are over their agents hear it."""
        sent = self._unknown.get(event.request)
        self._unknown.drop(event.request)
        for one in sent.carried if sent else ():
            doubt = self._doubts.get(one.output)
            if doubt is None or event.request not in doubt.by_request:
                continue
            del doubt.by_request[event.request]
            if event.delivered and not event.message_id:
                doubt.by_request[event.request] = Tiding(one.output, "unconfirmed", UNCONFIRMED)
            if doubt.over is not None:
                arrived = doubt.over if event.delivered else _without(one)
                yield self._over(arrived)

    def _doubt(self, request: str, tiding: Tiding) -> None:
        doubt = self._doubts.get(tiding.delivery) or _Doubt()
        doubt.by_request[request] = tiding
        self._doubts.set(tiding.delivery, doubt)

    def _over(self, certain: Tiding) -> Tiding:
        """What an output is that nothing more comes of: `certain`, or what is least certain of it."""
        doubt = self._doubts.get(certain.delivery)
        if doubt is None:
            return certain
        doubt.over = certain
        return min(doubt.by_request.values(), key=lambda t: t.state != "unknown", default=certain)


def _whole_or_cut(one: Carried) -> Tiding:
    reason = "it was delivered" if one.whole else cut(one.end, one.total)
    return Tiding(one.output, "delivered", reason)


def _without(one: Carried) -> Tiding:
    """An output whose last request never arrived."""
    if one.start == 0:
        return Tiding(one.output, "dropped", DROPPED["not_delivered"])
    return Tiding(one.output, "delivered", cut(one.start, one.total))
