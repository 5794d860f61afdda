from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest

from scripts.demonstration.errors import DemoFailed
from scripts.demonstration.processes import Child, Processes, processes


class Ready(msgspec.Struct):
    base_url: str
    pid: int


async def clock(children: Processes) -> tuple[Child, Ready]:
    child = await children.start("clock", "scripts.simulators.clock_source")
    return child, await child.ready(Ready)


async def refuses(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return True
    writer.close()
    await writer.wait_closed()
    return False


async def test_nothing_outlives_the_block(tmp_path: Path) -> None:
    async with processes(tmp_path) as children:
        _, ready = await clock(children)
        assert not await refuses(ready.base_url)
    assert await refuses(ready.base_url)


async def test_nothing_outlives_an_error_either(tmp_path: Path) -> None:
    urls: list[str] = []

    async def broken() -> None:
        async with processes(tmp_path) as children:
            urls.append((await clock(children))[1].base_url)
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await broken()
    assert await refuses(urls[0])


async def test_one_that_is_stopped_ends_all_the_same(tmp_path: Path) -> None:
    async with processes(tmp_path) as children:
        child, ready = await clock(children)
        child.signal(signal.SIGSTOP)
    assert await refuses(ready.base_url)


async def test_one_that_ends_early_says_why(tmp_path: Path) -> None:
    async with processes(tmp_path) as children:
        child = await children.start("clock", "scripts.simulators.clock_source", "--host", "10.0.0.1")
        with pytest.raises(DemoFailed, match="ended before it was ready, with status 1"):
            await child.ready(Ready)
        assert await child.ended() == 1
        assert "a simulator listens on loopback only" in children.tails()


async def test_one_that_goes_on_is_no_end(tmp_path: Path) -> None:
    async with processes(tmp_path) as children:
        child, _ = await clock(children)
        with pytest.raises(DemoFailed, match="still runs"):
            await child.ended(0.01)
