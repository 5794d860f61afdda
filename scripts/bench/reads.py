"""What one message to a peer costs, cold and live, and what it costs to put a peer away; beside pykka's own actor with its thread."""

from __future__ import annotations

from statistics import median
from typing import Any

import pykka

from actors.deciding.commands import Ask
from actors.runtime.clock import stopwatch_ns
from actors.runtime.scheduler import LoopScheduler
from scripts.bench import logs
from scripts.bench.bench import Bench
from scripts.bench.figures import Figure, figure
from scripts.bench.peers import account_on, tell_all
from scripts.bench.streams import EVENTS_PER_CYCLE, PeerStream, stream_name
from store.sqlite import SqliteLog

STOPPED = 20
"""Threads that are made and stopped in a round."""

COLD_CYCLES = 2
COLD_EVENTS = COLD_CYCLES * (EVENTS_PER_CYCLE - 1)
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
    sizes, at = bench.sizes, bench.clock.now()
    path = logs.build(bench.folder / "cold.db", _cold(sizes.asks, at), at)
    log, raw = await SqliteLog.open(path), logs.open_core(path, at)
    scheduler = LoopScheduler()
    account = account_on(log, scheduler, sizes.asks)
    threaded = Threaded.start()
    names = [stream_name(number) for number in range(sizes.asks)]
    cold, rows, warm, thread = [], [], [], []
    away, stopped, told, threads_told = [], [], [], []
    try:
        await _asks(account.peers.ask, names)
        for _ in range(sizes.rounds):
            away.append(_p50([_took(lambda n=name: account.peers.passivate(n)) for name in names]))
            stopped.append(_p50([_stopped() for _ in range(STOPPED)]))
            cold.append(await _asks(account.peers.ask, names))
            rows.append(
                _p50([_took(lambda n=name: raw.connection.execute(OF_STREAM, (n,)).fetchall()) for name in names])
            )
            warm.append(await _asks(account.peers.ask, names))
            thread.append(_p50([_took(lambda: threaded.ask("hello")) for _ in names]))
            told.append(await tell_all(account.peers, sizes.asks) * 1e3 / sizes.asks)
            threads_told.append(_took(lambda: _tell_thread(threaded, sizes.asks)) / 1e3 / sizes.asks)
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
        figure(
            "reads/tell",
            "us",
            told,
            threads_told,
            note="each of many Advances until all are done / tells to a ThreadingActor",
        ),
        figure(
            "reads/passivate", "us", away, stopped, note="p50 of a live peer put away / of a ThreadingActor stopped"
        ),
    ]


def _cold(peers: int, at: int) -> Any:
    for number in range(peers):
        one = PeerStream(number)
        for cycle in range(COLD_CYCLES):
            yield from one.cycle(at, 1, f"cursor-{cycle}")


def _stopped() -> int:
    """ns to stop a ThreadingActor that has answered once."""
    one = Threaded.start()
    one.ask("hello")
    return _took(one.stop)


def _tell_thread(threaded: pykka.ActorRef[Threaded], times: int) -> None:
    for _ in range(times):
        threaded.tell("hello")
    threaded.ask("hello")  # behind all of them


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
