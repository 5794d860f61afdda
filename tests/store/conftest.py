"""Logs in SQLite to break."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from events.base import Event
from events.peer import SessionBound
from store.records import ANY, Batch, Body, Write
from store.sqlite import SqliteLog

SALT = b"0123456789abcdef"
BOT = "weixin:main"
ANNA = "peer-aaaaaaaaaaaaaaaa"
BEN = "peer-bbbbbbbbbbbbbbbb"
EVENT: Event = SessionBound(session="s")


def batch(*writes: Write, epoch: int = 1, at: int = 100, account: str = BOT, **rest: Any) -> Batch:
    return Batch(account=account, epoch=epoch, at=at, writes=writes, **rest)


def write(stream: str = ANNA, expected: int = ANY, count: int = 1) -> Write:
    return Write(stream, expected, (EVENT,) * count)


def body(name: str, text: str = "hello", at: int = 100, stream: str = ANNA, salt: bytes = b"") -> Body:
    return Body(id=name, stream=stream, kind="inbound", text=text, at=at, salt=salt)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "log.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SqliteLog]:
    opened = await SqliteLog.open(path, salt=SALT, at=7)
    await opened.claim(BOT, "one", 50)
    yield opened
    await opened.close()
