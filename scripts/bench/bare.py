"""The anchor of `agents.py`: a bare WebSocket server that makes each turn durable and acknowledges it, and does nothing else.

`python -m scripts.bench.bare LOG` prints its URL, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

import msgspec
from websockets.asyncio.server import ServerConnection, serve

from actors.runtime.clock import BootClock
from scripts.bench.streams import PeerStream
from store.sqlite import SqliteLog

WELCOME = msgspec.json.encode({"type": "welcome"}).decode()


async def main(path: Path) -> None:
    """Serve until standard input ends."""
    log, clock, numbers = await SqliteLog.open(path), BootClock(), count()

    async def converse(connection: ServerConnection) -> None:
        stream = PeerStream(next(numbers))
        async for data in connection:
            frame = msgspec.json.decode(data)
            if frame["type"] == "hello":
                await connection.send(WELCOME)
                continue
            await log.append(stream.push(clock.now()))
            receipt = {"type": "receipt", "turn_id": frame["turn_id"], "state": "requested"}
            await connection.send(msgspec.json.encode(receipt).decode())

    async with serve(converse, "127.0.0.1", 0) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        sys.stdout.write(f"ws://{host}:{port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.buffer.read)
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
