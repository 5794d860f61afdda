"""A world: gateways, servers, agents, clients and people on one seeded scheduler, running a plan under its checks.

world = World(plan(seed)); world.run()      raises Violation or whatever broke
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from actors import recall
from actors.gateway.api import TurnOffer
from actors.life import AccountSpec
from actors.ports import Credentials
from events.bot import DAY_MS, HOUR_MS, MINUTE_MS, Policy
from events.streams import Address
from tests.world.checks import Checks, Violation
from tests.world.dice import Bag, Dice
from tests.world.disk import Disk, MemoryDisk, SqliteDisk
from tests.world.doing import Doing
from tests.world.ending import Ending
from tests.world.gateway import Gateway, Life
from tests.world.liveness import Liveness
from tests.world.machine import Machine, WorldScheduler
from tests.world.network import Network
from tests.world.people import Client, SimAgent
from tests.world.plan import START_MS, Plan
from tests.world.server import Said, Server

NAMES = ("main", "second")
TURNS_MAX = 200_000
CACHES_LOST = 0.25
"""At so many crashes the caches go as well."""


class World:
    """Everything of one seed."""

    def __init__(self, plan: Plan, *, sqlite: bool = False, told: bool = False) -> None:
        self.plan, self.bag = plan, Bag(plan.seed)
        self.scheduler = WorldScheduler(plan.seed, START_MS)
        self.scheduler.told = told
        self._folder = tempfile.TemporaryDirectory() if sqlite else None
        self.disk: Disk = SqliteDisk(Path(self._folder.name) / "log.db") if self._folder else MemoryDisk()
        self.healed = False
        self.happened: Counter[str] = Counter({"world on SQLite": int(sqlite)})
        self.policy: Policy = plan.policy
        self.everybody = ("owner", *(f"p{n}" for n in range(1, plan.peers + 1)))
        self.access = self.everybody
        self.servers: dict[str, Server] = {}
        self.credentials: dict[str, Credentials] = {}  # what the login files say
        self.said: list[tuple[str, Said]] = []  # (account, message): what people wrote, once each
        self.gateways: list[Gateway] = []
        self._starts = self._numbers = self._turns = self._logins = 0
        self._fuse: tuple[int, Callable[[], None]] | None = None
        self.disk.on_commit = self._watch
        self.checks = Checks(self)
        self.network = Network(self, self.scheduler, self, self.bag)
        self.liveness = Liveness(self)
        self.client = Client(self)
        self.agents = [SimAgent(self, "ann")]
        if self.bag["people"].chance(0.4):
            self.agents.append(SimAgent(self, "bob", (NAMES[0],) if self.bag["people"].chance(0.3) else ()))
        for name in NAMES[: plan.accounts]:
            self.servers[name] = Server(
                name,
                plan.policy.quota_replies,
                newest_token_only=self.on("tokens"),
                replays=self.on("replays"),
            )
            self.log_in(name)
        self._do = Doing(self)

    def on(self, fault: str) -> bool:
        """Whether a fault is enabled, and the world not healed yet."""
        return not self.healed and fault in self.plan.faults

    def strikes(self, fault: str, probability: float, dice: Dice) -> bool:
        """Whether a fault strikes now."""
        return self.on(fault) and dice.chance(probability * self.plan.size.heat)

    def count(self, what: str) -> None:
        """Something of `happenings.KINDS` took effect."""
        self.happened[what] += 1

    def in_window(self, name: str) -> bool:
        """Whether a message has opened a window at an account's server that is still open."""
        return any(0 <= self.now - phone.opened_at < DAY_MS for phone in self.servers[name].phones.values())

    @property
    def now(self) -> int:
        return self.scheduler.clock._now

    # --- a run ----------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Run the plan, heal, come to rest, audit; the digest of it all."""
        errors = Errors()
        logging.getLogger("replyledger.runtime").addHandler(errors)
        self.scheduler.before_jump = self._before_jump
        long_events, recall.LONG_EVENTS = recall.LONG_EVENTS, self.plan.long_events
        try:
            self.start()
            for command in self.plan.commands:
                self.scheduler.call_at(START_MS + command.at, partial(self._do.command, command))
            last = self.plan.commands[-1].at if self.plan.commands else 0
            self.run_for(last + 3 * MINUTE_MS)
            Ending(self).come_to_rest()
            errors.check()
            return f"{self.scheduler.digest()} {self.checks.digest_rows()}"
        except Violation:
            errors.check()
            raise
        finally:
            recall.LONG_EVENTS = long_events
            logging.getLogger("replyledger.runtime").removeHandler(errors)
            for gateway in self.gateways:
                gateway.close()
            self.disk.close()
            if self._folder is not None:
                self._folder.cleanup()

    def run_for(self, ms: int) -> None:
        """Let so much time pass."""
        self.scheduler.run_for(ms, TURNS_MAX)

    def _before_jump(self, gap: int) -> None:
        self.liveness.before_jump(gap)
        self.checks.oracle.before_jump(gap)

    def fuse(self, turns: int, blow: Callable[[], None]) -> None:
        """Do something in so many turns, whatever is under way then."""
        if self._fuse is None:
            self._fuse = (turns, blow)
            self._watch()

    def hydrating(self, stream: str) -> None:
        """An actor is about to read its stream."""
        self.checks.hydrating(stream)
        self._watch()

    def _watch(self) -> None:
        """Look after each turn, as long as there is something to look at."""
        self.scheduler.on_turn = self._after_turn

    def _after_turn(self) -> None:
        if self._fuse is not None:
            turns, blow = self._fuse
            self._fuse = (turns - 1, blow)
            if turns <= 0:
                self._fuse = None
                blow()
        self.checks.turn()
        if self._fuse is None and self.checks.done:
            self.scheduler.on_turn = None

    # --- gateways -------------------------------------------------------------------------------------------------

    def specs(self) -> dict[str, AccountSpec]:
        """The configuration as it is now."""
        return {
            name: AccountSpec(address=Address("weixin", name), policy=self.policy, access=self.access, locale="en")
            for name in self.servers
        }

    def start(self, back_ms: int = 0, names: tuple[str, ...] = ()) -> Gateway:
        """Start a gateway process for some accounts, () = all; its wall clock is as wrong as that of the last one, or set back by
        so much more."""
        offset_ms = (self.gateways[-1].machine.wall.offset_ms if self.gateways else 0) - back_ms
        self._starts += 1
        specs = {name: spec for name, spec in self.specs().items() if name in (names or self.servers)}
        gateway = Gateway(self, Machine(self.scheduler, f"g{self._starts}", offset_ms), specs)
        self.gateways.append(gateway)
        gateway.start(lambda: self._started(gateway))
        return gateway

    def _started(self, gateway: Gateway) -> None:
        for agent in self.agents:
            self.scheduler.call_at(self.now + self.bag["agents"].between(5, 3_000), partial(agent.connect, gateway))

    def serving(self, name: str = "") -> Gateway | None:
        """The newest gateway that serves an account, "" = all of them; without one, the newest that serves anything."""
        newest = None
        for gateway in reversed(self.gateways):
            if gateway.serving:
                if gateway.has(name) if name else all(map(gateway.has, self.servers)):
                    return gateway
                newest = newest or gateway
        return newest

    def life(self, name: str) -> Life | None:
        """An account in the newest gateway that serves it."""
        gateway = self.serving(name)
        return gateway.lives.get(name) if gateway else None

    def lives(self) -> list[Life]:
        """Each account that is served, where it is."""
        return [life for life in map(self.life, self.servers) if life is not None]

    def claimed(self, life: Life) -> None:
        """An instance took an account over; the others look at the fence within two seconds."""
        for gateway in self.gateways:
            for other in gateway.lives.values():
                if other is not life and other.spec.address == life.spec.address and gateway.machine.alive:
                    machine = gateway.machine
                    machine.call_at(machine.clock.now() + self.bag["watch"].between(1, 2_000), other.watch_fence)

    def kill(self, gateway: Gateway, why: str) -> None:
        """A process ends where it stands; if none is left, one is started again."""
        if not gateway.machine.alive:
            return
        self.scheduler.note(f"{self.now} {gateway.machine.name} ends: {why}")
        if why == "crash":
            self.count("crash")
            if gateway.log.busy:
                self.count("crash with a commit under way")
            if any(life.outlet and not life.outlet.at_rest for life in gateway.lives.values()):
                self.count("crash with a send under way")
        gateway.log.die()
        gateway.machine.kill()
        for agent in self.agents:
            connection = agent.connections.get(gateway)
            if connection is not None:
                self.scheduler.call_at(self.now + 5, connection.cut)
        self.checks.audit()
        if self.bag["caches"].chance(CACHES_LOST) and not any(g.machine.alive for g in self.gateways):
            self.lose_caches()
        if not self._all_served():
            dice = self.bag["restart"]
            wait = dice.between(5, 3_000) if self.healed or dice.chance(0.8) else dice.below(30 * MINUTE_MS)
            self.scheduler.call_at(self.now + wait, self._restart)

    def lose_caches(self) -> None:
        """With no process alive: agenda, bindings and snapshots are compared with the events, deleted, and rebuilt from them."""
        checks = self.checks
        checks.turn()
        found = [(f"weixin:{name}", checks.rebuilt(f"weixin:{name}")) for name in self.servers]
        for account, _ in found:
            checks.caches(account)
        self.happened.update(f"{name} deleted" for name in self.disk.forget_caches())
        for account, (rows, bindings) in found:
            self.disk.put_caches(account, [r for r in rows if r != type(r)(stream=r.stream)], bindings)

    def _all_served(self) -> bool:
        """Whether each account has a process that holds it, or is about to; a supervisor sees to that."""
        alive = [g for g in self.gateways if g.machine.alive]
        return all(any(self._holds(g.lives.get(name)) for g in alive) for name in self.servers)

    def _holds(self, life: Life | None) -> bool:
        if life is None:
            return False
        return life.account.view.epoch in (0, len(self.checks.claims[life.spec.address.bot]))

    def keep_running(self) -> None:
        """Start what does not run."""
        if not self._all_served():
            self.start()

    def back_to_policy(self) -> None:
        """The plan's own policy, everybody may talk again, and nothing paused."""
        self._do.back_to_policy()

    def _restart(self) -> None:
        if not self._all_served():
            self.start(self._set_back_ms() if self.on("clocks") else 0)

    def _set_back_ms(self) -> int:
        """By how much the wall clock was set back while nothing ran; now and then forward, which the boot clock tells."""
        dice = self.bag["restart"]
        forward = dice.chance(0.3)
        self.count(f"clock set {'forward' if forward else 'back'} at a start")
        return -dice.below(26 * HOUR_MS) if forward else dice.below(2 * HOUR_MS)

    # --- people ---------------------------------------------------------------------------------------------------

    def log_in(self, name: str) -> None:
        """Somebody scans the code: a new login; the old one is void."""
        self._logins += 1
        server = self.servers[name]
        if name in self.credentials:
            self.count("logged in anew")
        server.login = f"login-{self._logins}"
        for phone in server.phones.values():
            phone.tokens.clear()
        self.checks.oracle.logged_in(name)
        self.credentials[name] = Credentials(token=server.login, base_url="http://localhost", user_id="owner")
        self.network.stir(server)
        for gateway in self.gateways:
            life = gateway.lives.get(name)
            if life is not None:
                gateway.machine.call_soon(life.watch_login)

    def lose_login(self, name: str) -> None:
        """The login is void, and nobody has a new one."""
        if self.servers[name].login:
            self.count("login lost")
        self.servers[name].login = ""
        self.network.stir(self.servers[name])

    def say(self, name: str, peer: str, text: str) -> None:
        """A person writes; the message reaches the server a little later."""
        dice = self.bag["people"]
        self._numbers += 1
        before = [s.sent_at for a, s in self.said if (a, s.peer) == (name, peer)]
        sent_at = max([self.now, *(b + 1 for b in before)])
        has_token = not (self.strikes("tokens", 0.2, dice))
        if not has_token:
            self.count("message without a token")
        said = Said(
            number=self._numbers,
            peer=peer,
            text=text,
            sent_at=sent_at,
            token=f"token-{self._numbers}" if has_token else "",
            message_id="" if self.strikes("duplicates", 0.2, dice) else str(10_000 + self._numbers),
        )
        self.said.append((name, said))
        slow = self.strikes("slow_net", 0.3, dice)
        if slow:
            self.count("slow network")
        self.scheduler.call_at(
            sent_at + (dice.below(6_000) if slow else dice.between(1, 100)), partial(self._heard, name, said)
        )

    def _heard(self, name: str, said: Said) -> None:
        server = self.servers[name]
        server.hear(said, self.now)
        self.checks.oracle.heard(name, said.peer, token=bool(said.token))
        self.network.stir(server)
        if self.strikes("duplicates", 0.15, self.bag["people"]):
            again = msgspec_replace(said, self.servers[name].new_id())
            anew = self.bag["people"].chance(0.5)
            self.repeated(said, again if anew else said)
            server.repeat(again if anew else said)

    def repeated(self, said: Said, again: Said) -> None:
        """The channel delivers a message once more."""
        self.count(
            f"message again, {'same' if again.message_id == said.message_id else 'new' if again.message_id else 'no'} id"
        )
        if self.now - said.sent_at >= 25 * HOUR_MS:
            self.count("message again after 25 h")

    def new_turn(self) -> str:
        self._turns += 1
        return f"turn-{self._turns}"

    def text(self, kind: str) -> str:
        """A text that is the only one of its kind: a word, some lines, or more than one part."""
        self._numbers += 1
        dice = self.bag["texts"]
        begin = f"{kind} {self._numbers}"
        size = 0 if self.healed else dice.pick(self.plan.size.parts)
        words = ("lorem ipsum dolor sit", "回复的内容，一句话。", "amet, naïve café\n\nand", "🙂 and so on\n")
        room = self.plan.policy.part_bytes if self.plan.policy.part_bytes < 1_000 else 1_500
        least = size * room * 2 // 3
        filler = " ".join(dice.pick(words) for _ in range(min(8, size)))
        if least:
            begin = " ".join((begin, *(filler,) * (least // len(filler.encode()) + 1)))
        return begin

    def submit(self, to: str, session: str, origin: str, text: str, status: str, *, turn_id: str = "") -> None:
        """A client has a turn for a peer or a session; a new one, if it has no id yet."""
        offer = {
            "to": to,
            "session": session,
            "origin": origin,
            "text": text,
            "status": status,
            "turn_id": turn_id or self.new_turn(),
        }
        self.client.submit(msgspec.convert(offer, TurnOffer))


def msgspec_replace(said: Said, message_id: str) -> Said:
    """The same message under another id."""
    return Said(said.number, said.peer, said.text, said.sent_at, said.token, message_id)


class Errors(logging.Handler):
    """Collects what the actors' runtime reports: in a world no actor fails."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def check(self) -> None:
        """Fail at the first one."""
        if self.records:
            raise Violation("failure", self.records[0])

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())
