"""A log of a million events and ten thousand peers, of which five hundred have something waiting: pages of its ledger, and the start of
a gateway on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from actors.runtime.clock import stopwatch_ns
from scripts.bench import logs
from scripts.bench.bench import DAY_MS, Bench
from scripts.bench.figures import Figure, Goal, figure
from scripts.bench.peers import resident_bytes
from scripts.bench.stage import configure, gateway_running, phone_running
from scripts.bench.streams import PeerStream, days, stream_name
from scripts.configuration.config import load
from scripts.reading.opening import log_path
from scripts.running.process import running
from store.ledger import START, Wanted
from store.records import Batch
from store.sqlite import SqliteLog

PAGE_ROWS = 100
OUTPUTS_EACH = 3
STARTS_MAX = 3

QUESTIONS: Final = {
    "": Wanted(),
    "-peer": Wanted(stream=stream_name(0)),
    "-pushes": Wanted(kinds=("push",)),
    "-notices": Wanted(kinds=("notice",)),
    "-unknown": Wanted(results=("unknown",)),
}
"""What the ledger is asked for; the last two are rare."""


async def run(bench: Bench) -> list[Figure]:
    """All of them, on one log."""
    async with phone_running() as phone:
        path = configure(bench.folder / "big", phone.urls.base_url, [])
        log = log_path(load(path))
        bench.talk(f"building a log of {bench.sizes.big_events:,} events")
        await asyncio.to_thread(_build, bench, log)
        return [*await _ledger(bench, log), *await _start(bench, path)]


def _build(bench: Bench, path: Path) -> None:
    at = bench.clock.now() - 20 * DAY_MS
    peers = [PeerStream(number) for number in range(bench.sizes.big_peers)]
    logs.build(path, _batches(bench, peers, at), at)
    path.chmod(0o600)


def _batches(bench: Bench, peers: list[PeerStream], at: int) -> Iterator[Batch]:
    """Days of all peers; then some of them have outputs that wait for their next message."""
    yield from days(peers, bench.sizes.big_events, at, 10 * DAY_MS)
    for one in peers[: bench.sizes.big_waiting]:
        for _ in range(OUTPUTS_EACH):
            yield one.accept(at + 11 * DAY_MS)


async def _ledger(bench: Bench, path: Path) -> list[Figure]:
    """One page after the other, each filter for itself."""
    log = await SqliteLog.open(path)
    try:
        return [await _pages(bench, log, name, wanted) for name, wanted in QUESTIONS.items()]
    finally:
        await log.close()


async def _pages(bench: Bench, log: SqliteLog, name: str, wanted: Wanted) -> Figure:
    took, rows, after = list[float](), 0, START
    for _ in range(bench.sizes.pages):
        started = stopwatch_ns()
        page = await log.requests(wanted, after, PAGE_ROWS)
        took.append((stopwatch_ns() - started) / 1e6)
        rows = max(rows, len(page))
        after = page[-1].place if page else START
    note = f"pages of {rows} rows out of {bench.sizes.big_events:,} events"
    return figure(f"big/ledger-page{name}", "ms", took, goal=Goal(20, at_least=False), note=note)


async def _start(bench: Bench, path: Path) -> list[Figure]:
    """From the configuration to a gateway that is ready; the same for a whole new process, and its memory then."""
    inside, process, resident = list[float](), list[float](), list[float]()
    config = load(path)
    for _ in range(min(STARTS_MAX, bench.sizes.rounds)):
        started = stopwatch_ns()
        async with running(config) as (gateway, _, _):
            assert (await gateway.service.ready()).ready
            inside.append((stopwatch_ns() - started) / 1e6)
        started = stopwatch_ns()
        async with gateway_running(path) as outside:
            process.append((stopwatch_ns() - started) / 1e6)
            resident.append(resident_bytes(outside.pid))
    sizes, goal = bench.sizes, Goal(1_000, at_least=False)
    size = f"{sizes.big_events:,} events, {sizes.big_peers:,} peers of which {sizes.big_waiting:,} wait"
    return [
        figure("big/start", "ms", inside, goal=goal, note=f"until ready: {size}"),
        figure("big/start-process", "ms", process, goal=goal, note="the same as a new process, imports included"),
        figure("big/start-memory", "bytes", resident, note="resident memory of that process when it is ready"),
    ]
