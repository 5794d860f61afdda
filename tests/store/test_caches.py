from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from events.base import Recorded
from events.peer import SessionBound
from store.caches import compare, rebuild
from store.records import ANY, AgendaRow, Batch, Binding, Write
from store.sqlite import SqliteLog
from tests.store.conftest import ANNA, BEN, BOT


def agenda_of(stream: str, events: tuple[Recorded, ...]) -> tuple[AgendaRow, Binding | None]:
    """A little domain: every event waits, due at its time + 100; the last session bound counts."""
    if not stream.startswith("peer-") or not events:
        return AgendaRow(stream=stream), None
    bound = [r.event for r in events if isinstance(r.event, SessionBound)]
    row = AgendaRow(stream=stream, due_at=events[-1].at + 100, waiting=len(events))
    return row, Binding(stream=stream, session=bound[-1].session)


def step(stream: str, session: str, waiting: int, at: int = 50) -> Batch:
    return Batch(
        account=BOT,
        epoch=1,
        at=at,
        writes=(Write(stream, ANY, (SessionBound(session=session),)),),
        agenda=(AgendaRow(stream=stream, due_at=at + 100, waiting=waiting),),
        bindings=(Binding(stream=stream, session=session),),
    )


@pytest.fixture
async def lived(log: SqliteLog) -> SqliteLog:
    for batch in (step(ANNA, "s1", 1), step(ANNA, "s2", 2), step(BEN, "s3", 1), step(BEN, "", 2)):
        await log.append(batch)
    return log


async def test_caches_that_agree(lived: SqliteLog) -> None:
    assert await compare(lived, agenda_of) == ()


@pytest.mark.parametrize(
    ("change", "cache"),
    [
        ("DELETE FROM agenda", "agenda"),
        ("UPDATE agenda SET due_at = due_at + 1", "agenda"),
        ("UPDATE agenda SET due_at = NULL", "agenda"),
        ("UPDATE agenda SET waiting = 0", "agenda"),
        ("UPDATE agenda SET open_epoch = 1", "agenda"),
        ("UPDATE agenda SET turn_open = 1", "agenda"),
        ("DELETE FROM bindings", "binding"),
        ("UPDATE bindings SET session = 'other'", "binding"),
        ("INSERT INTO bindings VALUES ('peer-bbbbbbbbbbbbbbbb', 'weixin:main', 's9')", "binding"),
        ("INSERT INTO agenda VALUES ('peer-cccccccccccccccc', 'weixin:main', 5, NULL, 1, 0)", "agenda"),
    ],
)
async def test_differences_are_found_and_rebuilt(lived: SqliteLog, path: Path, change: str, cache: str) -> None:
    before = (await lived.agenda(BOT), await lived.bindings())
    await lived.transact(lambda connection: connection.execute(change))
    found = await compare(lived, agenda_of)
    assert {d.cache for d in found} == {cache}
    assert await rebuild(lived, agenda_of) == 3
    assert await compare(lived, agenda_of) == ()
    assert (await lived.agenda(BOT), await lived.bindings()) == before


async def test_a_wake_may_be_earlier(lived: SqliteLog) -> None:
    await lived.append(Batch(account=BOT, epoch=1, at=60, wake=(AgendaRow(stream=ANNA, due_at=1),)))
    assert await compare(lived, agenda_of) == ()


async def test_rebuilding_all_caches_from_nothing(lived: SqliteLog, path: Path) -> None:
    before = (await lived.agenda(BOT), await lived.bindings(), await lived.heads())
    await lived.close()
    connection = sqlite3.connect(path, isolation_level=None)
    for table in ("agenda", "bindings", "snapshots"):
        connection.execute(f"DELETE FROM {table}")
    connection.close()
    log = await SqliteLog.open(path)
    await rebuild(log, agenda_of)
    assert (await log.agenda(BOT), await log.bindings(), await log.heads()) == before
    await log.append(step(ANNA, "s4", 3))
    await log.close()


async def test_a_stream_that_moves_meanwhile_is_folded_again(lived: SqliteLog) -> None:
    real, moves = lived.read, iter([True])

    async def moving(stream: str, after: int = 0, limit: int = 0):
        events = await real(stream, after, limit)
        if stream == ANNA and next(moves, False):
            await lived.append(step(ANNA, "s9", 3, at=900))
        return events

    lived.read = moving  # type: ignore[method-assign]
    await rebuild(lived, agenda_of)
    assert await compare(lived, agenda_of) == ()
    assert (BOT, Binding(stream=ANNA, session="s9")) in await lived.bindings()


async def test_snapshots_of_another_fold_are_ignored(log: SqliteLog) -> None:
    await log.put_snapshot(ANNA, 5001, "fold-1", b"state")
    assert await log.snapshot(ANNA, "fold-1") == (5001, b"state")
    assert await log.snapshot(ANNA, "fold-2") is None
    assert await log.snapshot(BEN, "fold-1") is None
    await log.put_snapshot(ANNA, 9000, "fold-2", b"newer")
    assert await log.snapshot(ANNA, "fold-2") == (9000, b"newer")
