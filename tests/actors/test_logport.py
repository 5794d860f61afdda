"""The log as actors see it on the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.logport import LoopLog
from events.base import Recorded
from events.errors import UnknownEventType
from events.peer import SessionBound
from store.errors import EventUnreadable, Fenced, LogBusy, LogFailed
from store.memory import MemoryLog
from store.records import Appended, Batch, Body, Kept, Key, Write

BOT, STREAM = "weixin:main", "peer-0123456789abcdef0123456789abcdef"


def batch(epoch: int = 1) -> Batch:
    return Batch(
        account=BOT,
        epoch=epoch,
        at=1,
        writes=(Write(STREAM, 0, (SessionBound(session="s"),)),),
        bodies=(Body(id="b-1", stream=STREAM, kind="output", text="hello", at=1),),
        keys=(Key(source="message", key="id:1"),),
    )


class FailingLog(MemoryLog):
    async def append(self, batch: Batch) -> Appended:
        raise LogFailed("the disk is gone")


async def test_what_is_appended_is_told_once_and_can_be_read() -> None:
    log, told, failed = MemoryLog(), list[tuple[Recorded, ...]](), list[BaseException]()
    await log.claim(BOT, "i-1", 1)
    port = LoopLog(log, failed.append, told.append)
    appended: Any = await port.append(batch())
    assert told == [appended.recorded]
    assert await port.read(STREAM, 0) == appended.recorded
    assert await port.read(STREAM, 1) == ()
    assert await port.kept(["b-1", "b-2"]) == {"b-1": Kept("hello", log.salt)}
    assert await port.taken(BOT, "message", ["id:1", "id:2"]) == {"id:1"}
    await port.put_snapshot(STREAM, 1, "f", b"state")
    assert await port.snapshot(STREAM, "f") == (1, b"state")
    assert await port.snapshot(STREAM, "g") is None
    assert port.salt == log.salt
    assert (len(told), failed) == (1, [])


async def test_a_refusal_is_the_askers_and_no_end() -> None:
    log, failed = MemoryLog(), list[BaseException]()
    await log.claim(BOT, "i-1", 1)
    told: list[Any] = []
    with pytest.raises(Fenced):
        await LoopLog(log, failed.append, told.append).append(batch(epoch=0))
    assert (told, failed) == ([], [])


async def test_a_failed_commit_is_also_told_to_the_process() -> None:
    failed: list[BaseException] = []
    with pytest.raises(LogFailed):
        await LoopLog(FailingLog(), failed.append).append(batch())
    assert [str(e) for e in failed] == ["the disk is gone"]


async def test_an_append_goes_on_when_nobody_waits_for_it_any_more() -> None:
    """Its task is the port's own; whoever asked may be gone."""
    log, told = MemoryLog(), list[Any]()
    await log.claim(BOT, "i-1", 1)
    port = LoopLog(log, told.append, told.append)
    port.append(batch())
    async with asyncio.timeout(5):
        while not told:
            await asyncio.sleep(0)
    assert await log.position() == 2


class FullLog(MemoryLog):
    full = True

    async def append(self, batch: Batch) -> Appended:
        if self.full:
            raise LogBusy("the disk of the log is full")
        return await super().append(batch)

    async def takes(self) -> None:
        if self.full:
            raise LogBusy("the disk of the log is full")


async def test_a_log_that_takes_nothing_is_asked_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may have anything to append for an hour, and readiness must not wait for that."""
    monkeypatch.setattr("actors.logport.PROBE_MS", 1)
    log, said = FullLog(), list[str]()
    await log.claim(BOT, "i-1", 1)
    port = LoopLog(log, lambda _error: None, on_busy=said.append)
    for _ in range(2):
        with pytest.raises(LogBusy):
            await port.append(batch())
    log.full = False
    async with asyncio.timeout(5):
        while "" not in said:
            await asyncio.sleep(0)
    assert said == ["the disk of the log is full"] * 2 + [""]


async def test_a_log_that_takes_nothing_is_told_of_and_so_is_that_it_does_again() -> None:
    log, said = FullLog(), list[str]()
    await log.claim(BOT, "i-1", 1)
    port = LoopLog(log, lambda _error: None, on_busy=said.append)
    with pytest.raises(LogBusy):
        await port.append(batch())
    log.full = False
    await port.append(batch())
    await asyncio.sleep(0)
    assert said == ["the disk of the log is full", ""]


class NewerLog(MemoryLog):
    async def read(self, stream: str, after: int = 0, limit: int = 0) -> tuple[Recorded, ...]:
        raise EventUnreadable(stream, 2, position=7, why=UnknownEventType("'sung' is not an event of this version"))


async def test_an_event_that_cannot_be_read_is_told_to_the_process() -> None:
    """Whoever asked decides nothing, and the process ends: it is not the version for this log."""
    failed: list[BaseException] = []
    with pytest.raises(EventUnreadable):
        await LoopLog(NewerLog(), failed.append).read("peer-x", 0)
    (told,) = map(str, failed)
    assert told.startswith("the event at position 7 (peer-x, version 2) cannot be read: 'sung' is not an event")
    assert told.endswith("; run the version that wrote it, or a newer one")
