"""The shell, over real sockets and a manual clock: holds, wakes, delays and cuts."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scripts.simulators.clock import ManualClock
from scripts.simulators.errors import NotLoopbackError
from scripts.simulators.weixin import ledgers
from scripts.simulators.weixin.codec import BODY_BYTES_MAX
from scripts.simulators.weixin.knobs import Fault
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.server import STOP_S, WeixinServer, running, serve
from tests.simulators.asking import BASE_INFO, OWNER, START, headers, message, texts


class Caller:
    """A client over HTTP."""

    def __init__(self, http: aiohttp.ClientSession, server: WeixinServer) -> None:
        self.http, self.server = http, server
        self.requests = 0

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self.requests += 1
        json = {"base_info": BASE_INFO} | body
        async with self.http.post(f"/ilink/bot/{path}", json=json, headers=headers(self.requests)) as answer:
            return answer.status, await answer.read()

    async def json(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        body = {"base_info": BASE_INFO} | body
        async with self.http.post(f"/ilink/bot/{path}", json=body, headers=headers(self.requests)) as answer:
            return await answer.json(content_type=None)

    async def send(self, text: str) -> dict[str, Any]:
        token = self.server.state.find_chat(None, None).newest_token
        return await self.json("sendmessage", {"msg": message(text, token=token, client_id=f"c-{self.requests}")})

    async def poll(self, cursor: str = "") -> dict[str, Any]:
        return await self.json("getupdates", {"get_updates_buf": cursor})

    async def held(self) -> asyncio.Task[dict[str, Any]]:
        """Begin a poll and return when the server holds it."""
        task = asyncio.create_task(self.poll())
        polls = self.server.state.counters["polls"]
        assert await self.server.until(lambda state: state.counters["polls"] > polls)
        return task


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def server(clock: ManualClock) -> AsyncIterator[WeixinServer]:
    async with running(WeixinModel(accounts=[OWNER]), clock=clock) as server:
        yield server


@pytest.fixture
async def caller(server: WeixinServer) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession(server.base_url) as http:
        yield Caller(http, server)


async def test_a_held_poll_wakes_for_a_message(server: WeixinServer, caller: Caller) -> None:
    poll = await caller.held()
    server.say("hi")
    assert texts((await asyncio.wait_for(poll, 5))["msgs"]) == ["hi"]
    assert (await caller.send("yo"))["ret"] == 0
    assert list(server.state.violations) == []


async def test_a_held_poll_ends_when_its_time_has_come(clock: ManualClock, caller: Caller) -> None:
    poll = await caller.held()
    clock.advance(34_999)
    await caller.post("msg/notifystart", {})
    assert not poll.done()
    clock.advance(1)
    assert (await asyncio.wait_for(poll, 5))["msgs"] == []


async def test_a_poll_whose_client_left_is_released(server: WeixinServer, caller: Caller) -> None:
    poll = await caller.held()
    poll.cancel()
    account = server.state.find_account(None)
    assert await server.until(lambda _state: account.poll is None)


async def test_a_cut_connection(server: WeixinServer, caller: Caller) -> None:
    server.say()
    server.state.board.add(Fault(where="send", kind="cut_after"))
    with pytest.raises(aiohttp.ClientConnectionError):
        await caller.send("lost")
    assert [row.text for row in server.state.accepted] == ["lost"]
    assert (await caller.send("next"))["ret"] == 0


@pytest.mark.parametrize("kind", ["slow_headers", "slow_body"])
async def test_slow_answers(server: WeixinServer, clock: ManualClock, caller: Caller, kind: str) -> None:
    server.say()
    server.state.board.add(Fault(where="send", kind=kind, ms=1000))
    sending = asyncio.create_task(caller.send("slow"))
    assert await server.until(lambda state: len(state.accepted) == 1)
    clock.advance(999)
    await caller.post("msg/notifystart", {})
    assert not sending.done()
    clock.advance(1)
    assert (await asyncio.wait_for(sending, 5))["ret"] == 0


async def test_a_gateway_error_page(server: WeixinServer, caller: Caller) -> None:
    server.state.board.add(Fault(where="poll", kind="http", status=502))
    status, body = await caller.post("getupdates", {"get_updates_buf": ""})
    assert (status, body[:6]) == (502, b"<html>")


async def dated(caller: Caller, path: str) -> str | None:
    async with caller.http.post(path, json={"base_info": BASE_INFO}, headers=headers(1)) as answer:
        return answer.headers.get("Date")


@pytest.mark.parametrize("path", ["/ilink/bot/msg/notifystart", "/ilink/bot/nowhere", "/control/nowhere"])
async def test_every_answer_has_the_date_of_the_simulated_clock(
    server: WeixinServer, clock: ManualClock, caller: Caller, path: str
) -> None:
    assert await dated(caller, path) == "Mon, 21 Sep 2026 14:13:20 GMT"
    clock.advance(999)
    assert await dated(caller, path) == "Mon, 21 Sep 2026 14:13:20 GMT"
    clock.advance(1)
    assert await dated(caller, path) == "Mon, 21 Sep 2026 14:13:21 GMT"
    server.state.board.set({"date_skew_ms": -61_000})
    assert await dated(caller, path) == "Mon, 21 Sep 2026 14:12:20 GMT"
    server.state.board.set({"date": "none"})
    assert await dated(caller, path) is None


async def test_a_date_that_is_missing_once(server: WeixinServer, caller: Caller) -> None:
    """Answers of the control API do not use it up."""
    server.state.board.set({"date": "none"}, times=1)
    await dated(caller, "/control/knobs")
    assert await dated(caller, "/ilink/bot/msg/notifystart") is None
    assert await dated(caller, "/ilink/bot/msg/notifystart") is not None


async def read_from(http: aiohttp.ClientSession, url: str) -> bytes:
    async with http.post(url, json={"get_updates_buf": "", "base_info": BASE_INFO}, headers=headers(1)) as answer:
        return await answer.read()


async def test_stopping_cuts_what_is_held(clock: ManualClock) -> None:
    async with aiohttp.ClientSession() as http:
        async with asyncio.timeout(STOP_S / 2), running(WeixinModel(accounts=[OWNER]), clock=clock) as server:
            poll = asyncio.create_task(read_from(http, f"{server.base_url}/ilink/bot/getupdates"))
            assert await server.until(lambda state: state.counters["polls"] == 1)
        with pytest.raises(aiohttp.ClientConnectionError):
            await poll


async def test_too_long_a_body(caller: Caller) -> None:
    body = io.BytesIO(b"x" * (BODY_BYTES_MAX + 1))
    async with caller.http.post("/ilink/bot/sendmessage", data=body, headers=headers(1)) as answer:
        assert answer.status == 413


async def test_a_full_ledger_is_said(server: WeixinServer, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    server.say()
    monkeypatch.setattr(ledgers, "ROWS_MAX", 0)
    status, body = await caller.post("getconfig", {})
    assert status == 503
    assert b"limit" in body


async def test_it_listens_on_loopback_only() -> None:
    with pytest.raises(NotLoopbackError):
        async with running(WeixinModel(), host="0.0.0.0"):
            pass


async def test_serve_says_when_it_is_ready(clock: ManualClock) -> None:
    ready: asyncio.Future[WeixinServer] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(clock=clock, accounts=[OWNER], ready=ready.set_result, stop=stop))
    server = await asyncio.wait_for(ready, 5)
    async with aiohttp.ClientSession(server.base_url) as http:
        server.say("hi")
        assert texts((await Caller(http, server).poll())["msgs"]) == ["hi"]
    stop.set()
    await asyncio.wait_for(serving, 5)
