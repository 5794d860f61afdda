"""Durable appends beside raw sqlite3, on an empty and on a deep log.

The anchor is a plain `sqlite3` connection with the same pragmas on a copy of the same log: it writes the very rows that the subject
would write (same bytes, digests computed before the clock starts) with `executemany`, as many appends a commit as there are
producers. `event`: one event row an append. `push`: what one POST writes: two events, two bodies, two keys, one agenda row.
`append-floor` is the same with the least possible log in place of ours (`floor.py`), `append-bytes` and `append-lines` with plain files in
place of the anchor (`files.py`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from actors.runtime.clock import stopwatch_ns
from scripts.bench import logs
from scripts.bench.bench import Bench
from scripts.bench.figures import Figure, Goal, figure
from scripts.bench.files import Bytes, Lines
from scripts.bench.floor import Floor
from scripts.bench.streams import ACCOUNT, PeerStream
from store.admit import Admitted, Facts, Tip, accept, admit
from store.append import Cache, gather
from store.core import SqliteCore
from store.prepare import prepare
from store.records import Batch, Write
from store.sqlite import SqliteLog

AGENDA = (
    "INSERT INTO agenda (stream, account, due_at, open_epoch, waiting, turn_open) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (stream) DO UPDATE SET due_at = excluded.due_at, open_epoch = excluded.open_epoch,"
    " waiting = excluded.waiting, turn_open = excluded.turn_open"
)
STATEMENTS = (
    "INSERT INTO events (position, stream, version, type, at, epoch, cause, data, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO bodies (id, account, stream, kind, at, bytes, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO keys (account, source, key, value, at) VALUES (?, ?, ?, ?, ?)",
    AGENDA,
)
GOALS = {512: Goal(0.75, at_least=True), 1: Goal(2.5, at_least=False)}

Make = Callable[[PeerStream, int], Batch]
Commit = tuple[list[tuple[object, ...]], ...]
"""The rows of one commit, for each of STATEMENTS."""


def one_event(one: PeerStream, at: int) -> Batch:
    """One event and nothing else."""
    batch = one.message(at, "")
    write = Write(one.stream, one.version - 2, batch.writes[0].events[:1])
    one.version -= 1
    return Batch(account=ACCOUNT.bot, epoch=1, at=at, writes=(write,))


def one_push(one: PeerStream, at: int) -> Batch:
    """What a POST writes."""
    return one.push(at)


SHAPES: dict[str, Make] = {"event": one_event, "push": one_push}


class Anchor(Protocol):
    """What the appends are measured beside: it is given the same batches, and prepares their rows before the clock starts."""

    def learn(self, batches: Sequence[Batch]) -> None:
        """Look up what these streams need, once."""
        ...

    def rows(self, batches: Sequence[Batch]) -> Any:
        """What `write` takes: one commit."""
        ...

    def write(self, commit: Any) -> None:
        """One commit, durably."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Raw:
    """The anchor's log: rows are prepared outside the measured time, and written inside it."""

    def __init__(self, path: Path, at: int) -> None:
        self._core: SqliteCore = logs.open_core(path, at)
        self.connection: sqlite3.Connection = self._core.connection
        (last,) = self.connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        self._facts = Facts(position=last, epochs={ACCOUNT.bot: 1})

    def learn(self, batches: Sequence[Batch]) -> None:
        """Look up the streams that the batches name, once."""
        found = gather(self.connection, [prepare(batch) for batch in batches], Cache())
        self._facts.streams.update(found.streams)
        for stream, tip in found.tips.items():
            self._facts.tips.setdefault(stream, Tip(tip.version, tip.at, tip.digest))

    def rows(self, batches: Sequence[Batch]) -> Commit:
        """The rows of one commit."""
        found = [self._admit(batch) for batch in batches]
        pairs = [(one.prepared, one.prepared.batch) for one in found]
        bodies = [
            (body.id, batch.account, body.stream, body.kind, body.at, size, body.text)
            for prepared, batch in pairs
            for body, size in zip(batch.bodies, prepared.body_bytes, strict=True)
        ]
        keys = [(batch.account, k.source, k.key, k.value, batch.at) for _, batch in pairs for k in batch.keys]
        agenda = [
            (row.stream, batch.account, row.due_at, row.open_epoch, row.waiting, int(row.turn_open))
            for _, batch in pairs
            for row in batch.agenda
        ]
        return [row for one in found for row in one.rows], bodies, keys, agenda  # type: ignore[return-value] # rows are rows

    def _admit(self, batch: Batch) -> Admitted:
        one = admit(prepare(batch), self._facts)
        accept(one, self._facts)
        return one

    def write(self, commit: Commit) -> None:
        """One commit."""
        self.connection.execute("BEGIN IMMEDIATE")
        for statement, rows in zip(STATEMENTS, commit, strict=True):
            if rows:
                self.connection.executemany(statement, rows)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the log."""
        self.connection.close()


class Pair:
    """Subject and anchor on two equal logs, with the same streams in the same state."""

    def __init__(self, log: SqliteLog | Floor, raw: Anchor, producers: int, make: Make, *, at: int, deep: bool) -> None:
        self.log, self.raw, self.make, self.at = log, raw, make, at
        count = producers if deep else max(1, producers)
        self.ours = [PeerStream(number) for number in range(count)]
        self.theirs = [PeerStream(number) for number in range(count)]

    async def meet(self) -> None:
        """Bring both to the end of their streams, and write to each stream once, unmeasured."""
        for ours, theirs in zip(self.ours, self.theirs, strict=True):
            head = await self.log.read(ours.stream)
            for one in (ours, theirs):
                one.version = head[-1].version if head else 0
                one._count = 1_000_000 + one.version * 100
        self.raw.learn([_blank(one) for one in self.theirs])
        await self.subject(1)
        self.anchor(1)

    async def subject(self, each: int) -> list[int]:
        """`each` appends of every producer at once; the ns of every append, and at the end the ns of the whole."""
        batches = [[self.make(one, self.at) for _ in range(each)] for one in self.ours]
        took: list[int] = []

        async def produce(own: list[Batch]) -> None:
            for batch in own:
                before = stopwatch_ns()
                await self.log.append(batch)
                took.append(stopwatch_ns() - before)

        started = stopwatch_ns()
        await asyncio.gather(*(produce(own) for own in batches))
        return [*took, stopwatch_ns() - started]

    def anchor(self, each: int) -> list[int]:
        """The same rows, raw: one commit for each append of all producers; ns of every commit, then of the whole."""
        commits = [self.raw.rows([self.make(one, self.at) for one in self.theirs]) for _ in range(each)]
        took: list[int] = []
        started = stopwatch_ns()
        for commit in commits:
            before = stopwatch_ns()
            self.raw.write(commit)
            took.append(stopwatch_ns() - before)
        return [*took, stopwatch_ns() - started]


def _blank(one: PeerStream) -> Batch:
    return Batch(account=ACCOUNT.bot, epoch=1, at=0, writes=(Write(one.stream, 0, ()),))


async def run(bench: Bench) -> list[Figure]:
    """Every shape, depth and number of producers."""
    found: list[Figure] = []
    for depth in ("empty", "deep"):
        for shape in SHAPES:
            bench.talk(f"append/{shape}/{depth}")
            found += [await measure(bench, depth, shape, producers) for producers in bench.sizes.producers]
    most = max(bench.sizes.producers)
    found.append(await measure(bench, "empty", "event", most, kind="append-floor", opened=Floor.open))
    for kind, beside in (("append-bytes", Bytes), ("append-lines", Lines)):
        bench.talk(kind)
        found += [await measure(bench, "empty", "event", n, kind=kind, beside=beside) for n in bench.sizes.producers]
    return found


async def measure(
    bench: Bench,
    depth: str,
    shape: str,
    producers: int,
    *,
    kind: str = "append",
    opened: Callable[[Path], Awaitable[SqliteLog | Floor]] = SqliteLog.open,
    beside: Callable[[Path, int], Anchor] = Raw,
) -> Figure:
    """One figure: rates over all producers, or the p50 of a single one."""
    name = f"{depth}-{shape}-{producers}"
    at = bench.clock.now()
    paths = [bench.folder / f"{name}-{side}.db" for side in ("subject", "anchor")]
    for path in paths:
        if depth == "deep":
            logs.copy(bench.deep(), path.name)
        else:
            logs.close(logs.open_core(path, at))
    log, raw = await opened(paths[0]), beside(paths[1], at)
    try:
        pair = Pair(log, raw, producers, SHAPES[shape], at=at, deep=depth == "deep")
        await pair.meet()
        return await _rounds(bench, pair, f"{kind}/{shape}/{depth}/{producers}", producers)
    finally:
        raw.close()
        await log.close()
        for path in paths:
            path.unlink()


async def _rounds(bench: Bench, pair: Pair, name: str, producers: int) -> Figure:
    sizes = bench.sizes
    each = sizes.single_appends if producers == 1 else max(1, sizes.appends // producers)
    ours, theirs = [], []
    for number in range(sizes.rounds):
        if number % 2:
            theirs.append(pair.anchor(each))
            ours.append(await pair.subject(each))
        else:
            ours.append(await pair.subject(each))
            theirs.append(pair.anchor(each))
    if producers == 1:
        measured, anchor = ([median(took[:-1]) / 1e3 for took in side] for side in (ours, theirs))
        goal = GOALS[1] if name.startswith("append/") else None
        return figure(name, "us", measured, anchor, goal=goal, note="p50 of one producer / of a raw single commit")
    measured, anchor = ([each * producers / took[-1] * 1e9 for took in side] for side in (ours, theirs))
    goal = GOALS.get(producers) if name.startswith("append/") else None
    return figure(name, "per_s", measured, anchor, goal=goal, note="appends / raw, as many a commit")
