"""How an account comes to life: claim it, learn what it was, close what was left open, take configuration and login.

These coroutines await nothing but futures of the log and of the actors, so that production awaits them on the loop and the seeded
worlds drive the very same ones on their scheduler.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Literal, Protocol

import msgspec

from actors.account import Account
from actors.bot import Begin, Bot, Lose
from actors.deciding.commands import Advance, Conclude, Facts
from actors.peer import Peer
from actors.ports import Credentials, LoginGone, Outcome
from actors.recall import BOTS
from actors.recall import recall as recall_state
from actors.runtime.actor import Actor
from actors.runtime.clock import Clock
from actors.text.moments import show_span
from events.base import Millis, Recorded
from events.bot import BotState, Policy
from events.streams import bot_stream, fingerprint
from store.records import BARE, AddressRow, AgendaRow, Claim, Start

logger = logging.getLogger("replyledger.account")

CLOCK_STEP_MS = 60_000
"""A step of the wall clock over this is an event."""

Begun = Literal["ready", "login_needed", "login_lost"]
"""What an account is once it took its configuration: only `ready` opens its link."""


class WakingLog(Protocol):
    """What a start asks of the log."""

    def position(self) -> Awaitable[int]:
        """The last position."""
        ...

    def page(self, after: int) -> AsyncIterator[tuple[Recorded, ...]]:
        """All events after a position."""
        ...

    def claims(self) -> Awaitable[tuple[Claim, ...]]:
        """The fence rows of all accounts."""
        ...

    def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Awaitable[Claim]:
        """Take the account over."""
        ...

    def addresses(self, account: str) -> Awaitable[tuple[AddressRow, ...]]:
        """The peers of an account."""
        ...

    def agenda(self, account: str) -> Awaitable[tuple[AgendaRow, ...]]:
        """What an account's streams wait for."""
        ...


def actor_of(key: str, account: Account) -> Actor:
    """The actor of a stream of an account."""
    return Bot(account) if key == bot_stream(account.address) else Peer(key, account)


async def claim(
    account: Account, log: WakingLog, *, instance: str, program: str = "", simulated: bool = False
) -> Claim:
    """Take the account over: from here on everything is decided under the new epoch."""
    clock: Any = account.scheduler.clock
    boot = _boot(account)
    if boot:
        await _keep_boot_time(account, log, boot, instance)
    await _keep_time(clock, log)
    start = Start(program=program, simulated=simulated, boot=boot, boot_ms=clock.boot_ms() if boot else 0)
    taken = await log.claim(account.address.bot, instance, clock.now(), start)
    account.view = msgspec.structs.replace(account.view, epoch=taken.epoch)
    return taken


def _boot(account: Account) -> str:
    """A fingerprint of the machine's boot, "" where nothing names it."""
    name = getattr(account.scheduler.clock, "boot_id", "")
    return fingerprint(account.log.salt, name) if name else ""


async def _keep_boot_time(account: Account, log: WakingLog, boot: str, instance: str) -> None:
    """Go on by the boot clock where the wall clock was set forward since an earlier start in the same boot: hours that did not pass
    would let shares roll and windows end. The first account of a process does so for all: later the process has told the time."""
    clock: Any = account.scheduler.clock
    claims = await log.claims()
    if not claims or any(c.instance == instance for c in claims):
        return
    state = await _recalled(account, f"bot-{max(claims, key=lambda c: c.claimed_at).account}")
    ahead = clock.now() - (state.booted_at + clock.boot_ms())
    if state.boot == boot and ahead > CLOCK_STEP_MS:
        clock.go_on(clock.now() - ahead)
        logger.warning(
            "the wall clock was set forward by %s since the last start; time goes on by the boot clock, so that no quota is freed, and is"
            " that much behind the wall clock until the machine boots anew",
            show_span(ahead),
        )


async def _recalled(account: Account, stream: str) -> BotState:
    """The state of a bot, which need not be this account's own."""
    turn = recall_state(account.log, stream, BotState(), BOTS)
    found: Any = None
    while True:
        try:
            wanted = turn.send(found)
        except StopIteration as end:
            state: BotState = end.value
            return state
        found = await wanted


async def _keep_time(clock: Clock, log: WakingLog) -> None:
    """Go on from the log's last time where the wall clock is behind it. A stream's time never goes back, so whatever is to happen
    a moment later would otherwise wait until the wall clock has made up for the step; and times of polls could not be compared."""
    catch_up = getattr(clock, "catch_up", None)
    if catch_up is not None:
        async for page in log.page(await log.position() - 1):
            ahead = catch_up(page[-1].at)
            if ahead > CLOCK_STEP_MS:
                logger.warning(
                    "the log's last event is %s in the future by the wall clock; time goes on from there, and quota is counted rightly, but"
                    " what is shown runs ahead: see `replyledger doctor`",
                    show_span(ahead),
                )


async def recall(account: Account, log: WakingLog) -> None:
    """Addresses, and what the agenda has: open requests of earlier lives are closed before the account is ready."""
    key = account.address.bot
    for row in await log.addresses(key):
        account.know(row.stream, row.peer)
    await account.peers.ask(bot_stream(account.address), Facts(()))
    account.owner = account.peer_of(account.state.owner)  # whose messages may be among what waits
    stale = []
    for item in await log.agenda(key):
        if item.waiting or item.turn_open:
            account.waiting.add(item.stream)
        if item.open_epoch is not None or item.turn_open:
            stale.append(item.stream)
        account.agenda.set(item.stream, item.due_at)
    for closed in [account.peers.ask(stream, Advance()) for stream in stale]:
        await closed


async def begin(account: Account, policy: Policy, credentials: Credentials | None) -> Begun:
    """Take the configuration and the login as they are now."""
    owner, before = "", account.known(account.owner)
    account.logged_in = credentials is not None
    if credentials:
        account.owner = credentials.user_id
        owner = account.stream_of(credentials.user_id)
    command = Begin(
        policy=policy,
        policy_id=policy_id(policy),
        credentials=credentials_id(account, credentials),
        owner=owner,
    )
    await account.peers.ask(bot_stream(account.address), command)
    account.shut = credentials is None
    account.learn(account.state)
    if before is not None and before != owner:  # its address was the login's, and may be let go of now
        account.agenda.set(before, account.scheduler.clock.now())
    if credentials is None:
        return "login_needed"
    return "login_lost" if account.view.login_lost else "ready"


def lose(account: Account, gone: LoginGone) -> None:
    """The channel says that the login is gone: nobody tries to send any more, and the log hears of it."""
    account.shut_off()
    account.peers.tell(bot_stream(account.address), Lose(gone))


def report(account: Account, stream: str, request: str, outcome: Outcome) -> None:
    """An outlet says what became of a request."""
    account.peers.complete(stream, Conclude(request, outcome))


def policy_id(policy: Policy) -> str:
    """A digest of a policy, 16 hex digits."""
    return hashlib.blake2b(msgspec.json.encode(policy), digest_size=8).hexdigest()


def credentials_id(account: Account, credentials: Credentials | None) -> str:
    """The fingerprint of a login's secret, "" for none."""
    return fingerprint(account.log.salt, credentials.token) if credentials else ""
