from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from actors.channels.errors import OrderHeld
from actors.channels.weixin import outlet as outlet_module
from actors.ports import Accepted, LoginGone, Refused, Unknown
from events.bot import Policy
from store.errors import LogClosed
from tests.channels.weixin.fake import PEER, TOKEN, Opened, Say, Server

ID = 7497484083968569999


async def test_a_send_is_one_post_in_the_official_dialect(server: Server, opened: Opened, order: Any) -> None:
    server.says("sendmessage", Say({"ret": 0, "message_id": ID}))
    room = opened(server.url)
    assert await room.outcome(order(text="hi \U0001f600")) == Accepted(message_id=str(ID))
    (call,) = server.to("sendmessage")
    assert call.body["msg"] == {
        "from_user_id": "",
        "to_user_id": PEER,
        "client_id": "c-r1",
        "message_type": 2,
        "message_state": 2,
        "item_list": [{"type": 1, "text_item": {"text": "hi \U0001f600"}}],
        "context_token": "AARzJWexample",
    }
    assert call.body["base_info"]["channel_version"] == "2.4.9"
    assert call.body["base_info"]["bot_agent"].startswith("Replyledger")
    assert call.headers["Authorization"] == f"Bearer {TOKEN}"
    assert room.link.outlet.holds("r1")
    room.link.outlet.settled("r1")
    assert not room.link.outlet.holds("r1")


@pytest.mark.parametrize(
    ("say", "outcome"),
    [
        (Say({"ret": 0}), Accepted()),
        (Say(b"{}"), Accepted()),
        (Say({"ret": -2, "errmsg": "prepare failed"}), Refused(failure="blocked", code=-2, error="prepare failed")),
        (Say({"ret": -3}), Refused(failure="bad_request", code=-3)),
        (Say(b"no", status=429), Refused(failure="http_refused", code=429, error="HTTP 429: no")),
        (Say(b"<html>bad gateway</html>", status=502), Unknown(reason="server_error", settled_at=1_790_000_000_000)),
        (Say(b""), Unknown(reason="server_error", settled_at=1_790_000_000_000)),
        (Say({"ret": 0}, cut=True), Unknown(reason="connection_lost", settled_at=1_790_000_000_000)),
    ],
)
async def test_each_answer_is_reported_once_and_never_retried(
    server: Server, opened: Opened, order: Any, say: Say, outcome: Any
) -> None:
    server.says("sendmessage", say)
    room = opened(server.url)
    assert await room.outcome(order()) == outcome
    await room.link.outlet.close()
    assert (len(room.reports), len(server.to("sendmessage"))) == (1, 1)


async def test_a_lost_login_is_told_to_the_bot_too(server: Server, opened: Opened, order: Any) -> None:
    server.says("sendmessage", Say({"errcode": -14, "errmsg": "session timeout"}))
    room = opened(server.url)
    assert await room.outcome(order()) == Refused(failure="login_lost", code=-14, error="session timeout")
    assert room.lost == [LoginGone(code=-14, where="send")]


