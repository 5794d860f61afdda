"""What agents' finished turns come to: the command, the receipt, and the later receipts when a delivery moves on.

A turn that a message started is finished at its peer, once, whoever sends it how often. Everything else is the gateway's to
accept: turns of an agent's own, repetitions, and turns whose peer has not offered them in this process.
"""

from __future__ import annotations

import logging
from typing import Protocol

import msgspec

from actors.agents.recent import Recent
from actors.agents.seats import Seat
from actors.deciding.commands import FinishTurn
from actors.errors import Refusal, TurnNotOpen, TurnTaken
from actors.gateway.agent_wire import Ending, Error, GatewayFrame, Receipt
from actors.gateway.api import TurnOffer
from actors.gateway.errors import GatewayError
from actors.gateway.views import Receipt as DeliveryReceipt
from actors.gateway.views import State, TurnAccepted
from actors.runtime.errors import ActorFailed, ActorStopped, RuntimeRefusal
from actors.runtime.flows import Flow
from actors.runtime.futures import FutureLike
from actors.runtime.scheduler import Scheduler
from events.base import Millis
from events.streams import delivery_id
from store.errors import AppendRefused, Fenced, LogClosed, LogUnusable, StoreError, TextTooLarge

log = logging.getLogger("replyledger.agents")

HOMES_MAX = 10_000
"""Turns whose peer is remembered; of older ones the log is asked."""

WATCHED_MAX = 10_000
"""Deliveries whose later receipts go to their agent; of older ones it hears no more."""

TO_SENDER = "sender"
"""`to` of an answer whose peer is not at hand: the log knows whose message started the turn, and nobody reads this."""


class Peers(Protocol):
    """The way to the peers of all accounts, by stream."""

    def ask(self, key: str, message: object) -> FutureLike:
        """Send a command to the peer of a stream; the future of its reply. Raises MailboxFull."""
        ...


class TurnDesk(Protocol):
    """What agents' turns need of the gateway, as futures."""

    def accept(self, offer: TurnOffer, agent: str) -> FutureLike:
        """`Gateway.accept_turn`: the future of a TurnAccepted."""
        ...

    def delivery(self, delivery: str) -> FutureLike:
        """`Gateway.delivery`: the future of a Receipt."""
        ...


class TurnHome(msgspec.Struct, frozen=True):
    """The peer whose message started a turn."""

    stream: str
    address: str


