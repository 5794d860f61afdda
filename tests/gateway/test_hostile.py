"""What strangers, web pages and slow clients do to the listeners over real connections."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.gateway.agent_link import AgentLimits
from actors.gateway.connections import Limits
from actors.gateway.listen import Listen
from tests.agents.loop import WAIT_S, agent, serving
from tests.gateway.conftest import Serve

BIG = b"x" * 40_000


@asynccontextmanager
async def connected(where: Listen) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(where.host, where.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that is read until the other side closes or drops the connection."""
    said = bytearray()
    try:
        async with asyncio.timeout(WAIT_S):
            while data := await reader.read(65_536):
                said += data
    except ConnectionError:
        pass
    return bytes(said)


async def drip(writer: asyncio.StreamWriter, reading: asyncio.Task[bytes], data: bytes) -> None:
    """One byte at a time, for as long as the other side listens."""
    for _ in range(10_000):
        for byte in data:
            if reading.done():
                return
            try:
                writer.write(bytes([byte]))
                await writer.drain()
            except ConnectionError:
                return
            await asyncio.wait({reading}, timeout=0.005)
    raise AssertionError("it listens for ever")


# --- HTTP: slow ones --------------------------------------------------------------------------------------------------


async def test_a_head_that_drips_is_given_up(serve: Serve) -> None:
    served = await serve(limits=Limits(idle_ms=150))
    async with connected(served.where) as (reader, writer):
        reading = asyncio.create_task(ended(reader))
        await drip(writer, reading, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 5_000)
        assert await reading == b""
    assert (await served.get("/health"))[0] == 200


async def test_a_second_head_that_drips_is_given_up(serve: Serve) -> None:
    served = await serve(limits=Limits(idle_ms=150))
    async with connected(served.where) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        reading = asyncio.create_task(ended(reader))
        await drip(writer, reading, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 5_000)
        assert (await reading).count(b"HTTP/1.1 200") == 1


async def test_a_body_that_drips_is_given_up(serve: Serve) -> None:
    served = await serve(limits=Limits(body_ms=150, linger_ms=50))
    async with connected(served.where) as (reader, writer):
        writer.write(b"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse\r\n")
        writer.write(b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n")
        reading = asyncio.create_task(ended(reader))
        await drip(writer, reading, b" ")
        assert (await reading).startswith(b"HTTP/1.1 408 ")
    assert served.gateway.turns == {}


async def test_a_strangers_body_is_not_awaited(serve: Serve) -> None:
    served = await serve(limits=Limits(linger_ms=50))
    async with connected(served.where) as (reader, writer):
        writer.write(b"POST /v1/turns HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
        reading = asyncio.create_task(ended(reader))
        await drip(writer, reading, b" ")
        assert (await reading).startswith(b"HTTP/1.1 401 ")


async def test_an_answer_that_nobody_reads_is_given_up(serve: Serve) -> None:
    served = await serve(limits=Limits(send_ms=200))
    asked = b"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse\r\n\r\n"
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, (served.where.host, served.where.port))

        async def asks_without_end() -> None:
            async with asyncio.timeout(WAIT_S):
                while True:
                    await loop.sock_sendall(deaf, asked * 100)

        with pytest.raises(ConnectionError):
            await asks_without_end()
    assert (await served.get("/v1/status"))[0] == 200


# --- HTTP: web pages and doubtful heads -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/status", "/metrics"])
@pytest.mark.parametrize(
    "header",
    ["Host: evil.example:8081", "Host: 127.0.0.1\r\nOrigin: https://evil.example", "Host: 127.0.0.1\r\nOrigin: null",
     "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site", "Host: 127.0.0.1\r\nHost: evil.example", "X: no host"],
)  # fmt: skip
@pytest.mark.parametrize("token", [None, "t"])
async def test_no_web_page_reads_anything(serve: Serve, path: str, header: str, token: str | None) -> None:
    served = await serve(token=token)
    async with connected(served.where) as (reader, writer):
        writer.write(f"GET {path} HTTP/1.1\r\n{header}\r\nConnection: close\r\n\r\n".encode())
        said = await ended(reader)
    assert said.startswith((b"HTTP/1.1 401 ", b"HTTP/1.0 400 ")), said
    assert b"Access-Control" not in said
    assert b"needs a login" not in said
    assert b"instance" not in said


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_what_a_page_may_post_without_asking_is_refused(serve: Serve, kind: str) -> None:
    """Were there a browser that sends no `Origin`: what it may post of itself is not JSON by its type."""
    served = await serve(token=None)
    status, _ = await served.post("/v1/turns", {"to": "weixin:main", "text": "x"}, **{"Content-Type": kind})
    assert status == 400
    assert served.gateway.turns == {}


async def test_a_page_that_asks_first_is_told_nothing(serve: Serve) -> None:
    served = await serve(token=None)
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    async with served.session.options(f"{served.url}/v1/turns", headers=asked) as answer:
        assert answer.status == 401
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: chunked, identity",
        "Content-Length : 5",
    ],
)
async def test_a_body_of_two_lengths_is_refused(serve: Serve, head: str) -> None:
    served = await serve(limits=Limits(body_ms=200, linger_ms=50))
    async with connected(served.where) as (reader, writer):
        writer.write(
            f"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse\r\n{head}\r\n\r\n".encode()
        )
        writer.write(b"{}   GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse\r\n\r\n")
        said = await ended(reader)
    assert said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ", b"HTTP/1.1 413 ")), said
    assert b" 200 OK" not in said
    assert served.gateway.turns == {}


