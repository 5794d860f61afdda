"""The stores that must keep the contract of the log. Another one joins by one line in STORES."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from store.log import Log
from store.memory import MemoryLog
from store.sqlite import SqliteLog

SALT = b"0123456789abcdef"


async def open_sqlite(folder: Path) -> Log:
    return await SqliteLog.open(folder / "state" / "log.db", salt=SALT, at=7)


async def open_memory(_: Path) -> Log:
    from store.memory_core import MemoryCore

    return MemoryLog(MemoryCore(salt=SALT, at=7))


STORES: dict[str, Callable[[Path], Awaitable[Log]]] = {
    "sqlite": open_sqlite,
    "memory": open_memory,
}


@pytest.fixture(params=sorted(STORES))
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    opened = await STORES[request.param](tmp_path)
    yield opened
    await opened.close()
