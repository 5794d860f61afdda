"""The connections of the HTTP listener: their limits, and the form of an answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
from aiohttp import web

from actors.gateway.errors import BadRequest, Broken, GatewayError, Stopping
from actors.text.clean import clean

log = logging.getLogger(__name__)

JSON = "application/json"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the listener takes, and beyond which it refuses."""

    connections: int = 256  # more: 503, closed
    requests: int = 128  # under way at once; more: 429
    waits: int = 64  # requests that wait for a delivery at once; more: 429
    body_ms: int = 15_000  # for a whole body; slower: 408
    send_ms: int = 30_000  # for an answer that the client does not read; longer: dropped
    linger_ms: int = 2_000  # for the rest of a body that was refused; longer: closed
    idle_ms: int = 30_000  # without a request, or within its head; longer: closed
    close_ms: int = 10_000  # for what is under way when the listener closes
    line_bytes: int = 8_190  # request line; longer: 400
    field_bytes: int = 8_190  # one header; longer: 400
    headers: int = 64  # more: 400


def json_response(value: object, status: int) -> web.Response:
    """An answer in JSON."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type=JSON)


def refusal_body(refusal: GatewayError) -> dict[str, Any]:
    """The body of a refusal."""
    error: dict[str, Any] = {"code": refusal.code, "message": clean(refusal.message)}
    if refusal.path:
        error["path"] = clean(refusal.path)
    if refusal.near:
        error["near"] = [clean(n) for n in refusal.near]
    error |= refusal.facts
    return {"error": error}


def refusal_response(refusal: GatewayError) -> web.Response:
    """The answer of a refusal. Those that a moment can cure say so."""
    response = json_response(refusal_body(refusal), refusal.status)
    if refusal.status in (429, 503):
        response.headers["Retry-After"] = "1"
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.status in (408, 413):
        response.force_close()
    return response


class Connection(web.RequestHandler):
    """One connection. What the HTTP parser refuses gets the same kind of body as everything else."""

    __slots__ = ("_send_ms",)

    def __init__(self, server: CountingServer, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._send_ms = server.send_ms

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer. A client that does not read it would keep its connection for ever, and is dropped."""
        try:
            async with asyncio.timeout(self._send_ms / 1000):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            return resp, True

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 (the signature is aiohttp's)
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (the signature is aiohttp's)
    ) -> web.StreamResponse:
        """The answer to what is not HTTP, or breaks the limits of its head."""
        if status >= 500:
            log.error("an HTTP connection failed", exc_info=exc)
            return refusal_response(Broken())
        response = refusal_response(BadRequest("this is not HTTP, or its head is too large"))
        response.force_close()
        return response


class CountingServer(web.Server):
    """The connections of the listener, counted."""

    def __init__(self, handler: Any, *, connections_max: int, send_ms: int, **settings: Any) -> None:
        super().__init__(handler, **settings)
        self._connections_max = connections_max
        self.send_ms = send_ms
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        """A protocol for one more connection."""
        return Connection(self, loop=asyncio.get_running_loop(), **self._settings)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take the connection, or say that there are too many, and close it."""
        super().connection_made(handler, transport)
        if len(self.connections) > self._connections_max:
            body = msgspec.json.encode(refusal_body(Stopping("too many connections; nothing was accepted")))
            head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n"
            transport.write(f"{head}Retry-After: 1\r\nConnection: close\r\n\r\n".encode() + body)
            transport.close()
