"""The composition root: everything that one gateway process is made of, started in order and stopped in reverse.

Configuration, secrets, log and listeners come first; accounts are claimed last, so that a start that cannot work takes nothing away
from an instance that does.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from prometheus_client import CollectorRegistry

from actors.agents.hub import AgentHub
from actors.channels.weixin.link import open_link
from actors.gateway.agents import AgentListener
from actors.gateway.finding import Finder
from actors.gateway.http import HttpListener
from actors.gateway.listen import Listen
from actors.gateway.metrics import Metrics
from actors.gateway.service import Service
from actors.gateway.showing import Agents
from actors.gateway.tidings import Tidings
from actors.life import AccountLife, AccountSpec, Process
from actors.ports import OpenLink
from actors.runtime.scheduler import LoopScheduler
from events.base import Recorded
from events.streams import Address
from scripts.asking.client import PORT_FILE
from scripts.configuration.config import Account, Config, Listener
from scripts.exits import ExitCode, Failed
from scripts.files import write_private
from scripts.running.credentials import LoginFile
from scripts.running.days import clock_of, open_log
from scripts.running.desk import Desk, Peers
from scripts.running.retention import Retention
from scripts.running.spooling import Spooling
from scripts.simulators.clock import FollowedClock
from scripts.version import program_version
from store.errors import EventUnreadable
from store.sqlite import SqliteLog

logger = logging.getLogger("replyledger")

CHANNELS: dict[str, OpenLink] = {"weixin": open_link}
"""How each channel is opened."""


class GatewayProcess:
    """One running gateway. `ended` resolves to the exit code when something in it asks for the end."""

    def __init__(
        self,
        config: Config,
        log: SqliteLog,
        scheduler: LoopScheduler,
        open_links: Callable[[str], OpenLink] = CHANNELS.__getitem__,
    ) -> None:
        self._open_links = open_links
        self.config, self.log, self.scheduler = config, log, scheduler
        self.instance = f"i-{scheduler.ids.token(6)}"
        self.ended: asyncio.Future[ExitCode] = asyncio.get_running_loop().create_future()
        self.failure: BaseException | None = None  # of the log, that made this process end
        self.lives: dict[str, AccountLife] = {}
        self.finder = Finder(self.lives, log)
        self._desk = Desk(log, self.finder)
        self.hub = AgentHub(scheduler, Peers(self.finder), self._desk, self._agents_changed)
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, self.lives)
        self.service = Service(
            self.lives,
            log=log,
            scheduler=scheduler,
            instance=self.instance,
            version=program_version(),
            agents=Agents(self.hub.views),
            simulated=config.clock is not None,
        )
        self._desk.gateway = self.service
        self._spooling = Spooling(config.state_dir, self.service, self._log_failed)
        self.service.spool = self._spooling.view
        self._tidings = Tidings()
        self._retention = Retention(self.lives, log, scheduler, config.bodies_ms, self._log_failed)
        self._accounts = {account.name: account for account in config.accounts}
        for account in config.accounts:
            self.lives[account.name] = self._life(account)

    # --- accounts -------------------------------------------------------------------------------------------------

    def _life(self, account: Account) -> AccountLife:
        process = Process(
            log=self.log,
            scheduler=self.scheduler,
            hub=self.hub,
            instance=self.instance,
            program=program_version(),
            simulated=self.config.clock is not None,
            on_log_failed=self._log_failed,
            on_appended=self._appended,
            on_log_busy=self._log_busy,
            on_claimed=self.metrics.claimed,
        )
        return AccountLife(
            spec_of(account, self.config),
            process,
            open_link=self._open_links(account.channel),
            logins=LoginFile(self.config.state_dir, account.name),
            on_state=self._account_state,
            on_change=lambda stream, _recorded, _state: self.service.changed(stream),
        )

    def _account_state(self, life: AccountLife) -> None:
        if life.state in ("fenced", "stopped", "failed"):
            self.hub.forget(life.spec.address.bot)
        if life.awake:
            self._spooling.look()
        states = {x.state for x in self.lives.values()}
        if states == {"fenced"}:
            self._end(ExitCode.REPLACED)
        self._obey_login_lost(life)

    def _obey_login_lost(self, life: AccountLife) -> None:
        """End, where the login is lost and the configuration, as it was read last, asks for an end."""
        if life.state == "login_lost" and self._accounts[life.spec.address.account].exit_on_login_lost:
            self._end(ExitCode.LOGIN_LOST)

    def _appended(self, recorded: tuple[Recorded, ...]) -> None:
        self.metrics.count(recorded)
        for tiding in self._tidings.of(recorded):
            self.hub.delivery_changed(tiding.delivery, tiding.state, tiding.reason)

    def _agents_changed(self) -> None:
        for life in self.lives.values():
            life.account.agents_changed()

    def _log_failed(self, error: BaseException) -> None:
        """Say it once, however many find out; the process ends."""
        if self.failure is None:
            self.failure = error
            what = "the log is not for this version" if isinstance(error, EventUnreadable) else "the log failed"
            logger.critical("%s, so this process ends: %s", what, error)
        self._end(ExitCode.FAILED)

    def _log_busy(self, why: str) -> None:
        """Why the log takes nothing right now, "" = it does again. Said when it begins and when it ends."""
        if why and not self.service.log_trouble:
            logger.warning("the log takes nothing right now: %s; it is tried again", why)
        elif self.service.log_trouble and not why:
            logger.info("the log takes appends again")
        self.service.log_trouble = why
        self.metrics.log_busy(bool(why))

    def _end(self, code: ExitCode) -> None:
        if not self.ended.done():
            self.ended.set_result(code)

    # --- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Claim the accounts and take in what was left in the spool; what waits there for a login is taken in with it."""
        for life in self.lives.values():
            await life.start(patient=True)
        await self._spooling.take_in()
        self._spooling.start()
        self._retention.start()

    async def stop(self) -> None:
        """Release the accounts; what waits stays in the log."""
        self.service.stopping = True
        self._retention.stop()
        await self._spooling.stop()
        self.hub.close()
        for life in self.lives.values():
            await life.stop("stopped")

    async def reload(self, config: Config) -> None:
        """Take over what may change while running: policies, access, locale. Says what only a restart changes."""
        for what in changed_by_restart(self.config, config):
            logger.warning("%s: that takes effect at the next restart", what)
        for account in config.accounts:
            life = self.lives.get(account.name)
            if life is not None:
                self._accounts[account.name] = account
                await life.reconfigure(spec_of(account, config))
                self._obey_login_lost(life)


