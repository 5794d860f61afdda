"""Many agents on one gateway: turns a second that are accepted, durable and acknowledged, over as many WebSockets as there are agents.

Each agent completes a turn of its own for a peer of its own, waits for the receipt, and completes the next. The gateway also sends what
it accepts to the simulator meanwhile. The anchor (`bare.py`, a process as well) is a bare `websockets` server that appends the rows of
such a turn to a log of ours and acknowledges: no peers, no decisions, no sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import aiohttp
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from actors.runtime.clock import stopwatch_ns
from scripts.bench import logs
from scripts.bench.bench import Bench
from scripts.bench.figures import Figure, figure
from scripts.bench.stage import configure, gateway_running, line_of, phone_running
from scripts.bench.streams import TEXT
from scripts.bench.turns import Talk

ANSWER_S = 60


class Crowd:
    """Agents, each with a connection and a peer."""

    def __init__(self, connections: list[ClientConnection], users: list[str]) -> None:
        self._pairs = list(zip(connections, users, strict=True))
        self._numbers = count(1)

    async def complete(self, turns: int) -> float:
        """Every agent completes so many turns, one after the other; turns a second."""
        started = stopwatch_ns()
        async with asyncio.TaskGroup() as group:
            for connection, user in self._pairs:
                group.create_task(self._complete(connection, user, turns))
        return turns * len(self._pairs) / (stopwatch_ns() - started) * 1e9

    async def _complete(self, connection: ClientConnection, user: str, turns: int) -> None:
        for _ in range(turns):
            number = next(self._numbers)
            turn_id = f"agent-turn-{number}"
            await _say(
                connection,
                type="completed",
                turn_id=turn_id,
                to=f"weixin:main:{user}",
                origin="desktop",
                text=f"turn {number}. {TEXT}",
            )
            async with asyncio.timeout(ANSWER_S):
                while not _acknowledged(await connection.recv(), turn_id):
                    continue


def _acknowledged(data: str | bytes, turn_id: str) -> bool:
    """Whether this is the receipt of a turn; receipts of earlier turns come between."""
    frame = msgspec.json.decode(data)
    if frame["type"] == "error":
        raise RuntimeError(f"the gateway of the benchmark refused: {frame}")
    return bool(frame["type"] == "receipt" and frame["turn_id"] == turn_id)


async def _say(connection: ClientConnection, **frame: Any) -> None:
    await connection.send(msgspec.json.encode(frame).decode())


@contextlib.asynccontextmanager
async def crowd(url: str, users: list[str]) -> AsyncIterator[Crowd]:
    """An agent for each user, welcomed."""
    async with contextlib.AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connect(url, proxy=None)) for _ in users]
        for number, connection in enumerate(connections):
            await _say(connection, type="hello", agent=f"agent-{number}", protocol=1, accounts=["nobody"])
            welcome = msgspec.json.decode(await connection.recv())
            assert welcome["type"] == "welcome", welcome
        yield Crowd(connections, users)


@contextlib.asynccontextmanager
async def bare_running(log: str) -> AsyncIterator[str]:
    """The anchor's process; its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripts.bench.bare", log, stdin=PIPE, stdout=PIPE
    )
    try:
        yield (await line_of(process)).decode().strip()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def run(bench: Bench) -> list[Figure]:
    """Both, in turn."""
    users = [f"peer{number:03}@im.wechat" for number in range(bench.sizes.agents)]
    beside = logs.build(bench.folder / "bare.db", (), bench.clock.now())
    async with contextlib.AsyncExitStack() as stack:
        phone = await stack.enter_async_context(phone_running())
        config = configure(bench.folder / "agents", phone.urls.base_url, users)
        gateway = await stack.enter_async_context(gateway_running(config))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        listening = asyncio.create_task(_listen(phone))
        stack.callback(listening.cancel)
        await Talk(session, gateway.http, phone, users).meet()
        bare = await stack.enter_async_context(bare_running(str(beside)))
        ours = await stack.enter_async_context(crowd(f"{gateway.agents}/agent/v1", users))
        theirs = await stack.enter_async_context(crowd(bare, users))
        measured, anchor = [], []
        for _ in range(bench.sizes.rounds):
            measured.append(await ours.complete(bench.sizes.agent_turns))
            anchor.append(await theirs.complete(bench.sizes.agent_turns))
    note = "turns accepted and acknowledged / a bare server that appends the same rows and acknowledges"
    return [figure(f"agents/fan-in-{len(users)}", "per_s", measured, anchor, note=note)]


async def _listen(phone: Any) -> None:
    """What arrives is not looked at, but the simulator must not wait for a full pipe."""
    while True:
        await phone.arrival()
