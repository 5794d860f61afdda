"""`replyledger run`: the gateway, headless, until a signal or the fence ends it.

TERM drains and stops, a second TERM stops now, HUP rereads the configuration. Says READY, STATUS and WATCHDOG to a supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import msgspec
import typer

from actors.gateway.errors import InsecureListener
from actors.gateway.listen import Listen
from scripts.configuration.config import Config, load
from scripts.exits import ConfigRefused, ExitCode, Failed, LoginGone, Replaced
from scripts.options import Options
from scripts.printing import Printer
from scripts.running import logs
from scripts.running.notify import notify, watchdog_ms
from scripts.running.process import GatewayProcess, running
from scripts.verbs import start, verb
from store.errors import EventUnreadable, OtherDays, StoreError

logger = logging.getLogger("replyledger")

app = verb()


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What a started gateway says of itself."""

    http: str
    agents: str
    instance: str
    pid: int


@app.command()
def run(ctx: typer.Context) -> None:
    """Run the gateway in the foreground."""
    given, printer = start(ctx)
    config = load(given.config)
    level = "warning" if given.quiet else "debug" if given.verbose else config.log_level
    logs.set_up(config.log_format, level)
    _leave_no_core()
    _end(asyncio.run(serve(config, given, printer)))


def _leave_no_core() -> None:
    """A core file would hold every text and token of its moment, for whoever may read the folder where it lands."""
    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _end(code: ExitCode) -> None:
    if code is ExitCode.REPLACED:
        raise Replaced("a newer instance has claimed every account of this one; do not restart it")
    if code is ExitCode.LOGIN_LOST:
        raise LoginGone("the channel ended the login; log in again: replyledger login")
    if code is not ExitCode.DONE:
        raise Failed("the log failed; what is in it is whole, and the next start goes on from there")


async def serve(config: Config, given: Options, printer: Printer) -> ExitCode:
    """Run until something ends it; the exit code. Raises the errors of a start that failed."""
    signals = Signals(given)
    try:
        async with running(config, signals.watch) as (process, http, agents):
            if not process.ended.done():
                _say_ready(process, http, agents, printer)
            dog = asyncio.get_running_loop().create_task(_watchdog(process), name="watchdog")
            try:
                code = await process.ended
            finally:
                dog.cancel()
                signals.draining()
            notify("STOPPING=1")
    except (InsecureListener, OtherDays) as error:
        raise ConfigRefused(str(error)) from error
    except (StoreError, OSError) as error:
        raise Failed(str(error)) from error
    if isinstance(process.failure, EventUnreadable):
        raise Failed(str(process.failure)) from process.failure
    return code


def _say_ready(process: GatewayProcess, http: Listen, agents: Listen, printer: Printer) -> None:
    ready = Running(http=f"http://{http}", agents=f"ws://{agents}", instance=process.instance, pid=os.getpid())
    printer.row(ready, f"ready: HTTP on {ready.http}, agents on {ready.agents}, instance {ready.instance}")
    printer.flush()  # whoever started us reads this through a pipe
    accounts = ", ".join(f"{life.spec.address} {life.state}" for life in process.lives.values())
    notify("READY=1", f"STATUS={accounts or 'no accounts'}")


async def _watchdog(process: GatewayProcess) -> None:
    """Tells the supervisor that the loop turns and the log answers."""
    every_ms = watchdog_ms()
    while every_ms:
        try:
            await process.log.position()
            notify("WATCHDOG=1")
        except StoreError as error:
            logger.error("the log does not answer, so the supervisor is not told that all is well: %s", error)
        await asyncio.sleep(every_ms / 1000)


class Signals:
    """TERM, INT and HUP."""

    def __init__(self, given: Options) -> None:
        self._given = given
        self._loop = asyncio.get_running_loop()
        self._reload: asyncio.Task[None] | None = None
        self._stopping = False

    def watch(self, process: GatewayProcess) -> None:
        """Obey signals from here on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._term, process)
        self._loop.add_signal_handler(signal.SIGHUP, self._hup, process)

    def draining(self) -> None:
        """The next TERM stops at once: the log is whole at every instant, only what is in flight stays unknown."""
        self._stopping = True

    def _term(self, process: GatewayProcess) -> None:
        if self._stopping:
            logger.warning("stopped at once; what was in flight is unknown until the next start")
            os._exit(int(ExitCode.FAILED))
        self._stopping = True
        logger.info("stopping")
        if not process.ended.done():
            process.ended.set_result(ExitCode.DONE)

    def _hup(self, process: GatewayProcess) -> None:
        self._reload = self._loop.create_task(self._reread(process), name="reload")

    async def _reread(self, process: GatewayProcess) -> None:
        try:
            config = load(self._given.config)
        except ConfigRefused as refusal:
            logger.error("the configuration was not reread: %s", refusal)
            return
        await process.reload(config)
        logger.info("the configuration was reread")
