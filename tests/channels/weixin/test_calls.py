from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from actors.channels.errors import BodyTooLarge, TooLate
from actors.channels.weixin import calls as module
from actors.channels.weixin.calls import NETWORK_ERRORS, Answer, Calls, Gate, agent
from actors.runtime.clock import SeededIds
from tests.channels.weixin.fake import Say, Server


@pytest.fixture
async def calls(server: Server) -> AsyncIterator[Calls]:
    made = Calls(server.url, token="t", agent="Test/1", ids=SeededIds(1))
    yield made
    await made.close()


def test_the_agent_is_in_the_grammar_of_the_server() -> None:
    assert agent().startswith("Replyledger/")
    assert agent().isascii()


async def test_a_gate_that_refuses_lets_no_byte_through(server: Server, calls: Calls) -> None:
    """The connection stood; it is closed again, or the pool would count it for ever."""

    async def refuse() -> None:
        raise TooLate

    for _ in range(3):
        gate = Gate(refuse)
        with pytest.raises(TooLate):
            await calls.post("sendmessage", b"{}", timeout_ms=2_000, gate=gate)
        assert not gate.passed
    assert server.calls == []
    assert not calls._session.connector._acquired  # type: ignore[union-attr]  # the session is open


async def test_a_gate_belongs_to_its_call(server: Server, calls: Calls) -> None:
    gate, entered = Gate(), asyncio.Event()

    async def wait() -> None:
        await entered.wait()

    slow = asyncio.create_task(calls.post("a", b"{}", timeout_ms=2_000, gate=Gate(wait)))
    assert (await calls.post("b", b"{}", timeout_ms=2_000, gate=gate)).status == 200
    assert (await calls.post("c", b"{}", timeout_ms=2_000)).status == 200
    assert (gate.passed, [c.path for c in server.calls]) == (True, ["b", "c"])
    entered.set()
    await slow


async def test_each_call_has_a_number_of_its_own(server: Server, calls: Calls) -> None:
    for _ in range(3):
        await calls.post("a", b"{}", timeout_ms=2_000)
    assert len({c.headers["X-WECHAT-UIN"] for c in server.calls}) == 3
    assert {c.headers["Connection"] for c in server.calls} == {"close"}


async def test_redirects_are_answers(server: Server, calls: Calls) -> None:
    server.says("a", Say(b"elsewhere", status=307, location="/ilink/bot/b"))
    assert await calls.post("a", b"{}", timeout_ms=2_000) == Answer(status=307, body=b"elsewhere")
    assert len(server.calls) == 1


async def test_a_body_is_read_up_to_its_limit(server: Server, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_BYTES_MAX", 1_000)
    server.says("a", Say(b"x" * 1_000), Say(b"x" * 1_001))
    assert len((await calls.post("a", b"{}", timeout_ms=2_000)).body) == 1_000
    with pytest.raises(BodyTooLarge):
        await calls.post("a", b"{}", timeout_ms=2_000)


@pytest.mark.parametrize("say", [Say(headers_after=asyncio.Event()), Say(b"{}", body_after=asyncio.Event())])
async def test_the_time_covers_headers_and_body(server: Server, calls: Calls, say: Say) -> None:
    server.says("a", say)
    with pytest.raises(TimeoutError):
        await calls.post("a", b"{}", timeout_ms=100)


async def test_what_breaks_is_a_network_error(server: Server, calls: Calls) -> None:
    server.says("a", Say(cut=True))
    gate = Gate()
    with pytest.raises(NETWORK_ERRORS) as raised:
        await calls.post("a", b"{}", timeout_ms=2_000, gate=gate)
    assert isinstance(raised.value, aiohttp.ClientError)
    assert gate.passed
