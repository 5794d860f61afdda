"""A small scripted server, a fence that can be lost, and what is around a link."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from actors.channels.weixin.link import Link
from actors.ports import LoginGone, Outcome, SendOrder
from actors.runtime.clock import ManualClock
from events.bot import Policy
from store.errors import Fenced

TOKEN = "a1b2c3d4e5f6@im.bot:0600secretsecretsecret"
PEER = "o9cq80AbC@im.wechat"


@dataclass
class Say:
    """What the server does with one request."""

    body: bytes | dict[str, Any] = b"{}"
    status: int = 200
    headers_after: asyncio.Event | None = None
    body_after: asyncio.Event | None = None
    location: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # the HTTP library adds a date of its own
    cut: bool = False  # read the request, then drop the connection

    @property
    def bytes(self) -> bytes:
        return json.dumps(self.body).encode() if isinstance(self.body, dict) else self.body


@dataclass
class Call:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    query: dict[str, str]


@dataclass
class Server:
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    script: dict[str, list[Say]] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def says(self, path: str, *answers: Say) -> None:
        """The next answers on a path; an exhausted script holds a poll for ever, and answers `{}` elsewhere."""
        self.script.setdefault(path, []).extend(answers)

    def to(self, path: str) -> list[Call]:
        return [c for c in self.calls if c.path == path]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(condition)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/ilink/bot/")
        raw = await request.read()
        self.calls.append(Call(path, dict(request.headers), json.loads(raw or b"{}"), dict(request.query)))
        async with self.changed:
            self.changed.notify_all()
        waiting = self.script.get(path)
        if not waiting and path == "getupdates":
            await self.over.wait()
        say = waiting.pop(0) if waiting else Say()
        return await self.answer(request, say)

    async def answer(self, request: web.Request, say: Say) -> web.StreamResponse:
        if say.headers_after:
            await self._or_over(say.headers_after)
        if say.cut:
            assert request.transport is not None
            request.transport.abort()
        headers = say.headers | ({"Location": say.location} if say.location else {})
        response = web.StreamResponse(status=say.status, headers=headers)
        response.content_length = len(say.bytes)
        await response.prepare(request)
        if say.body_after:
            await self._or_over(say.body_after)
        await response.write(say.bytes)
        await response.write_eof()
        return response

    async def _or_over(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


@dataclass
class FakeFence:
    """A fence that is ours until `lost`; `before` runs at each confirmation."""

    lost: bool = False
    confirmed: int = 0
    before: Callable[[], Awaitable[None]] | None = None

    async def confirm(self) -> None:
        self.confirmed += 1
        if self.before is not None:
            await self.before()
        if self.lost:
            raise Fenced


@dataclass
class Room:
    """Everything around a link."""

    link: Link
    clock: ManualClock
    fence: FakeFence
    reports: list[tuple[str, str, Outcome]]
    lost: list[LoginGone]
    fenced: list[bool]
    policy: Policy

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.002)

    async def outcome(self, order: SendOrder) -> Outcome:
        """Send an order and wait for its first report."""
        seen = len(self.reports)
        self.link.outlet.send(order)
        await self.until(lambda: len(self.reports) > seen)
        assert self.reports[seen][:2] == (order.stream, order.request)
        return self.reports[seen][2]


Opened = Callable[..., Room]
