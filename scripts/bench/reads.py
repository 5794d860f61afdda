"""Reads on the deep log: hydrating a cold peer, an ask, a page of the ledger, and the start of a whole gateway."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from statistics import median
from typing import Any

import pykka

from actors.deciding.commands import Ask
from actors.runtime.clock import stopwatch_ns
from actors.runtime.scheduler import LoopScheduler
from scripts.bench import logs
from scripts.bench.bench import Bench
from scripts.bench.figures import Figure, Goal, figure
from scripts.bench.peers import account_on
from scripts.bench.stage import configure, gateway_running, phone_running
from scripts.bench.streams import EVENTS_PER_CYCLE, PeerStream, stream_name
from scripts.configuration.config import load
from scripts.reading.opening import log_path
from scripts.running.process import running
from store.ledger import START, Wanted
from store.sqlite import SqliteLog

COLD_CYCLES = 2
COLD_EVENTS = COLD_CYCLES * (EVENTS_PER_CYCLE - 1)
PAGE_ROWS = 100
OF_STREAM = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events"
    " WHERE stream = ? AND version > 0 ORDER BY version"
)


class Threaded(pykka.ThreadingActor):
    """The anchor of the ask: pykka's own actor, with a thread of its own."""

    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        """Give the message back."""
        return message


async def run(bench: Bench) -> list[Figure]:
    """All of them."""
    return [*await _peers(bench), await _ledger(bench), *await _start(bench)]


# --- peers ------------------------------------------------------------------------------------------------------------


async def _peers(bench: Bench) -> list[Figure]:
    sizes, at = bench.sizes, bench.clock.now()
    path = logs.build(bench.folder / "cold.db", _cold(sizes.asks, at), at)
    log, raw = await SqliteLog.open(path), logs.open_core(path, at)
    scheduler = LoopScheduler()
    account = account_on(log, scheduler, sizes.asks)
    threaded = Threaded.start()
    names = [stream_name(number) for number in range(sizes.asks)]
    cold, rows, warm, thread = [], [], [], []
    try:
        for _ in range(sizes.rounds):
            for name in names:
                account.peers.passivate(name)
            cold.append(await _asks(account.peers.ask, names))
            rows.append(
                _p50([_took(lambda n=name: raw.connection.execute(OF_STREAM, (n,)).fetchall()) for name in names])
            )
            warm.append(await _asks(account.peers.ask, names))
            thread.append(_p50([_took(lambda: threaded.ask("hello")) for _ in names]))
    finally:
        threaded.stop()
        await account.peers.stop_all()
        scheduler.close()
        raw.connection.close()
        await log.close()
    return [
        figure(
            "reads/hydrate",
            "us",
            cold,
            rows,
            note=f"p50 of an ask to a cold peer of {COLD_EVENTS} events / its rows read raw",
        ),
        figure("reads/ask", "us", warm, thread, note="p50 of an ask to a live peer / to a pykka ThreadingActor"),
    ]


def _cold(peers: int, at: int) -> Any:
    for number in range(peers):
        one = PeerStream(number)
        for cycle in range(COLD_CYCLES):
            yield from one.cycle(at, 1, f"cursor-{cycle}")


async def _asks(ask: Any, names: list[str]) -> float:
    took = []
    for name in names:
        started = stopwatch_ns()
        await ask(name, Ask())
        took.append(stopwatch_ns() - started)
    return _p50(took)


def _took(call: Any) -> int:
    started = stopwatch_ns()
    call()
    return stopwatch_ns() - started


def _p50(took: list[int]) -> float:
    return median(took) / 1e3


# --- ledger -----------------------------------------------------------------------------------------------------------


async def _ledger(bench: Bench) -> Figure:
    """Pages from the middle of the ledger of the deep log."""
    log = await SqliteLog.open(bench.deep())
    took = []
    try:
        after = START
        for _ in range(bench.sizes.pages):
            started = stopwatch_ns()
            page = await log.requests(Wanted(), after, PAGE_ROWS)
            took.append((stopwatch_ns() - started) / 1e6)
            assert len(page) == PAGE_ROWS
            after = page[-1].place
    finally:
        await log.close()
    goal = Goal(20, at_least=False)
    return figure(
        "reads/ledger-page", "ms", took, goal=goal, note=f"{PAGE_ROWS} rows out of {bench.sizes.deep_events:,} events"
    )


# --- starting ---------------------------------------------------------------------------------------------------------


async def _start(bench: Bench) -> list[Figure]:
    """From the configuration to a gateway that is ready, and the same for a whole new process."""
    inside, process = [], []
    async with phone_running() as phone:
        path = configure(bench.folder / "start", phone.urls.base_url, [])
        config = load(path)
        await asyncio.to_thread(_deep_state, bench, log_path(config))
        for _ in range(min(3, bench.sizes.rounds)):
            started = stopwatch_ns()
            async with running(config) as (gateway, _, _):
                assert (await gateway.service.ready()).ready
                inside.append((stopwatch_ns() - started) / 1e6)
            started = stopwatch_ns()
            async with gateway_running(path):
                process.append((stopwatch_ns() - started) / 1e6)
    goal = Goal(1_000, at_least=False)
    return [
        figure(
            "reads/start", "ms", inside, goal=goal, note=f"until ready, on a log of {bench.sizes.deep_events:,} events"
        ),
        figure("reads/start-process", "ms", process, note="the same as a new process, imports included"),
    ]


def _deep_state(bench: Bench, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(bench.deep(), target)
    target.chmod(0o600)
