"""Who uses the gateways of a world: agents that answer and have turns of their own, and clients of the HTTP API that send a turn again
under the same id until they hear that it is accepted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.agents.seats import Seat
from actors.gateway.agent_wire import (
    AgentFrame,
    Cancel,
    Completed,
    Degraded,
    Error,
    Failed,
    GatewayFrame,
    Goodbye,
    Hello,
    Message,
    Receipt,
    Started,
)
from actors.gateway.api import TurnOffer
from actors.gateway.errors import BadRequest, NotFound, NotNow, Partly, TurnConflict
from actors.runtime.timers import TimerHandle
from events.bot import HOUR_MS, MINUTE_MS
from tests.world.dice import Dice

if TYPE_CHECKING:
    from tests.world.gateway import Gateway
    from tests.world.world import World

RETRY_MS = (200, 5_000)
RETRY_MS_MAX = 10 * MINUTE_MS
TIMEOUT_MS = 40_000


@dataclass
class Job:
    """A turn that an agent works on or has finished."""

    frame: Completed | Degraded | Failed
    done: bool = False  # the time has come to say it
    heard: bool = False  # the gateway has answered
    asked: Connection | None = None  # where the turn was last handed over
    tries: int = 0  # how often it was refused for now


class Connection:
    """A connection of an agent to a gateway; `actors.agents.seats.Link` on the gateway's side. Frames keep their order."""

    def __init__(self, agent: SimAgent, gateway: Gateway) -> None:
        self.agent, self.gateway, self.open = agent, gateway, True
        self.seat: Seat | None = None
        self._there = self._back = 0

    def send(self, frame: GatewayFrame) -> None:
        """From the gateway."""
        self._back = self._due(self._back)
        self.agent.world.scheduler.call_at(self._back, lambda: self.open and self.agent.receive(self, frame))

    def close(self, code: int, reason: str) -> None:
        """The gateway closes."""
        self.agent.world.scheduler.call_at(self._due(self._back), self.cut)

    def say(self, frame: AgentFrame) -> None:
        """From the agent."""
        self._there = self._due(self._there)
        self.agent.world.scheduler.call_at(
            self._there, lambda: self.gateway.machine.call_soon(lambda: self._arrive(frame))
        )

    def _arrive(self, frame: AgentFrame) -> None:
        if not self.open:
            return
        if isinstance(frame, Hello):
            self.seat = self.gateway.hub.join(self, frame)
        elif self.seat is not None:
            self.gateway.hub.receive(self.seat, frame)

    def cut(self) -> None:
        """The connection breaks; both sides notice."""
        if not self.open:
            return
        self.open = False
        if self.seat is not None:
            seat = self.seat
            self.gateway.machine.call_soon(lambda: self.gateway.hub.leave(seat))
        self.agent.lost(self)

    def _due(self, last: int) -> int:
        world = self.agent.world
        return max(last + 1, world.now + world.bag["wire"].between(1, 20))


def _backoff_ms(dice: Dice, tries: int) -> int:
    return min(dice.between(*RETRY_MS) << min(tries, 12), RETRY_MS_MAX)


