"""The HTTP shell around the model: it reads bytes, holds, delays and cuts; everything it says comes from the model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from email.utils import formatdate
from typing import Any

from aiohttp import web

from scripts.simulators.clock import Clock, SystemClock
from scripts.simulators.errors import ControlRefusedError, LedgerFullError
from scripts.simulators.loopback import bind_loopback, url_of
from scripts.simulators.pulse import Pulse
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.codec import BODY_BYTES_MAX, Request
from scripts.simulators.weixin.control import Control, guard
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.polling import Said, user_says
from scripts.simulators.weixin.state import Answer, Hold, State

STOP_S = 10.0
"""How long a stopping server waits for requests it is answering; held ones are cut at once."""


class WeixinServer:
    """A model, a clock and a pulse that beats whenever the model changed."""

    def __init__(self, model: WeixinModel, clock: Clock) -> None:
        self.model, self.clock = model, clock
        self.changed = Pulse()
        self.base_url = ""
        clock.on_jump(lambda _now: self.changed.beat())

    @property
    def state(self) -> State:
        """What the server knows and has written down."""
        return self.model.state

    def say(self, text: str = "", **more: Any) -> Said:
        """Let a user write to a bot (`items`, `bot`, `user`, `extra` as in `user_says`)."""
        items = more.pop("items", [{"type": 1, "text_item": {"text": text}}])
        said = user_says(self.state, self.clock.now(), items=items, **more)
        self.changed.beat()
        return said

    async def until(self, condition: Callable[[State], bool], timeout_ms: int = 10_000) -> bool:
        """Return True as soon as `condition(state)` holds, False after `timeout_ms` of real time."""
        return await self.changed.until(lambda: condition(self.state), timeout_ms)

    def app(self) -> web.Application:
        """Return the HTTP application: the API, and the control API beside it."""
        app = web.Application(middlewares=[guard], client_max_size=BODY_BYTES_MAX)
        app.add_routes(Control(self.model, self.clock, self.changed).routes())
        app.router.add_route("*", "/{path:.*}", self._serve)
        app.on_response_prepare.append(self._date)
        app.on_shutdown.append(self._close)
        return app

    async def _close(self, _app: web.Application) -> None:
        self.changed.close()

    async def _date(self, request: web.Request, response: web.StreamResponse) -> None:
        """Say what time it is here, in place of the date of the machine, which the HTTP library gave."""
        board = self.state.board
        knob = board.look if request.path.startswith("/control/") else board.use
        del response.headers["Date"]
        if knob("date") == "now":
            at = self.clock.now() + knob("date_skew_ms")
            response.headers["Date"] = formatdate(at // 1_000, usegmt=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/control/"):
            raise ControlRefusedError(f"the control API knows no {request.method} {request.path}")
        read = Request(
            method=request.method,
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items()},
            query=dict(request.query),
            body=await request.read(),
        )
        try:
            answer = await self._wait_out(self.model.handle(read, self.clock.now()))
        except LedgerFullError as error:
            return web.json_response({"error": str(error)}, status=503)
        return await self._send(request, answer)

    async def _wait_out(self, result: Answer | Hold) -> Answer:
        """Hold the request until the model has an answer; one whose client went away is released."""
        self.changed.beat()
        while isinstance(result, Hold):
            hold = result
            try:
                await self._news_or(hold.until)
            except asyncio.CancelledError:
                self.model.release(hold)
                self.changed.beat()
                raise
            if self.changed.closed:
                return Answer(cut=True)
            result = self.model.resume(hold, self.clock.now())
            if isinstance(result, Answer):
                self.changed.beat()
        return result

    async def _news_or(self, at: int) -> None:
        news = self.changed.next()  # before anything is awaited, else a beat in between is lost
        time = asyncio.ensure_future(self.clock.reached(at))
        try:
            await asyncio.wait((news, time), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            time.cancel()

    async def _pause(self, ms: int) -> None:
        """Let `ms` pass on the simulator's clock, cut short when the server stops."""
        until = self.clock.now() + ms
        while self.clock.now() < until and not self.changed.closed:
            await self._news_or(until)

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        await self._pause(answer.headers_after_ms)
        if answer.cut:
            _cut(request)
            return web.Response()
        if not answer.body_after_ms:
            return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        response.content_length = len(answer.body)
        await response.prepare(request)
        await self._pause(answer.body_after_ms)
        await response.write(answer.body)
        return response


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


@contextlib.asynccontextmanager
async def running(
    model: WeixinModel, *, clock: Clock | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[WeixinServer]:
    """Serve `model` in this process: `async with running(model) as server: server.base_url`; loopback only."""
    server = WeixinServer(model, clock or SystemClock())
    sock = bind_loopback(host, port)
    runner = web.AppRunner(server.app(), handler_cancellation=True, shutdown_timeout=STOP_S, access_log=None)
    try:
        await runner.setup()
        await web.SockSite(runner, sock).start()
        server.base_url = server.state.base_url = url_of(sock)
        yield server
    finally:
        await runner.cleanup()
        sock.close()


async def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Clock | None = None,
    accounts: Sequence[Identity] = (),
    ready: Callable[[WeixinServer], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Serve a new model until cancelled (or until `stop` is set); `ready(server)` is called when it listens."""
    model = WeixinModel(accounts=list(accounts))
    async with running(model, clock=clock, host=host, port=port) as server:
        ready(server)
        await (stop or asyncio.Event()).wait()
