"""A simulated gateway process: the real accounts, actors, hub of agents and acceptance of turns, on simulated ports. What `actors.life`
and `scripts.running.process` do with tasks and sockets is done here with flows and slots; the start itself is the same code."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actors import waking
from actors.account import Account
from actors.agents.hub import AgentHub
from actors.bot import Begin, End, NoteStep
from actors.channels.ahead import Ahead
from actors.deciding.view import BotView
from actors.fence import EpochFence
from actors.gateway.acceptance import Acceptance
from actors.gateway.api import TurnOffer
from actors.gateway.chores import Chores
from actors.gateway.erasing import Erasing
from actors.gateway.finding import Finder
from actors.gateway.receipts import story_standing
from actors.gateway.tidings import Tidings
from actors.life import AccountSpec, LifeState
from actors.ports import Credentials, LoginGone, Outcome, Refused
from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.runtime.errors import ActorStopped, RuntimeRefusal
from actors.runtime.flows import run
from actors.runtime.futures import FutureLike, Slot
from actors.waking import credentials_id
from events.base import Recorded
from events.history import history
from events.peer_state import PeerState
from events.streams import bot_stream
from store.errors import Fenced, StoreError
from tests.world.disk import SimLog
from tests.world.link import SimInlet, SimOutlet
from tests.world.machine import Machine
from tests.world.server import Server

if TYPE_CHECKING:
    from tests.world.world import World


class Life:
    """One account in one process: what `AccountLife` is in production."""

    def __init__(self, gateway: Gateway, spec: AccountSpec, server: Server) -> None:
        self.gateway, self.spec, self.server = gateway, spec, server
        self.world, self.machine, self.log = gateway.world, gateway.machine, gateway.log
        self.state: LifeState = "starting"
        self.recalled = False
        self.inlet: SimInlet | None = None
        self.outlet: SimOutlet | None = None
        self.fence: EpochFence
        self.account = self._new_account()

    def _new_account(self) -> Account:
        spec = self.spec
        account = Account(
            spec.address,
            scheduler=self.machine,
            log=self.log,
            hub=self.gateway.hub,
            view=BotView(
                account=spec.address.bot,
                epoch=0,
                policy=spec.policy,
                locale=spec.locale,
                agentless_since=self.machine.clock.now(),
            ),
            access=spec.access,
        )
        account.on_fenced = self._fenced
        account.on_change = self.gateway.peer_changed
        account.peers = Directory(self.machine, self._actor_of)
        return account

    def _actor_of(self, key: str) -> Actor:
        self.world.hydrating(key)
        return waking.actor_of(key, self.account)

    async def start(self) -> None:
        log: Any = self.log
        claim = await waking.claim(self.account, log, instance=self.machine.name, simulated=True)
        self.world.claimed(self)
        self.fence = EpochFence(log, claim.account, claim.epoch, self.machine.clock, self.account.fence_off)
        try:
            await waking.recall(self.account, log)
            self.recalled = True
            await self._begin()
        except (Fenced, ActorStopped):
            self.account.fence_off()

    async def _begin(self) -> None:
        credentials = self.world.credentials.get(self.spec.address.account)
        begun = await waking.begin(self.account, self.spec.policy, credentials)
        if self.account.fenced:
            return
        if credentials is None or begun != "ready":
            self.state = "login_lost" if credentials else "login_needed"
            self._watch_login_soon()
        else:
            self._open(credentials)

    def _open(self, credentials: Credentials) -> None:
        ahead = Ahead()
        self.inlet, self.outlet = SimInlet(self, credentials, ahead), SimOutlet(self, credentials, ahead)
        self.account.outlet = self.outlet
        self.gateway.run(self.inlet.run(self.account.state.cursor))
        self.state = "running"
        self.account.wake_all()

    # --- what the channel says ------------------------------------------------------------------------------------

    def lost(self, gone: LoginGone) -> None:
        if self.state != "login_lost" and not self.account.fenced:
            waking.lose(self.account, gone)
            self.state = "login_lost"
            self._watch_login_soon()

    def report(self, stream: str, request: str, outcome: Outcome) -> None:
        if isinstance(outcome, Refused) and outcome.failure == "login_lost":
            self.lost(LoginGone(code=outcome.code, where="send"))
        waking.report(self.account, stream, request, outcome)

    # --- watching -------------------------------------------------------------------------------------------------

    def watch_fence(self) -> None:
        self.gateway.run(self._watch_fence())

    async def _watch_fence(self) -> None:
        if self.account.view.epoch and not self.account.fenced:  # before its claim nobody can replace it
            try:
                await self.fence.check()
            except Fenced:
                return

    def _watch_login_soon(self) -> None:
        clock = self.machine.clock
        self.machine.call_at(clock.now() + self.world.bag["watch"].between(1, 2_000), self.watch_login)

    def watch_login(self) -> None:
        """Whether somebody logged in, which production looks at every two seconds."""
        credentials = self.world.credentials.get(self.spec.address.account)
        if self.state not in ("login_needed", "login_lost") or self.account.fenced or credentials is None:
            return
        if credentials_id(self.account, credentials) != self.account.state.credentials:
            self.state = "starting"
            self.gateway.run(self._log_in())

    async def _log_in(self) -> None:
        await self._close_link()
        try:
            await self._begin()
        except (Fenced, RuntimeRefusal):
            self.account.fence_off()

    def note_step(self, step_ms: int) -> None:
        self.machine.wall.stepped_ms += step_ms
        self.gateway.run(self._tell_bot(NoteStep(step_ms)))

    def reconfigure(self, spec: AccountSpec) -> None:
        self.spec = spec
        self.account.admit(spec.access)
        policy_id = waking.policy_id(spec.policy)
        self.gateway.run(
            self._tell_bot(Begin(policy=spec.policy, policy_id=policy_id, credentials=self.account.state.credentials))
        )

    async def _tell_bot(self, command: object) -> None:
        try:
            await self.account.peers.ask(bot_stream(self.spec.address), command)
        except (StoreError, RuntimeRefusal):
            return

    # --- ending ---------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        await self._close_link()
        if not self.account.fenced:
            await self._tell_bot(End("stopped"))
        await self.account.peers.stop_all()
        self.account.agenda.close()
        if not self.account.fenced:
            self.state = "stopped"

    async def _close_link(self) -> None:
        self.account.shut_off()
        inlet, outlet, self.inlet, self.outlet = self.inlet, self.outlet, None, None
        if inlet is not None:
            inlet.closed = True
        if outlet is not None:
            await outlet.close()
            if self.account.outlet is outlet:
                self.account.outlet = None

    def _fenced(self) -> None:
        self.state = "fenced"
        self.world.count("replaced")
        if any(life.state == "running" and not life.account.fenced for life in self.gateway.lives.values()):
            self.world.count("one of two accounts replaced")
        self.gateway.run(self._release())

    async def _release(self) -> None:
        await self._close_link()
        self.gateway.released()


class Peers:
    """Sends a command to the peer of a stream, whichever account it belongs to."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    def ask(self, key: str, message: object) -> FutureLike:
        place = self._finder.of_stream(key)
        if place is None:
            slot = Slot()
            slot.set_exception(ActorStopped(key))
            return slot
        return place.life.account.peers.ask(key, message)


