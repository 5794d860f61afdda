"""A peer's state from the log: the fold of its stream, of a long one from the last state that was kept.

A kept state is a cache: one of another fold is ignored, and without any the whole stream is folded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import msgspec

from actors.logport import LogPort
from events.base import Recorded
from events.peer_state import FOLD_VERSION, PeerState, evolve

LONG_EVENTS = 5_000
"""Streams longer than this get a state kept."""

_FOLD = str(FOLD_VERSION)
_decoder = msgspec.json.Decoder(PeerState)

Recall = Generator[Any, Any, PeerState]


def recall(log: LogPort, stream: str, state: PeerState) -> Recall:
    """`state` and whatever the log has after it. One read for a stream that is not long."""
    begun_at = state.version
    page: tuple[Recorded, ...] = yield log.read(stream, state.version, LONG_EVENTS)
    if len(page) == LONG_EVENTS:
        kept: tuple[int, bytes] | None = yield log.snapshot(stream, _FOLD)
        if kept is not None and kept[0] > state.version:
            state, page = _decoder.decode(kept[1]), ()
            begun_at = state.version
            page = yield log.read(stream, state.version, LONG_EVENTS)
    state = fold(state, page)
    while len(page) == LONG_EVENTS:
        page = yield log.read(stream, state.version, LONG_EVENTS)
        state = fold(state, page)
    if state.version - begun_at >= LONG_EVENTS:
        yield log.put_snapshot(stream, state.version, _FOLD, msgspec.json.encode(state))
    return state


def fold(state: PeerState, recorded: Iterable[Recorded]) -> PeerState:
    """The state after these events."""
    for r in recorded:
        state = evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)
    return state
