"""One account from claim to release, on a real log, with the channel in the test's hands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from actors import life as life_module
from actors.account import Account
from actors.errors import LoginUnreadable
from actors.gateway.api import AccountOrder, PauseOrder
from actors.gateway.errors import WrongState
from actors.ports import Accepted, Credentials, LoginGone
from actors.runtime.clock import NS_PER_MS, BootClock
from events.base import Millis
from events.bot import DAY_MS, BotStarted, BotStopped, ClockStepped, LoginCompleted, LoginLost, Policy, PolicyChanged
from events.peer import AccessRefused, MessageReceived, SendFailed, SendRequested, SendUnknown, TurnStarted
from store.errors import LogBusy, LogFailed, LogUnreadable
from store.memory import MemoryLog
from store.records import BARE, Appended, Batch, Claim, Start
from tests.frozen import frozen
from tests.gateway import stage as gateway_stage
from tests.gateway.stage import ANN, BEN, NOON, Login, Stage, credentials

BOT = "weixin:main"


class TroubledLog(MemoryLog):
    """A log with the troubles that a test wants."""

    failed = busy = unreadable = False
    rival = False  # whoever claims is replaced at once
    slow: asyncio.Event | None = None  # appends wait for it
    held = 0  # appends that do

    async def append(self, batch: Batch) -> Appended:
        if self.failed:
            raise LogFailed("the disk is gone")
        if self.busy:
            raise LogBusy("the disk is full")
        if self.slow is not None:
            self.held += 1
            await self.slow.wait()
        return await super().append(batch)

    async def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Claim:
        claim = await super().claim(account, instance, at, start)
        if self.rival:
            await super().claim(account, "i-rival", at)
        return claim

    async def epoch(self, account: str) -> int:
        if self.unreadable:
            raise LogUnreadable("the disk does not answer")
        return await super().epoch(account)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at every two seconds is looked at all the time."""
    monkeypatch.setattr(life_module, "CHECK_MS", 1)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(TroubledLog())
    yield made
    await made.close()


def trouble(stage: Stage) -> TroubledLog:
    assert isinstance(stage.log, TroubledLog)
    return stage.log


# --- login ------------------------------------------------------------------------------------------------------------


async def test_without_a_login_it_waits_for_one_and_takes_it_when_it_appears(stage: Stage) -> None:
    login = Login()
    login.kept = None
    line = await stage.account(login=login)
    life = stage.lives["main"]
    assert (life.state, line.links) == ("login_needed", [])
    login.kept = credentials()
    await stage.until(lambda: life.state == "running")
    assert line.links[0].credentials == credentials()
    assert life.account.address_of(life.account.known(ANN) or "") == f"{BOT}:{ANN}"
    assert [e.generation for e in await stage.events(LoginCompleted)] == [1]


