"""Why an output waited and what let it go, found by folding its stream again and asking the gate at each event. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from actors.deciding.facts import DROPPED, SKIPPED, Blocking, Fact, fact_of, gate, lane_of
from actors.deciding.view import BotView
from actors.text.moments import show_moment
from events import peer
from events.base import Event, Millis, Recorded
from events.bot import (
    BotStarted,
    ClockStepped,
    LoginCompleted,
    PolicyChanged,
    SendingPaused,
    SendingResumed,
)
from events.peer_state import PeerState
from scripts.reading.world import World, view_of


class Spell(msgspec.Struct, frozen=True):
    """A time during which one fact kept an output from leaving. Once `over`, `ended_by` None = it ended by time."""

    start: Millis
    end: Millis
    reason: str
    fact: Fact
    ended_by: Recorded | None = None
    over: bool = False  # False = it lasts to the end of the log

    @property
    def ms(self) -> Millis:
        """How long it lasted."""
        return self.end - self.start


class Watch:
    """Follows one output through the events of its peer and the peer's bot."""

    def __init__(
        self,
        stream: str,
        output: str,
        bot: str,
        *,
        show: Callable[[Millis], str] = show_moment,
        blocking: Blocking = gate,
    ) -> None:
        self._stream, self._output, self._bot = stream, output, bot
        self._blocking = blocking
        self._show = show
        self._world = World()
        self._current: Spell | None = None
        self.spells: list[Spell] = []

    def follow(self, events: Iterable[Recorded]) -> tuple[Spell, ...]:
        """All spells, in order; the last one is open if the output still waits."""
        for recorded in events:
            self._look(recorded.at, None)
            self._world.apply(recorded)
            self._look(recorded.at, recorded)
        if self._current is not None:
            self.spells.append(self._current)
            self._current = None
        return _joined(self.spells)

    def _look(self, now: Millis, by: Recorded | None) -> None:
        fact = self._fact(now)
        current = self._current
        if current is not None and fact is not None and current.reason == fact[0]:
            lasted = by is None and now > current.end  # what was so between two events of one instant is worth no word
            self._current = msgspec.structs.replace(current, end=now, fact=fact[1] if lasted else current.fact)
            return
        if current is not None:
            self.spells.append(msgspec.structs.replace(current, end=now, ended_by=by, over=True))
        self._current = Spell(now, now, *fact) if fact is not None else None

    def _fact(self, now: Millis) -> tuple[str, Fact] | None:
        state = self._world.peers.get(self._stream, PeerState())
        view = self.view(now)
        lane = lane_of(state, self._output)
        if lane is None or view is None or self._output in state.carried:
            return None
        block = self._blocking(state, view, lane, now)
        return (block.reason, fact_of(block, state, view, now, self._show)) if block else None

    def view(self, now: Millis) -> BotView | None:
        """The bot as it stands; None before its first event."""
        state = self._world.bots.get(self._bot)
        return view_of(state, self._bot.removeprefix("bot-"), self._stream, now) if state else None

    @property
    def state(self) -> PeerState:
        """The peer as it stands."""
        return self._world.peers.get(self._stream, PeerState())


def _joined(spells: Iterable[Spell]) -> tuple[Spell, ...]:
    """Without moments that took no time; what they interrupted goes on. A spell that lasts stays."""
    joined: list[Spell] = []
    for spell in spells:
        if joined and joined[-1].reason == spell.reason and joined[-1].end == spell.start:
            joined[-1] = msgspec.structs.replace(spell, start=joined[-1].start)
        elif spell.ms > 0 or not spell.over:
            joined.append(spell)
    return tuple(joined)


_BY_TIME = {
    "share_spent": "the share rolled",
    "retry_later": "the time for another try came",
    "paused": "the pause ended",
    "pace": "its place in the account's pace came",
}


def freed(spell: Spell) -> str:
    """What ended a spell, as half a sentence."""
    if spell.ended_by is None:
        return _BY_TIME.get(spell.reason, "its time came")
    return _freed_by(spell.ended_by.event) or f"of {spell.ended_by.type.replace('_', ' ')}"


def _freed_by(event: Event) -> str:
    match event:
        case peer.ContextTokenSeen():
            return f"message {event.message} brought a new context token"
        case peer.MessageReceived():
            return f"message {event.message} opened a new window"
        case peer.SendRequested():
            return f"request {event.request} left"
        case peer.SendSucceeded() | peer.SendFailed() | peer.SendUnknown() | peer.UnknownResolved():
            return f"the outcome of request {event.request} was known"
        case peer.TurnCompleted() | peer.TurnFailed() | peer.TurnCancelled():
            return f"turn {event.turn_id} ended"
        case peer.OperatorActed():
            return "the peer asked for more" if event.what == "more" else f"{event.who} asked for it ({event.what})"
        case peer.OutputDropped():
            return DROPPED.get(event.reason, f"it was dropped ({event.reason})")
        case peer.OutputSkipped():
            return SKIPPED.get(event.reason, f"it was skipped ({event.reason})")
        case peer.BodyErased():
            return "texts were erased"
        case SendingPaused():
            return "sending was paused" + (f" by {event.who}" if event.who else "")
        case SendingResumed():
            return "sending was resumed"
        case LoginCompleted():
            return "a login completed"
        case PolicyChanged():
            return "the policy changed"
        case BotStarted():
            return f"instance {event.instance} started"
        case ClockStepped():
            return "the clock stepped"
        case _:
            return ""
