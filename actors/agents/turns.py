"""The peers' open turns on their way to agents: which waits, which is handed to whom.

    waiting -> taking -> held -> over
       ^  ^______|________|          the agent's connection ended: it has REOFFER_AFTER_MS to come back
       |_____ losing <- waiting      it did not: the log forgets it, and the next agent may take the turn

`taking` makes durable who has the turn; only then its message leaves. The turns in here are bounded by the peers, which have one
open turn each.
"""

from __future__ import annotations

import logging
from typing import Literal

from actors.account import Offer
from actors.agents.answers import Peers
from actors.agents.recent import Recent
from actors.agents.seats import Seat, pick
from actors.deciding.commands import Ask, LoseAgent, TakeTurn
from actors.deciding.view import Over
from actors.errors import TurnNotOpen, TurnTaken
from actors.gateway.agent_wire import Cancel, Message
from actors.runtime.errors import ActorFailed, ActorStopped
from actors.runtime.flows import Flow, run
from actors.runtime.scheduler import Scheduler
from actors.runtime.timers import KeyedTimers
from events.peer_state import OpenTurn, PeerState
from store.errors import Fenced

log = logging.getLogger("replyledger.agents")

REOFFER_AFTER_MS = 10_000
"""How long a turn waits for the agent that had it, before it goes to another."""

RETRY_MS = 1_000
"""How long after a command that the peer could not obey just now it is asked again."""

PEERS_REMEMBERED_MAX = 10_000
"""Peers of which is known which agent had the last turn; the others go to the least loaded one."""

_GONE = (Fenced, ActorStopped, ActorFailed)
"""The peer is not served here any more; it offers again where and when it is."""


class Turn:
    """A peer's open turn."""

    __slots__ = ("agent", "offer", "seat", "stage")

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.agent = offer.turn.agent  # who has it, or was about to, by the log; "" = nobody
        self.stage: Literal["waiting", "taking", "held", "losing"] = "waiting"
        self.seat: Seat | None = None  # the connection it is handed to

    @property
    def turn_id(self) -> str:
        """Its id."""
        return self.offer.turn.turn_id


