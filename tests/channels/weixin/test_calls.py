from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import aiohttp
import pytest

from actors.channels.errors import BodyTooLarge, TooLate
from actors.channels.weixin import calls as module
from actors.channels.weixin.calls import NETWORK_ERRORS, Answer, Calls, Gate, agent
from actors.runtime.clock import ManualClock, SeededIds
from tests.channels.weixin.fake import Say, Server

SECOND = 1_790_000_000_000
DATE = "Mon, 21 Sep 2026 14:13:20 GMT"
"""The same."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SECOND)


@pytest.fixture
async def calls(server: Server, clock: ManualClock) -> AsyncIterator[Calls]:
    made = Calls(server.url, token="t", agent="Test/1", ids=SeededIds(1), clock=clock)
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


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_little_that_inflates_to_much_is_refused_before_it_has(
    server: Server, calls: Calls, coding: str
) -> None:
    squeezer = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    zeros = bytes(1 << 20)
    bomb = b"".join([*(squeezer.compress(zeros) for _ in range(256)), squeezer.flush()])
    assert len(bomb) < 400_000
    server.says("a", Say(bomb, headers={"Content-Encoding": coding}))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            await calls.post("a", b"{}", timeout_ms=20_000)
        assert tracemalloc.get_traced_memory()[1] < 6 * module.BODY_BYTES_MAX
    finally:
        tracemalloc.stop()


async def test_a_head_without_end_is_a_network_error(server: Server, calls: Calls) -> None:
    server.says("a", Say(headers={f"X-{number}": "x" * 8_000 for number in range(500)}))
    with pytest.raises(NETWORK_ERRORS):
        await calls.post("a", b"{}", timeout_ms=5_000)


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


async def test_every_call_measures_the_clock_of_the_server(server: Server, calls: Calls, clock: ManualClock) -> None:
    clock.advance(600)
    server.says("a", Say(headers={"Date": DATE}))
    await calls.post("a", b"{}", timeout_ms=2_000)
    assert calls.ahead.most_ms(clock.now()) == 400
    server.says("b", Say(headers={"Date": DATE}))
    clock.advance(300)
    await calls.get(server.url, "b", {}, timeout_ms=2_000)
    assert calls.ahead.most_ms(clock.now()) == 100


async def test_a_call_is_measured_from_before_it_is_made_to_when_it_is_read(
    server: Server, calls: Calls, clock: ManualClock
) -> None:
    """The date is of some moment in between: what it proves is the difference to the earlier, at most."""
    asked, answering = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        asked.set()

    server.says("a", Say(headers={"Date": DATE}, headers_after=answering))
    call = asyncio.create_task(calls.post("a", b"{}", timeout_ms=2_000, gate=Gate(gate)))
    await asked.wait()
    clock.advance(35_000)
    answering.set()
    await call
    assert calls.ahead.most_ms(clock.now()) == 1_000


@pytest.mark.parametrize(
    "say",
    [
        Say(headers={"Date": "soon"}),
        Say(headers={"Date": ""}),
        Say(headers={"Date": DATE}, status=502),
        Say(headers={"Date": DATE, "Age": "40"}),
    ],
)
async def test_a_date_that_may_be_another_clocks_is_passed_over(
    server: Server, calls: Calls, clock: ManualClock, say: Say
) -> None:
    server.says("a", say)
    await calls.post("a", b"{}", timeout_ms=2_000)
    assert calls.ahead.most_ms(clock.now()) is None


async def test_without_a_clock_nothing_is_measured(server: Server) -> None:
    """As for a login."""
    made = Calls(server.url, token="", agent="Test/1", ids=SeededIds(1))
    await made.post("a", b"{}", timeout_ms=2_000)
    assert made.ahead.most_ms(0) is None
    await made.close()