async def test_nobody_there_is_not_sent(opened: Opened, order: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        room = opened(f"http://127.0.0.1:{unused.getsockname()[1]}")
        outcome = await room.outcome(order())
    assert isinstance(outcome, Refused)
    assert outcome.failure == "not_sent"


async def test_a_name_that_does_not_resolve_is_not_sent(opened: Opened, order: Any) -> None:
    outcome = await opened("https://nobody.invalid").outcome(order())
    assert isinstance(outcome, Refused)
    assert outcome.failure == "not_sent"


async def test_a_server_without_tls_is_not_sent(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url.replace("http://", "https://"))
    outcome = await room.outcome(order())
    assert isinstance(outcome, Refused)
    assert (outcome.failure, server.calls) == ("not_sent", [])


async def test_a_fenced_instance_connects_but_sends_no_byte(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url)
    room.fence.lost = True
    outcome = await room.outcome(order())
    assert isinstance(outcome, Refused)
    assert (outcome.failure, room.fenced, server.calls) == ("not_sent", [True], [])


@pytest.mark.parametrize(("late_ms", "sent"), [(5_000, True), (5_001, False)])
async def test_bytes_leave_in_time_or_not_at_all(
    server: Server, opened: Opened, order: Any, late_ms: int, sent: bool
) -> None:
    """The clock runs on while the fence is asked, after the connection stands: rule 11."""
    room = opened(server.url)

    async def slow() -> None:
        room.clock.advance(late_ms)

    room.fence.before = slow
    outcome = await room.outcome(order())
    assert outcome == (Accepted() if sent else Refused(failure="too_late"))
    assert len(server.calls) == int(sent)


async def test_a_fence_that_does_not_answer_is_not_sent(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url, policy=Policy(pace_ms=0, client_timeout_ms=50))

    async def stuck() -> None:
        await asyncio.Event().wait()

    room.fence.before = stuck
    assert await room.outcome(order()) == Refused(failure="not_sent", error="TimeoutError")
    assert server.calls == []


@pytest.mark.parametrize("where", ["headers_after", "body_after"])
async def test_a_late_answer_is_a_second_report(server: Server, opened: Opened, order: Any, where: str) -> None:
    answer = asyncio.Event()
    server.says("sendmessage", Say({"ret": 0, "message_id": ID}, **{where: answer}))
    room = opened(server.url, policy=Policy(pace_ms=0, client_timeout_ms=50), listen_ms=4_000)
    first = await room.outcome(order())
    assert first == Unknown(reason="timeout", settled_at=1_790_000_004_000)  # it can arrive for as long as we listen
    room.link.outlet.settled("r1")
    assert not room.link.outlet.holds("r1")
    with pytest.raises(OrderHeld):
        room.link.outlet.send(order())
    answer.set()
    await room.until(lambda: len(room.reports) == 2)
    assert room.reports[1] == ("peer-1", "r1", Accepted(message_id=str(ID)))
    assert room.link.outlet.holds("r1")


@pytest.mark.parametrize("end", [Say(b"x", status=502), Say(cut=True)])
async def test_a_late_answer_that_proves_nothing_is_no_report(
    server: Server, opened: Opened, order: Any, end: Say
) -> None:
    end.headers_after = asyncio.Event()
    server.says("sendmessage", end)
    room = opened(server.url, policy=Policy(pace_ms=0, client_timeout_ms=50))
    await room.outcome(order())
    end.headers_after.set()
    await room.until(lambda: not room.link.outlet._listening)
    assert len(room.reports) == 1


async def test_listening_ends(server: Server, opened: Opened, order: Any) -> None:
    server.says("sendmessage", Say(headers_after=asyncio.Event()))
    room = opened(server.url, policy=Policy(pace_ms=0, client_timeout_ms=30), listen_ms=30)
    await room.outcome(order())
    await room.until(lambda: not room.link.outlet._listening)
    assert len(room.reports) == 1


async def test_closing_reports_what_is_open_as_it_stands(server: Server, opened: Opened, order: Any) -> None:
    """What has left may have arrived, what has not left has not; after it, nothing leaves."""
    server.says("sendmessage", Say(headers_after=asyncio.Event()))
    room = opened(server.url, policy=Policy(pace_ms=60_000, pace_burst=1, client_timeout_ms=150))
    room.link.outlet.send(order("r1"))
    await server.until(lambda: len(server.to("sendmessage")) == 1)
    room.link.outlet.send(order("r2", stream="peer-2", leave_by=10**9))
    await room.link.outlet.close()
    assert {r[1]: type(r[2]) for r in room.reports} == {"r1": Unknown, "r2": Refused}
    room.link.outlet.send(order("r3"))
    await room.until(lambda: len(room.reports) == 3)
    assert room.reports[2][2] == Refused(failure="not_sent", error="the outlet is closed")
    assert len(server.calls) == 1


async def test_closing_waits_for_what_is_in_flight(server: Server, opened: Opened, order: Any) -> None:
    answer = asyncio.Event()
    server.says("sendmessage", Say({"message_id": ID}, headers_after=answer))
    room = opened(server.url)
    room.link.outlet.send(order())
    await server.until(lambda: len(server.to("sendmessage")) == 1)
    closing = asyncio.create_task(room.link.outlet.close())
    await asyncio.sleep(0)
    answer.set()
    await closing
    assert [r[2] for r in room.reports] == [Accepted(message_id=str(ID))]


async def test_the_pace_holds_a_send_back_and_gives_up_in_time(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url, policy=Policy(pace_ms=6_000, pace_burst=1, client_timeout_ms=2_000))
    assert await room.outcome(order("r1")) == Accepted()
    assert room.link.outlet.earliest("peer-1", room.clock.now()) == room.clock.now() + 6_000
    assert await room.outcome(order("r2")) == Refused(failure="too_late")
    room.clock.advance(6_000)
    assert await room.outcome(order("r3", leave_by=10_000)) == Accepted()
    assert len(server.to("sendmessage")) == 2


async def test_a_send_before_its_turn_waits_for_it(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url, policy=Policy(pace_ms=50, pace_burst=1, client_timeout_ms=2_000))
    assert await room.outcome(order("r1")) == Accepted()
    room.link.outlet.send(order("r2"))
    await asyncio.sleep(0)
    assert len(room.reports) == 1
    room.clock.advance(50)
    await room.until(lambda: len(room.reports) == 2)
    assert room.reports[1][2] == Accepted()


async def test_too_many_orders_are_refused_free(
    server: Server, opened: Opened, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet_module, "IN_FLIGHT_MAX", 1)
    hold = asyncio.Event()
    server.says("sendmessage", Say(headers_after=hold))
    room = opened(server.url)
    room.link.outlet.send(order("r1"))
    assert await room.outcome(order("r2")) == Refused(failure="not_sent", error="too many sends in flight")
    hold.set()
    await room.until(lambda: len(room.reports) == 2)
    assert room.reports[1][1:] == ("r1", Accepted())


@pytest.mark.parametrize(
    "changes", [{"text": "x" * 16_385}, {"text": "字" * 5_462}, {"text": "half \ud83d"}, {"media": ("{}",)}]
)
async def test_what_the_channel_cannot_take_is_refused_here(
    server: Server, opened: Opened, order: Any, changes: dict[str, Any]
) -> None:
    outcome = await opened(server.url).outcome(order(**changes))
    assert isinstance(outcome, Refused)
    assert (outcome.failure, server.calls) == ("bad_request", [])


async def test_a_request_that_is_here_is_not_sent_twice(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url)
    room.link.outlet.send(order())
    with pytest.raises(OrderHeld):
        room.link.outlet.send(order())
    await room.until(lambda: len(room.reports) == 1)


async def test_the_longest_text_goes(server: Server, opened: Opened, order: Any) -> None:
    assert await opened(server.url).outcome(order(text="字" * 5_461 + "x")) == Accepted()


async def test_an_unforeseen_error_is_visible_and_reported(server: Server, opened: Opened, order: Any) -> None:
    """A defect of ours must neither vanish nor leave a request open."""
    room, seen = opened(server.url), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))

    async def broken() -> None:
        raise ZeroDivisionError

    room.fence.before = broken
    assert await room.outcome(order()) == Refused(failure="not_sent", error="ZeroDivisionError")
    assert [type(e) for e in seen] == [ZeroDivisionError]


async def test_a_log_that_does_not_answer_is_not_sent(server: Server, opened: Opened, order: Any) -> None:
    room = opened(server.url)

    async def closed() -> None:
        raise LogClosed

    room.fence.before = closed
    assert await room.outcome(order()) == Refused(failure="not_sent", error="LogClosed")
    assert (server.calls, room.fenced) == ([], [])


async def test_nothing_secret_is_logged(
    server: Server, opened: Opened, order: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server.says("sendmessage", Say({"ret": -2, "errmsg": f"bad token {TOKEN} AARzJWexampleAARzJWexample"}))
    server.says("getupdates", Say({"ret": -1, "errmsg": f"Bearer {TOKEN}"}))
    room = opened(server.url)
    outcome = await room.outcome(order(text="my secret text"))
    poll = asyncio.create_task(room.link.inlet.run(_never, _never, "cursor-secret"))
    await room.until(lambda: room.link.inlet.status.consecutive_failures == 1)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    seen = caplog.text + repr(outcome) + repr(room.link.inlet.status)
    for secret in (TOKEN, "0600secret", "AARzJW", "secret text", "cursor-secret", PEER):
        assert secret not in seen


async def _never(_what: Any) -> None:
    raise AssertionError
