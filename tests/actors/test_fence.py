"""The fence: what a check proves, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from actors.fence import CONFIRMED_MS, EpochFence
from actors.runtime.clock import ManualClock
from store.errors import Fenced


class Log:
    """An epoch, and how often it was asked for."""

    def __init__(self) -> None:
        self.now, self.asked, self.takes_ms = 7, 0, 0
        self.clock = ManualClock(1_000)

    async def epoch(self, account: str) -> int:
        assert account == "weixin:main"
        self.asked += 1
        found = self.now
        self.clock.advance(self.takes_ms)
        return found


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def fence(log: Log, told: list[str]) -> EpochFence:
    any_log: Any = log
    return EpochFence(any_log, "weixin:main", 7, log.clock, lambda: told.append("fenced"))


async def test_a_fresh_claim_needs_no_look(fence: EpochFence, log: Log) -> None:
    await fence.confirm()
    log.clock.advance(CONFIRMED_MS)
    await fence.confirm()
    assert log.asked == 0


async def test_an_old_check_is_made_again(fence: EpochFence, log: Log) -> None:
    log.clock.advance(CONFIRMED_MS + 1)
    await fence.confirm()
    await fence.confirm()
    assert log.asked == 1


async def test_it_holds_from_when_the_look_began(fence: EpochFence, log: Log) -> None:
    log.takes_ms = CONFIRMED_MS + 1
    await fence.check()
    await fence.confirm()
    assert log.asked == 2, "the first look was too slow to prove anything now"


async def test_a_newer_epoch_fences_for_ever_and_is_told_once(fence: EpochFence, log: Log, told: list[str]) -> None:
    log.now = 8
    with pytest.raises(Fenced):
        await fence.check()
    log.now = 7
    for ask in (fence.check, fence.confirm):
        with pytest.raises(Fenced):
            await ask()
    assert told == ["fenced"]
    assert log.asked == 1


async def test_within_its_time_a_check_is_believed(fence: EpochFence, log: Log) -> None:
    log.now = 8
    await fence.confirm()
    log.clock.advance(CONFIRMED_MS + 1)
    with pytest.raises(Fenced):
        await fence.confirm()
