"""A state from the log: the fold of its stream, of a long one from the last state that was kept.

A kept state is a cache: one of another fold is ignored, and without any the whole stream is folded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from actors.logport import LogPort
from events import bot, peer_state
from events.base import Millis, Recorded

LONG_EVENTS = 5_000
"""Streams longer than this get a state kept."""


class State(Protocol):
    """A folded state knows how far it goes."""

    @property
    def version(self) -> int:
        """Of the last event in it."""
        ...


S = TypeVar("S", bound=State)


class Fold(Protocol[S]):
    """The fold of one event."""

    def __call__(self, state: S, event: Any, *, version: int, at: Millis, epoch: int) -> S:
        """The state after it."""
        ...


class Folding(Generic[S]):
    """How the streams of one kind are folded, and which fold a kept state must be of."""

    def __init__(self, kind: type[S], evolve: Fold[S], version: int) -> None:
        self.evolve, self.version = evolve, str(version)
        self._decoder: msgspec.json.Decoder[S] = msgspec.json.Decoder(kind)

    def fold(self, state: S, recorded: Iterable[Recorded]) -> S:
        """The state after these events."""
        for r in recorded:
            state = self.evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)
        return state

    def read(self, data: bytes) -> S:
        """A state that was kept."""
        return self._decoder.decode(data)


PEERS: Folding[peer_state.PeerState] = Folding(peer_state.PeerState, peer_state.evolve, peer_state.FOLD_VERSION)
BOTS: Folding[bot.BotState] = Folding(bot.BotState, bot.evolve, bot.FOLD_VERSION)


def recall(log: LogPort, stream: str, state: S, folding: Folding[S]) -> Generator[Any, Any, S]:
    """`state` and whatever the log has after it. One read for a stream that is not long."""
    from_blank, kept_version = state.version == 0, 0
    page: tuple[Recorded, ...] = yield log.read(stream, state.version, LONG_EVENTS)
    if len(page) == LONG_EVENTS:
        kept: tuple[int, bytes] | None = yield log.snapshot(stream, folding.version)
        if kept is not None and kept[0] > state.version:
            kept_version, state = kept[0], folding.read(kept[1])
            page = yield log.read(stream, state.version, LONG_EVENTS)
    state = folding.fold(state, page)
    while len(page) == LONG_EVENTS:
        page = yield log.read(stream, state.version, LONG_EVENTS)
        state = folding.fold(state, page)
    if from_blank and state.version - kept_version >= LONG_EVENTS:
        yield log.put_snapshot(stream, state.version, folding.version, msgspec.json.encode(state))
    return state