class Turns:
    """Hands each open turn to exactly one of the agents in `seats` (by name), first come first served."""

    def __init__(self, scheduler: Scheduler, peers: Peers, seats: dict[str, Seat]) -> None:
        self._scheduler, self._peers, self._seats = scheduler, peers, seats
        self._open: dict[str, Turn] = {}  # by turn id, in the order of their first offer
        self._waiting: dict[str, Turn] = {}  # those in the stage of that name
        self._by_stream: dict[str, str] = {}
        self._last: Recent[str, str] = Recent(PEERS_REMEMBERED_MAX)  # stream -> agent of its last turn
        self._timers = KeyedTimers(scheduler)
        self._unordered = self._looking = self._closed = False

    def close(self) -> None:
        """Hand nothing over any more."""
        self._closed = True
        self._timers.clear()

    def get(self, turn_id: str) -> Turn | None:
        """An open turn, None if it is not (or not yet) offered."""
        return self._open.get(turn_id)

    def of_stream(self, stream: str) -> Turn | None:
        """The open turn of a peer."""
        return self._open.get(self._by_stream.get(stream, ""))

    def of_account(self, account: str) -> tuple[Turn, ...]:
        """The open turns of an account's peers (CHANNEL:ACCOUNT)."""
        return tuple(t for t in self._open.values() if f"{t.offer.address}:".startswith(f"{account}:"))

    def offer(self, offer: Offer) -> bool:
        """Take a turn in; False if it was known. A peer has one open turn: an earlier one is over, however that came."""
        if self._closed or offer.turn.turn_id in self._open:
            return False
        self.over(self._by_stream.get(offer.stream, ""), "answered")
        turn = Turn(offer)
        self._open[turn.turn_id] = turn
        self._by_stream[offer.stream] = turn.turn_id
        self._wait(turn)
        return True

    # --- handing over ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """See, after the running turn, what can be handed over."""
        if not self._looking and not self._closed:
            self._looking = True
            self._scheduler.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        """Give what waits to the agents that have room, first come first served."""
        self._looking = False
        if self._unordered:
            self._waiting = {turn_id: turn for turn_id, turn in self._open.items() if turn.stage == "waiting"}
            self._unordered = False
        for turn in tuple(self._waiting.values()):
            if self._closed or not any(seat.room for seat in self._seats.values()):
                break
            if self._timers.due(("turn", turn.turn_id)) is None:
                self._hand(turn)
        for seat in tuple(self._seats.values()):
            if seat.leaving:
                self.lose(seat.name)

    def _hand(self, turn: Turn) -> None:
        if turn.agent:
            had = self._seats.get(turn.agent)
            seat = had if had and had.room else None
        else:
            seat = pick(self._seats.values(), turn.offer, self._last.get(turn.offer.stream) or "")
        if seat is not None:
            turn.stage, turn.seat, turn.agent = "taking", seat, seat.name
            seat.holding.add(turn.turn_id)
            del self._waiting[turn.turn_id]
            run(self._scheduler, self._take(turn))

    def _take(self, turn: Turn) -> Flow[None]:
        """Record who has the turn; then, and only then, let its message go."""
        stream, command = turn.offer.stream, TakeTurn(turn_id=turn.turn_id, agent=turn.agent)
        try:
            opened, text = yield self._peers.ask(stream, command)
            state, _view, _now = yield self._peers.ask(stream, Ask())
        except (TurnNotOpen, *_GONE):
            self.drop(turn)
        except Exception as error:  # noqa: BLE001 (logged and tried again)
            self._put_off(turn, error)
        else:
            self._taken(turn, opened, text, state)

    def _taken(self, turn: Turn, opened: OpenTurn, text: str, state: PeerState) -> None:
        if self._open.get(turn.turn_id) is not turn:
            return  # it was over before its message could leave
        self._last.set(turn.offer.stream, turn.agent)
        if turn.seat is None:  # the connection ended meanwhile
            self._wait(turn)
            return
        turn.stage = "held"
        turn.seat.link.send(_message(turn.offer, opened, text, state.resets))

    def _put_off(self, turn: Turn, error: Exception) -> None:
        """The peer could not obey just now. Whether the agent is in the log is open, so it stays the first choice."""
        log.warning("a turn could not be handed over and is tried again: %s", type(error).__name__)
        if self._open.get(turn.turn_id) is turn and not self._closed:
            self._release(turn)
            self._timers.set(("turn", turn.turn_id), self._scheduler.clock.now() + RETRY_MS, self.look)
            self._wait(turn)

    def _wait(self, turn: Turn) -> None:
        turn.stage = "waiting"
        self._unordered |= turn is not next(reversed(self._open.values()))
        self._waiting[turn.turn_id] = turn
        if turn.agent and turn.agent not in self._seats:
            self._expect(turn.agent)
        self.look()

    # --- agents that are gone -------------------------------------------------------------------------------------

    def came(self, agent: str) -> None:
        """An agent is connected (again)."""
        self._timers.cancel(("agent", agent))
        self.look()

    def take_back(self, seat: Seat) -> None:
        """A connection has ended: its turns wait for its agent."""
        for turn_id in tuple(seat.holding):
            turn = self._open[turn_id]
            self._release(turn)
            if turn.stage == "held":
                self._wait(turn)

    def _expect(self, agent: str) -> None:
        """Give an agent time to come (back)."""
        key = ("agent", agent)
        if self._timers.due(key) is None and not self._closed:
            self._timers.set(key, self._scheduler.clock.now() + REOFFER_AFTER_MS, lambda: self.lose(agent))

    def lose(self, agent: str) -> None:
        """An agent stays away: what waits for it goes to others."""
        for turn in tuple(self._waiting.values()):
            if turn.agent == agent:
                turn.stage = "losing"
                del self._waiting[turn.turn_id]
                run(self._scheduler, self._lost(turn))

    def _lost(self, turn: Turn) -> Flow[None]:
        """Let the log forget that the agent has the turn."""
        try:
            yield self._peers.ask(turn.offer.stream, LoseAgent(turn.agent))
        except TurnTaken:
            pass  # by the log it never had it
        except (TurnNotOpen, *_GONE):
            self.drop(turn)
        except Exception as error:  # noqa: BLE001 (logged and tried again)
            self._put_off(turn, error)
            return
        turn.agent = ""
        if self._open.get(turn.turn_id) is turn:
            self._wait(turn)

    # --- the end of a turn ----------------------------------------------------------------------------------------

    def over(self, turn_id: str, reason: Over, by: Seat | None = None) -> None:
        """Forget a turn; the agent that has it may stop working on it, unless it is the one that ended it."""
        turn = self._open.get(turn_id)
        if turn is not None:
            seat = turn.seat or self._seats.get(turn.agent)
            self.drop(turn)
            if seat is not None and seat is not by:
                seat.link.send(Cancel(turn_id=turn_id, reason=reason))

    def drop(self, turn: Turn) -> None:
        """Forget a turn."""
        if self._open.get(turn.turn_id) is not turn:
            return
        del self._open[turn.turn_id]
        self._waiting.pop(turn.turn_id, None)
        self._timers.cancel(("turn", turn.turn_id))
        if self._by_stream.get(turn.offer.stream) == turn.turn_id:
            del self._by_stream[turn.offer.stream]
        self._release(turn)
        self.look()

    def _release(self, turn: Turn) -> None:
        if turn.seat is not None:
            turn.seat.holding.discard(turn.turn_id)
            turn.seat = None


def _message(offer: Offer, opened: OpenTurn, text: str, resets: int) -> Message:
    message = opened.message
    return Message(
        turn_id=opened.turn_id,
        session=opened.session,
        resets=resets,
        peer=offer.address,
        message=message.message,
        text=text,
        contents=message.contents,
        sent_at=message.sent_at,
        at=message.at,
    )
