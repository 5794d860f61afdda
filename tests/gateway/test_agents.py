"""The agents' listener over real loopback connections: who comes in, what is limited, what a conversation looks like."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import InvalidStatus

from actors.agents.hub import REPLACED
from actors.gateway.agent_link import AgentLimits
from actors.gateway.agent_wire import AUTH_SCHEMA
from actors.gateway.agents import STOPPING, TOO_LATE, UNAUTHORIZED, AgentListener, GatewayDesk, Pace
from actors.gateway.api import TurnOffer
from actors.gateway.errors import InsecureListener
from actors.gateway.listen import Listen
from actors.runtime.clock import BootClock
from actors.runtime.futures import Slot
from tests.agents.loop import WAIT_S, Served, agent, client, serving
from tests.gateway.fake import FakeGateway

TOKEN = "correct horse/é"
HELLO = {"type": "hello", "agent": "a", "protocol": 1}


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


@pytest.fixture
async def guarded() -> AsyncIterator[Served]:
    async with serving(token=TOKEN) as one:
        yield one


async def status(url: str, **settings: Any) -> int:
    """The HTTP status of a refused connection; 101 if it was taken."""
    try:
        async with client(url, **settings):
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


# --- conversations ----------------------------------------------------------------------------------------------------


async def test_a_turn_from_message_to_receipt(served: Served) -> None:
    async with client(served.url) as one:
        welcome = await one.ask("hello", agent="a", protocol=1)
        assert {"type": "welcome", "protocol": 1, "text_bytes_max": 1_048_576}.items() <= welcome.items()
        turn_id = served.turn()
        message = await one.hear()
        assert {
            "type": "message",
            "turn_id": turn_id,
            "peer": "weixin:main:ann",
            "resets": 3,
        }.items() <= message.items()
        assert (await one.ask("started", turn_id=turn_id, session="s"))["state"] == "open"
        assert (await one.ask("delta", turn_id=turn_id, text="h"))["state"] == "open"
        receipt = await one.ask("completed", turn_id=turn_id, text="hi\r\n\x00")
        assert (receipt["type"], receipt["state"], receipt["turn_id"]) == ("receipt", "queued", turn_id)
        assert list(served.peers.finished.values()) == [("completed", "hi\n")]
        served.hub.delivery_changed(receipt["delivery"], "delivered")
        assert (await one.hear())["state"] == "delivered"


async def test_malformed_frames_are_answered_and_the_connection_stays(served: Served) -> None:
    async with agent(served) as one:
        for data in ("{", '{"type":"hullo"}', b"\x00", '{"type":"delta","turn_id":"t"}'):
            await one.ws.send(data)
            assert (await one.hear())["type"] == "error"
        assert (await one.ask("delta", turn_id="t", text="\ud800"))["code"] == "turn_not_open"
        assert served.hub.agents == 1


async def test_bytes_that_are_no_text_end_the_connection(served: Served) -> None:
    async with agent(served) as one:
        await one.ws.send(b"\xff", text=True)
        assert (await one.closed())[0] == 1007


async def test_a_newer_connection_replaces_the_older(served: Served) -> None:
    async with agent(served) as old, agent(served) as new:
        assert await old.closed() == (REPLACED, "replaced by a newer connection of the same agent")
        turn_id = served.turn()
        assert (await new.hear())["turn_id"] == turn_id
        assert served.hub.agents == 1


async def test_agents_come_and_go(served: Served) -> None:
    async with agent(served, "a"), agent(served, "b") as b:
        await served.agents(2)
        b.ws.transport.abort()
        await served.agents(1)
    await served.agents(0)


async def test_more_frames_than_may_be_under_way(served: Served) -> None:
    async with agent(served, max_turns=100) as one:
        turns = [served.turn(f"p{number}") for number in range(40)]
        heard = {(await one.hear())["turn_id"] for _ in turns}
        assert heard == set(turns)
        for turn_id in turns:
            await one.say("completed", turn_id=turn_id, text="x")
        assert {(await one.hear())["turn_id"] for _ in turns} == set(turns)
        assert len(served.peers.finished) == 40


async def test_the_gateway_stops() -> None:
    async with serving() as served, agent(served) as one:
        closing = asyncio.create_task(one.closed())
        served.hub.close()
        await served.listener.close()
        assert await closing == (STOPPING, "the gateway stops")


# --- who may come in --------------------------------------------------------------------------------------------------


async def test_health(guarded: Served) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"http://{guarded.where}/health") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")


async def test_only_known_paths(served: Served) -> None:
    assert await status(f"ws://{served.where}/") == 404
    assert await status(f"ws://{served.where}/agent/v2") == 404
    assert await status(f"ws://{served.where}/agent/v1?x=y") == 101


def basic(token: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": token}}


@pytest.mark.parametrize(
    ("query", "settings", "expected"),
    [
        ("", basic("Bearer plain-token"), 101),
        ("", basic("bearer  plain-token "), 101),
        ("", basic("Bearer plain-tokem"), 401),
        ("", basic("Bearer "), 401),
        ("", basic("Basic plain-token"), 401),
        ("?token=plain-token", {}, 101),
        ("?x=y&token=plain%2Dtoken", {}, 101),
        ("?token=plain-toke", {}, 401),
        ("?token=", {}, 401),
        ("?token", {}, 401),
        ("?token&token=plain-token", {}, 101),
        ("?xtoken=plain-token", {}, 101),  # none: its first frame has to prove it
        ("", {}, 101),  # its first frame has to prove it
    ],
)
async def test_tokens_of_the_request(query: str, settings: dict[str, Any], expected: int) -> None:
    async with serving(token="plain-token") as served:
        assert await status(served.url + query, **settings) == expected


@pytest.mark.parametrize("token", ["a&b=c", "a%2Fb", "a+b"])
async def test_a_token_in_the_query_need_not_be_encoded(token: str) -> None:
    async with serving(token=token) as served:
        assert await status(f"{served.url}?x=y&token={token}") == 101


async def test_the_first_frame_proves_it(guarded: Served) -> None:
    async with client(guarded.url) as one:
        await one.ws.send(json.dumps({"schema": AUTH_SCHEMA, "token": TOKEN}))
        assert (await one.ask("hello", agent="a", protocol=1))["type"] == "welcome"


@pytest.mark.parametrize("first", [{"schema": AUTH_SCHEMA, "token": "wrong"}, {"schema": AUTH_SCHEMA}, HELLO, []])
async def test_a_first_frame_that_does_not(guarded: Served, first: Any) -> None:
    async with client(guarded.url) as one:
        await one.ws.send(json.dumps(first))
        assert (await one.hear())["code"] == "unauthorized"
        assert (await one.closed())[0] == UNAUTHORIZED
        assert guarded.hub.agents == 0


async def test_a_first_frame_that_does_not_come() -> None:
    async with serving(token=TOKEN, limits=AgentLimits(first_frame_ms=50)) as served, client(served.url) as one:
        assert await one.closed() == (UNAUTHORIZED, "no token came in time")


async def test_an_authentication_frame_that_nobody_asked_for_is_passed_over(served: Served) -> None:
    async with client(served.url) as one:
        await one.ws.send(json.dumps({"schema": AUTH_SCHEMA, "token": "x"}))
        assert (await one.ask("hello", agent="a", protocol=1))["type"] == "welcome"


@pytest.mark.parametrize("headers", [{"Origin": "http://example.org"}, {"Host": "example.org"}])
async def test_without_a_token_no_web_page_comes_in(served: Served, headers: dict[str, str]) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    url = f"http://{served.where}/agent/v1"
    async with aiohttp.ClientSession() as session, session.get(url, headers={**upgrade, **headers}) as refused:
        assert refused.status == 401
    assert await status(served.url) == 101


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_beyond_loopback_only_with_a_token(host: str) -> None:
    with pytest.raises(InsecureListener):
        AgentListener(None, Listen(host, 0), token=None, clock=BootClock())  # type: ignore[arg-type] # never used
    AgentListener(None, Listen(host, 0), token="x", clock=BootClock())  # type: ignore[arg-type] # never used


async def test_a_port_in_use(served: Served) -> None:
    second = AgentListener(served.hub, served.where, token=None, clock=BootClock())
    with pytest.raises(OSError, match="in use"):
        await second.start()
    await second.close()


async def test_other_conversations_share_port_and_token() -> None:
    async def converse(ws: ServerConnection) -> None:
        await ws.send(f"core says {await ws.recv()}")

    async with serving(token="plain-token", others={"/ws": converse}) as served:
        assert await status(f"ws://{served.where}/ws?token=wrong") == 401
        async with client(f"ws://{served.where}/ws?token=plain-token") as one:
            await one.ws.send("hi")
            assert await one.ws.recv() == "core says hi"


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_hello_comes_first_and_in_time() -> None:
    async with serving(limits=AgentLimits(first_frame_ms=200)) as served, client(served.url) as one:
        assert (await one.ask("goodbye"))["code"] == "hello_first"
        assert (await one.ask("hello", agent="a", protocol=2))["path"] == "$.protocol"
        assert await one.closed() == (TOO_LATE, "no hello came in time")
        assert served.hub.agents == 0


async def test_too_many_connections() -> None:
    async with serving(limits=AgentLimits(connections=2)) as served:
        async with agent(served, "a"), agent(served, "b"):
            assert await status(served.url) == 503
        await served.agents(0)
        async with agent(served, "c"):
            assert served.hub.agents == 1


async def test_a_frame_that_is_too_large() -> None:
    async with serving(limits=AgentLimits(frame_bytes=1_000)) as served, agent(served) as one:
        await one.say("completed", turn_id="t", text="x" * 1_000)
        assert (await one.closed())[0] == 1009


async def test_the_largest_text_fits_even_escaped(served: Served) -> None:
    async with agent(served) as one:
        turn_id = served.turn()
        await one.hear()
        receipt = await one.ask("completed", turn_id=turn_id, text="é" * 524_288)
        assert receipt["type"] == "receipt"
        error = await one.ask("completed", turn_id=turn_id, text="é" * 524_288 + "x")
        assert (error["code"], error["path"]) == ("too_large", "$.text")


LITTLE = {"queue_bytes": 4_000_000}, {"send_ms": 200}


@pytest.mark.parametrize("limit", LITTLE)
async def test_an_agent_that_reads_nothing_is_closed(limit: dict[str, int]) -> None:
    async with serving(limits=AgentLimits(**limit, close_ms=200)) as served, _deaf(served) as sock:
        await _burden(served)
        await served.agents(0)
        async with asyncio.timeout(WAIT_S):
            while await _more(sock):
                pass


@pytest.mark.parametrize("limit", LITTLE)
async def test_the_hub_knows_it_before_the_closing_handshake_is_given_up(limit: dict[str, int]) -> None:
    async with serving(limits=AgentLimits(**limit, close_ms=60_000)) as served, _deaf(served):
        await _burden(served)
        await served.agents(0)


async def _burden(served: Served) -> None:
    """Give an agent more than the network takes."""
    await served.agents(1)
    for number in range(16):
        served.turn(f"p{number}", "x" * 900_000)


@asynccontextmanager
async def _deaf(served: Served) -> AsyncIterator[socket.socket]:
    """A connection that says hello and then reads nothing."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sock.setblocking(False)
        await loop.sock_connect(sock, (served.where.host, served.where.port))
        head = (
            f"GET /agent/v1 HTTP/1.1\r\nHost: {served.where}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await loop.sock_sendall(sock, head.encode())
        payload = json.dumps({**HELLO, "max_turns": 16}).encode()
        await loop.sock_sendall(sock, bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload)
        yield sock


async def _more(sock: socket.socket) -> bool:
    """Read on; False once the other end has closed or dropped the connection."""
    try:
        return bool(await asyncio.get_running_loop().sock_recv(sock, 1_048_576))
    except ConnectionResetError:
        return False


async def test_an_agent_that_answers_no_ping_is_closed() -> None:
    async with serving(limits=AgentLimits(ping_ms=50, close_ms=50)) as served, _deaf(served):
        await served.agents(1)
        await served.agents(0)


async def test_frames_that_are_too_many_under_way_are_read_later() -> None:
    async with serving(limits=AgentLimits(under_way=1)) as served, agent(served) as one:
        gate = served.desk.held["job"] = Slot()
        await one.say("completed", turn_id="job", to="weixin:main:ann", text="x")
        await one.say("delta", turn_id="t", text="x")
        await (await one.ws.ping())
        gate.set_result(None)
        assert (await one.hear())["type"] == "receipt"
        assert (await one.hear())["code"] == "turn_not_open"


async def test_frames_that_come_too_fast_are_read_later() -> None:
    async with serving(limits=AgentLimits(frames_per_s=20)) as served, agent(served) as one:
        clock = BootClock()
        for _ in range(30):
            await one.say("delta", turn_id="t", text="x")
        for _ in range(30):
            assert (await one.hear())["code"] == "turn_not_open"
        assert clock.monotonic() >= 500


async def test_a_pace_without_haste_never_waits() -> None:
    pace = Pace(5, BootClock())
    async with asyncio.timeout(0.5):
        for _ in range(5):
            await pace.wait()


# --- the gateway as futures -------------------------------------------------------------------------------------------


async def test_the_desk_asks_the_gateway() -> None:
    desk = GatewayDesk(FakeGateway())  # type: ignore[arg-type] # the part of it that is asked
    accepted = await desk.accept(TurnOffer(to="weixin:main:alice@im.wechat", turn_id="t", text="x"), "a")
    receipt = await desk.delivery(accepted.deliveries[0].delivery)
    assert receipt.turn_id == "t"
