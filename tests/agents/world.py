"""A hub on the simulated scheduler, between peers and agents that are written by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.account import Offer
from actors.agents.hub import AgentHub
from actors.deciding.commands import Ask, Bind, FinishTurn, LoseAgent, TakeTurn
from actors.errors import TurnNotOpen, TurnTaken
from actors.gateway import views
from actors.gateway.agent_wire import GatewayFrame, Hello, read_frame
from actors.gateway.api import TurnOffer
from actors.gateway.errors import TurnConflict, TurnHeld, UnknownPeer
from actors.runtime.futures import FutureLike, Slot
from actors.runtime.scheduler import SimScheduler
from events.peer_state import Message, OpenTurn, PeerState
from events.streams import delivery_id

NOW = 1_750_000_000_000


def failed(error: Exception) -> Slot:
    slot = Slot()
    slot.set_exception(error)
    return slot


class FakePeers:
    """Peers with a log of what became durable; each command is obeyed in a turn of its own, in order for each peer."""

    def __init__(self, scheduler: SimScheduler) -> None:
        self.scheduler = scheduler
        self.turns: dict[str, OpenTurn] = {}
        self.asked: list[tuple[str, object]] = []
        self.finished: dict[str, tuple[str, str]] = {}  # delivery -> status, text
        self.had: dict[str, set[str]] = {}  # delivery -> agents that had its turn
        self.sessions: dict[str, str] = {}
        self.failures: list[Exception] = []
        self.full = 0  # asks to refuse at once
        self.on_finish: Any = None
        self._queues: dict[str, list[tuple[object, Slot]]] = {}

    def ask(self, key: str, message: object) -> FutureLike:
        if self.full:
            self.full -= 1
            from actors.runtime.errors import MailboxFull

            raise MailboxFull(key)
        reply = Slot()
        self._queues.setdefault(key, []).append((message, reply))
        self.scheduler.call_soon(lambda: self._serve(key))
        return reply

    def _serve(self, key: str) -> None:
        message, reply = self._queues[key].pop(0)
        self.asked.append((key, message))
        try:
            result = self._obey(key, message)
        except Exception as error:
            reply.set_exception(error)
        else:
            reply.set_result(result)

    def _obey(self, key: str, message: object) -> object:
        if self.failures and not isinstance(message, Ask):
            raise self.failures.pop(0)
        turn = self.turns.get(key)
        match message:
            case TakeTurn():
                if turn is None or turn.turn_id != message.turn_id:
                    raise TurnNotOpen
                self.turns[key] = msgspec.structs.replace(turn, agent=message.agent)
                self.had.setdefault(delivery_id(key, message.turn_id), set()).add(message.agent)
                return self.turns[key], f"text of {turn.message.message}"
            case LoseAgent():
                if turn is None or turn.agent != message.agent:
                    raise TurnTaken
                former = (*turn.former, turn.agent)
                self.turns[key] = msgspec.structs.replace(turn, agent="", former=former)
                return None
            case FinishTurn():
                if turn is None or turn.turn_id != message.turn_id:
                    raise TurnNotOpen
                if message.agent and not turn.held_by(message.agent):
                    raise TurnTaken("never had it")
                del self.turns[key]
                delivery = delivery_id(key, message.turn_id)
                self.finished[delivery] = (message.status, message.text)
                if self.on_finish:
                    self.on_finish(delivery)
                return delivery
            case Bind():
                if not (message.only_if_unbound and self.sessions.get(key)):
                    self.sessions[key] = message.session
                return None
            case Ask():
                return PeerState(resets=3), None, NOW
            case _:
                raise AssertionError(message)

    def commands(self, kind: type) -> list[Any]:
        return [message for _, message in self.asked if isinstance(message, kind)]


class FakeDesk:
    """A gateway that knows the turns that peers finished, and takes others for `weixin:main:ann`."""

    def __init__(self, peers: FakePeers) -> None:
        self.peers = peers
        self.offers: list[TurnOffer] = []
        self.claims: list[str] = []  # by whom each was offered
        self.accepted: dict[str, TurnOffer] = {}
        self.states: dict[str, views.State] = {}
        self.failure: Exception | None = None
        self.not_taken = ""
        self.held: dict[str, Slot] = {}  # turn id -> when its acceptance may end

    def accept(self, offer: TurnOffer, agent: str) -> FutureLike:
        self.offers.append(offer)
        self.claims.append(agent)
        gate = self.held.get(offer.turn_id)
        if gate is None:
            return self._settled(offer, agent)
        slot = Slot()
        gate.add_done_callback(lambda _: slot.set_result(self._accept(offer, agent)))
        return slot

    def _settled(self, offer: TurnOffer, agent: str) -> Slot:
        slot = Slot()
        try:
            slot.set_result(self._accept(offer, agent))
        except Exception as error:
            slot.set_exception(error)
        return slot

    def _accept(self, offer: TurnOffer, agent: str) -> views.TurnAccepted:
        if self.failure:
            raise self.failure
        if offer.origin == "inbound":
            return self._inbound(offer, agent)
        peers = ["ann", "bob"] if offer.session else [offer.to.removeprefix("weixin:main:")]
        if "stranger" in peers:
            raise UnknownPeer(path="$.to", near=("weixin:main:ann",))
        repeated = offer.turn_id in self.accepted
        self.accepted[offer.turn_id] = offer
        return self._answer(offer, [delivery_id(f"peer-{p}", offer.turn_id) for p in peers], repeated)

    def _inbound(self, offer: TurnOffer, agent: str) -> views.TurnAccepted:
        for peer in ("ann", "bob"):
            delivery = delivery_id(f"peer-{peer}", offer.turn_id)
            if agent not in self.peers.had.get(delivery, {agent}):
                raise TurnHeld
            if delivery in self.peers.finished:
                if self.peers.finished[delivery][1] != offer.text:
                    raise TurnConflict
                return self._answer(offer, [delivery], True)
        raise TurnConflict("the turn was a message's, and ended without a text")

    def _answer(self, offer: TurnOffer, deliveries: list[str], repeated: bool) -> views.TurnAccepted:
        found = tuple(
            views.DeliveryView(
                delivery=d,
                turn_id=offer.turn_id,
                peer="weixin:main:ann",
                state="queued",
                reason="r",
                earliest=None,
                quota=QUOTA,
                share=SHARE,
                not_taken=self.not_taken,
            )
            for d in deliveries
        )
        return views.TurnAccepted(turn_id=offer.turn_id, deliveries=found, now=NOW, repeated=repeated)

    def delivery(self, delivery: str) -> FutureLike:
        slot = Slot()
        slot.set_result(
            views.Receipt(
                delivery=delivery,
                turn_id="?",
                peer="weixin:main:ann",
                state=self.states.get(delivery, "queued"),
                reason="waits for the pace",
                earliest=NOW + 1000,
                message_ids=(),
                origin="inbound",
                bytes=1,
                delivered_bytes=0,
                accepted_at=NOW,
                settled_at=None,
                quota=QUOTA,
                share=SHARE,
            )
        )
        return slot


QUOTA = views.QuotaView(left=7, of=10)
SHARE = views.ShareView(used=0, of=3)


class FakeLink:
    """Remembers what an agent was sent."""

    def __init__(self) -> None:
        self.frames: list[GatewayFrame] = []
        self.closed: tuple[int, str] | None = None

    def send(self, frame: GatewayFrame) -> None:
        if self.closed is None:
            self.frames.append(frame)

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)


class Agent:
    """An agent at the hub."""

    def __init__(self, world: World, hello: Hello) -> None:
        self.world, self.link = world, FakeLink()
        self.seat = world.hub.join(self.link, hello)

    def say(self, kind: str, **fields: Any) -> list[GatewayFrame]:
        """Send a frame, let it be answered; what came since."""
        self.post(kind, **fields)
        return self.new()

    def post(self, kind: str, **fields: Any) -> None:
        frame = read_frame(msgspec.json.encode({"type": kind, **fields}).decode())
        self.world.hub.receive(self.seat, frame)  # type: ignore[arg-type] # an error would fail in the hub

    def new(self) -> list[GatewayFrame]:
        self.world.scheduler.run_ready()
        frames, self.link.frames = self.link.frames, []
        return frames

    def got(self, kind: type) -> list[Any]:
        self.world.scheduler.run_ready()
        return [frame for frame in self.link.frames if isinstance(frame, kind)]

    @property
    def turns(self) -> list[str]:
        """Ids of the turns that it was sent, in order."""
        from actors.gateway.agent_wire import Message as MessageFrame

        return [frame.turn_id for frame in self.got(MessageFrame)]

    def leave(self) -> None:
        self.world.hub.leave(self.seat)


class World:
    def __init__(self, seed: int = 1) -> None:
        self.scheduler = SimScheduler(seed, start_ms=NOW)
        self.peers = FakePeers(self.scheduler)
        self.desk = FakeDesk(self.peers)
        self.changes: list[int] = []
        self.hub = AgentHub(self.scheduler, self.peers, self.desk, lambda: self.changes.append(self.hub.agents))

    def agent(self, name: str, **hello: Any) -> Agent:
        return Agent(self, Hello(agent=name, protocol=1, **hello))

    def turn(self, peer: str = "ann", number: int = 1, session: str = "", agent: str = "") -> str:
        """A message of a peer becomes a turn, which the peer offers."""
        turn_id = f"t-{peer}-{number}"
        message = Message(message=f"m-{peer}-{number}", body="b", at=NOW, sent_at=NOW - 5)
        stream = f"peer-{peer}"
        self.peers.turns[stream] = OpenTurn(
            turn_id=turn_id, message=message, session=session, started_at=NOW, agent=agent
        )
        self.offer(peer)
        return turn_id

    def offer(self, peer: str = "ann", account: str = "weixin:main") -> None:
        stream = f"peer-{peer}"
        self.hub.offer(Offer(stream=stream, address=f"{account}:{peer}", turn=self.peers.turns[stream]))

    def pass_ms(self, ms: int) -> None:
        self.scheduler.run_for(ms)