async def test_the_same_login_is_no_new_generation_and_voids_nothing(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.lives["main"].stop("test")
    await stage.lives["main"].start()
    assert [e.generation for e in await stage.events(LoginCompleted)] == [1]
    assert (await stage.final(await stage.send("news"))).state == "delivered"


async def test_a_login_that_comes_back_after_a_logout_is_taken(stage: Stage) -> None:
    """It is the same as before, so only the state tells that it is wanted."""
    await stage.account()
    await stage.service.account(AccountOrder(account="main", action="logout"))
    assert stage.lives["main"].state == "login_needed"
    stage.logins["main"].kept = credentials(token="login-main")
    await stage.until(lambda: stage.lives["main"].state == "running")
    await stage.lines["main"].hear("hello")
    assert (await stage.final(await stage.send("news"))).state == "delivered"


async def test_nothing_is_tried_while_nobody_is_logged_in_whatever_else_happens_to_the_bot(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.service.account(AccountOrder(account="main", action="logout"))
    life = stage.lives["main"]
    await life.reconfigure(msgspec.structs.replace(life.spec, policy=Policy(share_replies=2, notice_after_ms=0)))
    delivery = await stage.send("news")
    stage.advance(60_000)
    assert (await stage.service.delivery(delivery)).state == "queued"
    assert await stage.events(SendRequested) == []


async def test_a_login_that_is_known_to_be_lost_is_not_opened_again(stage: Stage) -> None:
    line = await stage.account()
    line.incoming.put_nowait(LoginGone(code=-14, where="poll"))
    await stage.until(lambda: ("main", "login_lost") in stage.states)
    await stage.lives["main"].stop("test")
    assert [e.code for e in await stage.events(LoginLost)] == [-14]
    await stage.lives["main"].start()
    assert stage.lives["main"].state == "login_lost"
    assert len(line.links) == 1


class UnreadableLogin(Login):
    """A file that somebody is still writing."""

    broken = False

    def read(self) -> Credentials | None:
        if self.broken:
            raise LoginUnreadable("main.json is no login")
        return super().read()


async def test_a_login_that_cannot_be_read_yet_is_looked_at_again(stage: Stage) -> None:
    login = UnreadableLogin()
    login.kept = None
    await stage.account(login=login)
    life = stage.lives["main"]
    login.broken = True
    await stage.until(lambda: life.reason == "main.json is no login")
    assert life.state == "login_needed"
    login.broken, login.kept = False, credentials()
    await stage.until(lambda: life.state == "running")


async def test_a_start_that_fails_is_seen_and_can_be_repeated(stage: Stage) -> None:
    login = UnreadableLogin()
    login.broken = True
    line = stage.add("main", login=login)
    with pytest.raises(LoginUnreadable):
        await stage.lives["main"].start()
    assert (stage.lives["main"].state, stage.lives["main"].reason) == ("failed", "main.json is no login")
    with pytest.raises(WrongState, match="is no login"):
        await stage.service.account(AccountOrder(account="main", action="start"))
    login.broken = False
    shown = await stage.service.account(AccountOrder(account="main", action="start"))
    assert (shown.state, len(line.links)) == ("running", 1)
    await line.hear("hello")
    assert stage.lives["main"].state == "running"


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_an_account_whose_inlet_failed_can_be_started_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The remains of the failed life must not be taken for the new one."""
    line = await stage.account()
    await line.hear("hello")
    broken: Any = "no poll at all"
    line.incoming.put_nowait(broken)
    await stage.until(lambda: stage.lives["main"].state == "failed")
    shown = await stage.service.account(AccountOrder(account="main", action="start"))
    assert (shown.state, shown.epoch) == ("running", 2)
    assert [link.outlet.closed for link in line.links] == [True, False]
    await line.hear("again")
    assert (await stage.final(await stage.send("news"))).state == "delivered"
    assert stage.lives["main"].state == "running"


async def test_a_fence_that_cannot_be_looked_at_is_looked_at_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account()
    with caplog.at_level(logging.WARNING):
        trouble(stage).unreadable = True
        async with asyncio.timeout(10):
            while not caplog.records:
                await asyncio.sleep(0)
        trouble(stage).unreadable = False
    assert stage.lives["main"].state == "running"
    await stage.log.claim(BOT, "i-2", stage.clock.now())
    await stage.until(lambda: stage.lives["main"].state == "fenced")


async def test_a_stop_after_the_log_failed_does_not_raise_and_leaves_the_telling_to_the_process(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    line = await stage.account()
    trouble(stage).failed = True
    with pytest.raises(LogFailed):
        await stage.offer("news")
    assert len(stage.failures) == 1
    await stage.lives["main"].stop("the log failed")
    assert (stage.lives["main"].state, line.links[0].outlet.closed) == ("stopped", True)
    assert [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")] == []


async def test_a_stop_while_the_log_is_full_has_an_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_module, "DRAIN_MS", 10)
    await stage.account()
    trouble(stage).busy = True
    await stage.lives["main"].stop("no space")
    assert stage.lives["main"].state == "stopped"


async def test_a_stop_tries_nothing_any_more(stage: Stage) -> None:
    """The last event of the bot wakes its peers; what is due waits for the next start."""
    line = await stage.account()
    await line.hear("hello")
    line.links[0].outlet.earliest = lambda _stream, now, **_: now + 1_000
    await stage.send("waits for its place in the pace")
    await stage.lives["main"].stop("test")
    assert await stage.events(SendRequested) == []
    await stage.lives["main"].start()
    await stage.until(lambda: line.orders)


async def test_a_stop_drops_no_messages(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.service.pause(PauseOrder(scope="main"))
    await stage.send("waits")
    await stage.lives["main"].stop("test")
    assert "dropped" not in caplog.text
    assert [e.reason for e in await stage.events(BotStopped)] == ["test"]


# --- the fence --------------------------------------------------------------------------------------------------------


async def test_a_replaced_instance_stops_polling_and_sending_and_says_nothing_any_more(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.log.claim(BOT, "i-2", stage.clock.now())
    await stage.until(lambda: stage.lives["main"].state == "fenced")
    await stage.until(lambda: line.links[0].outlet.closed)
    position = await stage.log.position()
    await stage.lives["main"].stop("test")
    assert stage.lives["main"].state == "fenced"
    assert await stage.log.position() == position
    assert (await stage.service.ready()).reasons == ("weixin:main: fenced (a newer instance has claimed this account)",)


async def test_an_instance_that_is_replaced_while_it_starts_is_fenced_and_does_not_raise(stage: Stage) -> None:
    trouble(stage).rival = True
    line = await stage.account()
    assert (stage.lives["main"].state, line.links) == ("fenced", [])
    await stage.lives["main"].stop("test")


async def test_a_fenced_account_can_be_taken_back_at_once(stage: Stage) -> None:
    """Its old link is still closing when the new life begins."""
    line = await stage.account()
    closing = asyncio.Event()

    async def close_slowly() -> None:
        await closing.wait()

    first = line.links[0].outlet
    first.close = close_slowly
    await stage.log.claim(BOT, "i-2", stage.clock.now())
    await stage.until(lambda: stage.lives["main"].state == "fenced")
    back = asyncio.create_task(stage.service.account(AccountOrder(account="main", action="start")))
    closing.set()
    shown = await asyncio.wait_for(back, 10)
    assert (shown.state, shown.epoch) == ("running", 3)
    await line.hear("hello")
    assert (await stage.final(await stage.send("news"))).state == "delivered"
    assert [e.replaces for e in await stage.events(BotStarted)] == ["", "i-1", "i-2"]


async def test_old_remains_cannot_fence_a_new_life(stage: Stage) -> None:
    await stage.account()
    old: Account = stage.lives["main"].account
    await stage.lives["main"].stop("test")
    await stage.lives["main"].start()
    old.fence_off()
    assert stage.lives["main"].state == "running"


# --- what an earlier life left ----------------------------------------------------------------------------------------------------


async def test_an_open_request_of_an_earlier_life_is_unknown_before_the_account_runs(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    await stage.crash()

    second = Stage(stage.log, instance="i-2", now=stage.clock.now() + 1_000)
    again = await second.account()
    (event,) = await second.events(SendUnknown)
    assert event.reason == "stopped"
    assert (await second.service.delivery(delivery)).state == "unknown"
    assert again.orders == []
    await second.close()


async def test_a_message_of_the_owner_that_waited_behind_a_turn_outlasts_a_restart(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("first")
    await line.hear("second")
    await stage.crash()
    second = Stage(stage.log, instance="i-2", now=stage.clock.now() + 1_000)
    await second.account()
    (turn_id,) = second.hub.turns
    await second.offer("answer", turn_id=turn_id)
    await second.until(lambda: len(second.hub.turns) == 2)
    assert await second.events(AccessRefused) == []
    await second.close()


async def test_a_start_tries_nothing_before_the_channel_is_open(stage: Stage) -> None:
    """A turn is open, so the peer is looked at early; what waits beside it is due, and leaves in one request, once."""
    line = await stage.account()
    await line.hear("question")
    await stage.service.pause(PauseOrder(scope="main", for_ms=60_000))
    delivery = await stage.send("news")
    await stage.crash()
    second = Stage(stage.log, instance="i-2", now=stage.clock.now() + 120_000)
    await second.account()
    assert (await second.final(delivery)).state == "delivered"
    assert len(await second.events(SendRequested)) == 1
    assert await second.events(SendFailed) == []
    await second.close()


async def test_a_stop_waits_for_what_is_in_flight(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    outlet, close = line.links[0].outlet, line.links[0].outlet.close

    async def answered_at_the_last_moment() -> None:
        line.answer(Accepted(message_id="m1"))
        await close()

    outlet.close = answered_at_the_last_moment
    await stage.lives["main"].stop("test")
    assert (await stage.service.delivery(delivery)).state == "delivered"
    assert await stage.events(SendFailed) == []


# --- configuration ----------------------------------------------------------------------------------------------------


async def test_a_changed_policy_holds_at_once_for_what_waits(stage: Stage) -> None:
    line = await stage.account(policy=Policy(share_replies=1, notice_after_ms=0))
    life = stage.lives["main"]
    await line.hear("hello")
    await stage.final(await stage.send("one"))
    delivery = await stage.send("two")
    assert (await stage.service.delivery(delivery)).state == "queued"
    more = msgspec.structs.replace(life.spec, policy=Policy(share_replies=2, notice_after_ms=0), locale="en")
    await life.reconfigure(more)
    assert (await stage.final(delivery)).state == "delivered"
    assert len(await stage.events(PolicyChanged)) == 2
    await life.reconfigure(more)
    assert len(await stage.events(PolicyChanged)) == 2
    assert life.account.view.locale == "en"


async def test_changed_access_holds_at_once_for_who_waits_for_it(stage: Stage) -> None:
    line = await stage.account(access=("owner", "pairing"))
    life = stage.lives["main"]
    await line.hear("may I?", BEN)
    assert await stage.events(TurnStarted) == []
    await life.reconfigure(msgspec.structs.replace(life.spec, access=("owner", BEN)))
    await stage.until(lambda: stage.hub.turns)
    assert await stage.events(AccessRefused) == []
    await life.reconfigure(msgspec.structs.replace(life.spec, access=("owner",)))
    await line.hear("still?", BEN)
    assert len(await stage.events(AccessRefused)) == 1


async def test_a_stopped_account_takes_the_configuration_at_its_next_start(stage: Stage) -> None:
    await stage.account()
    life = stage.lives["main"]
    await life.stop("test")
    await life.reconfigure(msgspec.structs.replace(life.spec, policy=Policy(share_replies=1)))
    assert len(await stage.events(PolicyChanged)) == 1
    await life.start()
    assert [e.policy.share_replies for e in await stage.events(PolicyChanged)] == [3, 1]


async def test_a_replaced_account_takes_no_configuration_and_does_not_mind(stage: Stage) -> None:
    await stage.account()
    life = stage.lives["main"]
    await stage.log.claim(BOT, "i-2", stage.clock.now())
    await life.reconfigure(msgspec.structs.replace(life.spec, policy=Policy(share_replies=1)))
    await stage.until(lambda: life.state == "fenced")
    await life.reconfigure(msgspec.structs.replace(life.spec, policy=Policy(share_replies=2)))
    assert len(await stage.events(PolicyChanged)) == 1


# --- what comes in ----------------------------------------------------------------------------------------------------


async def test_a_message_is_durable_before_the_next_poll_and_handled_once(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello", message_id="in-7")
    await line.hear("hello", message_id="in-7")
    assert len(await stage.events(MessageReceived)) == 1
    assert len(stage.hub.turns) == 1


async def test_a_step_of_the_wall_clock_is_an_event_and_frees_nothing(stage: Stage) -> None:
    await stage.account()
    stage.clock.step_wall(-120_000)
    async with asyncio.timeout(10):
        while not (steps := await stage.events(ClockStepped)):
            await asyncio.sleep(0)
    assert [e.step_ms for e in steps] == [-120_000]


async def test_a_step_that_meets_the_fence_leaves_the_account_fenced(stage: Stage) -> None:
    await stage.account()
    life = stage.lives["main"]
    held = stage.log.epoch
    epoch = life.account.view.epoch

    async def not_yet(account: str) -> int:
        return epoch

    stage.log.epoch = not_yet  # type: ignore[method-assign] # the check passes a moment before the claim
    await stage.log.claim(BOT, "i-2", stage.clock.now())
    stage.clock.step_wall(120_000)
    await stage.until(lambda: life.state != "running")
    stage.log.epoch = held
    await stage.until(lambda: stage.lines["main"].links[0].outlet.closed)
    assert life.state == "fenced"
    assert [s for _, s in stage.states] == ["starting", "running", "fenced"]


async def test_a_poll_whose_append_comes_too_late_for_its_epoch_makes_no_noise(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The fence is seen first, which ends the polling; then the append of the last poll is refused, and nobody waits for it."""
    line = await stage.account()
    log = trouble(stage)
    log.slow = asyncio.Event()
    hearing = asyncio.ensure_future(line.hear("hello"))
    await stage.until(lambda: log.held)
    await log.claim(BOT, "i-newer", stage.clock.now())
    await stage.until(lambda: stage.lives["main"].state == "fenced" and line.links[0].outlet.closed)
    log.slow.set()
    await stage.until(lambda: not stage.lives["main"].account.peers.queued())
    hearing.cancel()
    await stage.lives["main"].stop("over")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_a_start_after_the_wall_clock_was_set_forward_keeps_time_and_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same machine, not booted anew: a minute has passed, whatever the wall clock says."""
    times = {"wall": NOON, "boot": 5_000}

    def clock(_now: int) -> BootClock:
        return BootClock(lambda: times["wall"] * NS_PER_MS, lambda: times["boot"] * NS_PER_MS, lambda: "b-1")

    monkeypatch.setattr(gateway_stage, "ManualClock", clock)
    first = Stage(stage.log, instance="i-2")
    await first.account()
    await first.crash()
    times["wall"] += 3 * DAY_MS + 60_000
    times["boot"] += 60_000
    second = Stage(stage.log, instance="i-3")
    await second.account()
    assert second.clock.now() == NOON + 60_000
    async with asyncio.timeout(10):
        while not (steps := await second.events(ClockStepped)):
            await asyncio.sleep(0)
    assert [e.step_ms for e in steps] == [3 * DAY_MS]
    await second.close()


@pytest.mark.parametrize("way", [1, -1])
async def test_a_wall_clock_that_is_set_by_more_than_a_minute_is_noted_once_and_one_set_by_a_minute_is_not(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, way: int
) -> None:
    """The machine's own wall clock, over the midnight at which a leap day ends; a share that is spent stays spent."""
    midnight = 1_835_481_600_000  # 2028-03-01
    boot_ms = [5_000]
    monkeypatch.setattr(gateway_stage, "ManualClock", lambda _now: BootClock(boot=lambda: boot_ms[0] * NS_PER_MS))
    monkeypatch.setattr(life_module, "CHECK_MS", 3_600_000)  # the test looks itself
    with frozen(midnight - 1_000) as wall:
        other = Stage(stage.log, instance="i-2")
        await other.account()
        life, begun = other.lives["main"], other.clock.now()
        steps = []
        for step_ms in (60_000 * way, 1_000 * way, 0):
            wall.step(step_ms)
            await life._watch_clock()
            steps.append([e.step_ms for e in await other.events(ClockStepped)])
        assert steps == [[], [61_000 * way], [61_000 * way]]
        assert other.clock.now() == begun, "no window ends and no share rolls by it"
        boot_ms[0] += 10
        assert other.clock.now() == begun + 10
    await other.close()
