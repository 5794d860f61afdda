"""Live peers: what each costs in memory, and how long one message to each of them takes.

The peers are `actors.peer.Peer` on a LoopScheduler, with a real account and a log in SQLite from which each is hydrated: a token, ten
charges, three outputs that wait. Measured in a fresh process, where no memory that was freed before can hide what they take; names
and addresses of known peers are there before, as they are for peers that are not live.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from pathlib import Path
from typing import Literal, cast

import msgspec

from actors.account import Account
from actors.deciding.commands import Advance, Ask
from actors.deciding.view import BotView, Over
from actors.logport import LoopLog
from actors.peer import Peer
from actors.runtime.actor import Actor
from actors.runtime.clock import stopwatch_ns
from actors.runtime.directory import Directory
from actors.runtime.scheduler import LoopScheduler
from events.peer_state import PeerState
from scripts.bench import logs
from scripts.bench.bench import Bench
from scripts.bench.figures import Figure, Goal, figure
from scripts.bench.streams import ACCOUNT, PeerStream, charged_peer, peer_id, stream_name
from store.sqlite import SqliteLog

PAGE_BYTES = 4_096
HYDRATED_AT_ONCE = 256


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a process measured; bytes for all peers together, ms for all tells together."""

    peers: int
    traced: bool
    bytes: int
    resident: int  # bytes of the whole process, with everything live
    hydrated_ms: float
    tell_ms: tuple[float, ...]


class NoAgents:
    """A hub without agents."""

    agents = 0

    def offer(self, offer: object) -> None:
        """Nobody is there."""

    def withdraw(self, turn_id: str, reason: Over) -> None:
        """Nobody has it."""

    def reset(self, stream: str, session: str, resets: int) -> None:
        """Nobody is told."""


def account_on(log: SqliteLog, scheduler: LoopScheduler, peers: int) -> Account:
    """An account as a gateway builds it, which knows these peers."""
    view = BotView(account=ACCOUNT.bot, epoch=1, generation=1, policy_id="0123456789abcdef")
    account = Account(
        ACCOUNT, scheduler=scheduler, log=LoopLog(log, _raise), hub=NoAgents(), view=view, access=("all",)
    )
    account.peers = Directory(scheduler, lambda key: Peer(key, account), live_max=peers + 1)
    for number in range(peers):
        account.know(stream_name(number), peer_id(number))
    return account


def _raise(error: BaseException) -> None:
    raise error


async def run(bench: Bench) -> list[Figure]:
    """Memory by RSS and by tracemalloc, and tells."""
    peers, at = bench.sizes.live_peers, bench.clock.now()
    bench.talk(f"building a log of {peers:,} peers with charges and waiting outputs")
    batches = (batch for number in range(peers + 1) for batch in charged_peer(PeerStream(number), at))
    path = logs.build(bench.folder / "peers.db", batches, at)
    times = range(min(3, bench.sizes.rounds))
    rounds = [await _process(path, peers, peers + 1, traced=False) for _ in times]
    traced = await _process(path, peers, peers + 1, traced=True)
    known = bench.sizes.known_peers
    many = [await _process(path, peers, known, traced=False) for _ in times]
    goal = Goal(6 * 1_024, at_least=False)
    return [
        figure("peers/rss-each", "bytes", [f.bytes / f.peers for f in rounds], goal=goal),
        figure("peers/traced-each", "bytes", [traced.bytes / peers], goal=goal, note="by tracemalloc"),
        figure(
            f"peers/tell-to-{peers}",
            "ms",
            [ms for f in rounds for ms in f.tell_ms],
            goal=Goal(1_000, at_least=False),
            note="one Advance to each live peer, until all are at rest",
        ),
        figure(f"peers/hydrate-{peers}", "ms", [f.hydrated_ms for f in rounds]),
        figure(
            f"peers/known-{known}",
            "bytes",
            [f.resident for f in many],
            goal=Goal(300 * 1_048_576, at_least=False),
            note=f"resident memory of a process that knows so many peers, {peers:,} of them live",
        ),
    ]


async def _process(path: Path, peers: int, known: int, *, traced: bool) -> Found:
    args = [sys.executable, "-m", "scripts.bench.peers", str(path), str(peers), str(known), str(int(traced))]
    process = await asyncio.create_subprocess_exec(*args, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the process that measures peers ended with {process.returncode}")
    return msgspec.json.decode(out, type=Found)


# --- in the process of its own ----------------------------------------------------------------------------------------


def resident_bytes(process: int | Literal["self"] = "self") -> int:
    """Resident memory of a process. Linux only."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES


async def measure(path: Path, peers: int, known: int, *, traced: bool) -> Found:
    """Hydrate so many of the known peers, and tell each of them something."""
    log = await SqliteLog.open(path)
    scheduler = LoopScheduler()
    account = account_on(log, scheduler, known)
    await account.peers.ask(stream_name(peers), Ask())  # one beforehand, so that code and caches are there
    gc.collect()
    if traced:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] if traced else resident_bytes()
    started = stopwatch_ns()
    await _hydrate(account, peers)
    hydrated_ms = (stopwatch_ns() - started) / 1e6
    gc.collect()
    resident = resident_bytes()
    after = tracemalloc.get_traced_memory()[0] if traced else resident
    tracemalloc.stop()
    tell_ms = () if traced else tuple([await tell_all(account.peers, peers) for _ in range(3)])
    found = Found(
        peers=peers, traced=traced, bytes=after - before, resident=resident, hydrated_ms=hydrated_ms, tell_ms=tell_ms
    )
    account.agenda.close()
    await account.peers.stop_all()
    scheduler.close()
    await log.close()
    return found


async def _hydrate(account: Account, peers: int) -> None:
    for first in range(0, peers, HYDRATED_AT_ONCE):
        some = [account.peers.ask(stream_name(n), Ask()) for n in range(first, min(first + HYDRATED_AT_ONCE, peers))]
        for future in some:
            state = cast("tuple[PeerState, object, int]", await future)[0]
            assert (len(state.charges), len(state.queue), state.token is None) == (10, 3, False)


async def tell_all(directory: Directory, peers: int) -> float:
    """Milliseconds until every peer has handled one message."""
    names = [stream_name(number) for number in range(peers)]
    mailboxes = [cast("Actor", directory.actor(name)).actor_inbox for name in names]
    started = stopwatch_ns()
    for name in names:
        directory.tell(name, Advance())
    for mailbox in mailboxes:
        while not mailbox.quiet():  # noqa: ASYNC110 - an actor tells nobody that it is at rest
            await asyncio.sleep(0)
    return (stopwatch_ns() - started) / 1e6


def main(args: list[str]) -> None:
    """`python -m scripts.bench.peers LOG PEERS KNOWN TRACED`: prints a Found as JSON."""
    found = asyncio.run(measure(Path(args[0]), int(args[1]), int(args[2]), traced=bool(int(args[3]))))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main(sys.argv[1:])
