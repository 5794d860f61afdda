"""A simulated channel link: `Inlet` and `Outlet` of an account on the world's scheduler, with the pacer and the fence of production."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from actors.bot import Deliver
from actors.channels.ahead import Ahead
from actors.channels.weixin.pacer import Pacer
from actors.inbox import LATENCY_MS_MAX
from actors.ports import LISTEN_MS, Credentials, Inbound, LoginGone, Outcome, Polled, Refused, SendOrder, Unknown
from actors.runtime.errors import RuntimeRefusal
from actors.runtime.futures import Slot
from actors.runtime.timers import TimerHandle
from events.base import Millis
from events.streams import bot_stream
from store.errors import Fenced
from tests.world.network import Flight
from tests.world.server import Answer, Said

if TYPE_CHECKING:
    from tests.world.gateway import Life


BACKOFF_MS = 2_000


def inbound_of(said: Said) -> Inbound:
    """A message as the inlet gives it."""
    return Inbound(peer=said.peer, message_id=said.message_id, sent_at=said.sent_at, text=said.text, token=said.token)


class SimInlet:
    """Polls, and lets the bot make durable what came before it polls again."""

    def __init__(self, life: Life, credentials: Credentials, ahead: Ahead) -> None:
        self._life, self._login, self._ahead = life, credentials.token, ahead
        self.closed = False

    async def run(self, cursor: str) -> None:
        life, clock = self._life, self._life.machine.clock
        try:
            while not self.closed:
                await life.fence.confirm()
                started_at = clock.now()
                answer = await life.world.network.poll(life.server, self._login, cursor, life.machine)
                if self.closed:
                    return
                if answer is not None:
                    self._ahead.heard(answer.dated, started_at, clock.now())
                if answer is None:
                    await life.account.later(BACKOFF_MS)
                elif answer.code:
                    life.lost(LoginGone(code=answer.code, where="poll"))
                    return
                else:
                    cursor = answer.cursor
                    await self._deliver(answer, started_at)
        except (Fenced, RuntimeRefusal):
            self.closed = True

    async def _deliver(self, answer: Answer, started_at: Millis) -> None:
        now = self._life.machine.clock.now()
        polled = Polled(
            messages=tuple(inbound_of(s) for s in answer.messages),
            cursor=answer.cursor,
            started_at=started_at,
            ended_at=self._ahead.read_at(answer.dated, started_at, now, LATENCY_MS_MAX),
            ahead_ms=self._ahead.most_ms(now),
        )
        await self._life.account.peers.ask(bot_stream(self._life.spec.address), Deliver(polled))


class SimOutlet:
    """Paces, sends once, reports: the rules of `actors.channels.weixin.outlet` without a socket."""

    def __init__(self, life: Life, credentials: Credentials, ahead: Ahead) -> None:
        self._life, self._login, self._ahead = life, credentials.token, ahead
        self._pacer = Pacer(lambda: life.account.view.policy)
        self._pending: dict[str, Flight] = {}
        self._listening: dict[str, Flight] = {}
        self._unsettled: set[str] = set()
        self._empty: Slot | None = None
        self._closed = False

    def earliest(self, stream: str, now: Millis, *, keep: bool = True) -> Millis:
        return self._pacer.earliest(stream, now, keep=keep)

    def holds(self, request: str) -> bool:
        return request in self._pending or request in self._unsettled

    def settled(self, request: str) -> None:
        self._unsettled.discard(request)

    def typing(self, peer: str, token: str, on: bool) -> None:
        """Not shown in worlds."""

    @property
    def at_rest(self) -> bool:
        return not self._pending

    def send(self, order: SendOrder) -> None:
        assert not self.holds(order.request), "an order twice"
        assert order.request not in self._listening, "an order twice"
        machine = self._life.machine
        if self._closed:
            self._unsettled.add(order.request)
            machine.call_soon(lambda: self._tell(order, Refused(failure="not_sent")))
            return
        flight = Flight(order, machine, self._login, self._life.world.now)
        flight.on_answer = partial(self._answered, flight)
        self._pending[order.request] = flight
        self._life.gateway.run(self._exchange(flight))

    async def _exchange(self, flight: Flight) -> None:
        life, machine = self._life, self._life.machine
        if not await self._turn_came(flight.order):
            self._landed(flight, Refused(failure="too_late"))
            return
        timeout_ms = life.account.view.policy.client_timeout_ms
        flight.timer = machine.call_at(machine.clock.now() + timeout_ms, partial(self._overdue, flight))
        connect_ms = life.world.network.connect_ms()
        await life.account.later(connect_ms or 0)
        if flight.cut:
            return
        try:
            if connect_ms is not None:
                await life.fence.confirm()
        except Fenced:
            life.account.fence_off()
            connect_ms = None
        if flight.cut:
            return
        if connect_ms is None:
            self._landed(flight, Refused(failure="not_sent"))
        elif machine.clock.monotonic() > flight.order.leave_by:
            self._landed(flight, Refused(failure="too_late"))
        else:
            flight.left, flight.asked_at = True, machine.clock.now()
            life.world.network.send(life.server, flight)

    async def _turn_came(self, order: SendOrder) -> bool:
        clock = self._life.machine.clock
        while (at := self._pacer.take(order.stream, now := clock.now())) > now:
            if clock.monotonic() + at - now > order.leave_by:
                return False
            await self._life.account.later(at - now)
        return True

    def _answered(self, flight: Flight, outcome: Outcome) -> None:
        if not isinstance(outcome, Unknown):
            self._ahead.heard(flight.dated, flight.asked_at, self._life.machine.clock.now())
        self._landed(flight, outcome)

    def _overdue(self, flight: Flight) -> None:
        flight.timer = None
        if not flight.left:
            self._landed(flight, Refused(failure="not_sent", error="timeout"))
            return
        now = self._life.machine.clock.now()
        del self._pending[flight.order.request]
        self._listening[flight.order.request] = flight
        self._life.machine.call_at(now + LISTEN_MS, partial(self._deaf, flight))
        self._tell(flight.order, Unknown(reason="timeout", settled_at=now + LISTEN_MS))

    def _deaf(self, flight: Flight) -> None:
        if self._listening.pop(flight.order.request, None) is not None:
            flight.cut = True

    def _landed(self, flight: Flight, outcome: Outcome) -> None:
        request = flight.order.request
        if request not in self._pending and request not in self._listening:
            return
        flight.cut = True
        if isinstance(flight.timer, TimerHandle):
            flight.timer.cancel()
        listened = self._listening.pop(request, None) is not None
        self._pending.pop(request, None)
        if isinstance(outcome, Unknown):
            if listened:
                return
            outcome = Unknown(reason=outcome.reason, settled_at=self._life.machine.clock.now())
        self._tell(flight.order, outcome)
        if self._empty is not None and not self._pending and not self._empty.done():
            self._empty.set_result(None)

    def _tell(self, order: SendOrder, outcome: Outcome) -> None:
        self._unsettled.add(order.request)
        self._life.report(order.stream, order.request, outcome)

    async def close(self) -> None:
        self._closed = True
        if self._pending:
            self._empty = Slot()
            timeout_ms = self._life.account.view.policy.client_timeout_ms
            machine = self._life.machine
            waited = self._empty
            machine.call_at(machine.clock.now() + timeout_ms, lambda: waited.done() or waited.set_result(None))
            await waited
        for flight in tuple(self._pending.values()):
            broken = Unknown(reason="connection_lost", settled_at=0) if flight.left else Refused(failure="not_sent")
            self._landed(flight, broken)
        for flight in tuple(self._listening.values()):
            self._deaf(flight)
