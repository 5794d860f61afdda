"""`audit --verify` over what lies beside the events: somebody got at the file, and each is found in a clear sentence."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from actors.gateway.api import AccountOrder, EraseOrder, PauseOrder
from events.bot import DAY_MS
from scripts.reading.facts import MESSAGES_MS, untrue_facts
from store.reader import SqliteReader
from store.sqlite import SqliteLog
from store.verify import Finding
from tests.gateway.stage import BEN, NOON, Stage

SALT = b"a salt for tests"


@pytest.fixture
async def written(tmp_path: Path) -> Path:
    """A log as gateways write it: answers, pushes, a failed turn, a refusal, a restart, a peer that was forgotten."""
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, salt=SALT, at=1)
    stage = Stage(log)
    line = await stage.account(access=("all",))
    await stage.send("news", turn_id="job-1")
    await stage.service.erase(EraseOrder(peer="weixin:main"))
    for peer in ("ann@im.wechat", BEN):
        await line.hear(f"hello from {peer}", peer)
        await stage.final((await stage.offer("answer", turn_id=stage.hub.turns[-1])).deliveries[0].delivery)
        await stage.send("", f"weixin:main:{peer}", status="failed")
        await stage.final(await stage.send("push", f"weixin:main:{peer}", turn_id=f"push-{peer}"))
    line.manual = True
    await stage.service.account(AccountOrder(account="main", action="restart"))
    await stage.service.pause(PauseOrder(scope="main"))
    await stage.send("waits", f"weixin:main:{BEN}")
    await stage.close()
    await log.close()
    return path


async def findings(path: Path, *statements: str, now: int = NOON) -> list[Finding]:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        assert connection.execute(statement).rowcount > 0, "somebody got at something"
    connection.close()
    reader = await SqliteReader.open(path)
    try:
        return [finding async for finding in untrue_facts(reader, now)]
    finally:
        await reader.close()


async def test_what_gateways_write_is_sound(written: Path) -> None:
    assert await findings(written) == []


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "DELETE FROM keys WHERE key = 'job-1'",
            "the turn key job-1 of weixin:main is missing: the turn could be accepted again",
        ),
        (
            "DELETE FROM keys WHERE source = 'delivery' AND key = (SELECT min(key) FROM keys WHERE source = 'delivery')",
            "is missing",
        ),
        ("DELETE FROM keys WHERE source = 'turn' AND value LIKE '%inbound%'", "the turn key t-.* is missing"),
        ("DELETE FROM keys", "could be accepted again"),
        (
            "UPDATE keys SET value = replace(value, 'peer-', 'peer-0') WHERE source = 'turn'",
            "says something else than the log",
        ),
        (
            "UPDATE keys SET value = replace(value, 'peer-', 'peer-0') WHERE source = 'delivery'",
            "says something else than the log",
        ),
        (
            "UPDATE keys SET value = replace(value, '\"turn\":\"', '\"turn\":\"x') WHERE source = 'delivery'",
            "something else",
        ),
        ("UPDATE keys SET value = 'x' WHERE key = 'job-1'", "holds nothing that can be read"),
        (
            "UPDATE keys SET account = 'weixin:other' WHERE key = 'job-1'",
            "the turn key job-1 of weixin:main is missing",
        ),
        (
            "INSERT INTO keys VALUES ('weixin:main', 'turn', 'forged', '{\"streams\":[]}', 1)",
            "the turn key forged is there, and no event knows it",
        ),
        (
            "INSERT INTO keys VALUES ('weixin:main', 'delivery', 'd-forged', '{}', 1)",
            "the delivery key d-forged is there, and no event knows it",
        ),
        ("DELETE FROM keys WHERE key LIKE 'content:%'", "the fingerprints of 1 of 1 messages since .* are missing"),
        (
            "INSERT INTO keys VALUES ('weixin:main', 'message', 'content:0', 'peer-forged', 1800000000000)",
            "fingerprints of messages name it, and it has no events",
        ),
        ("DELETE FROM streams WHERE stream LIKE 'bot-%'", "the directory of streams does not know it"),
        ("DELETE FROM streams WHERE stream LIKE 'peer-%'", "the directory of streams does not know it"),
        ("UPDATE streams SET account = 'weixin:other' WHERE stream LIKE 'bot-%'", "gives it to weixin:other"),
        ("UPDATE streams SET account = 'weixin:other' WHERE stream LIKE 'peer-%'", "of weixin:other is missing"),
        ("UPDATE streams SET peer = NULL WHERE peer IS NOT NULL", "its address is gone, and the log does not say"),
        ("UPDATE epochs SET epoch = epoch - 1", "the fence says epoch 1 of i-1; its newest start is epoch 2 of i-1"),
        ("UPDATE epochs SET epoch = epoch + 5", "the fence says epoch 7"),
        ("UPDATE epochs SET instance = 'i-9'", "of i-9; its newest start is epoch 2 of i-1"),
        ("UPDATE epochs SET replaces = 'nobody'", "the fence says"),
        ("DELETE FROM epochs", "the fence says nothing; its newest start is epoch 2"),
        ("INSERT INTO epochs VALUES ('weixin:forged', 3, 'i-1', '', 1)", "the fence knows it, and it never started"),
    ],
)
async def test_whoever_got_at_the_file_is_found(written: Path, statement: str, sentence: str) -> None:
    found = await findings(written, statement)
    assert any(re.search(sentence, finding.what) for finding in found), found


async def test_an_old_message_may_be_forgotten(written: Path) -> None:
    """The gateway prunes fingerprints after 35 days; a month is promised."""
    forget = "DELETE FROM keys WHERE key LIKE 'content:%'"
    assert await findings(written, forget, now=NOON + MESSAGES_MS + DAY_MS) == []


async def test_fingerprints_of_an_older_program_say_not_whose_they_are(written: Path) -> None:
    assert await findings(written, "UPDATE keys SET value = '' WHERE key LIKE 'content:%'") == []


async def test_a_forgotten_peer_is_in_order_until_its_address_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, salt=SALT, at=1)
    stage = Stage(log)
    line = await stage.account(access=("all",))
    await line.hear("hello", BEN)
    stream = stage.lives["main"].account.known(BEN)
    await stage.service.erase(EraseOrder(peer=f"weixin:main:{BEN}"))
    stage.advance(2 * DAY_MS)
    await stage.until(lambda: stage.lives["main"].account.known(BEN) is None)
    await stage.close()
    await log.close()
    now = NOON + 2 * DAY_MS
    assert await findings(path, now=now) == []
    (found,) = await findings(path, f"UPDATE streams SET peer = '{BEN}' WHERE stream = '{stream}'", now=now)
    assert found.what == "its address is there, and the log says that it was forgotten"
