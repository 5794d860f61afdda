from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from store.chain import GENESIS, link_row, parse_root
from store.memory import MemoryLog
from store.queries import row_page
from store.reader import SqliteReader
from store.sqlite import SqliteLog
from store.verify import FINDINGS_MAX, Verdict, verify
from tests.store.conftest import ANNA, BEN, BOT, batch, write


@pytest.fixture
async def full(log: SqliteLog) -> SqliteLog:
    for n in range(5):
        await log.append(batch(write(ANNA, count=2), write(BEN), at=100 + n))
    return log


async def tampered(path: Path, log: SqliteLog, *statements: str) -> Verdict:
    """The verdict on a log after somebody got at the file."""
    await log.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER events_stay")
    connection.execute("DROP TRIGGER events_remain")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    reader = await SqliteReader.open(path)
    verdict = await verify(reader)
    await reader.close()
    return verdict


async def test_an_untouched_log_is_sound(full: SqliteLog) -> None:
    verdict = await verify(full)
    assert verdict.sound
    assert (verdict.rows, verdict.streams, verdict.findings, verdict.extends) == (16, 3, (), None)
    assert verdict.root == await full.root()


async def test_an_empty_log_is_sound() -> None:
    log = MemoryLog()
    verdict = await verify(log, await log.root())
    assert verdict.sound
    assert verdict.rows == 0


@pytest.mark.parametrize(
    "change",
    [
        "stream = 'peer-cccccccccccccccc'",
        "version = 77",
        "type = 'session_unbound'",
        "at = at + 1",
        "at = at - 1",
        "epoch = 2",
        "cause = 'x'",
        "data = CAST('{}' AS BLOB)",
        "digest = randomblob(32)",
        "digest = randomblob(5)",
        "data = 'text'",
        "at = 'noon'",
        "version = -1",
        "epoch = x'00'",
        "position = 99",
    ],
)
async def test_an_edit_of_any_column_shows(path: Path, full: SqliteLog, change: str) -> None:
    verdict = await tampered(path, full, f"UPDATE events SET {change} WHERE position = 8")
    assert not verdict.sound
    assert verdict.count >= 1


async def test_a_swap_shows(path: Path, full: SqliteLog) -> None:
    verdict = await tampered(
        path,
        full,
        "UPDATE events SET position = 1000 WHERE position = 5",
        "UPDATE events SET position = 5 WHERE position = 8",
        "UPDATE events SET position = 8 WHERE position = 1000",
    )
    assert not verdict.sound


@pytest.mark.parametrize("position", [1, 2, 7, 16])
async def test_a_deletion_shows(path: Path, full: SqliteLog, position: int) -> None:
    verdict = await tampered(path, full, f"DELETE FROM events WHERE position = {position}")
    assert not verdict.sound
    assert any("missing" in f.what for f in verdict.findings)


async def test_one_edit_is_found_where_it_is(path: Path, full: SqliteLog) -> None:
    verdict = await tampered(path, full, "UPDATE events SET cause = 'x' WHERE position = 8")
    assert [(f.position, f.stream) for f in verdict.findings] == [(8, ANNA)]


async def test_findings_are_counted_beyond_those_listed(log: SqliteLog, path: Path) -> None:
    await log.append(batch(write(count=150)))
    verdict = await tampered(path, log, "UPDATE events SET cause = 'x' WHERE position > 1")
    assert len(verdict.findings) == FINDINGS_MAX
    assert verdict.count == 150


async def test_extension_of_a_published_root(full: SqliteLog) -> None:
    published = parse_root(str(await full.root()))
    await full.append(batch(write(), at=200))
    verdict = await verify(full, published)
    assert verdict.sound
    assert verdict.extends is True
    assert (await verify(full, await full.root())).extends is True


async def test_a_cut_tail_shows_only_against_a_root(path: Path, full: SqliteLog) -> None:
    published = await full.root()
    cut = await tampered(
        path,
        full,
        "DELETE FROM events WHERE position > 10",
        "UPDATE sqlite_sequence SET seq = 10 WHERE name = 'events'",
    )
    assert cut.sound
    reader = await SqliteReader.open(path)
    against = await verify(reader, published)
    await reader.close()
    assert against.extends is False
    assert not against.sound


async def test_a_history_rewritten_as_a_whole_shows_only_against_a_root(path: Path, full: SqliteLog) -> None:
    published = await full.root()
    await full.close()
    rewrite(path)
    log = await SqliteLog.open(path)
    assert (await verify(log)).sound
    assert not (await verify(log, published)).sound
    await log.append(batch(write(), at=500))
    assert not (await verify(log, published)).sound
    await log.close()


def rewrite(path: Path) -> None:
    """What one can do who knows how the chain is made: change a cause, then compute every digest again."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER events_stay")
    connection.execute("UPDATE events SET cause = 'forged' WHERE position = 3")
    digests: dict[str, bytes] = {}
    for row in row_page(connection, 0, 1000):
        digests[row.stream] = link_row(digests.get(row.stream, GENESIS), row)
        connection.execute("UPDATE events SET digest = ? WHERE position = ?", (digests[row.stream], row.position))
    connection.close()


async def test_verification_while_the_log_grows(log: SqliteLog) -> None:
    await log.append(batch(write(count=20)))
    published = await log.root()
    real = log.rows

    async def growing(after: int = 0, size: int = 5000):
        async for page in real(after, 5):
            if await log.position() < 60:
                await log.append(batch(write(BEN, count=10)))
            yield page

    log.rows = growing  # type: ignore[method-assign]
    verdict = await verify(log, published)
    assert verdict.sound
    assert verdict.rows > 21
    assert BOT
