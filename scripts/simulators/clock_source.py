"""One clock for several processes: a loopback HTTP server that simulated days are told by.

    GET  /now                              the reading: {"now", "monotonic", "version", "frozen"}, milliseconds
    POST /advance {"ms": n}                jump forward
    POST /set {"now": n}                   jump to an instant; 409 when it lies in the past
    POST /freeze · POST /thaw              let only jumps move it · let time pass by itself again
    GET  /changed?since=V&timeout_ms=T     answers once `version` differs from V, at the latest after T

As a process: `python -m scripts.simulators.clock_source --port P [--now MS] [--frozen]`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from aiohttp import web

from scripts.simulators.clock import Clock, Reading, SystemClock
from scripts.simulators.errors import ClockWentBackError
from scripts.simulators.loopback import bind_loopback, url_of
from scripts.simulators.pulse import Pulse

HOLD_MS_MAX = 60_000
"""The longest a `/changed` request is held."""


class Advance(msgspec.Struct, frozen=True):
    """Body of `/advance`."""

    ms: int


class Instant(msgspec.Struct, frozen=True):
    """Body of `/set`."""

    now: int


class ClockSource:
    """A clock that can be moved: `passing` says how time goes by between the jumps."""

    def __init__(self, passing: Clock, *, now: int | None = None, frozen: bool = False) -> None:
        self._passing = passing
        self._now = passing.now() if now is None else now
        self._monotonic = 0
        self._taken_at = passing.monotonic()
        self._frozen = frozen
        self._version = 0
        self.changed = Pulse()

    def reading(self) -> Reading:
        """Return what the clock says now."""
        taken_at = self._passing.monotonic()
        passed_ms = 0 if self._frozen else taken_at - self._taken_at
        self._taken_at = taken_at
        self._now += passed_ms
        self._monotonic += passed_ms
        return Reading(now=self._now, monotonic=self._monotonic, version=self._version, frozen=self._frozen)

    def advance(self, ms: int) -> Reading:
        """Jump `ms` forward; `ClockWentBackError` when it is negative."""
        self.reading()
        if ms < 0:
            raise ClockWentBackError
        self._now += ms
        self._monotonic += ms
        return self._change()

    def set(self, now: int) -> Reading:
        """Jump to `now`; `ClockWentBackError` when that lies in the past."""
        return self.advance(now - self.reading().now)

    def freeze(self, frozen: bool) -> Reading:
        """Let only jumps move the clock, or let time pass again."""
        self.reading()
        self._frozen = frozen
        return self._change()

    async def changed_since(self, version: int, timeout_ms: int) -> Reading:
        """Return the reading once its version differs from `version`, or after `timeout_ms`."""
        await self.changed.until(lambda: self._version != version, timeout_ms)
        return self.reading()

    async def close(self, _app: web.Application) -> None:
        """Answer what is held: the server of this source stops."""
        self.changed.close()

    def _change(self) -> Reading:
        self._version += 1
        self.changed.beat()
        return self.reading()


def _answer(reading: Reading) -> web.Response:
    return web.Response(body=msgspec.json.encode(reading), content_type="application/json")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ClockWentBackError as error:
        return web.json_response({"error": str(error)}, status=409)
    except (msgspec.MsgspecError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)


def clock_app(source: ClockSource) -> web.Application:
    """Return the HTTP application that lets others read and move `source`."""

    async def now(_request: web.Request) -> web.Response:
        return _answer(source.reading())

    async def advance(request: web.Request) -> web.Response:
        return _answer(source.advance(msgspec.json.decode(await request.read(), type=Advance).ms))

    async def set_to(request: web.Request) -> web.Response:
        return _answer(source.set(msgspec.json.decode(await request.read(), type=Instant).now))

    async def freeze(_request: web.Request) -> web.Response:
        return _answer(source.freeze(True))

    async def thaw(_request: web.Request) -> web.Response:
        return _answer(source.freeze(False))

    async def changed(request: web.Request) -> web.Response:
        timeout_ms = min(int(request.query.get("timeout_ms", HOLD_MS_MAX)), HOLD_MS_MAX)
        return _answer(await source.changed_since(int(request.query.get("since", -1)), timeout_ms))

    app = web.Application(middlewares=[_refusals])
    app.add_routes([web.get("/now", now), web.get("/changed", changed), web.post("/advance", advance)])
    app.add_routes([web.post("/set", set_to), web.post("/freeze", freeze), web.post("/thaw", thaw)])
    return app


@contextlib.asynccontextmanager
async def running(source: ClockSource, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve `source` and give its base URL; `NotLoopbackError` for any host but loopback."""
    sock = bind_loopback(host, port)
    app = clock_app(source)
    app.on_shutdown.append(source.close)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        yield url_of(sock)
    finally:
        await runner.cleanup()


async def stopped() -> None:
    """Return when this process is asked to end (TERM or INT)."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()


async def _main(options: argparse.Namespace) -> None:
    source = ClockSource(SystemClock(), now=options.now, frozen=options.frozen)
    async with running(source, host=options.host, port=options.port) as base_url:
        sys.stdout.buffer.write(msgspec.json.encode({"base_url": base_url, "pid": os.getpid()}) + b"\n")
        sys.stdout.flush()
        await stopped()


def main() -> None:
    """Run the clock source until it is asked to end."""
    parser = argparse.ArgumentParser(prog="clock_source", description="One clock for several processes.")
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port, 0 for any free one")
    parser.add_argument("--now", type=int, help="where the clock starts, milliseconds since the epoch")
    parser.add_argument("--frozen", action="store_true", help="only jumps move the clock")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
