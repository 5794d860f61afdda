"""A hub on the running loop, between peers that are written by hand and a listener on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from actors.account import Offer
from actors.agents.hub import AgentHub
from actors.gateway.agent_link import AgentLimits
from actors.gateway.agents import AgentListener, Conversation
from actors.gateway.listen import Listen
from actors.runtime.scheduler import LoopScheduler
from events.peer_state import Message, OpenTurn
from tests.agents.world import NOW, FakeDesk, FakePeers

WAIT_S = 10


class LoopPeers(FakePeers):
    """The same peers, awaited."""

    def __init__(self, scheduler: LoopScheduler) -> None:
        super().__init__(scheduler)  # type: ignore[arg-type] # a scheduler is a scheduler
        self.moved = asyncio.Condition()
        self._told: set[asyncio.Task[None]] = set()

    def _serve(self, key: str) -> None:
        super()._serve(key)
        task = asyncio.ensure_future(self._tell())
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def _tell(self) -> None:
        async with self.moved:
            self.moved.notify_all()

    async def until(self, condition: Any) -> None:
        """Wait until something is true of the peers."""
        async with asyncio.timeout(WAIT_S), self.moved:
            await self.moved.wait_for(condition)


class Served:
    """A running listener, and what is behind it."""

    def __init__(self, where: Listen, listener: AgentListener, hub: AgentHub, peers: LoopPeers, desk: FakeDesk) -> None:
        self.where, self.listener, self.hub, self.peers, self.desk = where, listener, hub, peers, desk
        self.url = f"ws://{where}/agent/v1"
        self.changed = asyncio.Event()

    def turn(self, peer: str = "ann", text: str = "") -> str:
        turn_id = f"t-{peer}-{text or 1}"
        message = Message(message=text or f"m-{peer}", body="b", at=NOW, sent_at=NOW - 5)
        turn = OpenTurn(turn_id=turn_id, message=message, session="", started_at=NOW)
        self.peers.turns[f"peer-{peer}"] = turn
        self.hub.offer(Offer(stream=f"peer-{peer}", address=f"weixin:main:{peer}", turn=turn))
        return turn_id

    async def agents(self, count: int) -> None:
        """Wait until so many agents are connected."""
        async with asyncio.timeout(WAIT_S):
            while self.hub.agents != count:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def serving(
    token: str | None = None,
    limits: AgentLimits | None = None,
    others: dict[str, Conversation] | None = None,
) -> AsyncIterator[Served]:
    scheduler = LoopScheduler()
    peers = LoopPeers(scheduler)
    desk = FakeDesk(peers)
    hub = AgentHub(scheduler, peers, desk)
    listener = AgentListener(
        hub, Listen("127.0.0.1", 0), token=token, clock=scheduler.clock, limits=limits, others=others
    )
    served = Served(await listener.start(), listener, hub, peers, desk)
    hub.on_change = served.changed.set
    try:
        yield served
    finally:
        hub.close()
        await listener.close()
        scheduler.close()


class Client:
    """An agent that is written by hand."""

    def __init__(self, ws: ClientConnection) -> None:
        self.ws = ws

    async def say(self, kind: str, **fields: Any) -> None:
        await self.ws.send(json.dumps({"type": kind, **fields}))

    async def hear(self) -> Any:
        async with asyncio.timeout(WAIT_S):
            return json.loads(await self.ws.recv())

    async def ask(self, kind: str, **fields: Any) -> Any:
        await self.say(kind, **fields)
        return await self.hear()

    async def closed(self) -> tuple[int | None, str | None]:
        """Wait for the end; its code and reason. What comes before is passed over."""
        async with asyncio.timeout(WAIT_S):
            async for _ in _whatever(self.ws):
                pass
        return self.ws.close_code, self.ws.close_reason


async def _whatever(ws: ClientConnection) -> AsyncIterator[Any]:
    from websockets.exceptions import ConnectionClosed

    try:
        async for data in ws:
            yield data
    except ConnectionClosed:
        return


@asynccontextmanager
async def client(url: str, **settings: Any) -> AsyncIterator[Client]:
    async with connect(url, proxy=None, **settings) as ws:
        yield Client(ws)


@asynccontextmanager
async def agent(served: Served, name: str = "a", **hello: Any) -> AsyncIterator[Client]:
    """A client that has said hello and was welcomed."""
    async with client(served.url) as one:
        assert (await one.ask("hello", agent=name, protocol=1, **hello))["type"] == "welcome"
        yield one