class SimAgent:
    """An agent that keeps its turns over connections, connected to every gateway that serves."""

    def __init__(self, world: World, name: str, accounts: tuple[str, ...] = ()) -> None:
        self.world, self.name, self._accounts = world, name, accounts
        self.connections: dict[Gateway, Connection] = {}
        self.jobs: dict[str, Job] = {}
        self.away = False

    def connect(self, gateway: Gateway) -> None:
        """Connect, unless that is done or cannot be."""
        if self.away or gateway in self.connections or not gateway.serving:
            return
        connection = self.connections[gateway] = Connection(self, gateway)
        connection.say(Hello(agent=self.name, protocol=1, accounts=self._accounts, max_turns=4))
        for turn_id, job in tuple(self.jobs.items()):
            if job.done and not job.heard:
                self._say(turn_id, connection)

    def lost(self, connection: Connection) -> None:
        self.connections.pop(connection.gateway, None)
        if self.world.strikes("agents", 0.2, self.world.bag["agents"]):
            self.world.count("agent failed or repeated itself")
            self.jobs = {t: j for t, j in self.jobs.items() if j.done}  # it died with its work
            for other in tuple(self.connections.values()):
                other.cut()
        for turn_id, job in tuple(self.jobs.items()):
            if job.done and not job.heard:
                self._say(turn_id)
        self._after(self.world.bag["agents"].between(100, 15_000), lambda: self.connect(connection.gateway))

    def leave(self, for_ms: int, polite: bool) -> None:
        """Be away for a while."""
        self.away = True
        for connection in tuple(self.connections.values()):
            if polite:
                connection.say(Goodbye())
            self._after(50, connection.cut)
        self._after(for_ms, self.come_back)

    def come_back(self) -> None:
        self.away = False
        for gateway in self.world.gateways:
            self.connect(gateway)

    def receive(self, connection: Connection, frame: GatewayFrame) -> None:
        match frame:
            case Message():
                self._work(connection, frame)
            case Cancel(turn_id=turn_id):
                self.jobs.pop(turn_id, None)
            case Receipt(turn_id=turn_id) if frame.state != "open":
                self._heard(turn_id)
            case Error(turn_id=turn_id, code=code):
                self._refused(connection, turn_id, code)
            case _:
                pass

    def _heard(self, turn_id: str) -> None:
        job = self.jobs.get(turn_id)
        if job is not None and not job.heard:
            job.heard = True
            self.world.checks.acknowledged(turn_id, job.frame.text)

    def _refused(self, connection: Connection, turn_id: str, code: str) -> None:
        if code == "broken":
            self.world.checks.fail("G7", f"the hub failed at a frame of turn {turn_id}")
        job = self.jobs.get(turn_id)
        if job is None:
            return
        if code in ("busy", "unavailable"):
            self._after(_backoff_ms(self.world.bag["agents"], job.tries), lambda: self._say(turn_id, connection))
            job.tries += 1
        else:
            job.heard = True

    def _work(self, connection: Connection, message: Message) -> None:
        job = self.jobs.get(message.turn_id)
        if job is not None:
            job.asked = connection
            if job.done:
                job.heard = False
                self._say(message.turn_id)
            return
        dice = self.world.bag["agents"]
        if self.world.strikes("agents", 0.1, dice):
            self.world.count("agent failed or repeated itself")
            self._after(dice.between(10, 3_000), connection.cut)  # it falls over this message
            return
        self.jobs[message.turn_id] = Job(self._ending(message.turn_id), asked=connection)
        if dice.chance(0.2):
            connection.say(Started(turn_id=message.turn_id, session=dice.pick(("", f"s-{self.name}"))))
        long = dice.chance(0.05) and not self.world.healed
        self._after(
            dice.between(HOUR_MS, 20 * HOUR_MS) if long else dice.between(5, 4_000),
            partial(self._finish, message.turn_id),
        )

    def _ending(self, turn_id: str) -> Completed | Degraded | Failed:
        dice = self.world.bag["agents"]
        roll = dice.below(20)
        if roll == 0:
            return Failed(turn_id=turn_id, text="it broke")
        if roll == 1:
            return Completed(turn_id=turn_id, text=" \n")
        if roll == 2:
            return Degraded(turn_id=turn_id, text=self.world.text("sorry"))
        quoting = "[[reply_to:m-1]]\n" if roll == 3 else ""  # which Weixin cannot show
        return Completed(turn_id=turn_id, text=quoting + self.world.text("answer"))

    def own_turn(self, to: str, text: str, origin: Any) -> None:
        """Finish a turn that nobody asked for."""
        turn_id = self.world.new_turn()
        frame = Completed(turn_id=turn_id, text=text, to=to, origin=origin)
        self.jobs[turn_id] = Job(frame, done=True)
        self._say(turn_id)

    def _finish(self, turn_id: str) -> None:
        job = self.jobs.get(turn_id)
        if job is not None:
            job.done = True
            self._say(turn_id)
            if self.world.strikes("agents", 0.1, self.world.bag["agents"]):
                self.world.count("agent failed or repeated itself")
                self._say(turn_id)  # and once more

    def _say(self, turn_id: str, connection: Connection | None = None) -> None:
        job = self.jobs.get(turn_id)
        if job is None or job.heard:
            return
        if connection is None or not connection.open:
            connection = job.asked
        if connection is None or not connection.open:
            connection = next(reversed(self.connections.values()), None)
        if connection is not None:
            connection.say(job.frame)

    def _after(self, wait: int, fn: Any) -> None:
        self.world.scheduler.call_at(self.world.now + wait, fn)


class Client:
    """Sends turns over the HTTP API until they are accepted or refused for good."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.pending: dict[str, TurnOffer] = {}
        self._next: dict[str, TimerHandle] = {}  # when each is tried again, unless it is answered before
        self._tries: dict[str, int] = {}

    def submit(self, offer: TurnOffer) -> None:
        self.pending[offer.turn_id] = offer
        self._try(offer)

    def _try(self, offer: TurnOffer) -> None:
        gateway = self._world.serving(offer.to.split(":")[1] if offer.to else "")
        if gateway is None:
            self._again(offer)
            return

        def arrive() -> None:
            answer = gateway.future(gateway.acceptance.accept(offer))
            answer.add_done_callback(lambda done: self._answered(offer, done))

        gateway.machine.call_soon(arrive)
        self._again(offer, TIMEOUT_MS)

    def _answered(self, offer: TurnOffer, done: Any) -> None:
        if offer.turn_id not in self.pending or self._world.bag["client"].chance(0.05):
            return  # the answer is lost on its way
        try:
            accepted = done.result()
        except NotNow as refusal:
            if isinstance(refusal, Partly):
                self._world.checks.accepted_by(refusal.facts["deliveries"])
            self._again(offer)
        except (BadRequest, NotFound, TurnConflict) as refusal:
            self._over(offer)
            self._world.checks.refused_turn(offer, refusal)
        else:
            self._over(offer)
            self._world.checks.acknowledged(offer.turn_id, offer.text)
            self._world.checks.delivered_as(offer.turn_id, [delivery for _, delivery in accepted.deliveries])

    def _again(self, offer: TurnOffer, wait: int = 0) -> None:
        before = self._next.get(offer.turn_id)
        if before is not None:
            before.cancel()
        tries = self._tries[offer.turn_id] = self._tries.get(offer.turn_id, -1) + 1
        due = self._world.now + (wait or _backoff_ms(self._world.bag["client"], tries))
        self._next[offer.turn_id] = self._world.scheduler.call_at(due, lambda: self._try(offer))

    def _over(self, offer: TurnOffer) -> None:
        del self.pending[offer.turn_id]
        self._next.pop(offer.turn_id).cancel()
