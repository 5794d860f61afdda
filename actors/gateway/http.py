"""The HTTP listener: authenticates, limits, decodes, asks the gateway, answers in JSON.

Every refusal has the body `{"error": {"code", "message", "path"?, "near"?}}`; `partly` has `turn_id` and `deliveries` as well.
Whatever is limited says so: see `Limits`.
A client that hangs up never cancels what it asked for: an append that has begun is finished.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from actors.gateway import routes
from actors.gateway.api import Gateway
from actors.gateway.callers import is_local_program, is_token
from actors.gateway.connections import JSON, CountingServer, Limits, json_response, refusal_response
from actors.gateway.errors import (
    OF_LOG,
    BadRequest,
    Broken,
    GatewayError,
    InsecureListener,
    Stopping,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthorized,
    WrongMethod,
    of_log,
)
from actors.gateway.listen import Listen, is_loopback
from actors.text.clean import clean
from store.errors import LogUnusable

log = logging.getLogger(__name__)


class HttpListener:
    """Listens from `start` to `close`. Without a token it listens on loopback only, and answers only what is addressed to it."""

    def __init__(
        self,
        gateway: Gateway,
        listen: Listen,
        *,
        token: str | None,
        registry: CollectorRegistry,
        limits: Limits | None = None,
    ) -> None:
        if token is None and not is_loopback(listen.host):
            raise InsecureListener(listen.host)
        self._gateway, self._listen, self._token, self._registry = gateway, listen, token, registry
        self._limits = limits or Limits()
        self._requests = self._waits = 0
        self._closing = False
        self._runner: web.ServerRunner | None = None
        self._answered = Counter(
            "replyledger_http_requests", "Answered HTTP requests.", ("endpoint", "status"), registry=registry
        )
        self._under_way = Gauge("replyledger_http_under_way", "HTTP requests under way.", registry=registry)

    async def start(self) -> Listen:
        """Listen; return where (the port that port 0 became). Raises OSError when the port is in use."""
        limits = self._limits
        server = CountingServer(
            self._handle,
            connections_max=limits.connections,
            send_ms=limits.send_ms,
            access_log=None,
            keepalive_timeout=limits.idle_ms / 1000,
            lingering_time=limits.linger_ms / 1000,
            max_line_size=limits.line_bytes,
            max_field_size=limits.field_bytes,
            max_headers=limits.headers,
            auto_decompress=False,
        )
        runner = web.ServerRunner(server, shutdown_timeout=limits.close_ms / 1000)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._listen.host, self._listen.port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        return Listen(self._listen.host, int(runner.addresses[0][1]))

    async def close(self) -> None:
        """Refuse what is new, finish (bounded) what is under way, let go of the port."""
        self._closing = True
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        endpoint = _label(request)
        self._requests += 1
        self._under_way.set(self._requests)
        try:
            response = await self._answer(request)
        except GatewayError as refusal:
            response = refusal_response(refusal)
        except OF_LOG as error:
            level = logging.DEBUG if isinstance(error, LogUnusable) else logging.WARNING  # the process tells of that
            log.log(level, "the HTTP endpoint %s was refused by the log: %s", endpoint, error)
            response = refusal_response(of_log(error))
        except Exception:
            log.exception("the HTTP endpoint %s failed", endpoint)
            response = refusal_response(Broken())
        finally:
            self._requests -= 1
            self._under_way.set(self._requests)
        if self._closing:
            response.force_close()
        self._answered.labels(endpoint, str(response.status)).inc()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path in routes.OPEN_PATHS and is_loopback(_peer_host(request)) and _is_local_program(request):
            return await self._open(request)
        self._authenticate(request)
        if request.path in routes.OPEN_PATHS:
            return await self._open(request)
        if request.path == "/metrics":
            return self._metrics(request)
        if self._closing:
            raise Stopping
        if self._requests > self._limits.requests:
            raise TooMany
        return await self._route(request)

    async def _open(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        if request.path == "/health":
            health = await self._gateway.health()
            return json_response(health, 200 if health.ok else 503)
        ready = await self._gateway.ready()
        return json_response(ready, 200 if ready.ready else 503)

    def _metrics(self, request: web.BaseRequest) -> web.Response:
        _only_get(request)
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=generate_latest(self._registry), headers=headers)

    async def _route(self, request: web.BaseRequest) -> web.Response:
        route, tail = routes.find(request.method, request.rel_url.raw_path)
        call = routes.Call(
            tail=routes.tail_of(tail),
            query=_query_of(request),
            body=await self._body(request, route.body_bytes_max),
            gone=lambda: self._closing or request.transport is None or request.transport.is_closing(),
        )
        if not route.waits:
            return json_response(await route.handler(self._gateway, call), route.status)
        if self._waits >= self._limits.waits:
            raise TooMany("too many requests wait already; ask again without `wait`, or in a moment")
        self._waits += 1
        try:
            return json_response(await route.handler(self._gateway, call), route.status)
        finally:
            self._waits -= 1

    def _authenticate(self, request: web.BaseRequest) -> None:
        """With a token: ask for it. Without: only programs of this machine."""
        if self._token is not None:
            scheme, _, given = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not is_token(given.strip(), self._token):
                raise Unauthorized
        elif not _is_local_program(request):
            raise Unauthorized("without a token this listener answers programs on this machine only, and no web pages")

    async def _body(self, request: web.BaseRequest, most: int) -> bytes:
        if most == 0:
            return b""
        if request.content_type != JSON:
            raise BadRequest(f"send the body as Content-Type: {JSON}")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadRequest("send the body uncompressed")
        if (request.content_length or 0) > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(self._limits.body_ms / 1000):
                return await _read(request, most)
        except TimeoutError:
            raise TooSlow from None


async def _read(request: web.BaseRequest, most: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > most:
                raise _too_large(most)
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest(f"the body did not arrive whole: {error}") from None
    return bytes(body)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than the {most} bytes that this endpoint takes")


def _query_of(request: web.BaseRequest) -> dict[str, str]:
    query: dict[str, str] = {}
    for key, value in request.query.items():
        if key in query:
            raise BadRequest(f"the parameter {key[:80]!r} is given twice", path=f"$.{clean(key[:80])}")
        query[key] = value
    return query


def _only_get(request: web.BaseRequest) -> None:
    if request.method != "GET":
        raise WrongMethod(f"{request.path} takes GET")


def _label(request: web.BaseRequest) -> str:
    """The endpoint's pattern: never the path itself, whose addresses would make a time series each."""
    if request.path in (*routes.OPEN_PATHS, "/metrics"):
        return request.path
    try:
        return routes.find(request.method, request.rel_url.raw_path)[0].path
    except GatewayError:
        return "other"


def _peer_host(request: web.BaseRequest) -> str | None:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return peer[0] if isinstance(peer, tuple) else None


def _is_local_program(request: web.BaseRequest) -> bool:
    return is_local_program(lambda name: request.headers.getall(name, []))