@pytest.mark.parametrize(
    "value", [b"Bearer \xff\xfe", b"Bearer caf\xc3\xa9", b"Bearer ", b"bearer\tx", b"Bearer " + b"a" * 8_000]
)
async def test_odd_tokens_are_wrong_tokens(serve: Serve, value: bytes) -> None:
    served = await serve()
    async with connected(served.where) as (reader, writer):
        writer.write(
            b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + value + b"\r\n\r\n"
        )
        said = await ended(reader)
    assert said.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), said


# --- agents -----------------------------------------------------------------------------------------------------------


def upgrade(more: str = "") -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        "GET /agent/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n"
    ).encode()


def frame(opcode: int, data: bytes, *, fin: bool = True, rsv1: bool = False) -> bytes:
    """A masked frame (with a mask of zeros)."""
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    return struct.pack("!BBQI", first, 0x80 | 127, len(data), 0) + data


def close_code(said: bytes) -> int:
    """The code of the close frame that ends what was said (unmasked, short)."""
    at = said.rindex(b"\x88")
    return int.from_bytes(said[at + 2 : at + 4])


async def opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, more: str = "") -> bytes:
    writer.write(upgrade(more))
    async with asyncio.timeout(WAIT_S):
        return await reader.readuntil(b"\r\n\r\n")


async def test_a_message_in_pieces_has_the_limit_of_a_whole_one() -> None:
    async with serving(limits=AgentLimits(frame_bytes=100_000)) as served:
        async with connected(served.where) as (reader, writer):
            assert b" 101 " in await opened(reader, writer)
            writer.write(frame(1, BIG, fin=False) + frame(0, BIG, fin=False) + frame(0, BIG, fin=False))
            assert close_code(await ended(reader)) == 1009
        async with agent(served):
            assert served.hub.agents == 1


async def test_a_length_that_is_only_claimed_is_refused_at_once() -> None:
    async with serving() as served, connected(served.where) as (reader, writer):
        await opened(reader, writer)
        writer.write(struct.pack("!BBQI", 0x81, 0x80 | 127, 1 << 62, 0))
        assert close_code(await ended(reader)) == 1009


async def test_no_frame_is_compressed() -> None:
    """Nothing to inflate: the extension is not agreed to, and a frame that claims it breaks the protocol."""
    async with serving() as served, connected(served.where) as (reader, writer):
        said = await opened(reader, writer, "Sec-WebSocket-Extensions: permessage-deflate\r\n")
        assert b" 101 " in said
        assert b"deflate" not in said
        writer.write(frame(1, b"\xaa\x56\x4a", rsv1=True))
        assert close_code(await ended(reader)) == 1002


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(1, b"\xff\xfe"), 1007),
        (frame(3, b"x"), 1002),
        (frame(9, b"x" * 126), 1002),
        (frame(0, b"x"), 1002),
        (b"\x81\x02hi", 1002),
    ],
    ids=["no UTF-8", "unknown opcode", "long ping", "rest of nothing", "unmasked"],
)
async def test_frames_against_the_protocol_end_the_connection(data: bytes, code: int) -> None:
    async with serving() as served, connected(served.where) as (reader, writer):
        await opened(reader, writer)
        writer.write(data)
        assert close_code(await ended(reader)) == code


@pytest.mark.parametrize("start", [b"", b"GET /agent/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
async def test_a_slow_opening_is_given_up(start: bytes) -> None:
    async with serving(limits=AgentLimits(first_frame_ms=150)) as served, connected(served.where) as (reader, writer):
        reading = asyncio.create_task(ended(reader))
        if start:
            await drip(writer, reading, start + b"a" * 5_000)
        assert b" 101 " not in await reading


async def test_a_message_that_drips_in_pieces_is_no_hello_in_time() -> None:
    async with serving(limits=AgentLimits(first_frame_ms=200)) as served, connected(served.where) as (reader, writer):
        await opened(reader, writer)
        reading = asyncio.create_task(ended(reader))
        writer.write(frame(1, b"{", fin=False))
        await drip(writer, reading, frame(0, b" ", fin=False))
        assert served.hub.agents == 0


async def test_more_sockets_than_may_be_open_are_dropped() -> None:
    async with serving(limits=AgentLimits(sockets=3)) as served:
        async with connected(served.where) as first, connected(served.where), connected(served.where):
            assert b" 101 " in await opened(*first)
            async with connected(served.where) as (reader, writer):
                writer.write(upgrade())
                assert await ended(reader) == b""
        async with asyncio.timeout(WAIT_S):
            while served.listener.sockets:
                await asyncio.sleep(0)
        async with agent(served):
            assert served.hub.agents == 1


@pytest.mark.parametrize("more", ["Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n", "Host: evil.example\r\n"])
async def test_no_web_page_opens_a_websocket(more: str) -> None:
    async with serving() as served, connected(served.where) as (reader, writer):
        assert b" 101 " not in await opened(reader, writer, more)
