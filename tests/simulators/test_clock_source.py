from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

import aiohttp
import pytest

from scripts.simulators.clock import ManualClock
from scripts.simulators.clock_source import ClockSource, running
from scripts.simulators.errors import ClockWentBackError, NotLoopbackError


@pytest.fixture
def passing() -> ManualClock:
    return ManualClock(5000)


@pytest.fixture
def source(passing: ManualClock) -> ClockSource:
    return ClockSource(passing, now=1000)


def test_time_passes_between_jumps(source: ClockSource, passing: ManualClock) -> None:
    passing.advance(7)
    assert (source.reading().now, source.reading().monotonic) == (1007, 7)
    assert source.advance(100).now == 1107
    passing.advance(3)
    assert (source.reading().now, source.reading().monotonic) == (1110, 110)


def test_a_frozen_clock_only_jumps(source: ClockSource, passing: ManualClock) -> None:
    passing.advance(1)
    source.freeze(True)
    passing.advance(1000)
    assert source.reading().now == 1001
    source.advance(9)
    source.freeze(False)
    passing.advance(5)
    assert source.reading().now == 1015


def test_it_starts_with_the_passing_clock_unless_told_otherwise(passing: ManualClock) -> None:
    assert ClockSource(passing).reading().now == 5000


def test_it_never_goes_back(source: ClockSource) -> None:
    for move in (lambda: source.advance(-1), lambda: source.set(999)):
        with pytest.raises(ClockWentBackError):
            move()
    assert (source.reading().now, source.reading().version) == (1000, 0)


async def ask(http: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with http.request(method, path, json=body) as answer:
        return answer.status, await answer.json()


async def test_over_http(source: ClockSource) -> None:
    async with running(source) as url, aiohttp.ClientSession(url) as http:
        assert await ask(http, "GET", "/now") == (
            200,
            {"now": 1000, "monotonic": 0, "version": 0, "frozen": False},
        )
        assert (await ask(http, "POST", "/advance", {"ms": 5}))[1]["now"] == 1005
        assert (await ask(http, "POST", "/set", {"now": 2000}))[1] == {
            "now": 2000,
            "monotonic": 1000,
            "version": 2,
            "frozen": False,
        }
        assert (await ask(http, "POST", "/freeze"))[1]["frozen"] is True
        assert (await ask(http, "POST", "/thaw"))[1]["frozen"] is False


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/set", {"now": 1}, 409),
        ("POST", "/advance", {"ms": -1}, 409),
        ("POST", "/advance", {"ms": "soon"}, 400),
        ("POST", "/advance", {}, 400),
        ("GET", "/changed?since=now", None, 400),
    ],
)
async def test_refusals_say_why(source: ClockSource, method: str, path: str, body: Any, status: int) -> None:
    async with running(source) as url, aiohttp.ClientSession(url) as http:
        answered, reply = await ask(http, method, path, body)
        assert answered == status
        assert reply["error"]


async def test_changed_is_held_until_a_jump(source: ClockSource) -> None:
    async with running(source) as url, aiohttp.ClientSession(url) as http:
        waiting = asyncio.create_task(ask(http, "GET", "/changed?since=0"))
        await ask(http, "GET", "/now")  # the first request is on its way by then
        source.advance(10)
        assert (await asyncio.wait_for(waiting, 5))[1]["now"] == 1010
        assert (await ask(http, "GET", "/changed?since=1&timeout_ms=1"))[1]["version"] == 1
        assert (await ask(http, "GET", "/changed?since=99"))[1]["version"] == 1, "a follower of an older source"


async def test_it_listens_on_loopback_only(source: ClockSource) -> None:
    with pytest.raises(NotLoopbackError):
        async with running(source, host="0.0.0.0"):
            pass


async def test_as_a_process() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scripts.simulators.clock_source", "--now", "1234", "--frozen"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
        assert ready["pid"] == process.pid
        async with aiohttp.ClientSession(ready["base_url"]) as http:
            assert (await ask(http, "GET", "/now"))[1]["now"] == 1234
    finally:
        process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0
