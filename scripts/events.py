"""The command line of `replyledger events`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from actors.text.counts import counted
from scripts.reading.listing import TailOptions, export, show, tail
from scripts.reading.opening import LogFile, progress, read_log
from scripts.verbs import actions, start
from store.log import Reader

FOLLOW_EVERY_S = 0.5
"""How often `tail -f` looks for new events."""

app = actions("The events as they lie in the log. Texts only with --texts; tokens never.")

Texts = Annotated[bool, typer.Option("--texts", help="also the texts of messages and outputs")]


@app.command("tail")
def tail_(
    ctx: typer.Context,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on with new events")] = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=0, help="how many")] = 20,
    peer: Annotated[str, typer.Option(help="an address, or the beginning of one")] = "",
    texts: Texts = False,
    log: LogFile = None,
) -> None:
    """Print the last events."""
    given, printer = start(ctx)

    async def pause() -> bool:
        await asyncio.sleep(FOLLOW_EVERY_S)
        return True

    async def work(reader: Reader) -> None:
        options = TailOptions(count=count, peer=peer, texts=texts)
        await tail(reader, options, printer, pause if follow else None)

    read_log(given, log, work)


@app.command("show")
def show_(ctx: typer.Context, position: int, *, texts: Texts = False, log: LogFile = None) -> None:
    """Print the event at a position."""
    given, printer = start(ctx)

    async def work(reader: Reader) -> None:
        await show(reader, position, printer, texts=texts)

    read_log(given, log, work)


@app.command("export")
def export_(ctx: typer.Context, *, texts: Texts = False, log: LogFile = None) -> None:
    """Print every row as a JSON line, with its digest."""
    given, printer = start(ctx)

    async def work(reader: Reader) -> None:
        with progress(printer, await reader.position(), "exporting") as told:
            count = await export(reader, printer, texts=texts, progress=told)
        printer.talk(counted(count, "event", "events"))

    read_log(given, log, work)
