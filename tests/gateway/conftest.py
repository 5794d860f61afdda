"""A listener on loopback with a hand-written gateway behind it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from actors.gateway.connections import Limits
from actors.gateway.http import HttpListener
from actors.gateway.listen import Listen
from store.log import Log
from store.memory import MemoryLog
from store.memory_core import MemoryCore
from store.sqlite import SqliteLog
from tests.gateway.fake import FakeGateway
from tests.gateway.stage import NOON, Stage

TOKEN = "correct-horse"


class Served:
    """A running listener and a client for it."""

    def __init__(self, gateway: FakeGateway, listener: HttpListener, where: Listen, token: str | None) -> None:
        self.gateway, self.listener, self.where = gateway, listener, where
        self.url = f"http://{where}"
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.session = aiohttp.ClientSession()

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(self.url + path, headers={**self.headers, **headers}) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()  # escapes all but ASCII
        sent = {**self.headers, "Content-Type": "application/json", **headers}
        async with self.session.post(self.url + path, headers=sent, data=io.BytesIO(data)) as answer:
            return answer.status, await answer.json()


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start listeners; all of them are closed at the end."""
    started: list[Served] = []

    async def start(*, token: str | None = TOKEN, limits: Limits | None = None) -> Served:
        gateway = FakeGateway()
        listener = HttpListener(
            gateway, Listen("127.0.0.1", 0), token=token, registry=CollectorRegistry(), limits=limits
        )
        served = Served(gateway, listener, await listener.start(), token)
        started.append(served)
        return served

    yield start
    for served in started:
        await served.session.close()
        served.gateway.hold.set()
        await served.listener.close()


@pytest.fixture
async def served(serve: Serve) -> Served:
    """A listener with a token."""
    return await serve()


SALT = b"salt of the stage"


@pytest.fixture
def memory() -> MemoryLog:
    """A log in memory."""
    return MemoryLog(MemoryCore(salt=SALT, at=NOON))


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path, memory: MemoryLog) -> AsyncIterator[Log]:
    """Each store."""
    opened: Log = memory
    if request.param == "sqlite":
        opened = await SqliteLog.open(tmp_path / "state" / "log.db", salt=SALT, at=NOON)
    yield opened
    await opened.close()


@pytest.fixture
async def stages() -> AsyncIterator[Callable[..., Stage]]:
    """Make stages; those that were not stopped by the test are stopped at the end."""
    made: list[Stage] = []

    def make(log: Log, **fields: Any) -> Stage:
        made.append(Stage(log, **fields))
        return made[-1]

    yield make
    for stage in made:
        await stage.close()


@pytest.fixture
async def stage(memory: MemoryLog, stages: Callable[..., Stage]) -> Stage:
    """A process on a log in memory, without accounts yet."""
    return stages(memory)
