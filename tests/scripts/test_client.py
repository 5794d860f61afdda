from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from actors.gateway.api import UnbindOrder
from actors.gateway.views import Bound, HealthView, ReadyView
from scripts.asking import client
from scripts.asking.client import Client, path_of
from scripts.configuration.secret import Secret
from scripts.exits import ConfigRefused, Failed, Misused, NotRunning, Stop

Serve = Callable[[bytes], Awaitable[Client]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """A server that says the same to everybody, whatever is asked, and then closes."""
    servers: list[asyncio.Server] = []

    async def start(answer: bytes) -> Client:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        servers.append(await asyncio.start_server(handle, "127.0.0.1", 0))
        return Client("127.0.0.1", servers[-1].sockets[0].getsockname()[1], Secret("s3cret"))

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


def _http(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (_http("200 OK", b"<html>"), NotRunning, "is not a gateway"),
        (_http("200 OK", b"{}"), NotRunning, "is not a gateway"),
        (_http("302 Found", b""), NotRunning, "is not a gateway"),
        (_http("404 Not Found", b"nope"), NotRunning, "is not a gateway"),
        (b"", NotRunning, "no gateway answers"),
        (b"SSH-2.0-x\r\n", NotRunning, "no gateway answers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", NotRunning, "no gateway answers"),
        (_http("400 Bad", b'{"error":{"code":"bad_request","message":"no","path":"$.a"}}'), Misused, r"no \(\$\.a\)"),
        (_http("401 No", b'{"error":{"code":"unauthorized","message":"no"}}'), ConfigRefused, r"http\.token"),
        (
            _http("404 No", b'{"error":{"code":"unknown_peer","message":"no","near":["a","b"]}}'),
            Failed,
            "no; near: a, b",
        ),
        (_http("409 No", b'{"error":{"code":"turn_conflict","message":"no"}}'), Failed, "no"),
        (_http("503 No", b'{"error":{"code":"busy","message":"no"}}'), Failed, "no"),
        (_http("503 No", b'{"error":{"code":"keys_apart","message":"no","turn_id":"t1"}}'), Failed, "no"),
        (_http("503 No", b'{"error":{"code":"stopping","message":"no"}}'), NotRunning, "no"),
    ],
)
async def test_what_is_no_answer(serve: Serve, answer: bytes, kind: type[Stop], says: str) -> None:
    ask = await serve(answer)
    with pytest.raises(kind, match=says) as found:
        await asyncio.to_thread(ask.post, Bound, "/v1/unbind", UnbindOrder(peer="a"))
    assert type(found.value) is kind
    assert "s3cret" not in str(found.value)


async def test_not_ready_is_an_answer(serve: Serve) -> None:
    ask = await serve(_http("503 No", b'{"ready":false,"reasons":["x"]}'))
    assert await asyncio.to_thread(ask.get, ReadyView, "/ready") == ReadyView(ready=False, reasons=("x",))


async def test_newer_gateways_may_say_more(serve: Serve) -> None:
    ask = await serve(_http("200 OK", b'{"ok":true,"version":"9","instance":"i","mood":"good"}'))
    assert (await asyncio.to_thread(ask.get, HealthView, "/health")).version == "9"


async def test_a_silent_gateway(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_MS", 50)

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # to the end, which comes when the client gives up
        writer.close()
        await writer.wait_closed()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with silent:
        ask = Client("127.0.0.1", silent.sockets[0].getsockname()[1], None)
        with pytest.raises(NotRunning, match="does not answer in time"):
            await asyncio.to_thread(ask.get, HealthView, "/health")


def test_names_in_paths_are_escaped() -> None:
    assert path_of("v1", "peers", "a:b/ü?") == "/v1/peers/a%3Ab%2F%C3%BC%3F"


def test_everywhere_is_found_on_loopback() -> None:
    assert Client("0.0.0.0", 1, None).where == "127.0.0.1:1"
    assert Client("::", 1, None).where == "[::1]:1"
