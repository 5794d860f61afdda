"""One HTTP call to the iLink API, with a hook at the last moment before its bytes leave.

Each call has a connection of its own: on one that was kept, a send could meet a server that has just closed it, and nobody could say
whether it had arrived. Redirects are not followed, nothing is repeated, and a body is read up to `BODY_BYTES_MAX`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from actors.channels.ahead import Ahead, dated_ms
from actors.channels.errors import BodyTooLarge
from actors.channels.weixin import shapes
from actors.channels.weixin.shapes import BaseInfo
from actors.runtime.clock import Clock, Ids
from events.base import Millis

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

BODY_BYTES_MAX = 8 * 1024 * 1024
"""A longer answer is refused."""

CONNECTIONS_MAX = 256
"""Calls of one account at the same time; further ones wait for a connection."""

CONNECT_MS = 10_000
"""A server that takes longer to accept a connection counts as out of reach."""

API = "/ilink/bot/"
NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError, BodyTooLarge)
"""What a call raises when the network, or the clock, let it down."""

_gate: ContextVar[Gate | None] = ContextVar("gate", default=None)


def agent() -> str:
    """How this program calls itself to the server, which only counts it. Notes 1.1."""
    try:
        return f"Replyledger/{version('replyledger')}"
    except PackageNotFoundError:
        return "Replyledger"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    status: int
    body: bytes
    dated: Millis | None = None  # what time it was at the server (ms, its clock), None if nobody can tell


class Gate:
    """What a call must pass between its connection and its first byte. `passed`: from then on nobody can call it back."""

    __slots__ = ("_check", "passed")

    def __init__(self, check: Callable[[], Awaitable[None]] | None = None) -> None:
        self._check = check
        self.passed = False

    async def enter(self) -> None:
        """Let the bytes leave; whatever the check raises keeps them."""
        if self._check is not None:
            await self._check()
        self.passed = True


class _GatedConnector(aiohttp.TCPConnector):
    """A connector that asks the gate of the call once the connection stands."""

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 (the signature is aiohttp's)
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        gate = _gate.get()
        try:
            if gate is not None:
                await gate.enter()
        except BaseException:
            connection.close()
            raise
        return connection


class Calls:
    """The calls of one login; `token` "" calls without authorisation. `ahead` learns from every answer, if there is a `clock`."""

    def __init__(self, base_url: str, *, token: str, agent: str, ids: Ids, clock: Clock | None = None) -> None:
        self.info = BaseInfo(bot_agent=agent)
        self.ahead = Ahead()
        self._clock = clock
        self._base_url = base_url
        self._token = token
        self._ids = ids
        self._session = aiohttp.ClientSession(
            connector=_GatedConnector(force_close=True, limit=CONNECTIONS_MAX),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_MS / 1000),
        )

    async def post(self, path: str, body: bytes, *, timeout_ms: int, gate: Gate | None = None) -> Answer:
        """Call an endpoint. Raises one of NETWORK_ERRORS, or what the gate raised; `timeout_ms` covers all of it, body included."""
        headers = shapes.post_headers(self._token, self._ids.uint32())
        url = self._base_url + API + path
        return await self._call("POST", url, headers, timeout_ms=timeout_ms, body=body, gate=gate)

    async def get(self, base_url: str, path: str, query: dict[str, str], *, timeout_ms: int) -> Answer:
        """Ask an endpoint of a server that need not be this login's own. Raises one of NETWORK_ERRORS."""
        url = f"{base_url}{API}{path}"
        return await self._call("GET", url, shapes.get_headers(), timeout_ms=timeout_ms, query=query)

    async def close(self) -> None:
        """Let go of the network; calls in flight fail."""
        await self._session.close()

    async def _call(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        *,
        timeout_ms: int,
        body: bytes | None = None,
        query: dict[str, str] | None = None,
        gate: Gate | None = None,
    ) -> Answer:
        mark = _gate.set(gate)
        asked_at = self._clock.now() if self._clock else 0
        try:
            async with (
                asyncio.timeout(timeout_ms / 1000),
                self._session.request(
                    method, url, data=body, headers=headers, params=query, allow_redirects=False
                ) as response,
            ):
                dated = self._learn(response, asked_at)
                return Answer(status=response.status, body=await _read(response), dated=dated)
        finally:
            _gate.reset(mark)

    def _learn(self, response: aiohttp.ClientResponse, asked_at: Millis) -> Millis | None:
        """What time it is at the server. An error page may be another machine's, and an answer with an age is of an earlier time."""
        if self._clock is None or response.status != HTTPStatus.OK or "Age" in response.headers:
            return None
        dated = dated_ms(response.headers.get("Date", ""))
        if dated is not None:
            self.ahead.heard(dated, asked_at, self._clock.now())
        return dated


async def _read(response: aiohttp.ClientResponse) -> bytes:
    read = bytearray()
    async for chunk in response.content.iter_any():
        read += chunk
        if len(read) > BODY_BYTES_MAX:
            raise BodyTooLarge(f"the answer is longer than {BODY_BYTES_MAX} bytes")
    return bytes(read)
