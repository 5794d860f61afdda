"""The command line of `replyledger replay`."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from actors.text.counts import counted
from scripts.choices import until as until_of
from scripts.errors import Misused
from scripts.exits import Failed
from scripts.reading.opening import LogFile, present, progress, read_log
from scripts.reading.proof import print_differences
from scripts.reading.replay import ReplayOptions, replay, step
from scripts.verbs import start, verb
from store.log import Reader

app = verb()


@app.command()
def show(
    ctx: typer.Context,
    *,
    peer: Annotated[
        str, typer.Option(help="an address, or the beginning of one; CHANNEL:ACCOUNT = who logged in")
    ] = "",
    until: Annotated[str, typer.Option(help="up to a position, or a time: 2026-05-01T09:00, `2h ago`, ms")] = "",
    by_step: Annotated[bool, typer.Option("--step", help="event by event: enter goes on, q ends")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="compare the caches with the events; exit 1 if they differ")
    ] = False,
    log: LogFile = None,
) -> None:
    """Rebuild quota and backlog from the events alone, gateway running or not."""
    given, printer = start(ctx)
    if verify and (by_step or until):
        raise Misused("--verify compares the log as it is; leave out --step and --until")

    async def options_of(reader: Reader) -> ReplayOptions:
        now = await present(reader, given, log)
        position, time = until_of(until, now)
        instant = time if time is not None else None if position else now
        return ReplayOptions(now=instant, peer=peer, until_position=position, until=time)

    async def work(reader: Reader) -> int:
        options = await options_of(reader)
        if by_step:
            await step(reader, options, printer, _ask)
            return 0
        with progress(printer, await reader.position(), "replaying") as told:
            await replay(reader, options, printer, told)
        return await print_differences(reader, printer) if verify else 0

    differences = read_log(given, log, work)
    if differences:
        raise Failed(f"the caches differ from the events in {counted(differences, 'place', 'places')}")
    if verify:
        printer.talk("the caches say what the events say")


async def _ask() -> str:
    """A line of standard input; its end is a `q`. The question goes to standard error."""
    sys.stderr.write("enter: next, q: quit > ")
    sys.stderr.flush()
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip() if line else "q"
