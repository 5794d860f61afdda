"""`replyledger simulate weixin|clock`: stand-ins for the outside world, on loopback only, in the foreground until Ctrl-C or TERM."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Annotated
from urllib.parse import urlsplit

import aiohttp
import msgspec
import typer

from scripts.exits import Failed, Misused
from scripts.printing import Printer
from scripts.simulators.clock import Clock, FollowedClock, SystemClock
from scripts.simulators.clock_source import ClockSource, running, stopped
from scripts.simulators.errors import NotLoopbackError
from scripts.simulators.loopback import is_loopback
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.server import WeixinServer, serve
from scripts.verbs import actions, start

app = actions("Simulate a Weixin server, or the clock of simulated days. On this machine only.")

HINT = """\
the phone is yours: curl -d '{{"text": "hello"}}' {url}/control/say    (scripts/simulators/README.md tells the rest)
a login: set base_url = "{url}", run `replyledger login weixin`, and confirm with: curl -d '{{}}' {url}/control/qr/confirm"""

Host = Annotated[str, typer.Option(help="loopback address to listen on")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="0 = any free one")]


class Simulating(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulator says when it listens."""

    base_url: str
    pid: int


@app.command()
def weixin(
    ctx: typer.Context,
    *,
    host: Host = "127.0.0.1",
    port: Port = 0,
    clock: Annotated[str, typer.Option(metavar="URL", help="follow this clock (`simulate clock`)")] = "",
    account: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN,BOT_ID,USER_ID", help="a login that is there already; repeatable. Opens nothing else"
        ),
    ] = None,
) -> None:
    """Simulate the server of Weixin bots: quota, windows, tokens, long polls, logins, and what goes wrong."""
    _, printer = start(ctx)
    _run(_weixin(host, port, clock, [_identity(text) for text in account or ()], printer))


@app.command("clock")
def clock_(
    ctx: typer.Context,
    *,
    host: Host = "127.0.0.1",
    port: Port = 0,
    now: Annotated[
        int | None, typer.Option(help="where it starts, ms since the epoch; default: the machine's time")
    ] = None,
    frozen: Annotated[bool, typer.Option("--frozen", help="only jumps move it")] = False,
) -> None:
    """Serve one clock that several processes follow (`clock = URL` in a configuration), and that can be moved."""
    _, printer = start(ctx)
    _run(_clock(host, port, ClockSource(SystemClock(), now=now, frozen=frozen), printer))


def _identity(text: str) -> Identity:
    token, _, rest = text.partition(",")
    bot_id, _, user_id = rest.partition(",")
    if not (token and bot_id and user_id) or "," in user_id:
        raise Misused("--account takes TOKEN,BOT_ID,USER_ID")
    return Identity(token=token, bot_id=bot_id, user_id=user_id)


async def _weixin(host: str, port: int, clock: str, accounts: list[Identity], printer: Printer) -> None:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        ends = asyncio.get_running_loop().create_task(stopped(), name="until a signal")
        ends.add_done_callback(lambda _: stop.set())
        stack.callback(ends.cancel)
        time: Clock = await _followed(clock, stack) if clock else SystemClock()

        def ready(server: WeixinServer) -> None:
            _announce(server.base_url, printer)
            printer.talk(HINT.format(url=server.base_url))

        await serve(host=host, port=port, clock=time, accounts=accounts, ready=ready, stop=stop)


async def _followed(url: str, stack: AsyncExitStack) -> FollowedClock:
    """Raises Misused, Failed."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not is_loopback(host):
        raise Misused(f"--clock takes the URL of a clock on this machine, not {url!r}")
    try:
        return await stack.enter_async_context(FollowedClock(url))
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
        raise Failed(f"no clock answers at {url}: {type(error).__name__}") from error


async def _clock(host: str, port: int, source: ClockSource, printer: Printer) -> None:
    async with running(source, host=host, port=port) as base_url:
        _announce(base_url, printer)
        printer.talk(f"an hour passes: curl -d '{{\"ms\": 3600000}}' {base_url}/advance")
        await stopped()


def _announce(base_url: str, printer: Printer) -> None:
    said = Simulating(base_url=base_url, pid=os.getpid())
    printer.row(said, base_url)
    printer.flush()


def _run(simulation: Coroutine[object, object, None]) -> None:
    """Until a signal ends it. Raises Misused, Failed."""
    try:
        asyncio.run(simulation)
    except NotLoopbackError as error:
        raise Misused(str(error)) from error
    except OSError as error:
        raise Failed(f"cannot listen: {error}") from error
