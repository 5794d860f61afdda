"""`replyledger backup FILE`: a consistent copy of the log, gateway running or not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from scripts.configuration.config import load
from scripts.exits import Failed
from scripts.reading.opening import LogFile, log_path
from scripts.verbs import start, verb
from store.backup import backup
from store.errors import StoreError
from store.reader import SqliteReader

app = verb()


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that is on the disk. `root` proves what it holds: `audit --verify --against ROOT`."""

    file: str
    bytes: int
    position: int
    root: str


async def back_up(source: Path, target: Path) -> Backup:
    """Copy the log at `source` to the new file `target`. Raises StoreError."""
    size = await backup(source, target)
    reader = await SqliteReader.open(target)
    try:
        root = await reader.root()
    finally:
        await reader.close()
    return Backup(file=str(target), bytes=size, position=root.position, root=str(root))


@app.command()
def make(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="a new file; it holds texts and tokens like the log itself")
    ],
    log: LogFile = None,
) -> None:
    """Copy the log into one file."""
    given, printer = start(ctx)
    source = log if log is not None else log_path(load(given.config))
    try:
        made = asyncio.run(back_up(source.absolute(), file.absolute()))
    except StoreError as error:
        raise Failed(str(error)) from error
    printer.row(made, f"{made.file}: {made.bytes} bytes, up to position {made.position}\n{made.root}")
