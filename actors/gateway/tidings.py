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

    def of(self, recorded: tuple[Recorded, ...]) -> Iterator[Tiding]:
        """What these events say of deliveries."""
        for r in recorded:
            match r.event:
                case SendRequested(request=request, carried=carried):
                    self._carried[request] = carried
                    yield from (Tiding(c.output, "requested") for c in carried)
                case SendSucceeded(request=request, message_id=message_id):
                    yield from self._arrived(request, confirmed=bool(message_id))
                case SendFailed(request=request):
                    yield from (Tiding(c.output, "queued") for c in self._carried.pop(request, ()))
                case SendUnknown(request=request, reason=reason):
                    yield from (Tiding(c.output, "unknown", reason) for c in self._carried.pop(request, ()))
                case OutputDropped(output=output, reason=reason):
                    yield Tiding(output.output, "dropped", DROPPED.get(reason, reason))
                case OutputSkipped(output=output, reason=reason):
                    yield Tiding(output.output, "skipped", SKIPPED.get(reason, reason))
                case _:
                    pass

    def _arrived(self, request: str, *, confirmed: bool) -> Iterator[Tiding]:
        for carried in self._carried.pop(request, ()):
            if not confirmed:
                yield Tiding(carried.output, "unconfirmed", "the channel took it without a message id")
            elif carried.whole:
                yield Tiding(carried.output, "delivered")
