"""A gateway's service over real accounts and a real log; only the channel is written by hand, and only the test moves the clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry

from actors.deciding.commands import Ask
from actors.deciding.view import Over
from actors.gateway.api import TurnOffer
from actors.gateway.finding import Finder
from actors.gateway.metrics import Metrics
from actors.gateway.service import Service
from actors.gateway.showing import Agents
from actors.gateway.tidings import Tiding, Tidings
from actors.life import AccountLife, AccountSpec, Process
from actors.ports import Accepted, Credentials, Inbound, Link, LoginGone, Outcome, Polled, Report, SendOrder
from actors.runtime.clock import ManualClock, SeededIds
from actors.runtime.scheduler import LoopScheduler
from events.base import Event, Millis, Recorded
from events.bot import Policy
from events.streams import Address
from store.log import Log

NOON = 1_800_000_000_000
PATIENCE_S = 10
LOOK_AGAIN_S = 0.02
ANN, BEN = "ann@im.wechat", "ben@im.wechat"


class Login:
    """Where a login is kept, in the test's hands."""

    def __init__(self, user: str = ANN, token: str = "login-1") -> None:
        self.kept: Credentials | None = credentials(user, token)

    def read(self) -> Credentials | None:
        return self.kept

    def forget(self) -> None:
        self.kept = None


def credentials(user: str = ANN, token: str = "login-1") -> Credentials:
    return Credentials(token=token, base_url="http://127.0.0.1:1", user_id=user)


class Outlet:
    """Records what it is told to send. Answers at once with message ids, unless `manual`."""

    def __init__(self, line: Line, report: Report) -> None:
        self._line, self._report = line, report
        self._held: set[str] = set()
        self.orders: list[SendOrder] = []
        self.closed = False

    def earliest(self, stream: str, now: Millis, *, keep: bool = True) -> Millis:
        return now

    def send(self, order: SendOrder) -> None:
        assert not self.closed
        assert order.request not in self._held, "an order twice"
        self._held.add(order.request)
        self.orders.append(order)
        self._line.orders.append(order)
        if not self._line.manual:
            self.answer(order, Accepted(message_id=f"m{len(self._line.orders)}"))
        self._line.stage.pulse()

    def answer(self, order: SendOrder, outcome: Outcome) -> None:
        self._report(order.stream, order.request, outcome)

    def holds(self, request: str) -> bool:
        return request in self._held

    def settled(self, request: str) -> None:
        self._held.discard(request)
        self._line.stage.pulse()

    def typing(self, peer: str, token: str, on: bool) -> None:
        """Not shown."""

    async def close(self) -> None:
        self.closed = True
        self._line.stage.pulse()


class Inlet:
    """Polls what the test puts on the line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def run(
        self, deliver: Callable[[Polled], Awaitable[None]], lost: Callable[[LoginGone], Awaitable[None]], cursor: str
    ) -> None:
        while True:
            polled = await self._line.incoming.get()
            if isinstance(polled, LoginGone):
                await lost(polled)
                return
            await deliver(polled)
            self._line.delivered += 1
            self._line.stage.pulse()


class OneLink:
    """A link of one login."""

    def __init__(self, line: Line, report: Report, given: Credentials) -> None:
        self.credentials = given
        self.inlet, self.outlet = Inlet(line), Outlet(line, report)


class Line:
    """An account's channel over all lives of the account in this stage."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self._name = stage, name
        self.manual = False
        self.incoming: asyncio.Queue[Polled | LoginGone] = asyncio.Queue()
        self.orders: list[SendOrder] = []
        self.links: list[OneLink] = []
        self.delivered = 0

    def open(self, given: Credentials, *, report: Report, **_rest: Any) -> Link:
        link = OneLink(self, report, given)
        self.links.append(link)
        return link

    @property
    def texts(self) -> list[str]:
        return [o.text for o in self.orders]

    def answer(self, outcome: Outcome, which: int = -1) -> None:
        """The channel says what became of an order."""
        self.links[-1].outlet.answer(self.orders[which], outcome)

    async def hear(self, text: str, peer: str = ANN, **fields: Any) -> None:
        """A peer writes; returns once that is durable and the peer has dealt with it."""
        number, now = self.stage.number_of_message(), self.stage.clock.now()
        given = {"message_id": f"in{number}", "sent_at": now, "token": f"token-{number}"} | fields
        message = Inbound(peer=peer, text=text, **given)
        before = self.delivered
        self.incoming.put_nowait(Polled(messages=(message,), cursor=f"c{number}", started_at=now - 1_000, ended_at=now))
        await self.stage.until(lambda: self.delivered > before)
        account = self.stage.lives[self._name].account
        await account.peers.ask(account.known(peer), Ask())


