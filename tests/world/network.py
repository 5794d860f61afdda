"""The network between gateways and the servers of a world: drawn latencies both ways, losses before and after arrival, and the weather
of the channel. Bytes that left a process arrive whatever becomes of it, within the limits that the rules assume:

* the answer to a poll travels at most 5 s (`actors.inbox.LATENCY_MS_MAX`), while a poll may be long under way;
* answers are dated, to the second, by a clock that is a little behind the one that stamps messages;
* bytes of a send arrive within 5 s + the client's timeout of their request if their process dies, and while the connection is kept
  open otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from actors.ports import Accepted, Outcome, Refused, SendOrder, Unknown
from actors.runtime.futures import Slot
from tests.world.dice import Bag, Dice
from tests.world.machine import Machine, WorldScheduler
from tests.world.server import Answer, Reply, Server

if TYPE_CHECKING:
    from tests.world.world import World

HOLD_MS = 35_000
ACTIVE_MS = 30_000
"""For so long after something happened a poll that comes is answered after HOLD_MS; later ones are held until something happens,
which proves less to the gateway and saves the world thousands of empty turns."""

BEHIND_MS_MAX = 3_000
"""How far the clock that dates answers is behind the one that stamps messages, at most."""

ORPHAN_MS = 80_000
TIMEOUT_MS = 15_000


class Weather(Protocol):
    """Which faults are on."""

    def on(self, fault: str) -> bool: ...

    def strikes(self, fault: str, probability: float, dice: Dice) -> bool: ...

    def count(self, what: str) -> None: ...


@dataclass(eq=False)
class Flight:
    """A send under way, as outlet and network share it."""

    order: SendOrder
    machine: Machine
    login: str
    requested_at: int  # by the world's clock
    asked_at: int = 0  # when its bytes left, by the machine's clock
    dated: int = 0  # the Date header of its answer
    on_answer: Callable[[Outcome], None] = field(default=lambda _outcome: None)
    left: bool = False
    cut: bool = False  # the client closed the connection
    timer: object = None


@dataclass(eq=False)
class Held:
    """A poll that the server holds."""

    login: str
    cursor: str
    machine: Machine
    slot: Slot
    timed: bool = False


class Network:
    """All wires of a world."""

    def __init__(self, world: World, scheduler: WorldScheduler, weather: Weather, bag: Bag) -> None:
        self._world, self._scheduler, self._weather = world, scheduler, weather
        self._dice, self._polls = bag["net"], bag["polls"]
        self._held: dict[str, list[Held]] = {}
        self._active_until = 0
        self._behind_ms = bag["dates"].below(BEHIND_MS_MAX + 1)

    @property
    def now(self) -> int:
        return self._scheduler.clock.now()

    # --- polls ----------------------------------------------------------------------------------------------------

    def poll(self, server: Server, login: str, cursor: str, machine: Machine) -> Slot:
        """The future of an Answer, or of None when there was no connection."""
        slot = Slot()
        held = Held(login, cursor, machine, slot)
        if self._weather.strikes("unconnected", 0.05, self._polls):
            self._weather.count("no connection")
            machine.call_at(machine.clock.now() + self._polls.between(1, 3_000), partial(slot.set_result, None))
        else:
            self._later(self._way_to_poll_ms(), partial(self._polled, server, held))
        return slot

    def _polled(self, server: Server, held: Held) -> None:
        answer = server.poll(held.login, held.cursor)
        if answer is not None:
            if answer.code == 0 and not held.cursor and server.replays and server.acknowledged:
                self._weather.count("everything again for an empty cursor")
            self._answer(held, answer)
            return
        self._held.setdefault(server.account, []).append(held)
        self._time(server, held)

    def _time(self, server: Server, held: Held) -> None:
        if not held.timed and self.now < self._active_until:
            held.timed = True
            self._later(HOLD_MS, partial(self._release, server, held))

    def _release(self, server: Server, held: Held) -> None:
        waiting = self._held.get(server.account, [])
        if held in waiting:
            waiting.remove(held)
            self._answer(held, server.idle(held.cursor))

    def _answer(self, held: Held, answer: Answer) -> None:
        if self._weather.on("reorder") and len(answer.messages) > 1 and self._polls.chance(0.5):
            messages = sorted(answer.messages, key=lambda _said: self._polls.below(1 << 30))
            if tuple(messages) != answer.messages:
                self._weather.count("messages of a poll in another order")
            answer = replace(answer, messages=tuple(messages))
        answer = replace(answer, dated=self._date())
        self._later(self._poll_ms(), lambda: held.machine.call_soon(partial(held.slot.set_result, answer)))

    def stir(self, server: Server) -> None:
        """Something happened: whoever is held looks again."""
        self._active_until = self.now + ACTIVE_MS
        for held in self._held.pop(server.account, []):
            if held.machine.alive:
                self._polled(server, held)

    def _date(self) -> int:
        return (self.now - self._behind_ms) // 1_000 * 1_000

    def _way_to_poll_ms(self) -> int:
        if self._weather.strikes("slow_net", 0.05, self._polls):
            self._weather.count("slow network")
            return self._polls.between(1, 20_000)
        return self._poll_ms()

    def _poll_ms(self) -> int:
        slow = self._weather.strikes("slow_net", 0.2, self._polls)
        if slow:
            self._weather.count("slow network")
        return self._polls.between(1, 4_500) if slow else self._polls.between(1, 60)

    # --- sends ----------------------------------------------------------------------------------------------------

    def connect_ms(self) -> int | None:
        """How long it takes to connect; None: there is no way."""
        if self._weather.strikes("unconnected", 0.1, self._dice):
            self._weather.count("no connection")
            return None
        slow = self._weather.strikes("slow_net", 0.1, self._dice)
        return self._dice.between(0, 8_000) if slow else self._dice.between(0, 5)

    def send(self, server: Server, flight: Flight) -> None:
        """Bytes leave."""
        self._world.checks.left(flight, server.account)
        up, down = self._way()
        lost = self._lost()
        if lost:
            self._weather.count("lost before it arrived" if lost == "before" else "arrived, its answer lost")
        if lost == "before":
            self._world.checks.lost(server, flight)
        else:
            self._later(up, partial(self._arrived, server, flight, down, lost))
        if lost and self._dice.chance(0.5):  # the connection breaks, after whatever arrived
            self._weather.count("connection broken")
            self._answer_send(flight, up + down, Unknown(reason="connection_lost", settled_at=0))

    def _way(self) -> tuple[int, int]:
        dice = self._dice
        if self._weather.strikes("late", 0.08, dice):
            total = dice.between(TIMEOUT_MS - 50, TIMEOUT_MS + 58_000)
            if total > TIMEOUT_MS:
                self._weather.count("answer after the client's time")
            up = dice.below(total)
            return up, total - up
        if self._weather.strikes("slow_net", 0.2, dice):
            self._weather.count("slow network")
            return dice.between(1, 6_500), dice.between(1, 6_500)
        return dice.between(1, 200), dice.between(1, 200)

    def _lost(self) -> str:
        if self._weather.strikes("lost_before", 0.06, self._dice):
            return "before"
        return "after" if self._weather.strikes("lost_after", 0.06, self._dice) else ""

    def _arrived(self, server: Server, flight: Flight, down: int, lost: str) -> None:
        orphan = not flight.machine.alive and self.now > flight.requested_at + ORPHAN_MS
        if flight.cut or orphan:
            self._world.checks.lost(server, flight)
            return
        order = flight.order
        flight.dated = self._date()
        code = self._refusal()
        if code:
            self._weather.count(f"refused with {code}")
        if code == 403:
            outcome: Outcome = Refused(failure="http_refused", code=403)
            self._world.checks.turned_away(flight)
        else:
            server.refusing, before = code or server.refusing, server.refusing
            with_id = not (self._weather.strikes("no_id", 0.15, self._dice))
            reply = server.send(
                flight.login,
                order.peer,
                client_id=order.client_id,
                token=order.token,
                text=order.text,
                now=self.now,
                with_id=with_id,
            )
            server.refusing = before
            if reply.why == "weather" and not code:
                self._weather.count("refused by penalty")
            elif reply.why == "token" and order.token in server.phone(order.peer).tokens:
                self._weather.count("old token refused")
            elif reply.code == 0 and not with_id:
                self._weather.count("accepted without an id")
            self._world.checks.arrived(server, flight, reply)
            outcome = outcome_of(reply)
        self.stir(server)
        if not lost:
            self._answer_send(flight, down, outcome)

    def _refusal(self) -> int:
        if self._weather.strikes("refuse", 0.12, self._dice):
            return self._dice.pick((-2, -2, -2, -1, -3, -4, 403))
        return 0

    def _answer_send(self, flight: Flight, after: int, outcome: Outcome) -> None:
        def answer() -> None:
            if not flight.cut:
                flight.on_answer(outcome)

        self._later(after, lambda: flight.machine.call_soon(answer))

    def _later(self, after: int, fn: Callable[[], object]) -> None:
        self._scheduler.call_at(self.now + after, fn)


def outcome_of(reply: Reply) -> Outcome:
    """What an outlet makes of an answer (iLink protocol notes 2.5)."""
    match reply.code:
        case 0:
            return Accepted(message_id=reply.message_id)
        case -2:
            return Refused(failure="blocked", code=-2)
        case -14:
            return Refused(failure="login_lost", code=-14)
        case code:
            return Refused(failure="bad_request", code=code)
