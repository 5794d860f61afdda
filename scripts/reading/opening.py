"""How reading verbs open the log: read-only, whether a gateway writes to it or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from actors.runtime.clock import BootClock
from events.base import Millis
from events.errors import EventError
from scripts.configuration.config import Config, load
from scripts.exits import Failed
from scripts.options import Options
from scripts.printing import Printer
from store.errors import StoreError
from store.log import Reader
from store.reader import SqliteReader

LOG_FILE = "log.sqlite"
"""The log's file in the state folder."""

PROGRESS_FROM = 20_000
"""Events from which on progress is shown."""

T = TypeVar("T")

LogFile = Annotated[
    Path | None, typer.Option("--log", help="read this log, such as a backup, instead of the configuration's")
]
"""The option of every reading verb."""


def log_path(config: Config) -> Path:
    """Where a configuration's log lies."""
    return config.state_dir / LOG_FILE


def read_log(given: Options, log: Path | None, work: Callable[[SqliteReader], Awaitable[T]]) -> T:
    """Do some work on the configuration's log, or on the file `log` (a backup, a copy). Raises Failed or ConfigRefused."""
    path = log if log is not None else log_path(load(given.config))
    try:
        return asyncio.run(_work(path.absolute(), work))
    except (StoreError, EventError) as error:
        raise Failed(str(error)) from error


async def _work(path: Path, work: Callable[[SqliteReader], Awaitable[T]]) -> T:
    reader = await SqliteReader.open(path)
    try:
        return await work(reader)
    finally:
        await reader.close()


async def present(reader: Reader) -> Millis:
    """The instant for which quota and share are counted: now, but for a log of simulated days its last event's time."""
    if (await reader.meta()).get("simulated", "0") == "0":
        return BootClock().now()
    async for page in reader.page(after=max(0, await reader.position() - 1)):
        return page[-1].at
    return 0


@contextmanager
def progress(printer: Printer, total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A function that is told the position reached; shows a bar on standard error where somebody watches and the log is long."""
    if not printer.live or total < PROGRESS_FROM:
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=printer.err), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda position: bar.update(task, completed=position)
