"""An account's life from claim to release: the asyncio shell around its bot, its peers and its link to the channel.

Starts claim last, after configuration, credentials, log and listeners are good. A fenced life stops at once and releases only what is its
own, never its successor's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from actors import waking
from actors.account import Account, Hub, OnChange
from actors.bot import Begin, Deliver, End, NoteStep
from actors.deciding.view import BotView
from actors.errors import LoginUnreadable
from actors.fence import CHECK_MS, EpochFence
from actors.logport import LoopLog
from actors.ports import Credentials, Inlet, Link, LoginGone, Logins, OpenLink, Outcome, Polled, Refused
from actors.runtime.directory import Directory
from actors.runtime.errors import RuntimeRefusal
from actors.runtime.scheduler import LoopScheduler
from actors.tasks import Tasks, why
from actors.waking import CLOCK_STEP_MS, credentials_id, policy_id
from events.base import Recorded
from events.bot import Policy
from events.streams import Address, bot_stream
from store.errors import Fenced, LogBusy, LogUnreadable, LogUnusable, StoreError
from store.log import Log
from store.records import Claim

logger = logging.getLogger("replyledger.account")

LifeState = Literal["starting", "running", "stopped", "login_needed", "login_lost", "fenced", "failed"]
AWAKE: frozenset[LifeState] = frozenset(("running", "login_needed", "login_lost"))
DRAIN_MS = 10_000
CLAIM_RETRY_MS = 500
"""How long a patient start waits before it asks a log anew that took nothing."""


class AccountSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An account as it is configured."""

    address: Address
    policy: Policy
    access: tuple[str, ...] = ("owner",)
    locale: str = "zh-CN"
    typing: bool = False


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all accounts of this process."""

    log: Log
    scheduler: LoopScheduler
    hub: Hub
    instance: str
    program: str = ""
    simulated: bool = False
    on_log_failed: Callable[[BaseException], None] = lambda _error: None  # the process must end
    on_appended: Callable[[tuple[Recorded, ...]], None] = lambda _recorded: None  # told once of every event
    on_log_busy: Callable[[str], None] = lambda _why: None  # why the log takes nothing right now, "" = it does again
    on_claimed: Callable[[Claim], None] = lambda _claim: None  # an account has been taken over


class AccountLife:
    """One account in this process."""

    def __init__(
        self,
        spec: AccountSpec,
        process: Process,
        *,
        open_link: OpenLink,
        logins: Logins,
        on_state: Callable[[AccountLife], None],
        on_change: OnChange,
    ) -> None:
        self.spec, self.process = spec, process
        self.state: LifeState = "stopped"
        self.reason = ""
        self.recalled = False  # whether it knows its peers from the log
        self._begun = False  # whether it came through its start: only then is there an end to speak of
        self._open_link, self._logins = open_link, logins
        self._on_state, self._on_change = on_state, on_change
        self._link: Link | None = None
        self._fence: EpochFence | None = None
        self._tasks = Tasks(spec.address.bot, lambda why: self._enter("failed", why))
        self._stepped = 0  # ms of wall clock steps that are events already
        self.account = self._new_account()

    @property
    def awake(self) -> bool:
        """Whether its peers may be asked: the account has been claimed by this life, and not by a later one."""
        return self.state in AWAKE

    @property
    def inlet_status(self) -> Any:
        """What the inlet says of itself, None without one."""
        return getattr(self._link.inlet, "status", None) if self._link else None

    # --- starting -------------------------------------------------------------------------------------------------

    async def start(self, *, patient: bool = False) -> None:
        """Claim the account, learn what it was, close what was left open, and open the channel. A patient start waits for a log
        that takes nothing. Raises LoginUnreadable, and LogBusy where it is not patient."""
        if self.state in ("fenced", "failed"):
            await self.stop("it starts again")
        self._enter("starting")
        self.account, self.recalled, self._begun = self._new_account(), False, False
        try:
            await self._claim(patient=patient)
        except Fenced:
            self.account.fence_off()  # replaced already
        except BaseException as error:
            self._enter("failed", why(error))
            raise

    async def _claim(self, *, patient: bool) -> None:
        process, account = self.process, self.account
        claim = await self._taken(patient=patient)
        process.on_claimed(claim)
        self._fence = EpochFence(process.log, claim.account, claim.epoch, process.scheduler.clock, account.fence_off)
        await waking.recall(account, process.log)
        self.recalled = True
        await self._begin()
        self._begun = True
        self._tasks.begin("watch", self._watch())

    async def _taken(self, *, patient: bool) -> Claim:
        """The account, once the log takes the claim: another process may hold its lock."""
        process, busy = self.process, False
        take = partial(waking.claim, self.account, process.log, instance=process.instance, program=process.program)
        while True:
            try:
                claim = await take(simulated=process.simulated)
            except LogBusy as error:
                if not patient:
                    raise
                busy = True
                process.on_log_busy(str(error))
                await asyncio.sleep(CLAIM_RETRY_MS / 1000)
                continue
            if busy:
                process.on_log_busy("")
            return claim

    async def _begin(self) -> None:
        """Take the configuration and the login as they are now, and open the link if there is a login."""
        credentials = self._logins.read()
        begun = await waking.begin(self.account, self.spec.policy, credentials)
        if self.account.fenced:
            return
        if credentials is None:
            channel, name = self.spec.address.channel, self.spec.address.account
            self._enter("login_needed", f"log in with: replyledger login {channel} --account {name}")
        elif begun == "login_lost":
            self._enter("login_lost", "the channel ended this login; log in again")
        else:
            self._open(credentials)

    def _open(self, credentials: Credentials) -> None:
        assert self._fence is not None
        scheduler, account = self.process.scheduler, self.account
        self._link = self._open_link(
            credentials,
            account=self.spec.address.bot,
            fence=self._fence,
            clock=scheduler.clock,
            ids=scheduler.ids,
            policy=lambda: account.view.policy,
            report=self._report,
            on_lost=self._lost,
            on_fenced=account.fence_off,
            typing=self.spec.typing,
        )
        account.outlet = self._link.outlet
        self._tasks.begin("inlet", self._poll(self._link.inlet))
        self._enter("running")
        account.wake_all()

    async def _poll(self, inlet: Inlet) -> None:
        with contextlib.suppress(Fenced, LogUnusable):  # the account knows already, and the process ends
            await inlet.run(self._deliver, self._gone, self.account.state.cursor)

    # --- what the channel says ------------------------------------------------------------------------------------

    async def _deliver(self, polled: Polled) -> None:
        await self._tell_bot(Deliver(polled))

    async def _gone(self, gone: LoginGone) -> None:
        self._lost(gone)

    def _lost(self, gone: LoginGone) -> None:
        if self.state != "login_lost" and not self.account.fenced:
            waking.lose(self.account, gone)
            self._enter("login_lost", f"the channel ended this login (code {gone.code}); log in again")

    def _report(self, stream: str, request: str, outcome: Outcome) -> None:
        if isinstance(outcome, Refused) and outcome.failure == "login_lost":
            self._lost(LoginGone(code=outcome.code, where="send"))
        waking.report(self.account, stream, request, outcome)

    # --- watching -------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Every CHECK_MS: the fence, the wall clock, and whether somebody logged in."""
        assert self._fence is not None
        while not self.account.fenced:
            await asyncio.sleep(CHECK_MS / 1000)
            try:
                await self._fence.check()
                await self._watch_clock()
                await self._watch_login()
            except (Fenced, LogUnusable):
                return  # told already
            except (LogBusy, LogUnreadable) as error:
                logger.warning("%s: looked in vain: %s", self.spec.address, error)

    async def _watch_clock(self) -> None:
        step = getattr(self.process.scheduler.clock, "step_ms", None)
        stepped = step() if step else 0
        if abs(stepped - self._stepped) > CLOCK_STEP_MS:
            await self._tell_bot(NoteStep(stepped - self._stepped))
            self._stepped = stepped

    async def _watch_login(self) -> None:
        if self.state not in ("login_needed", "login_lost"):
            return
        try:
            credentials = self._logins.read()
        except LoginUnreadable as error:
            if self.reason != str(error):
                self._enter(self.state, str(error))
            return
        known = self.account.state.credentials if self.state == "login_lost" else ""
        if credentials and credentials_id(self.account, credentials) != known:
            await self._close_link()
            await self._begin()

    async def reconfigure(self, spec: AccountSpec) -> None:
        """Take a changed policy; what waits is looked at again. A life that is not awake takes it at its next start."""
        self.spec = spec
        if not self.awake:
            return
        self.account.admit(spec.access)
        self.account.view = msgspec.structs.replace(self.account.view, locale=spec.locale)
        begin = Begin(policy=spec.policy, policy_id=policy_id(spec.policy), credentials=self.account.state.credentials)
        with contextlib.suppress(Fenced):  # the fence has told the account already
            await self._tell_bot(begin)

    def forget_login(self) -> None:
        """Log out: the next start finds nobody logged in."""
        self._logins.forget()

    # --- ending ---------------------------------------------------------------------------------------------------

    async def stop(self, reason: str) -> None:
        """Stop polling, wait for sends in flight, and release the account if it is still ours."""
        await self._tasks.cancel("watch")
        await self._close_link()
        await self._released()
        if self._begun and not self.account.fenced and self.state != "stopped":
            await self._say_end(reason)
        self.account.agenda.close()
        await self._stop_actors()
        if not self.account.fenced:
            self._enter("stopped", reason)

    async def _say_end(self, reason: str) -> None:
        """The last word of this life, if the log takes it in time. Without it the next start knows no less."""
        try:
            await asyncio.wait_for(self._tell_bot(End(reason)), DRAIN_MS / 1000)
        except (Fenced, LogUnusable):
            return  # the successor has said so, or the log takes no word any more
        except (StoreError, RuntimeRefusal) as error:
            logger.warning("%s: its end is not in the log: %s", self.spec.address, error)
        except TimeoutError:
            logger.warning("%s: its end is not in the log, which took nothing for %d ms", self.spec.address, DRAIN_MS)
            self.account.peers.abort_all()  # they wait for the same log

    async def _stop_actors(self) -> None:
        if not self._begun:  # nothing was sent, and whoever still waits for the log would wait on
            self.account.peers.abort_all()
            return
        try:
            stopped = self._await(self.account.peers.stop_all())
            await asyncio.wait_for(asyncio.shield(stopped), DRAIN_MS / 1000)
        except TimeoutError:
            logger.warning("%s: actors did not stop in %d ms; dropped", self.spec.address, DRAIN_MS)
            self.account.peers.abort_all()

    async def _close_link(self) -> None:
        account = self.account
        account.shut_off()
        await self._tasks.cancel("inlet")
        link, self._link = self._link, None
        if link is not None:
            await link.outlet.close()
            account.outlet = None

    async def _released(self) -> None:
        """The fence had the link closed; wait for it, so that nothing of it reaches into the next life."""
        await self._tasks.over("release")

    def _fenced(self, account: Account) -> None:
        if account is not self.account:
            return  # what an earlier life left behind
        self._enter("fenced", "a newer instance has claimed this account")
        self._tasks.begin("release", self._close_link())

    # --- pieces ---------------------------------------------------------------------------------------------------

    def _new_account(self) -> Account:
        spec, process = self.spec, self.process
        account = Account(
            spec.address,
            scheduler=process.scheduler,
            log=LoopLog(process.log, process.on_log_failed, process.on_appended, process.on_log_busy),
            hub=process.hub,
            view=BotView(
                account=spec.address.bot,
                epoch=0,
                policy=spec.policy,
                locale=spec.locale,
                typing=spec.typing,
                agentless_since=process.scheduler.clock.now(),
            ),
            access=spec.access,
        )
        account.on_fenced = lambda: self._fenced(account)
        account.on_change = self._on_change
        actors = partial(waking.actor_of, account=account)
        account.peers = Directory(process.scheduler, actors, quiet=(Fenced, LogUnusable))
        return account

    async def _tell_bot(self, command: object) -> None:
        await self._await(self.account.peers.ask(bot_stream(self.spec.address), command))

    @staticmethod
    async def _await(future: Any) -> Any:
        return await future

    def _enter(self, state: LifeState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        logger.info("account %s: %s%s", self.spec.address, state, f" ({reason})" if reason else "")
        self._on_state(self)
