"""The Weixin simulator in a process of its own, which also prints when each send reached it; beside it a bare HTTP server.

`python -m scripts.bench.phone` prints one JSON line, {"base_url", "bare_url"}, then one for each send: {"turn", "at_ns"}, by the
machine's monotonic clock, which all processes share. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import re
import sys

import msgspec
from aiohttp import web

from actors.runtime.clock import stopwatch_ns
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.codec import Request
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.server import running
from scripts.simulators.weixin.state import Answer, Hold

LOGIN = Identity(token="bench-bot@im.bot:0600", bot_id="bench-bot@im.bot", user_id="owner@im.wechat")  # noqa: S106 - of a simulator
TURN = re.compile(rb"turn (\d+)\.")


class Announced(msgspec.Struct, frozen=True):
    """Where the servers listen."""

    base_url: str
    bare_url: str


class Arrived(msgspec.Struct, frozen=True):
    """A turn's text reached the server."""

    turn: int
    at_ns: int


class TimedModel(WeixinModel):
    """Says when a send arrives, before it is looked at."""

    def handle(self, request: Request, now: int) -> Answer | Hold:
        """Answer as the model does."""
        at_ns = stopwatch_ns()
        if request.path.endswith("/sendmessage") and (found := TURN.search(request.body)):
            say(Arrived(int(found[1]), at_ns))
        return super().handle(request, now)


def say(line: Announced | Arrived) -> None:
    """One line for the benchmark."""
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.flush()


async def bare(request: web.BaseRequest) -> web.Response:
    """Read a body and answer with as much: what a POST costs at least."""
    return web.Response(body=await request.read(), content_type="application/json", status=202)


async def main() -> None:
    """Serve until standard input ends."""
    runner = web.ServerRunner(web.Server(bare, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with running(TimedModel(accounts=[LOGIN])) as server:
        server.state.board.set({"quota": 1_000}, None)
        say(Announced(server.base_url, f"http://127.0.0.1:{port}"))
        await asyncio.to_thread(sys.stdin.buffer.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