class Hub:
    """No agents, but what they would be offered."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.agents = 0
        self.turns: list[str] = []
        self.withdrawn: list[tuple[str, Over]] = []

    def offer(self, offer: Any) -> None:
        if offer.turn.turn_id not in self.turns:
            self.turns.append(offer.turn.turn_id)
        self._stage.pulse()

    def withdraw(self, turn_id: str, reason: Over) -> None:
        self.withdrawn.append((turn_id, reason))

    def reset(self, stream: str, session: str, resets: int) -> None:
        """Nobody to tell."""


class Stage:
    """One process of the gateway, as often as it is started on a log."""

    def __init__(self, log: Log, *, instance: str = "i-1", now: Millis = NOON, seed: str = "1") -> None:
        self.log, self.instance = log, instance
        self.clock = ManualClock(now)
        self.scheduler = LoopScheduler(clock=self.clock, ids=SeededIds(f"{instance} {seed}"))
        self.hub = Hub(self)
        self.lives: dict[str, AccountLife] = {}
        self.lines: dict[str, Line] = {}
        self.logins: dict[str, Login] = {}
        self.failures: list[BaseException] = []
        self.states: list[tuple[str, str]] = []
        self.tidings: list[Tiding] = []
        self._tidings = Tidings()
        self.finder = Finder(self.lives, log)
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, self.lives)
        self.service = Service(
            self.lives,
            log=log,
            scheduler=self.scheduler,
            instance=instance,
            version="0",
            agents=Agents(lambda: ()),
        )
        self._pulse = asyncio.Event()
        self._messages = 0

    # --- accounts -------------------------------------------------------------------------------------------------

    async def account(
        self, name: str = "main", *, policy: Policy | None = None, login: Login | None = None, **spec: Any
    ) -> Line:
        """Add an account and start it."""
        line = self.add(name, policy=policy, login=login, **spec)
        await self.lives[name].start()
        return line

    def add(self, name: str, *, policy: Policy | None = None, login: Login | None = None, **spec: Any) -> Line:
        """Add an account."""
        line = self.lines[name] = Line(self, name)
        self.logins[name] = login or Login(token=f"login-{name}")
        process = Process(
            log=self.log,
            scheduler=self.scheduler,
            hub=self.hub,
            instance=self.instance,
            on_log_failed=self.failures.append,
            on_appended=self._appended,
            on_claimed=self.metrics.claimed,
        )
        self.lives[name] = AccountLife(
            AccountSpec(address=Address("weixin", name), policy=policy or Policy(notice_after_ms=0), **spec),
            process,
            open_link=line.open,
            logins=self.logins[name],
            on_state=self._entered,
            on_change=self._changed,
        )
        return line

    def _entered(self, life: AccountLife) -> None:
        self.states.append((life.spec.address.account, life.state))
        self.pulse()

    def _changed(self, stream: str, _recorded: tuple[Recorded, ...], _state: object) -> None:
        self.service.changed(stream)
        self.pulse()

    def _appended(self, recorded: tuple[Recorded, ...]) -> None:
        self.metrics.count(recorded)
        self.tidings.extend(self._tidings.of(recorded))
        self.pulse()

    # --- time and conditions --------------------------------------------------------------------------------------

    def pulse(self) -> None:
        """Something happened: whoever waits for a condition looks again."""
        self._pulse.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._pulse.clear()
                with contextlib.suppress(TimeoutError):  # not everything that a test may wait for says so
                    await asyncio.wait_for(self._pulse.wait(), LOOK_AGAIN_S)

    def advance(self, ms: int) -> None:
        """Let time pass at once."""
        self.clock.advance(ms)
        self.scheduler.clock_moved()

    def number_of_message(self) -> int:
        self._messages += 1
        return self._messages

    # --- asking ---------------------------------------------------------------------------------------------------

    async def offer(self, text: str, to: str = "weixin:main", **fields: Any) -> Any:
        """Offer a turn for an address."""
        return await self.service.accept_turn(TurnOffer(to=to, text=text, **fields))

    async def send(self, text: str, to: str = "weixin:main", **fields: Any) -> str:
        """Offer a turn; its one delivery."""
        accepted = await self.offer(text, to, **fields)
        return str(accepted.deliveries[0].delivery)

    async def final(self, delivery: str) -> Any:
        """A delivery's receipt, once it is final."""
        return await self.service.delivery(delivery, PATIENCE_S * 1_000)

    async def events(self, kind: type[Event] | None = None) -> list[Any]:
        """The log's events, all or of one type."""
        found: list[Any] = []
        async for page in self.log.page():
            found.extend(r.event for r in page if kind is None or isinstance(r.event, kind))
        return found

    # --- ending ---------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop as TERM does."""
        for life in self.lives.values():
            await life.stop("test")
        self.scheduler.close()

    async def crash(self) -> None:
        """Stop as SIGKILL does: nothing is said to the log any more."""
        for life in self.lives.values():
            life.account.fenced = True
            life.account.peers.abort_all()
            await life.stop("crash")
        self.scheduler.close()
