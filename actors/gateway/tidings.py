"""Which deliveries moved on, from the events of peers, for the agents that wait to hear of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actors.gateway.receipts import DROPPED, SKIPPED
from actors.gateway.views import State
from events.base import Carried, Recorded
from events.peer import OutputDropped, OutputSkipped, SendFailed, SendRequested, SendSucceeded, SendUnknown


class Tiding(msgspec.Struct, frozen=True):
    """A delivery's new state."""

    delivery: str
    state: State
    reason: str = ""


class Tidings:
    """Follows the open requests of this process."""

    def __init__(self) -> None:
        self._carried: dict[str, tuple[Carried, ...]] = {}  # by open request
        self._pushes: set[str] = set()  # open requests that nothing follows: what does not fit into a push is cut

    def of(self, recorded: tuple[Recorded, ...]) -> Iterator[Tiding]:
        """What these events say of deliveries."""
        for r in recorded:
            match r.event:
                case SendRequested(request=request, kind=kind, carried=carried):
                    self._carried[request] = carried
                    if kind == "push":
                        self._pushes.add(request)
                    yield from (Tiding(c.output, "requested") for c in carried)
                case SendSucceeded(request=request, message_id=message_id):
                    yield from self._arrived(request, confirmed=bool(message_id))
                case SendFailed(request=request):
                    yield from (Tiding(c.output, "queued") for c in self._ended(request))
                case SendUnknown(request=request, reason=reason):
                    yield from (Tiding(c.output, "unknown", reason) for c in self._ended(request))
                case OutputDropped(output=output, reason=reason):
                    yield Tiding(output.output, "dropped", DROPPED.get(reason, reason))
                case OutputSkipped(output=output, reason=reason):
                    yield Tiding(output.output, "skipped", SKIPPED.get(reason, reason))
                case _:
                    pass

    def _arrived(self, request: str, *, confirmed: bool) -> Iterator[Tiding]:
        cut = request in self._pushes
        for carried in self._ended(request):
            if not confirmed:
                yield Tiding(carried.output, "unconfirmed", "the channel took it without a message id")
            elif carried.whole:
                yield Tiding(carried.output, "delivered")
            elif cut:
                reason = f"its first {carried.end} of {carried.total} bytes were delivered; the rest is retrievable"
                yield Tiding(carried.output, "delivered", reason)

    def _ended(self, request: str) -> tuple[Carried, ...]:
        self._pushes.discard(request)
        return self._carried.pop(request, ())
