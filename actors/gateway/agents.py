"""The agents' listener: `WS /agent/v1` and `GET /health`. Authenticates, limits, decodes, hands frames to the hub.

A token comes as `Authorization: Bearer`, as `?token=`, or in the first frame (OpenAB gateway protocol notes 1.1). Whatever is
limited says so: see `AgentLimits`. A malformed frame is answered with an error, and the connection stays.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import unquote

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from actors.agents.hub import AgentHub
from actors.agents.seats import Seat
from actors.gateway.agent_link import AgentLimits, AgentLink
from actors.gateway.agent_wire import Error, Hello, encode, read_frame, token_in
from actors.gateway.api import Gateway, TurnOffer
from actors.gateway.callers import is_local_program, is_token
from actors.gateway.errors import InsecureListener
from actors.gateway.listen import Listen, is_loopback
from actors.runtime.clock import Clock
from actors.runtime.futures import FutureLike

AGENT_PATH = "/agent/v1"
HEALTH_PATH = "/health"

UNAUTHORIZED = 4401
"""Close code: no token, or a wrong one, in the first frame."""

TOO_LATE = 4408
"""Close code: the first frame, or the hello, did not come in time."""

TOO_MANY = 1013
"""Close code: too many connections."""

STOPPING = 1001
"""Close code: the gateway stops."""

Conversation = Callable[[ServerConnection], Awaitable[None]]
"""What a path does with an authenticated connection; it is closed when this returns."""


class GatewayDesk:
    """The gateway as futures, for the hub (`actors.agents.answers.TurnDesk`)."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._tasks: set[asyncio.Task[Any]] = set()

    def accept(self, offer: TurnOffer, agent: str) -> FutureLike:
        """The future of a TurnAccepted."""
        return self._begin(self._gateway.accept_turn(offer, agent))

    def delivery(self, delivery: str) -> FutureLike:
        """The future of a Receipt."""
        return self._begin(self._gateway.delivery(delivery))

    def _begin(self, question: Coroutine[Any, Any, Any]) -> FutureLike:
        task = asyncio.get_running_loop().create_task(question)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class AgentListener:
    """Listens from `start` to `close`. Without a token it listens on loopback only, and to no web page.
    `others` are conversations on further paths, behind the same authentication and the same limits."""

    def __init__(
        self,
        hub: AgentHub,
        listen: Listen,
        *,
        token: str | None,
        clock: Clock,
        limits: AgentLimits | None = None,
        others: Mapping[str, Conversation] | None = None,
    ) -> None:
        if token is None and not is_loopback(listen.host):
            raise InsecureListener(listen.host)
        self._hub, self._listen, self._token, self._clock = hub, listen, token, clock
        self._limits = limits or AgentLimits()
        self._conversations: dict[str, Conversation] = {**(others or {}), AGENT_PATH: self._converse}
        self._connections: set[ServerConnection] = set()
        self._sockets: set[ServerConnection] = set()
        self._server: Server | None = None

    @property
    def connections(self) -> tuple[ServerConnection, ...]:
        """The connections that have come in."""
        return tuple(self._connections)

    @property
    def sockets(self) -> int:
        """How many sockets are open, also those that have not said who they are."""
        return len(self._sockets)

    async def start(self) -> Listen:
        """Listen; return where (the port that port 0 became). Raises OSError when the port is in use."""
        limits, ping_s = self._limits, self._limits.ping_ms / 1000
        logger = logging.getLogger("replyledger.websockets")
        logger.setLevel(max(logging.INFO, logging.getLogger().level))  # below that the library writes tokens and texts
        self._server = await serve(
            self._handle,
            self._listen.host,
            self._listen.port,
            process_request=self._admit,
            create_connection=self._counted(),
            server_header=None,
            compression=None,
            open_timeout=limits.first_frame_ms / 1000,
            ping_interval=ping_s,
            ping_timeout=ping_s,
            close_timeout=limits.close_ms / 1000,
            max_size=limits.frame_bytes,
            logger=logger,
        )
        return Listen(self._listen.host, int(self._server.sockets[0].getsockname()[1]))

    async def close(self) -> None:
        """Close every connection, let go of the port."""
        server, self._server = self._server, None
        if server is not None:
            server.close(code=STOPPING, reason="the gateway stops")
            await server.wait_closed()

    # --- who may come in ------------------------------------------------------------------------------------------

    def _counted(self) -> type[ServerConnection]:
        """A connection that is dropped at once where there are too many: each takes a file handle, which the log needs, too."""
        sockets, most = self._sockets, self._limits.sockets

        class Counted(ServerConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                sockets.add(self)
                if len(sockets) > most:
                    self.transport.abort()

            def connection_lost(self, exc: Exception | None) -> None:
                sockets.discard(self)
                super().connection_lost(exc)

        return Counted

    def _admit(self, ws: ServerConnection, request: Request) -> Response | None:
        """Refuse in HTTP what can be refused before the connection opens."""
        path = request.path.partition("?")[0]
        if path == HEALTH_PATH:
            return ws.respond(http.HTTPStatus.OK, "ok")
        if path not in self._conversations:
            return ws.respond(http.HTTPStatus.NOT_FOUND, f"agents connect to {AGENT_PATH}\n")
        if self._proven(request) is False:
            return ws.respond(http.HTTPStatus.UNAUTHORIZED, self._unauthorized())
        if len(self._connections) >= self._limits.connections:
            return ws.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many agents are connected\n")
        return None

    def _proven(self, request: Request) -> bool | None:
        """Whether the request proves itself; None = it may do so in its first frame."""
        if self._token is None:
            return is_local_program(request.headers.get_all)
        given = _tokens(request)
        return any(self._matches(one) for one in given) if given else None

    def _matches(self, given: str) -> bool:
        return self._token is not None and is_token(given, self._token)

    def _unauthorized(self) -> str:
        if self._token is None:
            return "without a token this listener answers programs on this machine only, and no web pages\n"
        return "the token is wrong\n"

    async def _handle(self, ws: ServerConnection) -> None:
        if len(self._connections) >= self._limits.connections:  # several may have been admitted at once
            await ws.close(TOO_MANY, "too many agents are connected")
            return
        self._connections.add(ws)
        try:
            assert ws.request is not None
            if self._proven(ws.request) or await self._first_frame(ws):
                await self._conversations[ws.request.path.partition("?")[0]](ws)
        except ConnectionClosed:
            pass  # however it ended, it has
        finally:
            self._connections.discard(ws)

    async def _first_frame(self, ws: ServerConnection) -> bool:
        """Whether the first frame brings the token; if not, the connection is closed."""
        try:
            async with asyncio.timeout(self._limits.first_frame_ms / 1000):
                data = await ws.recv()
        except TimeoutError:
            await ws.close(UNAUTHORIZED, "no token came in time")
            return False
        token = token_in(data)
        if token is not None and self._matches(token):
            return True
        wrong = "this listener asks for a token: Authorization: Bearer, ?token=, or in the first frame"
        await ws.send(encode(Error(code="unauthorized", message=wrong)))
        await ws.close(UNAUTHORIZED, "no token, or a wrong one")
        return False

    # --- agents ---------------------------------------------------------------------------------------------------

    async def _converse(self, ws: ServerConnection) -> None:
        """One agent's connection, from its hello to its end."""
        link = AgentLink(ws, self._limits)
        writer = asyncio.create_task(link.run())
        seat: Seat | None = None
        try:
            hello = await self._hello(ws, link)
            if hello is None:
                await writer
                return
            joined = seat = self._hub.join(link, hello)
            link.closing.add_done_callback(lambda _: self._hub.leave(joined))
            await self._read(ws, link, seat)
        finally:
            if seat is not None:
                self._hub.leave(seat)
            writer.cancel()
            await asyncio.wait({writer})

    async def _hello(self, ws: ServerConnection, link: AgentLink) -> Hello | None:
        """The agent's hello; None, and the link closes, if it does not come in time."""
        try:
            async with asyncio.timeout(self._limits.first_frame_ms / 1000):
                while True:
                    data = await ws.recv()
                    if token_in(data) is not None:
                        continue  # from agents that always send one
                    frame = read_frame(data)
                    if isinstance(frame, Hello):
                        return frame
                    first = Error(code="hello_first", message="say hello first", path="$.type")
                    link.send(frame if isinstance(frame, Error) else first)
        except TimeoutError:
            link.close(TOO_LATE, "no hello came in time")
            return None

    async def _read(self, ws: ServerConnection, link: AgentLink, seat: Seat) -> None:
        """Hand frames to the hub, boundedly: what is too much waits in the network."""
        pace = Pace(self._limits.frames_per_s, self._clock)
        under_way: deque[FutureLike] = deque()
        async for data in ws:
            await pace.wait()
            frame = read_frame(data)
            if isinstance(frame, Error):
                link.send(frame)
                continue
            under_way.append(self._hub.receive(seat, frame))
            while under_way and (under_way[0].done() or len(under_way) >= self._limits.under_way):
                await asyncio.shield(under_way.popleft())


class Pace:
    """At most so many steps a second."""

    def __init__(self, steps_per_s: int, clock: Clock) -> None:
        self._steps_per_s, self._clock = steps_per_s, clock
        self._since = clock.monotonic()
        self._steps = 0

    async def wait(self) -> None:
        """Take a step, in the next second if this one has had all of its."""
        passed_ms = self._clock.monotonic() - self._since
        if self._steps >= self._steps_per_s and passed_ms < 1_000:
            await asyncio.sleep((1_000 - passed_ms) / 1000)
            passed_ms = 1_000
        if passed_ms >= 1_000:
            self._since, self._steps = self._clock.monotonic(), 0
        self._steps += 1


def _tokens(request: Request) -> list[str]:
    """The tokens that a request may mean. OpenAB cores do not percent-encode `?token=`; others do."""
    given = []
    for header in request.headers.get_all("Authorization"):
        scheme, _, token = header.partition(" ")
        given.append(token.strip() if scheme.lower() == "bearer" else "")
    parts = request.path.partition("?")[2].split("&")
    for at, part in enumerate(parts):
        name, _, value = part.partition("=")
        if name == "token":
            given += [value, unquote(value), "&".join([value, *parts[at + 1 :]])]
    return given
