"""An account's one way out: paces, sends once, says what is known of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.channels.errors import OrderHeld, TooLate
from actors.channels.weixin import shapes, wire
from actors.channels.weixin.calls import NETWORK_ERRORS, Gate
from actors.channels.weixin.line import Line
from actors.channels.weixin.pacer import Pacer
from actors.channels.weixin.typing_sign import TypingSigns
from actors.ports import LISTEN_MS, LoginGone, Outcome, Refused, Report, SendOrder, Unknown
from events.base import Millis
from events.bot import Policy
from store.errors import Fenced, StoreError

IN_FLIGHT_MAX = 64
"""Orders that wait or are answered at the same time; a further one is refused as `not_sent`."""

LISTENING_MAX = 128
"""Unknown sends that are still listened to; a further one is not, and stays unknown."""


class _Flight:
    """An order under way."""

    __slots__ = ("gate", "order", "task", "timed_out", "timer")

    def __init__(self, order: SendOrder, gate: Gate) -> None:
        self.order = order
        self.gate = gate
        self.task: asyncio.Task[Outcome] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.timed_out = False


class WeixinOutlet:
    """The outlet of one login; satisfies `actors.ports.Outlet`. It closes the line's calls."""

    def __init__(
        self,
        line: Line,
        *,
        policy: Callable[[], Policy],
        report: Report,
        signs: TypingSigns | None,
        listen_ms: int = LISTEN_MS,
    ) -> None:
        self._line = line
        self._policy = policy
        self._report = report
        self._signs = signs
        self._listen_ms = listen_ms
        self._pacer = Pacer(policy)
        self._pending: dict[str, _Flight] = {}  # request -> until its first report
        self._listening: dict[str, _Flight] = {}  # request -> after it was reported unknown
        self._unsettled: set[str] = set()  # reported, not settled
        self._closed = False

    def earliest(self, stream: str, now: Millis, *, keep: bool = True) -> Millis:
        """See `actors.ports.Outlet.earliest`."""
        return self._pacer.earliest(stream, now, keep=keep)

    def send(self, order: SendOrder) -> None:
        """See `actors.ports.Outlet.send`. Raises OrderHeld if the request is here already."""
        if self.holds(order.request) or order.request in self._listening:
            raise OrderHeld
        if refused := self._refused_here(order):
            self._unsettled.add(order.request)
            asyncio.get_running_loop().call_soon(self._tell, order, refused)
            return
        flight = _Flight(order, Gate(lambda: self._may_leave(order)))
        flight.task = asyncio.get_running_loop().create_task(self._exchange(flight))
        flight.task.add_done_callback(lambda task: self._landed(flight, task))
        self._pending[order.request] = flight

    def holds(self, request: str) -> bool:
        """See `actors.ports.Outlet.holds`."""
        return request in self._pending or request in self._unsettled

    def settled(self, request: str) -> None:
        """See `actors.ports.Outlet.settled`."""
        self._unsettled.discard(request)

    def typing(self, peer: str, token: str, on: bool) -> None:
        """See `actors.ports.Outlet.typing`."""
        if self._signs is None or self._closed:
            return
        if on:
            self._signs.show(peer, token)
        else:
            self._signs.hide(peer)

    async def close(self) -> None:
        """Wait one client timeout for what is in flight, report the rest as it stands, let go of the network."""
        self._closed = True
        if pending := self._tasks(self._pending):
            await asyncio.wait(pending, timeout=self._policy().client_timeout_ms / 1000)
        rest = self._tasks(self._pending) + self._tasks(self._listening)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)  # each has reported by its callback
        if self._signs is not None:
            await self._signs.close()
        await self._line.calls.close()

    @staticmethod
    def _tasks(flights: dict[str, _Flight]) -> list[asyncio.Task[Outcome]]:
        return [flight.task for flight in flights.values() if flight.task is not None]

    def _refused_here(self, order: SendOrder) -> Refused | None:
        """What refuses an order before anything is tried."""
        if self._closed or len(self._pending) >= IN_FLIGHT_MAX:
            return Refused(
                failure="not_sent", error="the outlet is closed" if self._closed else "too many sends in flight"
            )
        if order.media:
            return Refused(failure="bad_request", error="this channel sends text only")
        try:
            text_bytes = len(order.text.encode())
        except UnicodeEncodeError:
            return Refused(failure="bad_request", error="the text holds half characters")
        if text_bytes > wire.TEXT_BYTES_MAX:
            return Refused(failure="bad_request", error=f"the text is longer than {wire.TEXT_BYTES_MAX} bytes")
        return None

    async def _exchange(self, flight: _Flight) -> Outcome:
        """Wait for the turn, send, and say what the answer proves."""
        order, policy = flight.order, self._policy()
        if not await self._turn_came(order):
            return Refused(failure="too_late")
        timeout_ms = policy.client_timeout_ms
        flight.timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._overdue, flight)
        body = shapes.send_request(order, self._line.calls.info)
        try:
            answer = await self._line.calls.post(
                "sendmessage", body, timeout_ms=timeout_ms + self._listen_ms, gate=flight.gate
            )
        except TooLate:
            return Refused(failure="too_late")
        except Fenced:
            self._line.on_fenced()
            return Refused(failure="not_sent", error="replaced by a newer instance")
        except (*NETWORK_ERRORS, StoreError) as error:
            return self._broken(flight.gate, error)
        return wire.classify_send(answer.status, answer.body, self._line.clock.now())

    async def _turn_came(self, order: SendOrder) -> bool:
        """Whether the order got its place in the account's pace while its bytes may still leave."""
        while (at := self._pacer.take(order.stream, now := self._line.clock.now())) > now:
            if self._line.clock.monotonic() + at - now > order.leave_by:
                return False
            await asyncio.sleep((at - now) / 1000)
        return True

    async def _may_leave(self, order: SendOrder) -> None:
        await self._line.fence.confirm()
        if self._line.clock.monotonic() > order.leave_by:
            raise TooLate

    def _broken(self, gate: Gate, error: BaseException | None) -> Outcome:
        """What a call without an answer proves: nothing left before the gate, and nobody knows after it."""
        name = type(error).__name__ if error else "cut short"
        if not gate.passed:
            return Refused(failure="not_sent", error=name)
        reason = "timeout" if isinstance(error, TimeoutError) else "connection_lost"
        return Unknown(reason=reason, settled_at=self._line.clock.now())

    def _overdue(self, flight: _Flight) -> None:
        """The answer did not come in time. What has left may still arrive for as long as its connection is kept open."""
        assert flight.task is not None
        listens = len(self._listening) < LISTENING_MAX and self._listen_ms > 0
        if not flight.gate.passed or not listens:
            flight.timed_out = True
            flight.task.cancel()
            return
        del self._pending[flight.order.request]
        self._listening[flight.order.request] = flight
        self._tell(flight.order, Unknown(reason="timeout", settled_at=self._line.clock.now() + self._listen_ms))

    def _landed(self, flight: _Flight, task: asyncio.Task[Outcome]) -> None:
        """The exchange is over, one way or another: report it, unless nothing new is known."""
        if flight.timer is not None:
            flight.timer.cancel()
        outcome = self._outcome(flight, task)
        known_unknown = self._listening.pop(flight.order.request, None) is not None
        self._pending.pop(flight.order.request, None)
        if not (known_unknown and isinstance(outcome, Unknown)):
            self._tell(flight.order, outcome)

    def _outcome(self, flight: _Flight, task: asyncio.Task[Outcome]) -> Outcome:
        if task.cancelled():
            return self._broken(flight.gate, TimeoutError() if flight.timed_out else None)
        if error := task.exception():
            context = {
                "message": f"{self._line.account}: a send failed in an unforeseen way",
                "exception": error,
                "task": task,
            }
            task.get_loop().call_exception_handler(context)
            return self._broken(flight.gate, error)
        return task.result()

    def _tell(self, order: SendOrder, outcome: Outcome) -> None:
        self._unsettled.add(order.request)
        if isinstance(outcome, Refused) and outcome.failure == "login_lost":
            self._line.on_lost(LoginGone(code=outcome.code, where="send"))
        self._report(order.stream, order.request, outcome)
