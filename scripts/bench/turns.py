"""From `POST /v1/turns` to the moment at which the simulator has the message, one turn at a time.

Gateway, simulator and client are three processes. The anchor is one durable append of what such a turn writes (by the store, alone,
on a log beside the gateway's) plus one POST of the same body to a bare aiohttp server in the simulator's process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from actors.runtime.clock import stopwatch_ns
from scripts.bench import logs
from scripts.bench.bench import Bench
from scripts.bench.figures import Figure, Goal, figure
from scripts.bench.stage import Phone, configure, gateway_running, phone_running
from scripts.bench.streams import TEXT, PeerStream
from store.sqlite import SqliteLog

WARM_UP = 20


class Talk:
    """A client's view of the stage."""

    def __init__(self, session: aiohttp.ClientSession, url: str, phone: Phone, users: list[str]) -> None:
        self.session, self.url, self.phone, self.users = session, url, phone, users
        self._turn = 0

    async def post(self, url: str, body: dict[str, Any], status: int = 200) -> Any:
        """Post JSON; the answer's JSON."""
        async with self.session.post(url, json=body) as answer:
            found = await answer.json()
            if answer.status != status:
                raise RuntimeError(f"{url} answered {answer.status}: {found}")
            return found

    async def meet(self) -> None:
        """Every user writes once, and the gateway has learnt of it."""
        control = f"{self.phone.urls.base_url}/control"
        for user in self.users:
            await self.post(f"{control}/users", {"user": user})
            await self.post(f"{control}/say", {"user": user, "text": "hello"})
        async with asyncio.timeout(60):
            while True:
                async with self.session.get(f"{self.url}/v1/peers") as answer:
                    peers = (await answer.json())["peers"]
                if sum(bool(peer["token"]) for peer in peers) >= len(self.users):
                    return
                await asyncio.sleep(0.05)

    def body(self) -> dict[str, Any]:
        """The next turn."""
        self._turn += 1
        user = self.users[self._turn % len(self.users)]
        text = f"turn {self._turn}. {TEXT}"
        turn_id = f"bench-{self._turn}"
        return {
            "to": f"weixin:main:{user}",
            "turn_id": turn_id,
            "origin": "scheduled",
            "status": "completed",
            "text": text,
        }

    async def turn(self) -> tuple[int, int]:
        """Post one turn; ns until the simulator had it, and until the client had its answer."""
        body = self.body()
        started = stopwatch_ns()
        await self.post(f"{self.url}/v1/turns", body, 202)
        answered = stopwatch_ns()
        arrived = await self.phone.arrival()
        assert arrived.turn == self._turn
        return arrived.at_ns - started, answered - started

    async def bare(self) -> int:
        """Post the same to the bare server; ns."""
        body = self.body()
        self._turn -= 1
        started = stopwatch_ns()
        await self.post(self.phone.urls.bare_url, body, 202)
        return stopwatch_ns() - started


async def run(bench: Bench) -> list[Figure]:
    """The stage, and everything on it."""
    users = [f"peer{number:02}@im.wechat" for number in range(bench.sizes.turn_peers)]
    async with phone_running() as phone:
        config = configure(bench.folder / "turns", phone.urls.base_url, users)
        log = await SqliteLog.open(_log_beside(bench))
        try:
            async with gateway_running(config) as gateway, aiohttp.ClientSession() as session:
                talk = Talk(session, gateway.http, phone, users)
                await talk.meet()
                return await _rounds(bench, talk, log)
        finally:
            await log.close()


def _log_beside(bench: Bench) -> Path:
    return logs.build(bench.folder / "beside.db", (), bench.clock.now())


async def _rounds(bench: Bench, talk: Talk, log: SqliteLog) -> list[Figure]:
    appends, posts, sent, answered = list[float](), list[float](), list[float](), list[float]()
    streams = [PeerStream(number) for number in range(len(talk.users))]
    for _ in range(WARM_UP):
        await talk.turn()
        await talk.bare()
    for _ in range(bench.sizes.rounds):
        took = [await _one(bench, talk, log, streams[n % len(streams)]) for n in range(bench.sizes.turns)]
        for values, column in zip((appends, posts, sent, answered), zip(*took, strict=True), strict=True):
            values.append(median(column) / 1e3)
    floor = [append + post for append, post in zip(appends, posts, strict=True)]
    return [
        figure("turns/to-simulator", "us", sent, floor, goal=Goal(2, at_least=False), note="p50 / append + POST"),
        figure("turns/to-answer", "us", answered, floor, note="p50 until the client has its 202"),
        figure("turns/append", "us", appends, note="p50 of the anchor's append"),
        figure("turns/post", "us", posts, note="p50 of the anchor's POST"),
    ]


async def _one(bench: Bench, talk: Talk, log: SqliteLog, stream: PeerStream) -> tuple[int, int, int, int]:
    """One append, one bare POST, one turn: ns of each, and of the turn's answer."""
    batch = stream.push(bench.clock.now())
    started = stopwatch_ns()
    await log.append(batch)
    append = stopwatch_ns() - started
    post = await talk.bare()
    return append, post, *await talk.turn()
