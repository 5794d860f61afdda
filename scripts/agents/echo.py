"""An agent that answers `echo: TEXT`: `python -m scripts.agents.echo --url ws://127.0.0.1:8080/agent/v1`.

It shows what a good agent does: it keeps each answer until the gateway has given a receipt for it, sends it again after a
reconnect, and works once on a turn that comes twice. Prints one JSON line, {"agent", "pid"}, at each welcome; TERM or INT ends it.
The token, if one is needed, comes in REPLYLEDGER_AGENT_TOKEN.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

TOKEN_VARIABLE = "REPLYLEDGER_AGENT_TOKEN"  # noqa: S105 (a name, no token)
RETRY_S_MIN, RETRY_S_MAX = 0.25, 5.0
FRAME_BYTES_MAX = 8 * 1_048_576
TURNS_DONE_MAX = 10_000
"""Turns whose answers are remembered, in case they come again."""

DIED = 70
"""Exit status of an agent that was told to die in a turn."""

REFUSED = 77
"""Exit status when the gateway takes no agent with this token."""

REPLACED = 4409
"""Close code: a newer connection has this agent's name."""

REPLACED_STATUS = 79
"""Exit status then."""

SEND_AGAIN = ("busy", "unavailable")
Frame = dict[str, Any]


class Echo:
    """The agent: what it answers, what it works on, and which answers have no receipt yet."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._ws: ClientConnection | None = None
        self._working: dict[str, asyncio.Task[None]] = {}
        self._owed: dict[str, Frame] = {}  # by turn: answers without a receipt
        self._done: dict[str, Frame] = {}  # by turn: answers with one
        self._retries: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Stay connected until cancelled. Raises InvalidStatus when the gateway refuses the token, ConnectionClosed when another agent
        of this name has connected."""
        wait_s = RETRY_S_MIN
        while True:
            try:
                async with connect(
                    self._options.url, additional_headers=_headers(), max_size=FRAME_BYTES_MAX, proxy=None
                ) as ws:
                    wait_s = RETRY_S_MIN
                    await self._converse(ws)
            except InvalidStatus as refusal:
                if refusal.response.status_code == 401:
                    raise
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code == REPLACED:
                    raise  # another one has our name: to come back would replace it in turn
            except (OSError, TimeoutError, InvalidHandshake):
                pass  # the gateway is not there (any more): try again
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)

    async def leave(self) -> None:
        """Say goodbye, so that open turns go to the next agent at once."""
        for task in (*self._working.values(), *self._retries):
            task.cancel()
        if self._ws is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._send({"type": "goodbye"})
                await self._ws.close()

    async def _converse(self, ws: ClientConnection) -> None:
        options = self._options
        self._ws = ws
        hello: Frame = {"type": "hello", "agent": options.name, "protocol": 1, "max_turns": options.max_turns}
        hello |= {"sessions": options.sessions} if options.sessions else {}
        hello |= {"accounts": options.accounts} if options.accounts else {}
        await self._send(hello)
        async for data in ws:
            await self._obey(msgspec.json.decode(data))

    async def _obey(self, frame: Frame) -> None:
        turn_id = frame.get("turn_id", "")
        match frame["type"]:
            case "welcome":
                _announce(self._options.name)
                for owed in tuple(self._owed.values()):
                    await self._send(owed)
            case "message":
                await self._take(frame)
            case "cancel":
                self._owed.pop(turn_id, None)
                if turn_id in self._working:
                    self._working[turn_id].cancel()
            case "receipt" if frame["state"] != "open":
                self._settle(turn_id)
            case "error" if frame["code"] in SEND_AGAIN and turn_id in self._owed:
                self._retry(self._owed[turn_id])
            case "error":
                self._owed.pop(turn_id, None)
                sys.stderr.write(f"refused: {frame['code']}: {frame['message']}\n")
            case _:
                pass  # later receipts' details, resets, and what newer gateways say besides

    async def _take(self, message: Frame) -> None:
        """Work on a turn, unless that is so already; what was answered before is answered the same."""
        turn_id = message["turn_id"]
        known = self._owed.get(turn_id) or self._done.get(turn_id)
        if known is not None:
            await self._send(known)
        elif turn_id not in self._working:
            work = asyncio.create_task(self._answer(message))
            self._working[turn_id] = work
            work.add_done_callback(lambda _: self._working.pop(turn_id, None))

    async def _answer(self, message: Frame) -> None:
        options, turn_id = self._options, message["turn_id"]
        await self._send_if_there({"type": "started", "turn_id": turn_id, "session": options.session})
        if options.die:
            os._exit(DIED)  # as a crash would: no goodbye, no closing handshake
        await asyncio.sleep(options.delay_ms / 1000)
        text = f"echo: {message['text']}"
        kind = "failed" if options.fail else "degraded" if options.degrade else "completed"
        if options.deltas:
            await self._send_if_there({"type": "delta", "turn_id": turn_id, "text": text[:1000]})
        answer = {"type": kind, "turn_id": turn_id, "text": lengthened(text, options.bytes)}
        self._owed[turn_id] = answer
        await self._send_if_there(answer)

    def _settle(self, turn_id: str) -> None:
        answer = self._owed.pop(turn_id, None)
        if answer is not None:
            self._done[turn_id] = answer
            while len(self._done) > TURNS_DONE_MAX:
                del self._done[next(iter(self._done))]

    def _retry(self, answer: Frame) -> None:
        async def later() -> None:
            await asyncio.sleep(1)
            await self._send_if_there(answer)

        task = asyncio.create_task(later())
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _send_if_there(self, frame: Frame) -> None:
        with contextlib.suppress(ConnectionClosed):  # an answer is sent again at the next welcome
            await self._send(frame)

    async def _send(self, frame: Frame) -> None:
        assert self._ws is not None
        await self._ws.send(msgspec.json.encode(frame).decode())


