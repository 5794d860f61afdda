"""Texts are forgotten in time, and are then in no file of the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.gateway.api import PauseOrder, ResumeOrder
from actors.runtime.clock import NS_PER_MS, BootClock
from events.base import Millis
from events.bot import DAY_MS, Policy
from events.peer import BodyErased
from scripts.running.retention import EVERY_MS, MESSAGE_KEYS_MS, Retention
from store.errors import LogFailed
from store.memory import MemoryLog
from store.sqlite import SqliteLog
from tests.frozen import frozen
from tests.gateway import stage as gateway_stage
from tests.gateway.stage import NOON, Stage

BODIES_MS = 7 * DAY_MS
BOT = "weixin:main"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    log = await SqliteLog.open(tmp_path / "state" / "log.db", salt=b"salt of the tests", at=NOON)
    made = Stage(log)
    yield made
    await made.close()
    await log.close()


def bytes_of(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


async def one_round(stage: Stage, bodies_ms: Millis = BODIES_MS) -> None:
    retention = Retention(stage.lives, stage.log, stage.scheduler, bodies_ms)
    retention.start()
    assert retention._task is not None
    await asyncio.wait_for(retention._task, 10)
    retention.stop()


async def test_old_texts_go_unless_something_waits_for_them(stage: Stage, tmp_path: Path) -> None:
    line = await stage.account(policy=Policy(backlog_age_ms=30 * DAY_MS, notice_after_ms=0))
    await line.hear("an old question")
    await stage.offer("an old answer", turn_id=stage.hub.turns[0])
    await stage.final(await stage.send("an old push"))
    await stage.service.pause(PauseOrder(scope="main"))
    waiting = await stage.send("an old output that waits")
    await one_round(stage)
    assert await stage.events(BodyErased) == [], "nothing is old enough"

    stage.advance(BODIES_MS + 1)
    await line.hear("a new question")
    await one_round(stage)
    kept = bytes_of(tmp_path)
    for gone in (b"an old question", b"an old answer", b"an old push"):
        assert gone not in kept, gone
    for there in (b"an old output that waits", b"a new question"):
        assert there in kept, there
    before = len(await stage.events(BodyErased))
    await one_round(stage)
    assert len(await stage.events(BodyErased)) == before, "what must stay is not asked for in vain for ever"
    await stage.service.resume(ResumeOrder(scope="main"))
    assert (await stage.final(waiting)).state == "delivered"
    assert line.texts[-1] == "an old output that waits"


async def test_message_keys_are_kept_a_month_and_turn_keys_for_ever(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello", message_id="in-7")
    await stage.final(await stage.send("news", turn_id="t1"))
    for days, kept in ((30, True), (MESSAGE_KEYS_MS // DAY_MS + 1, False)):
        stage.advance(NOON + days * DAY_MS - stage.clock.now())
        await one_round(stage)
        assert bool(await stage.log.taken(BOT, "message", ("id:in-7",))) == kept, days
    assert (await stage.offer("news", turn_id="t1")).repeated


async def test_accounts_that_do_not_run_are_left_alone(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.lives["main"].stop("test")
    stage.advance(BODIES_MS + 1)
    await one_round(stage)
    assert await stage.events(BodyErased) == []


async def test_many_bodies_go_page_by_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.running.retention.PAGE", 2)
    line = await stage.account()
    for number in range(7):
        await line.hear(f"message {number}")
    stage.advance(BODIES_MS + 1)
    await one_round(stage)
    left = await stage.log.expired(BOT, stage.clock.now())
    texts = await stage.log.bodies(b for _, b in left)
    assert "message 0" in texts.values(), "its turn is open"
    assert sum(len(e.bodies) for e in await stage.events(BodyErased)) == 6, "all tokens but the newest"


class SlowLog(MemoryLog):
    """A log that answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.rounds = 0

    async def prune_keys(self, account: str, source: str, before: Millis) -> int:
        self.rounds += 1
        await self.go.wait()
        return 0


async def test_rounds_go_on_every_hour_also_after_a_long_one() -> None:
    """A clock that jumps by days passes several hours within one round."""
    log = SlowLog()
    stage = Stage(log)
    await stage.account()
    retention = Retention(stage.lives, log, stage.scheduler, BODIES_MS)
    retention.start()
    await stage.until(lambda: log.rounds == 1)
    stage.advance(EVERY_MS)  # the round is not over yet
    await asyncio.sleep(0)
    log.go.set()
    await stage.until(lambda: retention._task is not None and retention._task.done())
    for number in (2, 3):
        stage.advance(EVERY_MS)
        await stage.until(lambda: log.rounds == number)  # noqa: B023 (awaited here)
        await stage.until(lambda: retention._task is not None and retention._task.done())
    retention.stop()
    stage.advance(EVERY_MS)
    await asyncio.sleep(0)
    assert log.rounds == 3
    await stage.close()


async def test_a_refusal_is_told_and_the_next_round_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(MemoryLog())
    line = await stage.account()
    await line.hear("hello")
    await line.hear("hello again")  # so that the first token is of no use any more
    await stage.log.claim(BOT, "i-2", stage.clock.now())
    stage.advance(BODIES_MS + 1)
    with caplog.at_level(logging.WARNING):
        await one_round(stage)
    assert "nothing was forgotten this hour" in caplog.text
    await stage.close()


class FailingLog(MemoryLog):
    """A log whose commit fails where nobody but retention asked for it."""

    async def prune_keys(self, account: str, source: str, before: Millis) -> int:
        raise LogFailed("the disk is gone")


async def test_a_failed_log_ends_the_process_also_from_here(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(FailingLog())
    await stage.account()
    retention = Retention(stage.lives, stage.log, stage.scheduler, BODIES_MS, stage.failures.append)
    retention.start()
    await stage.until(lambda: stage.failures)
    assert isinstance(stage.failures[0], LogFailed)
    assert "nothing more was forgotten" not in caplog.text, "the process tells of it, once"
    await stage.close()


async def test_a_text_is_as_old_as_the_boot_clock_says_and_goes_when_it_is_older_than_the_age(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's wall clock is set forward by a year: nothing goes before its time, which then comes to the millisecond."""
    boot_ms = [5_000]
    monkeypatch.setattr(gateway_stage, "ManualClock", lambda _now: BootClock(boot=lambda: boot_ms[0] * NS_PER_MS))
    with frozen("2028-02-29T23:59:59Z") as wall:
        other = Stage(stage.log, instance="i-2")
        line = await other.account()
        await line.hear("a question")
        await other.offer("its answer", turn_id=other.hub.turns[0])
        gone = []
        for step_ms, passed_ms in ((366 * DAY_MS, 0), (0, BODIES_MS), (-366 * DAY_MS, 0), (0, 1)):
            wall.step(step_ms)
            boot_ms[0] += passed_ms
            await one_round(other)
            gone.append(len(await other.events(BodyErased)))
        await other.close()
    assert [bool(count) for count in gone] == [False, False, False, True]
