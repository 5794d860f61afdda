"""An account's actors on the simulated scheduler: the log in memory, an outlet and a hub written by hand."""

from __future__ import annotations

from typing import Any

from actors import waking
from actors.account import Account, Offer
from actors.bot import Deliver
from actors.deciding.commands import AcceptTurn
from actors.deciding.view import BotView, Over
from actors.ports import Credentials, Inbound, Outcome, Polled, SendOrder
from actors.runtime.directory import Directory
from events.base import Recorded
from events.bot import Policy
from events.streams import Address, bot_stream
from tests.world.dice import Dice
from tests.world.disk import MemoryDisk, SimLog
from tests.world.machine import Machine, WorldScheduler

NOW = 1_750_000_000_000
ADDRESS = Address("weixin", "main")
LOGIN = Credentials(token="secret", base_url="http://localhost", user_id="owner")
BOT = bot_stream(ADDRESS)


class Trouble:
    """The log's faults, by name."""

    def __init__(self) -> None:
        self.faults: set[str] = set()

    def strikes(self, fault: str, probability: float, dice: Dice) -> bool:
        return fault in self.faults and dice.chance(probability)

    def count(self, what: str) -> None:
        """Nobody counts here."""


class FakeOutlet:
    """Notes what it is given; the test says what becomes of it."""

    def __init__(self) -> None:
        self.orders: list[SendOrder] = []
        self.held: set[str] = set()
        self.paced_until = 0
        self.kept = 0  # places in the pace that were asked for in earnest

    def earliest(self, stream: str, now: int, *, keep: bool = True) -> int:
        self.kept += keep
        return max(now, self.paced_until)

    def send(self, order: SendOrder) -> None:
        self.orders.append(order)
        self.held.add(order.request)

    def holds(self, request: str) -> bool:
        return request in self.held

    def settled(self, request: str) -> None:
        self.held.discard(request)

    def typing(self, peer: str, token: str, on: bool) -> None:
        raise AssertionError("not asked for")

    async def close(self) -> None:
        raise AssertionError("nobody closes it")


class FakeHub:
    """Notes what peers say."""

    def __init__(self) -> None:
        self.agents = 1
        self.offers: list[Offer] = []
        self.withdrawn: list[tuple[str, Over]] = []
        self.resets: list[tuple[str, str, int]] = []

    def offer(self, offer: Offer) -> None:
        self.offers.append(offer)

    def withdraw(self, turn_id: str, reason: Over) -> None:
        self.withdrawn.append((turn_id, reason))

    def reset(self, stream: str, session: str, resets: int) -> None:
        self.resets.append((stream, session, resets))


class Stage:
    """One account, claimed, with a login; `disk` outlives it."""

    def __init__(
        self, disk: MemoryDisk | None = None, *, policy: Policy | None = None, login: Credentials | None = LOGIN
    ) -> None:
        self.scheduler = WorldScheduler(1, NOW if disk is None or not disk.committed else disk.committed[-1].at)
        self.machine = Machine(self.scheduler, "one")
        self.disk = disk or MemoryDisk()
        self.trouble = Trouble()
        self.failures: list[BaseException] = []
        self.log = SimLog(self.machine, self.disk, self.trouble, Dice("stage"), self.failures.append)
        self.hub, self.outlet = FakeHub(), FakeOutlet()
        self.policy = policy or Policy()
        self.fenced = 0
        self.polls = 0
        self.account = Account(
            ADDRESS,
            scheduler=self.machine,
            log=self.log,
            hub=self.hub,
            view=BotView(account=ADDRESS.bot, epoch=0, policy=self.policy, locale="en"),
            access=("owner", "ann"),
        )
        self.account.on_fenced = self._fenced
        self.account.peers = Directory(self.machine, lambda key: waking.actor_of(key, self.account))
        self.account.outlet = self.outlet
        log: Any = self.log
        self.wait(waking.claim(self.account, log, instance="i-1"))
        self.wait(waking.recall(self.account, log))
        self.begun = self.wait(waking.begin(self.account, self.policy, login))

    def _fenced(self) -> None:
        self.fenced += 1

    def wait(self, coroutine: Any) -> Any:
        """The result of a coroutine that awaits slots."""
        from actors.runtime.flows import run

        slot = self.scheduler.future()

        async def fill() -> None:
            slot.set_result(await coroutine)

        flow: Any = fill()
        run(self.machine, flow)
        return self.scheduler.run_until(slot)

    def ask(self, key: str, message: object) -> Any:
        """The reply of an actor, once everything that is ready has run."""
        reply = self.scheduler.run_until(self.account.peers.ask(key, message))
        self.scheduler.run_for(20)
        return reply

    def poll(self, *messages: Inbound, cursor: str = "") -> None:
        """A poll brings messages."""
        self.polls += 1
        now = self.machine.clock.now()
        polled = Polled(messages=messages, cursor=cursor or f"c{self.polls}", started_at=now - 50, ended_at=now)
        self.ask(BOT, Deliver(polled))

    def message(self, text: str = "hi", peer: str = "ann", **fields: Any) -> Inbound:
        """A message as the inlet gives it; with its own id, time and token."""
        self.polls += 1
        now = self.machine.clock.now()
        given = {
            "message_id": str(self.polls),
            "sent_at": now - 10 + self.polls,
            "token": f"token {self.polls}",
            **fields,
        }
        return Inbound(peer=peer, text=text, **given)

    @property
    def ann(self) -> str:
        return self.account.stream_of("ann")

    def accept(self, turn: str, text: str = "news") -> Any:
        """A turn that no message started is over."""
        return self.ask(
            self.ann, AcceptTurn(turn_id=turn, origin="scheduled", status="completed", text=text, keys_value="{}")
        )

    def conclude(self, outcome: Outcome) -> None:
        """The outlet reports on its last order."""
        order = self.outlet.orders[-1]
        waking.report(self.account, order.stream, order.request, outcome)
        self.scheduler.run_for(20)

    def types(self, stream: str = "") -> list[str]:
        """The events of a stream, or of all."""
        return [r.type for r in self.events(stream)]

    def events(self, stream: str = "") -> list[Recorded]:
        return [r for r in self.disk.committed if stream in ("", r.stream)]
