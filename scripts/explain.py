"""The command line of `replyledger explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from scripts.reading.explain import explain
from scripts.reading.opening import LogFile, present, progress, read_log
from scripts.verbs import start, verb
from store.log import Reader

app = verb()


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="of a turn, delivery, request, client, message or instance, or its beginning"
        ),
    ],
    log: LogFile = None,
) -> None:
    """Tell in plain sentences why something left or waits, what it spent, and what would free it."""
    given, printer = start(ctx)

    async def work(reader: Reader) -> None:
        with progress(printer, await reader.position(), "searching the log") as told:
            await explain(reader, name, printer, await present(reader, given, log), progress=told)

    read_log(given, log, work)
