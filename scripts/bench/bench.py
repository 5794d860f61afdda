"""What every benchmark is given: sizes, a folder of its own, the deep log (built when first wanted), and where to talk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.runtime.clock import BootClock, stopwatch_ns
from scripts.bench import logs
from scripts.bench.streams import PeerStream, days

DAY_MS = 86_400_000


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    rounds: int = 5
    deep_events: int = 500_000
    deep_peers: int = 1_000
    big_events: int = 1_000_000
    big_peers: int = 10_000
    big_waiting: int = 500  # of them, who have something waiting
    producers: tuple[int, ...] = (1, 16, 64, 512)
    appends: int = 4_096  # in a round, over all producers
    single_appends: int = 300  # in a round of one producer
    replayed: int = 100_000  # events
    live_peers: int = 10_000
    known_peers: int = 100_000  # of which live_peers are live
    agents: int = 50  # the listener takes 64
    agent_turns: int = 20  # of each agent, in a round
    turns: int = 60  # in a round, over HTTP
    turn_peers: int = 20
    asks: int = 300
    pages: int = 20


QUICK = Sizes(
    rounds=3,
    deep_events=50_000,
    appends=2_048,
    single_appends=100,
    replayed=20_000,
    big_events=100_000,
    big_peers=1_000,
    big_waiting=50,
    live_peers=2_000,
    known_peers=20_000,
    agents=20,
    turns=20,
    asks=100,
    pages=5,
)
"""A run of a minute or so; its figures are rougher, and its deep log is not deep."""


class Bench:
    """One run."""

    def __init__(
        self, folder: Path, sizes: Sizes, talk: Callable[[str], None], *, es_python: Path | None = None
    ) -> None:
        self.folder, self.sizes, self.talk = folder, sizes, talk
        self.es_python = es_python  # the interpreter that has `eventsourcing`
        self.clock = BootClock()
        self.deep_peers = [PeerStream(number) for number in range(sizes.deep_peers)]
        self._deep: Path | None = None

    def deep(self) -> Path:
        """The deep log, closed. Copy it before writing to it."""
        if self._deep is None:
            self.talk(f"building a log of {self.sizes.deep_events:,} events")
            started = stopwatch_ns()
            at = self.clock.now() - 20 * DAY_MS
            batches = days(self.deep_peers, self.sizes.deep_events, at, 10 * DAY_MS)
            self._deep = logs.build(self.folder / "deep.db", batches, at)
            megabytes = self._deep.stat().st_size / 1e6
            self.talk(f"built {megabytes:,.0f} MB in {(stopwatch_ns() - started) / 1e9:.1f} s")
        return self._deep
