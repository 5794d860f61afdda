"""Replay (read, decode, fold everything) beside the `eventsourcing` library on the same events, and beside SQLite's bare read."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import msgspec

from actors.runtime.clock import stopwatch_ns
from scripts.bench import eventsourcing_side
from scripts.bench.bench import Bench
from scripts.bench.figures import Goal, Result, Skipped, figure
from scripts.reading.world import fold
from store.sqlite import SqliteLog

LIBRARY = "eventsourcing==9.5.*"
GOAL = Goal(5, at_least=True)
GOAL_OF_READING = Goal(0.7, at_least=True)


def find_library(cache: Path, *, install: bool) -> Path | None:
    """An interpreter that has the library: this one, the one in `cache`, or, if asked, a new one there. None without one."""
    if find_spec("eventsourcing"):
        return Path(sys.executable)
    python = cache / "eventsourcing" / "bin" / "python"
    if not install and not (cache / "eventsourcing" / "ready").exists():
        return None
    if not (cache / "eventsourcing" / "ready").exists():
        venv.create(cache / "eventsourcing", with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", LIBRARY], check=True)  # noqa: S603 - our own interpreter
        (cache / "eventsourcing" / "ready").touch()
    return python


class Library:
    """The library's process, with the same events."""

    def __init__(self, python: Path, events: Path, database: Path) -> None:
        script = Path(eventsourcing_side.__file__)
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [python, script, events, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.count = int(self._line())

    def pull(self) -> float:
        """Events a second over the whole log."""
        pipe = _open(self._process.stdin)
        pipe.write("pull\n")
        pipe.flush()
        took, count = json.loads(self._line())
        if count != self.count:
            raise RuntimeError(f"the library returned {count} of {self.count} events")
        return float(count / took * 1e9)

    def _line(self) -> str:
        line = _open(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the library's process ended with {self._process.wait()}")
        return line

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            _open(pipe).close()
        self._process.wait()


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


async def run(bench: Bench) -> list[Result]:
    """The replay, with both anchors."""
    log = await SqliteLog.open(bench.deep())
    until = min(bench.sizes.replayed, await log.position())
    library: Library | None = None
    try:
        if bench.es_python is not None:
            library = Library(bench.es_python, await _export(bench, log, until), bench.folder / "eventsourcing.db")
        return await _rounds(bench, log, until, library)
    finally:
        if library is not None:
            library.close()
        await log.close()


async def _rounds(bench: Bench, log: SqliteLog, until: int, library: Library | None) -> list[Result]:
    ours, reads, theirs = [], [], []
    for _ in range(bench.sizes.rounds):
        if library is not None:
            theirs.append(library.pull())
        ours.append(await _replay(log, until))
        reads.append(await _read(log, until))
    found: list[Result] = [
        figure(
            "replay/read-decode",
            "per_s",
            ours,
            reads,
            goal=GOAL_OF_READING,
            note="full fold / read and decode without a fold",
        )
    ]
    if library is None:
        return [*found, Skipped(name="replay/eventsourcing", skipped="not installed; see --with-eventsourcing")]
    name = "replay/eventsourcing"
    return [*found, figure(name, "per_s", ours, theirs, goal=GOAL, note="full fold / its log pull, decode, small fold")]


async def _replay(log: SqliteLog, until: int) -> float:
    """Events a second."""
    started = stopwatch_ns()
    world = await fold(log.page(until=until))
    assert world.position == until
    return until / (stopwatch_ns() - started) * 1e9


async def _read(log: SqliteLog, until: int) -> float:
    """Events a second, decoded and forgotten."""
    started = stopwatch_ns()
    count = 0
    async for page in log.page(until=until):
        count += len(page)
    assert count == until
    return until / (stopwatch_ns() - started) * 1e9


async def _export(bench: Bench, log: SqliteLog, until: int) -> Path:
    """The same events for the library, one JSON array a line."""
    path = bench.folder / "events.jsonl"
    with path.open("wb") as file:
        async for page in log.page(until=until):
            for r in page:
                fields = msgspec.to_builtins(r.event)
                kept = {("kind_of_event" if name == "type" else name): value for name, value in fields.items()}
                file.write(msgspec.json.encode((r.stream, r.version, r.at, r.type, kept)) + b"\n")
    return path
