"""Long streams: from the last kept state, or from the beginning if it is of another fold."""

from __future__ import annotations

from typing import Any

import pytest

from actors import recall as recalling
from actors.recall import PEERS, recall
from events.base import Recorded
from events.peer_state import PeerState
from tests.streams_builder import Streams

LONG = 10


class Shelf:
    """A log's port that answers at once and counts what it was asked."""

    def __init__(self, events: tuple[Recorded, ...]) -> None:
        self.events = events
        self.kept: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.read_events = 0

    def read(self, stream: str, after: int, limit: int = 0) -> Any:
        found = self.events[after : after + limit] if limit else self.events[after:]
        self.read_events += len(found)
        return found

    def snapshot(self, stream: str, fold_version: str) -> Any:
        return self.kept.get((stream, fold_version))

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> Any:
        self.kept[stream, fold_version] = (version, data)


def run(generator: Any) -> PeerState:
    answer = None
    try:
        while True:
            answer = generator.send(answer)
    except StopIteration as end:
        return end.value


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recalling, "LONG_EVENTS", LONG)


def stream_of(turns: int) -> tuple[Recorded, ...]:
    streams = Streams().start().message("m1")
    for number in range(turns):
        streams.complete(f"t{number}")
    return tuple(r for r in streams.recorded if r.stream.startswith("peer-"))


def test_a_short_stream_is_one_read_and_keeps_nothing() -> None:
    events = stream_of(3)
    shelf = Shelf(events)
    assert run(recall(shelf, "peer-x", PeerState(), PEERS)) == PEERS.fold(PeerState(), events)
    assert shelf.read_events == len(events)
    assert not shelf.kept


def test_a_long_stream_is_kept_and_goes_on_from_there() -> None:
    events = stream_of(30)
    shelf = Shelf(events[:25])
    run(recall(shelf, "peer-x", PeerState(), PEERS))
    assert len(shelf.kept) == 1
    shelf.events, shelf.read_events = events, 0
    assert run(recall(shelf, "peer-x", PeerState(), PEERS)) == PEERS.fold(PeerState(), events)
    assert shelf.read_events == LONG + len(events) - 25


def test_a_state_of_another_fold_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    events = stream_of(30)
    shelf = Shelf(events)
    run(recall(shelf, "peer-x", PeerState(), PEERS))
    monkeypatch.setattr(PEERS, "version", "another")
    shelf.read_events = 0
    assert run(recall(shelf, "peer-x", PeerState(), PEERS)) == PEERS.fold(PeerState(), events)
    assert shelf.read_events >= len(events)


def test_a_live_peer_catches_up_from_where_it_is() -> None:
    events = stream_of(30)
    shelf = Shelf(events)
    run(recall(shelf, "peer-x", PeerState(), PEERS))
    shelf.read_events = 0
    assert run(recall(shelf, "peer-x", PEERS.fold(PeerState(), events[:-2]), PEERS)) == PEERS.fold(PeerState(), events)
    assert shelf.read_events == 2