def changed_by_restart(started: Config, new: Config) -> Iterator[str]:
    """What differs from the configuration that a process started with, and cannot change while it runs."""
    for key in ("state_dir", "clock", "agents", "http", "logging", "retention"):
        if getattr(started.file, key) != getattr(new.file, key):
            yield f"[{key}] was changed" if key not in ("state_dir", "clock") else f"{key} was changed"
    before, after = {a.name: a for a in started.accounts}, {a.name: a for a in new.accounts}
    yield from (f"account {name} was added" for name in after.keys() - before.keys())
    yield from (f"account {name} was removed" for name in before.keys() - after.keys())
    for name in before.keys() & after.keys():
        if before[name].typing != after[name].typing:
            yield f"accounts.{name}.typing was changed"


def spec_of(account: Account, config: Config) -> AccountSpec:
    """An account for its life."""
    return AccountSpec(
        address=Address(account.channel, account.name),
        policy=account.policy,
        access=account.access,
        locale=config.locale,
        typing=account.typing,
    )


@asynccontextmanager
async def running(
    config: Config, watch: Callable[[GatewayProcess], None] = lambda _process: None
) -> AsyncIterator[tuple[GatewayProcess, Listen, Listen]]:
    """A gateway from its listeners to its accounts: (process, HTTP, agents). `watch` is called once the listeners stand: a start may
    wait for its log, and must hear signals meanwhile. Where the end is asked for before the start is through, `process.ended` is
    done. Raises Failed, ConfigRefused, StoreError."""
    http_token, agents_token = config.token(config.http), config.token(config.agents)
    async with AsyncExitStack() as stack:
        clock = await stack.enter_async_context(clock_of(config))
        scheduler = LoopScheduler(clock=clock)
        stack.callback(scheduler.close)
        if isinstance(clock, FollowedClock):
            clock.on_jump(lambda _now: scheduler.clock_moved())
        log = await open_log(config, scheduler)
        stack.push_async_callback(log.close)
        process = GatewayProcess(config, log, scheduler)
        http = HttpListener(
            process.service,
            config.http.listen,
            token=http_token.reveal() if http_token else None,
            registry=process.registry,
        )
        http_at = await _listening(config.http, http.start)
        stack.push_async_callback(http.close)
        _leave_port(config, http_at)
        agents = AgentListener(
            process.hub, config.agents.listen, clock=clock, token=agents_token.reveal() if agents_token else None
        )
        agents_at = await _listening(config.agents, agents.start)
        stack.push_async_callback(agents.close)
        stack.push_async_callback(process.stop)
        watch(process)
        await _started(process)
        yield process, http_at, agents_at


async def _started(process: GatewayProcess) -> None:
    """Start, unless the end is asked for first."""
    starting = asyncio.get_running_loop().create_task(process.start(), name="start")
    await asyncio.wait((starting, process.ended), return_when=asyncio.FIRST_COMPLETED)
    if not process.ended.done():
        starting.result()
        return
    starting.cancel()
    await asyncio.wait((starting,))
    if not starting.cancelled() and starting.exception() is not None:
        logger.debug("the start was cut short", exc_info=starting.exception())


async def _listening(listener: Listener, start: Callable[[], Awaitable[Listen]]) -> Listen:
    """Where a listener listens. Raises Failed, which names the address and the setting."""
    try:
        return await start()
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        known = (
            error.errno is not None and error.errno in errno.errorcode
        )  # asyncio repeats the address in its own words
        why = os.strerror(error.errno or 0) if known else error.strerror or str(error)
        right = (
            "stop what listens there (a gateway?), or name another port"
            if in_use
            else "name an address of this machine"
        )
        raise Failed(f"cannot listen on {listener.listen}: {why}; {right} in [{listener.key}].listen") from error


def _leave_port(config: Config, http_at: Listen) -> None:
    """Where the configured port is 0, the command line finds the real one in a file."""
    if config.http.listen.port == 0:
        write_private(config.state_dir / PORT_FILE, str(http_at.port).encode())