def lengthened(text: str, least_bytes: int) -> str:
    """A text of at least so many bytes, made of numbered lines that repeat it."""
    if len(text.encode()) >= least_bytes:
        return text
    lines, total = [text], len(text.encode())
    while total < least_bytes:
        lines.append(f"{len(lines) + 1}. {text}")
        total += len(lines[-1].encode()) + 1
    return "\n".join(lines)


def _headers() -> dict[str, str]:
    token = os.environ.get(TOKEN_VARIABLE)
    return {"Authorization": f"Bearer {token}"} if token else {}


def _announce(name: str) -> None:
    sys.stdout.buffer.write(msgspec.json.encode({"agent": name, "pid": os.getpid()}) + b"\n")
    sys.stdout.flush()


async def _main(options: argparse.Namespace) -> int:
    agent, stop = Echo(options), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    running, stopping = asyncio.create_task(agent.run()), asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if running.done():
        return _refused(running)
    await agent.leave()
    running.cancel()
    await asyncio.wait({running})
    return 0


def _refused(running: asyncio.Task[None]) -> int:
    """The exit status of an agent that was not let in; any other end is a defect and is raised."""
    try:
        running.result()
    except InvalidStatus:
        sys.stderr.write(f"the gateway refuses this agent; is {TOKEN_VARIABLE} right?\n")
        return REFUSED
    except ConnectionClosed as closed:
        sys.stderr.write(f"{closed.reason}\n")
    return REPLACED_STATUS


def main() -> None:
    """Run the agent until it is asked to end."""
    parser = argparse.ArgumentParser(prog="echo", description="An agent that answers `echo: TEXT`.")
    parser.add_argument("--url", default="ws://127.0.0.1:8080/agent/v1", help="where the gateway listens for agents")
    parser.add_argument("--name", default="echo", help="the agent's name; a second one of that name replaces the first")
    parser.add_argument("--sessions", nargs="*", default=[], metavar="SESSION", help="serve only these sessions")
    parser.add_argument("--accounts", nargs="*", default=[], metavar="ACCOUNT", help="serve only these accounts")
    parser.add_argument("--max-turns", type=int, default=8, help="turns in flight")
    parser.add_argument("--session", default="", help="the session that peers without one are bound to")
    parser.add_argument("--delay-ms", type=int, default=0, help="how long each turn takes")
    parser.add_argument("--bytes", type=int, default=0, help="answer with at least so many bytes")
    parser.add_argument("--deltas", action="store_true", help="stream the beginning of each answer first")
    parser.add_argument("--fail", action="store_true", help="let each turn fail")
    parser.add_argument("--degrade", action="store_true", help="let each turn go wrong in its own words")
    parser.add_argument("--die", action="store_true", help=f"exit ({DIED}) in the first turn, without a goodbye")
    sys.exit(asyncio.run(_main(parser.parse_args())))


if __name__ == "__main__":
    main()
