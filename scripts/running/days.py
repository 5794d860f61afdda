"""Which days a process lives in, the machine's or simulated ones, and the log of those days. No log ever has both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from actors.runtime.clock import BootClock, Clock
from actors.runtime.scheduler import LoopScheduler
from scripts.configuration.config import Config
from scripts.exits import ConfigRefused, Failed
from scripts.reading.opening import log_path
from scripts.simulators.clock import FollowedClock
from store.errors import StoreError
from store.reader import SqliteReader
from store.sqlite import SqliteLog

SALT_BYTES = 32
"""The salt of a new log; an existing one has its own."""

REAL_DAYS = (
    "{path} is a log of real days, and the configuration has a simulated `clock`: quota and share of real people would be counted by it"
    " for ever; take `clock` out, or name another state_dir"
)
SIMULATED_DAYS = (
    "{path} is a log of simulated days, and the configuration has no `clock`: its quota and share say nothing of real people; name"
    " another state_dir, or the `clock` of those days"
)


@asynccontextmanager
async def clock_of(config: Config) -> AsyncIterator[Clock]:
    """The clock of this process: the machine's, or the simulated one of a configuration for simulated days. Raises ConfigRefused where
    the log is of other days, and Failed."""
    if flaw := await mixed_days(log_path(config), simulated=config.clock is not None):
        raise ConfigRefused(flaw)
    if config.clock is None:
        yield BootClock()
        return
    clock = FollowedClock(config.clock)
    try:
        await clock.start()
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
        raise Failed(f"no simulated clock answers at {config.clock}: {type(error).__name__}") from error
    try:
        yield clock
    finally:
        await clock.stop()


async def open_log(config: Config, scheduler: LoopScheduler) -> SqliteLog:
    """The configuration's log; a new one gets its salt. Raises CannotOpen, ConfigRefused."""
    try:
        config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = f"state_dir {config.state_dir} cannot be made: {error.strerror}; name a folder that this user can write"
        raise ConfigRefused(why) from error
    salt = bytes.fromhex(scheduler.ids.token(SALT_BYTES))
    return await SqliteLog.open(log_path(config), salt=salt, at=scheduler.clock.now())


async def mixed_days(path: Path, *, simulated: bool) -> str:
    """What is wrong if the log at `path` would go on in days of this kind, "" if nothing is. Only reads. No log, one without events, and
    one that cannot be read (whoever opens it to write says why) are for days of any kind."""
    try:
        reader = await SqliteReader.open(path)
        try:
            begun = await reader.position() > 0
            marked = (await reader.meta()).get("simulated", "0") != "0"
        finally:
            await reader.close()
    except StoreError:
        return ""
    if not begun or marked == simulated:
        return ""
    return (SIMULATED_DAYS if marked else REAL_DAYS).format(path=path)
