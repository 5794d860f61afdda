"""`replyledger bench`: speed and memory, each beside an anchor that is measured in the same run."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from scripts.bench import agents, append, big, peers, reads, replay, turns
from scripts.bench.bench import QUICK, Bench, Sizes
from scripts.bench.figures import Result, text_of
from scripts.exits import Misused
from scripts.printing import Printer
from scripts.verbs import start, verb

app = verb("Measure speed and memory beside anchors, in one run.")

GROUPS: dict[str, Callable[[Bench], Awaitable[Sequence[Result]]]] = {
    "append": append.run,
    "replay": replay.run,
    "peers": peers.run,
    "turns": turns.run,
    "agents": agents.run,
    "reads": reads.run,
    "big": big.run,
}


@app.command()
def bench(
    ctx: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes: about two minutes, rougher figures.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="append, replay, peers, turns, agents, reads or big.")
    ] = None,
    with_eventsourcing: Annotated[
        bool,
        typer.Option(
            "--with-eventsourcing",
            help="Install the `eventsourcing` library with pip into an environment of its own, to compare the replay with.",
        ),
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where logs are built (about 2 GB), and removed afterwards.")
    ] = None,
) -> None:
    """Print goal, figure, anchor, ratio, median and spread of every benchmark."""
    _given, printer = start(ctx)
    names = tuple(only or GROUPS)
    for name in names:
        if name not in GROUPS:
            raise Misused(f"no benchmark {name!r}; there are: {', '.join(GROUPS)}")
    python = replay.find_library(cache_folder(), install=with_eventsourcing) if "replay" in names else None
    with tempfile.TemporaryDirectory(prefix="replyledger-bench-", dir=folder) as place:
        asyncio.run(measure(Path(place), QUICK if quick else Sizes(), names, printer, python))


async def measure(folder: Path, sizes: Sizes, names: Sequence[str], printer: Printer, es_python: Path | None) -> None:
    """Run some groups, and print each result as soon as its group is done."""
    one = Bench(folder, sizes, printer.talk, es_python=es_python)
    for name in names:
        printer.talk(f"measuring {name}")
        for result in await GROUPS[name](one):
            printer.row(result, text_of(result))
            printer.flush()


def cache_folder() -> Path:
    """Where a throwaway environment is kept between runs."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "replyledger"
