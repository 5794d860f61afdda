from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.base import Event
from events.peer import ChargeNote, SendFailed, SendRequested, SendSucceeded, SendUnknown, UnknownResolved
from store import ledger
from store.ledger import PAGE_MAX, START, Entry, Wanted
from store.memory import MemoryLog
from store.records import ANY, Batch, Write
from store.sqlite import SqliteLog
from tests.store.conftest import ANNA, BEN, BOT, SALT


def requested(request: str, kind: str = "push") -> Event:
    return SendRequested(
        request=request,
        kind=kind,  # type: ignore[arg-type]
        body="b",
        total=3,
        digest="0" * 32,
        client_id="c",
        login=1,
        policy="p",
        charge=ChargeNote(window=1, opened_by="m", slot=1, slots=10),
    )


HISTORY: list[tuple[str, int, Event]] = [
    (ANNA, 100, requested("a1")),
    (ANNA, 110, SendSucceeded(request="a1", message_id="m1")),
    (BEN, 120, requested("b1", "answer")),
    (ANNA, 130, requested("a2")),
    (BEN, 140, SendFailed(request="b1", failure="blocked")),
    (ANNA, 150, SendUnknown(request="a2", settled_at=160, reason="timeout")),
    (ANNA, 170, requested("a3", "notice")),
    (ANNA, 180, SendSucceeded(request="a3")),
    (ANNA, 190, UnknownResolved(request="a2", delivered=False)),
    (BEN, 195, requested("b2", "answer")),
    (ANNA, 195, requested("a4")),
    (BEN, 200, SendUnknown(request="b2", settled_at=220, reason="timeout")),
]


@pytest.fixture(params=["sqlite", "memory"])
async def told(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[SqliteLog | MemoryLog]:
    log = await SqliteLog.open(path, salt=SALT) if request.param == "sqlite" else MemoryLog()
    await log.claim(BOT, "one", 1)
    for stream, at, event in HISTORY:
        await log.append(Batch(account=BOT, epoch=1, at=at, writes=(Write(stream, ANY, (event,)),)))
    yield log
    await log.close()


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [e.story.request for e in entries]


async def test_requests_with_what_became_of_them(told: SqliteLog) -> None:
    entries = await told.requests(Wanted(free=True))
    assert [(e.stream, e.story.request, e.story.result, e.story.charged) for e in entries] == [
        (ANNA, "a1", "confirmed", True),
        (BEN, "b1", "refused", False),
        (ANNA, "a2", "not_sent", False),
        (ANNA, "a3", "unconfirmed", True),
        (BEN, "b2", "unknown", True),
        (ANNA, "a4", "open", True),
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), ["a1", "a3", "b2", "a4"]),
        (Wanted(stream=BEN, free=True), ["b1", "b2"]),
        (Wanted(stream=ANNA), ["a1", "a3", "a4"]),
        (Wanted(kinds=("answer",), free=True), ["b1", "b2"]),
        (Wanted(kinds=("answer", "notice"), free=True), ["b1", "a3", "b2"]),
        (Wanted(kinds=("answer", "notice", "push"), free=True), ["a1", "b1", "a2", "a3", "b2", "a4"]),
        (Wanted(results=("unknown", "open")), ["b2", "a4"]),
        (Wanted(results=("refused",)), []),
        (Wanted(results=("refused",), free=True), ["b1"]),
        (Wanted(since=130, until=195, free=True), ["a2", "a3"]),
        (Wanted(stream=ANNA, since=101, until=171, free=True), ["a2", "a3"]),
        (Wanted(since=0, until=0), []),
        (Wanted(stream="peer-cccccccccccccccc"), []),
    ],
)
async def test_filters(told: SqliteLog, wanted: Wanted, expected: list[str]) -> None:
    assert names(await told.requests(wanted)) == expected


@pytest.mark.parametrize("wanted", [Wanted(free=True), Wanted(stream=ANNA, free=True), Wanted(since=130, free=True)])
async def test_pages_go_on_where_the_last_one_ended(told: SqliteLog, wanted: Wanted) -> None:
    whole = await told.requests(wanted)
    pages, place = [], START
    while page := await told.requests(wanted, place, 2):
        pages += page
        place = page[-1].place
    assert tuple(pages) == whole


