"""The simulator as a process: `python -m scripts.simulators.weixin --port P --clock URL --account token,bot_id,user_id`.

Prints one JSON line, {"base_url", "pid"}, when it listens; TERM or INT ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys

import msgspec

from scripts.simulators.clock import Clock, FollowedClock, SystemClock
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.server import WeixinServer, serve


def _identity(text: str) -> Identity:
    token, bot_id, user_id = text.split(",")
    return Identity(token=token, bot_id=bot_id, user_id=user_id)


def _announce(server: WeixinServer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode({"base_url": server.base_url, "pid": os.getpid()}) + b"\n")
    sys.stdout.flush()


async def _main(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        clock: Clock = SystemClock()
        if options.clock:
            clock = await stack.enter_async_context(FollowedClock(options.clock))
        await serve(
            host=options.host,
            port=options.port,
            clock=clock,
            accounts=options.account,
            ready=_announce,
            stop=stop,
        )


def main() -> None:
    """Run the simulator until it is asked to end."""
    parser = argparse.ArgumentParser(prog="weixin", description="A Weixin (iLink) server for tests.")
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port, 0 for any free one")
    parser.add_argument("--clock", help="base URL of a clock source; without it the machine's time")
    parser.add_argument(
        "--account", action="append", default=[], type=_identity, metavar="TOKEN,BOT_ID,USER_ID", help="a login"
    )
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
