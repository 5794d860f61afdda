"""The hub: which agents are connected, and which of them has which turn.

A peer offers its open turn; the hub hands it to exactly one agent, and the log knows before the message leaves. An agent that
disconnects has time to come back; then its turns go to the next one, under the same turn ids. The log has all of it: a hub
starts empty, and peers offer again. Plain logic on the scheduler's thread; listeners bring the connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from actors.account import Offer
from actors.agents.answers import Answered, Answers, Peers, TurnDesk, TurnHome, error_of
from actors.agents.seats import Link, Seat
from actors.agents.turns import Turn, Turns
from actors.deciding.commands import Bind
from actors.deciding.view import Over
from actors.errors import TurnNotOpen, TurnTaken
from actors.gateway.agent_wire import (
    FRAME_BYTES_MAX,
    PROTOCOL,
    AgentFrame,
    Completed,
    Degraded,
    Delta,
    Ending,
    Error,
    Failed,
    Goodbye,
    Hello,
    Receipt,
    Reset,
    Started,
    Welcome,
)
from actors.gateway.views import AgentView, State
from actors.runtime.flows import Flow, run
from actors.runtime.futures import FutureLike
from actors.runtime.report import report
from actors.runtime.scheduler import Scheduler
from events.base import Millis
from store.records import TEXT_BYTES_MAX

REPLACED = 4409
"""Close code: a newer connection of the same agent."""


class AgentHub:
    """The agents, as peers and listeners see them. `on_change()` is called when the number of agents has changed."""

    def __init__(
        self, scheduler: Scheduler, peers: Peers, desk: TurnDesk, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self.on_change = on_change
        self._scheduler, self._peers = scheduler, peers
        self._seats: dict[str, Seat] = {}  # by agent: its newest connection
        self._turns = Turns(scheduler, peers, self._seats)
        self._answers = Answers(scheduler, peers, desk)

    @property
    def agents(self) -> int:
        """How many are connected."""
        return len(self._seats)

    def views(self) -> tuple[AgentView, ...]:
        """The connected agents."""
        return tuple(
            AgentView(
                agent=seat.name,
                protocol=seat.protocol,
                connected_at=seat.connected_at,
                open_turns=len(seat.holding),
            )
            for seat in self._seats.values()
        )

    def close(self) -> None:
        """Hand nothing over any more; the log keeps every open turn for the next start."""
        self._turns.close()

    # --- what peers say -------------------------------------------------------------------------------------------

    def offer(self, offer: Offer) -> None:
        """Let an agent have the turn; the same turn again changes nothing."""
        if self._turns.offer(offer):
            self._answers.meet(offer.turn.turn_id, TurnHome(offer.stream, offer.address))

    def withdraw(self, turn_id: str, reason: Over) -> None:
        """The turn is over; tell the agent that has it."""
        self._turns.over(turn_id, reason)

    def reset(self, stream: str, session: str, resets: int) -> None:
        """A peer began its session anew; tell the agents that may have it."""
        turn = self._turns.of_stream(stream)
        address = turn.offer.address if turn else ""
        for seat in self._seats.values():
            if seat.serves_session(session, address):
                seat.link.send(Reset(session=session, resets=resets, peer=address))

    def delivery_changed(self, delivery: str, state: State, reason: str = "", earliest: Millis | None = None) -> None:
        """A delivery reached a state; the agent that completed its turn gets a receipt, if it is connected."""
        told = self._answers.changed(delivery, state, reason, earliest)
        seat = self._seats.get(told[0]) if told else None
        if told and seat:
            seat.link.send(told[1])

    def forget(self, account: str) -> None:
        """An account (CHANNEL:ACCOUNT) is not served here any more; its turns are offered again where it is."""
        for turn in self._turns.of_account(account):
            self._turns.drop(turn)

    # --- what agents say ------------------------------------------------------------------------------------------

    def join(self, link: Link, hello: Hello, protocol: str = f"replyledger.agent.v{PROTOCOL}") -> Seat:
        """An agent is connected; an older connection of the same agent is closed, its turns move to the new one."""
        seat = Seat(link, hello, self._scheduler.clock.now(), protocol)
        older = self._seats.get(seat.name)
        self._seats[seat.name] = seat
        limits = {"text_bytes_max": TEXT_BYTES_MAX, "frame_bytes_max": FRAME_BYTES_MAX}
        link.send(Welcome(protocol=PROTOCOL, now=seat.connected_at, **limits))
        if older is not None:
            self._turns.take_back(older)
            older.link.close(REPLACED, "replaced by a newer connection of the same agent")
        self._turns.came(seat.name)
        if older is None:
            self.on_change()
        return seat

    def leave(self, seat: Seat) -> None:
        """A connection has ended."""
        if self._seats.get(seat.name) is seat:
            del self._seats[seat.name]
            self._turns.take_back(seat)
            if seat.leaving:
                self._turns.lose(seat.name)
            self.on_change()

    def receive(self, seat: Seat, frame: AgentFrame) -> FutureLike:
        """Obey a frame; the future is done when it is answered. Listeners bound how many they let be under way."""
        answered = self._scheduler.future()
        run(self._scheduler, self._answering(seat, frame, answered))
        return answered

    def _answering(self, seat: Seat, frame: AgentFrame, answered: FutureLike) -> Flow[None]:
        try:
            yield from self._obey(seat, frame)
        except Exception as error:  # noqa: BLE001 (the agent gets it; a defect is reported)
            answer = error_of(error, getattr(frame, "turn_id", ""))
            if answer.code == "broken":
                report("could not answer a frame", f"agent {seat.name}", error)
            seat.link.send(answer)
        answered.set_result(None)

    def _obey(self, seat: Seat, frame: AgentFrame) -> Flow[None]:
        match frame:
            case Completed() | Degraded() | Failed():
                yield from self._end(seat, frame)
            case Started():
                yield from self._start(seat, frame)
            case Delta():
                self._turn_of(seat, frame.turn_id)
                seat.link.send(Receipt(turn_id=frame.turn_id, state="open"))
            case Goodbye():
                seat.leaving = True
                self._turns.look()
            case Hello():
                seat.link.send(Error(code="hello_twice", message="this connection has said hello already"))
            case _:
                assert_never(frame)

    def _end(self, seat: Seat, frame: Ending) -> Flow[None]:
        answered: Answered = yield from self._answers.end(seat, frame)
        if answered.over:
            self._turns.over(frame.turn_id, "answered", by=seat)
        for answer in answered.frames:
            seat.link.send(answer)

    def _start(self, seat: Seat, frame: Started) -> Flow[None]:
        turn = self._turn_of(seat, frame.turn_id)
        if frame.session:
            bind = Bind(session=frame.session, who=seat.name, only_if_unbound=True)
            yield self._peers.ask(turn.offer.stream, bind)
        seat.link.send(Receipt(turn_id=frame.turn_id, peer=turn.offer.address, state="open"))

    def _turn_of(self, seat: Seat, turn_id: str) -> Turn:
        turn = self._turns.get(turn_id)
        if turn is None:
            raise TurnNotOpen
        if turn.agent != seat.name:
            raise TurnTaken(f"turn {turn_id} is with another agent")
        return turn