async def test_both_stores_tell_the_same(path: Path) -> None:
    """Random interleavings of many peers; more than one scan of candidates."""
    dice = random.Random(5)
    sqlite, memory = await SqliteLog.open(path, salt=SALT), MemoryLog()
    for log in (sqlite, memory):
        await log.claim(BOT, "one", 1)
    open_requests: dict[str, str] = {}
    for n in range(1500):
        stream = f"peer-{dice.randrange(20):016x}"
        event = _next(dice, open_requests, stream, f"r{n}")
        batch = Batch(account=BOT, epoch=1, at=1000 + n // 3, writes=(Write(stream, ANY, (event,)),))
        for log in (sqlite, memory):
            await log.append(batch)
    stream = f"peer-{3:016x}"
    for wanted in (
        Wanted(),
        Wanted(free=True),
        Wanted(stream=stream),
        Wanted(results=("unknown",)),
        Wanted(results=("refused", "unknown"), free=True),
        Wanted(results=("confirmed", "unconfirmed")),
        Wanted(kinds=("notice",)),
    ):
        for size in (1, 7, PAGE_MAX + 5):
            found = await sqlite.requests(wanted, START, size)
            assert found == await memory.requests(wanted, START, size)
            assert len(found) <= PAGE_MAX
            assert found
    await sqlite.close()


def _next(dice: random.Random, open_requests: dict[str, str], stream: str, name: str) -> Event:
    if stream not in open_requests:
        open_requests[stream] = name
        return requested(name, dice.choice(["answer", "push", "notice"]))
    request = open_requests.pop(stream)
    return dice.choice(
        [
            SendSucceeded(request=request, message_id="m"),
            SendFailed(request=request, failure="blocked"),
            SendUnknown(request=request, settled_at=1, reason="timeout"),
        ]
    )


async def test_the_ledger_uses_its_indexes(path: Path) -> None:
    from store import ledger

    log = await SqliteLog.open(path, salt=SALT)
    every = dict.fromkeys(ledger._VALUES, 0)
    queries = (
        (ledger._OF_ALL, every),
        (ledger._OF_STREAM, every),
        (ledger._OUTCOMES, (0, 0)),
        (ledger._RESOLVED, (0, 0)),
    )
    for query, given in queries:
        plan = await log._ask(
            lambda c, q=query, given=given: [r[3] for r in c.execute(f"EXPLAIN QUERY PLAN {q}", given)]
        )
        steps = [step for step in plan if "SUBQUERY" not in step]
        assert all("INDEX" in step for step in steps), plan
        assert not any("SCAN o" in step or "TEMP B-TREE" in step for step in plan), plan
    await log.close()


EVERY_RARE = [
    Wanted(kinds=("notice",)),
    Wanted(kinds=("notice",), free=True, since=120),
    Wanted(results=("unknown",)),
    Wanted(results=("unknown",), kinds=("answer",)),
    Wanted(results=("refused", "not_sent"), free=True),
    Wanted(results=("unknown", "not_sent"), free=True, until=190),
    Wanted(results=("not_sent",), kinds=("push",), free=True),
]


@pytest.mark.parametrize("wanted", EVERY_RARE)
@pytest.mark.parametrize("size", [1, 100])
async def test_what_is_rare_is_found_as_if_everything_was_looked_at(path: Path, wanted: Wanted, size: int) -> None:
    """By its index, by a look at all requests, and in a log that has no such index."""
    log = await SqliteLog.open(path, salt=SALT)
    await log.claim(BOT, "one", 1)
    for stream, at, event in HISTORY:
        await log.append(Batch(account=BOT, epoch=1, at=at, writes=(Write(stream, ANY, (event,)),)))
    memory = MemoryLog()
    await memory.claim(BOT, "one", 1)
    for stream, at, event in HISTORY:
        await memory.append(Batch(account=BOT, epoch=1, at=at, writes=(Write(stream, ANY, (event,)),)))
    expected = names(await memory.requests(wanted, START, size))
    assert expected
    assert names(await log.requests(wanted, START, size)) == expected
    await log.transact(lambda connection: [connection.execute(f"DROP INDEX {n}") for n in ("unknowns", "notices")])
    assert names(await log.requests(wanted, START, size)) == expected
    await log.close()


async def test_what_is_not_rare_is_looked_for_among_all_requests(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RARE_MAX", 0)
    log = await SqliteLog.open(path, salt=SALT)
    await log.claim(BOT, "one", 1)
    for stream, at, event in HISTORY:
        await log.append(Batch(account=BOT, epoch=1, at=at, writes=(Write(stream, ANY, (event,)),)))
    assert names(await log.requests(Wanted(results=("unknown",)))) == ["b2"]
    await log.close()


async def test_the_statements_take_the_indexes_of_what_is_rare(path: Path) -> None:
    log = await SqliteLog.open(path, salt=SALT)
    wanted = {
        ledger.Wanted(kinds=("notice",)): ["notices"],
        ledger.Wanted(results=("unknown",)): ["unknowns"],
        ledger.Wanted(results=("refused",), free=True): ["unknowns", "failures"],
        ledger.Wanted(): ["requests"],
    }
    for one, indexes in wanted.items():
        types = ledger._first_types(one)
        queries = await log.transact(lambda connection, one=one, types=types: ledger._queries(connection, one, types))  # type: ignore[misc]
        assert [
            next(n for n in ("notices", "unknowns", "failures", "requests") if f"BY {n} " in q) for q in queries
        ] == indexes
    await log.close()
