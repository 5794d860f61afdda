"""How reading verbs open the log: read-only, whether a gateway writes to it or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from msgspec import MsgspecError
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

CLOCK_MS = 1_000
"""How long a simulated clock may take to answer."""

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


async def present(reader: Reader, given: Options, log: Path | None) -> Millis:
    """The instant for which quota and share are counted: now, but never before the log's last event, from which a gateway would go
    on. For a log of simulated days now is what the configuration's clock says, while it answers and the log is the configuration's own;
    else its last event's time."""
    last = 0
    async for page in reader.page(after=max(0, await reader.position() - 1)):
        last = page[-1].at
    if (await reader.meta()).get("simulated", "0") == "0":
        return max(last, BootClock().now())
    clock = load(given.config).clock if log is None else None
    return max(last, await _simulated_now(clock)) if clock else last


async def _simulated_now(clock: str) -> Millis:
    """What a simulated clock (loopback only, as the configuration is checked) says, 0 if it does not answer."""
    import aiohttp  # for simulated logs alone: it is not small

    from scripts.simulators.clock import FollowedClock

    try:
        async with asyncio.timeout(CLOCK_MS / 1000), FollowedClock(clock) as followed:
            return followed.now()
    except (aiohttp.ClientError, TimeoutError, MsgspecError):
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
