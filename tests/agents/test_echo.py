"""The echo agent as a process of its own, against a listener on loopback."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.deciding.commands import Bind
from actors.gateway.agents import AGENT_PATH
from scripts.agents.echo import DIED, REFUSED, REPLACED_STATUS, lengthened
from tests.agents.loop import WAIT_S, Served, serving


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def welcomed(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            return json.loads(await self.process.stdout.readline())

    async def ended(self) -> int:
        async with asyncio.timeout(WAIT_S):
            return await self.process.wait()


@asynccontextmanager
async def echo(served: Served, *arguments: str, token: str = "") -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "scripts.agents.echo", "--url", f"ws://{served.where}{AGENT_PATH}", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={"REPLYLEDGER_AGENT_TOKEN": token},
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def finished(served: Served, count: int = 1) -> list[tuple[str, str]]:
    await served.peers.until(lambda: len(served.peers.finished) == count)
    return list(served.peers.finished.values())


async def test_it_answers() -> None:
    async with serving() as served, echo(served, "--session", "demo", "--deltas") as agent:
        assert await agent.welcomed() == {"agent": "echo", "pid": agent.process.pid}
        served.turn("ann", "hello")
        assert await finished(served) == [("completed", "echo: text of hello")]
        assert served.peers.commands(Bind) == [Bind(session="demo", who="echo", only_if_unbound=True)]


@pytest.mark.parametrize(
    ("arguments", "ended"),
    [
        (("--fail",), ("failed", "echo: text of hello")),
        (("--degrade",), ("degraded", "echo: text of hello")),
        (("--delay-ms", "20"), ("completed", "echo: text of hello")),
        (("--bytes", "100"), ("completed", lengthened("echo: text of hello", 100))),
    ],
)
async def test_knobs(arguments: tuple[str, ...], ended: tuple[str, str]) -> None:
    async with serving() as served, echo(served, *arguments) as agent:
        await agent.welcomed()
        served.turn("ann", "hello")
        assert await finished(served) == [ended]


async def test_it_dies_in_the_turn_and_the_next_one_answers() -> None:
    async with serving() as served:
        async with echo(served, "--die") as first:
            await first.welcomed()
            served.turn("ann", "hello")
            assert await first.ended() == DIED
            await served.agents(0)
        async with echo(served):
            assert await finished(served) == [("completed", "echo: text of hello")]


async def test_term_says_goodbye() -> None:
    async with serving() as served, echo(served, "--name", "first", "--delay-ms", "60000") as first:
        await first.welcomed()
        served.turn("ann", "hello")
        await served.peers.until(lambda: served.peers.turns["peer-ann"].agent == "first")
        async with echo(served, "--name", "second") as second:
            await second.welcomed()
            first.process.send_signal(signal.SIGTERM)
            assert await first.ended() == 0
            assert await finished(served) == [("completed", "echo: text of hello")]


async def test_it_sends_again_what_has_no_receipt() -> None:
    """Its connection is cut between the turn and the answer; after the reconnect the answer arrives, once."""
    async with serving() as served, echo(served, "--delay-ms", "50") as agent:
        await agent.welcomed()
        served.turn("ann", "hello")
        await served.peers.until(lambda: served.peers.turns["peer-ann"].agent == "echo")
        for connection in served.listener.connections:
            connection.transport.abort()
        await agent.welcomed()
        assert await finished(served) == [("completed", "echo: text of hello")]


async def test_it_sends_again_what_a_busy_gateway_refused() -> None:
    from store.errors import LogBusy

    async with serving() as served, echo(served, "--delay-ms", "50") as agent:
        await agent.welcomed()
        served.turn("ann", "hello")
        await served.peers.until(lambda: served.peers.turns["peer-ann"].agent == "echo")
        served.peers.failures = [LogBusy(), LogBusy()]  # for `completed`, and for its first repetition
        assert await finished(served) == [("completed", "echo: text of hello")]


async def test_an_agent_that_is_replaced_by_one_of_its_name_ends_and_does_not_replace_it_in_turn() -> None:
    async with serving() as served, echo(served) as first:
        await first.welcomed()
        async with echo(served) as second:
            await second.welcomed()
            assert await first.ended() == REPLACED_STATUS
            served.turn("ann", "hello")
            assert await finished(served) == [("completed", "echo: text of hello")]


async def test_tokens() -> None:
    async with serving(token="right") as served:
        async with echo(served, token="wrong") as agent:
            assert await agent.ended() == REFUSED
        async with echo(served, token="right") as agent:
            assert (await agent.welcomed())["agent"] == "echo"


def test_lengthened() -> None:
    assert lengthened("echo: x", 0) == "echo: x"
    assert lengthened("é", 9) == "é\n2. é\n3. é"
    assert len(lengthened("echo: x", 50_000).encode()) >= 50_000
