"""One agent's connection, as the hub sees it: a bounded queue of frames, and an end that always comes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from actors.gateway.agent_wire import FRAME_BYTES_MAX, GatewayFrame, encode

TOO_SLOW = 4008
"""Close code: the agent reads too slowly."""


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the agents' listener takes, and beyond which it refuses. Times in ms."""

    connections: int = 64  # more: HTTP 503
    sockets: int = 256  # also those that have not said who they are; more: dropped
    first_frame_ms: int = 5_000  # for the token, where it comes in a frame, and for the hello; later: closed
    frame_bytes: int = FRAME_BYTES_MAX  # larger: closed with 1009
    frames_per_s: int = 2_000  # faster ones are read later
    under_way: int = 16  # frames of one connection that are being answered; the next is read when one of them is
    queue_frames: int = 512  # to one agent; more: closed, it reads too slowly
    queue_bytes: int = 16 * 1_048_576  # the same
    send_ms: int = 20_000  # for one frame; longer: the same
    ping_ms: int = 20_000  # between pings, and for their pong; later: closed with 1011
    close_ms: int = 5_000  # for the closing handshake; longer: dropped


class AgentLink:
    """Sends frames in order, without ever making the hub wait."""

    def __init__(self, ws: ServerConnection, limits: AgentLimits) -> None:
        self._ws, self._limits = ws, limits
        self._queue: deque[str] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self.closing: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        """Done, with code and reason, once the link takes no more frames."""

    def send(self, frame: GatewayFrame) -> None:
        """Queue a frame; when the queue is full, close. Nothing happens on a link that closes."""
        if self.closing.done():
            return
        data = encode(frame)
        if len(self._queue) >= self._limits.queue_frames or self._queued_bytes + len(data) > self._limits.queue_bytes:
            self._queue.clear()  # what it held is durable, and comes again
            self.close(TOO_SLOW, "reads too slowly")
            return
        self._queue.append(data)
        self._queued_bytes += len(data)
        self._wake.set()

    def close(self, code: int, reason: str) -> None:
        """Close after what is queued."""
        if not self.closing.done():
            self.closing.set_result((code, reason))
            self._wake.set()

    async def run(self) -> None:
        """Send until `close`, then close; ends early when the connection does. Cancelled, it lets go of the connection as it is."""
        sender = asyncio.create_task(self._send_all())
        either: set[asyncio.Future[Any]] = {sender, self.closing}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            flush_ms = 0 if self.closing.done() and self.closing.result()[0] == TOO_SLOW else self._limits.close_ms
            await asyncio.wait({sender}, timeout=flush_ms / 1000)
        finally:
            sender.cancel()
            await asyncio.wait({sender})
        if self.closing.done():
            await self._close(*self.closing.result())

    async def _send_all(self) -> None:
        """Send what is queued until the link closes and the queue is empty."""
        try:
            while True:
                while self._queue:
                    data = self._queue.popleft()
                    async with asyncio.timeout(self._limits.send_ms / 1000):
                        await self._ws.send(data)
                    self._queued_bytes -= len(data)
                if self.closing.done():
                    return
                self._wake.clear()
                await self._wake.wait()
        except TimeoutError:
            self.close(TOO_SLOW, "reads too slowly")
        except ConnectionClosed:
            return

    async def _close(self, code: int, reason: str) -> None:
        """The closing handshake. An agent that reads nothing is dropped: the library would wait for its buffer for ever."""
        try:
            async with asyncio.timeout(self._limits.close_ms / 1000):
                await self._ws.close(code, reason)
        except TimeoutError:
            self._ws.transport.abort()
