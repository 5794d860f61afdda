"""`audit --verify` over what a gateway wrote: whatever is changed or taken away beside the chain is found, once for each event that
speaks of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.gateway.api import EraseOrder
from actors.ports import Refused
from events.peer import SendFailed
from events.streams import fingerprint
from scripts.reading.texts import changed_texts
from store.reader import SqliteReader
from store.sqlite import SqliteLog
from store.verify import verify
from tests.gateway.conftest import SALT
from tests.gateway.stage import NOON, Stage
from tests.store.test_migration import DUMP

WRONG = {
    "inbound": ["the text of message", "the text of a message that came again"],
    "media": ["a medium of message"],
    "output": ["the text of turn t1", "the text of request", "the text of turn t2", "the text of turn t3"],
    "error": ["the channel's answer to request"],
}
"""The kinds of body, and what of them the log of `lived` speaks of, in its order."""


@pytest.fixture
async def lived(tmp_path: Path) -> AsyncIterator[Path]:
    """The log of a short life: a message with a picture, the same again, and three turns of which one was sent, and refused."""
    path = tmp_path / "state" / "log.db"
    stage = Stage(await SqliteLog.open(path, salt=SALT, at=NOON))
    line = await stage.account()
    line.manual = True
    await line.hear("hello", message_id="1", media=('{"key":"k"}',), contents=("text", "image"))
    await line.hear("hello", message_id="1")
    await stage.send("no", turn_id="t1")
    await stage.until(lambda: line.orders)
    line.answer(Refused(failure="blocked", code=-2, error='{"ret":-2}'))
    while not await stage.events(SendFailed):
        await asyncio.sleep(0)
    await stage.send("never sent", turn_id="t2")
    await stage.send("went wrong", turn_id="t3", status="failed")
    await stage.close()
    yield path
    await stage.log.close()


async def findings(path: Path) -> list[str]:
    reader = await SqliteReader.open(path)
    found = [f.what async for f in changed_texts(reader)]
    assert (await verify(reader)).count == 0, "the chain knows nothing of texts"
    await reader.close()
    return found


def tamper(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    assert connection.execute(statement, values).rowcount > 0
    connection.close()


def told(found: list[str], kind: str, how: str) -> None:
    assert len(found) == len(WRONG[kind])
    for what, begins in zip(found, WRONG[kind], strict=True):
        assert what.startswith(begins)
        assert how in what


async def test_a_log_that_nobody_touched_is_sound(lived: Path) -> None:
    assert await findings(lived) == []


@pytest.mark.parametrize("kind", WRONG)
async def test_a_changed_text_is_found(lived: Path, kind: str) -> None:
    tamper(lived, "UPDATE bodies SET text = text || '!' WHERE kind = ?", kind)
    told(await findings(lived), kind, "was changed")


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("salt", [b"", b"another salt :-)"])
async def test_a_changed_salt_is_found(lived: Path, kind: str, salt: bytes) -> None:
    tamper(lived, "UPDATE bodies SET salt = ? WHERE kind = ?", salt, kind)
    told(await findings(lived), kind, "the salt of its fingerprint")


@pytest.mark.parametrize("kind", WRONG)
async def test_a_text_that_was_taken_away_without_a_word_is_found(lived: Path, kind: str) -> None:
    tamper(lived, "DELETE FROM bodies WHERE kind = ?", kind)
    found = await findings(lived)
    one_each = [
        what for what in WRONG[kind] if what != "the text of request"
    ]  # the request sent the very text of its turn
    assert [any(f.startswith(w) and f.endswith("is gone") for f in found) for w in one_each] == [True] * len(one_each)
    assert len(found) == len(one_each)


async def test_a_reply_handle_that_was_taken_away_is_found_too(lived: Path) -> None:
    tamper(lived, "DELETE FROM bodies WHERE kind = 'token'")
    assert [f.split(" m-")[0] for f in await findings(lived)] == ["the reply handle of message"]


async def test_two_texts_that_changed_places_are_found(lived: Path) -> None:
    tamper(
        lived,
        "UPDATE bodies SET text = CASE text WHEN 'no' THEN 'never sent' ELSE 'no' END WHERE text IN ('no', 'never sent')",
    )
    assert len(await findings(lived)) == 3


async def test_what_the_log_says_was_erased_is_no_finding_and_cannot_be_guessed(lived: Path) -> None:
    log = await SqliteLog.open(lived)
    stage = Stage(log, instance="i-2", now=NOON + 60_000)
    await stage.account()
    for _account, delivery, _value in await log.key_prefix("delivery", ""):
        await stage.service.erase(EraseOrder(delivery=delivery))
    await stage.close()
    await log.close()
    assert await findings(lived) == []
    connection = sqlite3.connect(lived)
    rows = [str(row) for table in ("events", "keys", "bodies") for row in connection.execute(f"SELECT * FROM {table}")]
    connection.close()
    gone = [t for t in ("no", "never sent", "went wrong") if not any(repr(t) in row for row in rows)]
    assert "went wrong" in gone
    for text in gone:
        assert not any(fingerprint(SALT, text) in row for row in rows), f"{text!r} can be guessed with the log's salt"


async def test_texts_of_schema_1_are_checked_as_far_as_they_have_fingerprints(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    connection = sqlite3.connect(path)
    connection.executescript(DUMP.read_text())
    connection.close()
    assert await findings(path) == []
    tamper(path, "UPDATE bodies SET text = 'maybe' WHERE text = 'no'")
    tamper(path, "DELETE FROM bodies WHERE text = 'yes'")
    found = await findings(path)
    assert [f.split(" r-")[0].split(" m-")[0] for f in found] == ["the text of request", "the text of message"]
    assert "was changed" in found[0]
    assert found[1].endswith("is gone")
