"""The whole log folded: every bot and every peer as the events alone tell them. Needs no cache and no running gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from actors.deciding.view import BotView
from events import bot, peer_state
from events.base import Millis, Recorded
from events.bot import BotState
from events.errors import FoldError
from events.peer_state import PeerState
from scripts.reading.names import Names
from store.log import Reader


class World(msgspec.Struct):
    """The states of every stream after some events of the log."""

    bots: dict[str, BotState] = msgspec.field(default_factory=dict)
    peers: dict[str, PeerState] = msgspec.field(default_factory=dict)
    position: int = 0
    at: Millis = 0  # the latest time of an event

    def apply(self, recorded: Recorded) -> None:
        """Take in the next event. Raises FoldError."""
        self.take((recorded,))

    def take(self, events: Sequence[Recorded]) -> None:
        """Take in the next events; a long replay spends its time here. Raises FoldError."""
        if not events:
            return
        peers, bots, evolve, blank, latest = self.peers, self.bots, peer_state.evolve, PeerState(), self.at
        for r in events:
            stream, at = r.stream, r.at
            old = peers.get(stream, blank)
            if old is blank and stream.startswith("bot-"):
                bots[stream] = _evolve_bot(bots.get(stream) or BotState(), r)
            else:
                peers[stream] = evolve(old, r.event, r.version, at, r.epoch)
            if at > latest:  # noqa: PLR1730 - `max` takes three times as long
                latest = at
        self.position, self.at = events[-1].position, latest


def _evolve_bot(state: BotState, recorded: Recorded) -> BotState:
    event = recorded.event
    if not isinstance(event, bot.BotEvent):
        raise FoldError(f"{recorded.type} at position {recorded.position} is not an event of a bot")
    return bot.evolve(state, event, version=recorded.version, at=recorded.at, epoch=recorded.epoch)


def view_of(state: BotState, account: str, stream: str, now: Millis) -> BotView:
    """What a peer's decisions would see of a bot, as far as the log tells. It does not know which agents are connected: with one, no
    notice is claimed to be due that a gateway with an agent would not give."""
    return BotView(
        account=account,
        epoch=state.epoch,
        generation=state.generation,
        login_lost=state.login_lost is not None,
        policy=state.policy,
        policy_id=state.policy_id,
        paused_until=bot.paused_until(state, stream, now),
        agents=1,
        pinned=bool(state.credentials) and state.owner == stream,
    )


async def events_of(
    reader: Reader, names: Names, stream: str = "", *, until: int = 0, by: Millis | None = None
) -> AsyncIterator[tuple[Recorded, ...]]:
    """Pages of events in commit order, up to a position (0 = the end) and a time: all streams, or one peer's and its bot's."""
    if not stream:
        async for page in reader.page(until=until):
            yield page if by is None else tuple(r for r in page if r.at <= by)
        return
    found = [*await reader.read(stream), *await reader.read(names.bot_of(stream))]
    yield tuple(
        sorted(
            (r for r in found if (not until or r.position <= until) and (by is None or r.at <= by)),
            key=lambda r: r.position,
        )
    )


async def fold(pages: AsyncIterator[tuple[Recorded, ...]], progress: Callable[[int], None] = lambda _: None) -> World:
    """The world after these events; `progress` hears the position reached."""
    world = World()
    async for page in pages:
        world.take(page)
        progress(world.position)
    return world