class Watch(msgspec.Struct):
    """A delivery whose agent hears of its changes."""

    agent: str  # "" = none yet
    turn_id: str
    peer: str = ""
    said: str = ""  # the state in its last receipt, "" before the first
    latest: tuple[State, str, Millis | None] | None = None  # a change before the first receipt


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What answers an ending, and whether the turn is over with it (or was already)."""

    frames: tuple[GatewayFrame, ...]
    over: bool


class Answers:
    """Finishes turns and remembers, boundedly, who is to hear of their deliveries."""

    def __init__(self, scheduler: Scheduler, peers: Peers, desk: TurnDesk) -> None:
        self._scheduler, self._peers, self._desk = scheduler, peers, desk
        self._homes: Recent[str, TurnHome] = Recent(HOMES_MAX)
        self._watched: Recent[str, Watch] = Recent(WATCHED_MAX)

    def meet(self, turn_id: str, home: TurnHome) -> None:
        """A peer offers a turn."""
        self._homes.set(turn_id, home)

    def changed(self, delivery: str, state: State, reason: str, earliest: Millis | None) -> tuple[str, Receipt] | None:
        """The agent that is to hear of a delivery's new state, and the receipt."""
        watch = self._watched.get(delivery)
        if watch is None or watch.said == state:
            return None
        if not watch.said:
            watch.latest = (state, reason, earliest)
            return None
        watch.said = state
        receipt = Receipt(
            turn_id=watch.turn_id, delivery=delivery, peer=watch.peer, state=state, reason=reason, earliest=earliest
        )
        return watch.agent, receipt

    def end(self, seat: Seat, frame: Ending) -> Flow[Answered]:
        """Record an ending; what the agent is told. Raises what refuses it."""
        if frame.own:
            return (yield from self._in_order(seat, frame))
        home = self._homes.get(frame.turn_id)
        if home is None:
            return (yield from self._accept(seat, frame))
        try:
            return (yield from self._finish(seat, frame, home))
        except TurnNotOpen:
            return (yield from self._again(seat, frame))

    def _finish(self, seat: Seat, frame: Ending, home: TurnHome) -> Flow[Answered]:
        """The answer to the message that started the turn."""
        delivery = delivery_id(home.stream, frame.turn_id)
        self._watch(delivery, frame.turn_id, home.address)  # its send may be faster than our receipt
        command = FinishTurn(turn_id=frame.turn_id, status=frame.status, text=frame.text, agent=seat.name)
        yield self._peers.ask(home.stream, command)
        receipt = yield from self._receipt(delivery, self._watch(delivery, frame.turn_id, home.address, seat.name))
        return Answered(frames=(receipt,), over=True)

    def _again(self, seat: Seat, frame: Ending) -> Flow[Answered]:
        """The turn was over before: by the same completion, by another text, or without any. The log can tell."""
        try:
            return (yield from self._accept(seat, frame))
        except GatewayError as refusal:
            return Answered(frames=(error_of(refusal, frame.turn_id),), over=True)

    def _in_order(self, seat: Seat, frame: Ending) -> Flow[Answered]:
        """An agent's own turns are accepted in the order in which it sends them."""
        before, seat.own = seat.own, self._scheduler.future()
        accepted = seat.own
        try:
            if before is not None:
                yield before
            return (yield from self._accept(seat, frame))
        finally:
            accepted.set_result(None)

    def _accept(self, seat: Seat, frame: Ending) -> Flow[Answered]:
        """Let the gateway accept a turn. What it recorded of the turn beats any claim of its origin or target."""
        offer = TurnOffer(
            to=frame.to or ("" if frame.session else TO_SENDER),
            session="" if frame.to else frame.session,
            turn_id=frame.turn_id,
            origin=frame.origin or ("api" if frame.own else "inbound"),
            status=frame.status,
            text=frame.text,
        )
        accepted: TurnAccepted = yield self._desk.accept(offer, seat.name)
        frames: list[GatewayFrame] = []
        for view in accepted.deliveries:
            watch = self._watch(view.delivery, frame.turn_id, view.peer, seat.name)
            note = view.not_taken or ("accepted before" if accepted.repeated else "")
            frames.append((yield from self._receipt(view.delivery, watch, note, len(accepted.deliveries))))
        return Answered(frames=tuple(frames), over=True)

    # --- receipts -------------------------------------------------------------------------------------------------

    def _watch(self, delivery: str, turn_id: str, peer: str, agent: str = "") -> Watch:
        """Note what becomes of a delivery, and who is to hear of it: the agent whose ending was accepted last. Without one it
        stays with whom it is: an ending may still be refused."""
        watch = self._watched.get(delivery) or Watch("", turn_id, peer)
        watch.agent = agent or watch.agent
        self._watched.set(delivery, watch)
        return watch

    def _receipt(self, delivery: str, watch: Watch, note: str = "", of: int = 1) -> Flow[Receipt]:
        """The first receipt of a delivery that is durable. A change that was told while its state was read is newer."""
        watch.said = ""
        seen = yield from self._state(delivery, watch)
        state, reason, earliest = watch.latest or seen
        watch.said, watch.latest = state, None
        return Receipt(
            turn_id=watch.turn_id,
            delivery=delivery,
            peer=watch.peer,
            state=state,
            reason=reason,
            earliest=earliest,
            of=of,
            note=note,
        )

    def _state(self, delivery: str, watch: Watch) -> Flow[tuple[State, str, Millis | None]]:
        """A delivery's state; whatever fails now, it is accepted."""
        try:
            seen: DeliveryReceipt = yield self._desk.delivery(delivery)
        except (GatewayError, StoreError, RuntimeRefusal) as error:
            log.warning("a turn was accepted but its state could not be read: %s", type(error).__name__)
            return "queued", "accepted; its state could not be read just now", None
        watch.peer = seen.peer
        return seen.state, seen.reason, seen.earliest


def error_of(error: Exception, turn_id: str) -> Error:
    """The frame for a refusal. Code `broken` is a defect: let the log have it."""
    match error:
        case GatewayError(code=code, message=message, path=path, near=near):
            return Error(code=code, message=message, path=path, near=near, turn_id=turn_id)
        case TurnNotOpen():
            return Error(code="turn_not_open", message=f"turn {turn_id} is not open", turn_id=turn_id)
        case TurnTaken():
            return Error(code="turn_taken", message=str(error), turn_id=turn_id)
        case TextTooLarge():
            return Error(code="too_large", message="the text is too large", path="$.text", turn_id=turn_id)
        case Fenced() | LogClosed() | ActorStopped() | ActorFailed():
            gone = "the account is not served here just now; nothing was accepted, send it again in a moment"
            return Error(code="unavailable", message=gone, turn_id=turn_id)
        case LogUnusable():
            lost = "the log failed; whether it was accepted is unknown, send it again under the same turn id"
            return Error(code="unavailable", message=lost, turn_id=turn_id)
        case AppendRefused() | RuntimeRefusal():
            busy = "the gateway is busy; nothing was accepted, send it again in a moment"
            return Error(code="busy", message=busy, turn_id=turn_id)
        case Refusal():
            return Error(code="refused", message=str(error), turn_id=turn_id)
        case _:
            return Error(code="broken", message="the gateway failed at this frame; its log says why", turn_id=turn_id)