class Accepted(msgspec.Struct):
    """The part of TurnAccepted that agents' answers look at."""

    deliveries: tuple[Delivery, ...]
    repeated: bool


class Delivery(msgspec.Struct):
    """The part of DeliveryView that agents' answers look at."""

    delivery: str
    peer: str
    not_taken: str = ""


class Standing(msgspec.Struct):
    """The part of Receipt that agents' answers look at."""

    peer: str
    state: str
    reason: str
    earliest: int | None = None


class Desk:
    """What the hub asks of the gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def accept(self, offer: TurnOffer, agent: str) -> Slot:
        return self._gateway.future(self._accept(offer, agent))

    async def _accept(self, offer: TurnOffer, agent: str) -> Accepted:
        accepted = await self._gateway.acceptance.accept(offer, agent)
        found = tuple(Delivery(delivery, place.address) for place, delivery in accepted.deliveries)
        return Accepted(found, accepted.repeated)

    def delivery(self, delivery: str) -> Slot:
        return self._gateway.future(self._delivery(delivery))

    async def _delivery(self, delivery: str) -> Standing:
        key, place = await self._gateway.finder.delivery(delivery)
        log: Any = self._gateway.log
        story = history(await log.read_since_key(place.stream, "delivery", key.delivery)).outputs[key.delivery]
        state, reason = story_standing(story)
        return Standing(place.address, state, reason)


class Gateway:
    """One process."""

    def __init__(self, world: World, machine: Machine, specs: Mapping[str, AccountSpec]) -> None:
        self.world, self.machine = world, machine
        self.log = SimLog(
            machine, world.disk, world, world.bag["log"], lambda _error: world.kill(self, "failed commit")
        )
        self.lives: dict[str, Life] = {}
        lives: Any = self.lives
        log: Any = self.log
        self.finder = Finder(lives, log)
        self.acceptance = Acceptance(self.finder, log, machine)
        self.chores = Chores(self.finder, self.acceptance, log)
        self.erasing = Erasing(self.finder, self.acceptance, log)
        self._tidings = Tidings()
        self.hub = AgentHub(machine, Peers(self.finder), Desk(self), self._agents_changed)
        self.started = self.stopping = False
        self._running: list[Any] = []
        for name, spec in specs.items():
            self.lives[name] = Life(self, spec, world.servers[name])

    def close(self) -> None:
        """The world is over: let go of what still waits, from the outside in."""
        for flow in self._running:
            flow.close()

    @property
    def serving(self) -> bool:
        return self.machine.alive and self.started and not self.stopping

    @property
    def replaced(self) -> bool:
        """Whether another process has claimed one of its accounts since."""
        claims = self.world.checks.claims
        return any(0 < e.account.view.epoch < len(claims[e.spec.address.bot]) for e in self.lives.values())

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on this process."""
        if self.machine.alive:
            flow: Any = coroutine  # it awaits nothing but futures of the scheduler, so it is a flow
            if len(self._running) > 200:
                self._running = [f for f in self._running if f.cr_frame is not None]
            self._running.append(flow)
            run(self.machine, flow)
        else:
            coroutine.close()

    def future(self, coroutine: Coroutine[Any, Any, Any]) -> Slot:
        """The future of a coroutine's result."""
        slot = Slot()

        async def fill() -> None:
            try:
                result = await coroutine
            except Exception as error:
                slot.set_exception(error)
            else:
                slot.set_result(result)

        self.run(fill())
        return slot

    def start(self, then: Callable[[], None]) -> None:
        self.run(self._start(then))

    async def _start(self, then: Callable[[], None]) -> None:
        for life in self.lives.values():
            await life.start()
        self.started = True
        then()

    def stop(self, then: Callable[[], None]) -> None:
        """End in good order, as after TERM."""
        self.stopping = True
        self.hub.close()
        self.run(self._stop(then))

    async def _stop(self, then: Callable[[], None]) -> None:
        for life in self.lives.values():
            await life.stop()
        then()

    def released(self) -> None:
        """An account was fenced: with the last one the process exits."""
        if all(life.state == "fenced" for life in self.lives.values()):
            self.world.kill(self, "replaced")

    def peer_changed(self, stream: str, recorded: tuple[Recorded, ...], _state: PeerState) -> None:
        for tiding in self._tidings.of(recorded):
            self.hub.delivery_changed(tiding.delivery, tiding.state, tiding.reason)

    def _agents_changed(self) -> None:
        for life in self.lives.values():
            life.account.agents_changed()

    def has(self, name: str) -> bool:
        """Whether it has an account, and was not replaced there."""
        life = self.lives.get(name)
        return life is not None and not life.account.fenced
