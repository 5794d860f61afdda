from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from actors.gateway.http import HttpListener
from actors.gateway.listen import Listen
from tests.gateway.fake import FakeGateway
from tests.scripts.console import TOKEN, Console


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    """A gateway that answers over HTTP; `gateway.port` says where."""
    fake = FakeGateway()
    listener = HttpListener(fake, Listen("127.0.0.1", 0), token=TOKEN, registry=CollectorRegistry())
    fake.port = (await listener.start()).port
    yield fake
    await listener.close()


@pytest.fixture
def console(gateway: FakeGateway, tmp_path: Path) -> Console:
    """A console whose configuration names the gateway."""
    return Console(tmp_path, gateway.port)


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[Console]:
    """A console for which no gateway runs: its port is taken by nobody who answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield Console(tmp_path, taken.getsockname()[1])
