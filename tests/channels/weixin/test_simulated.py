"""Inlet, outlet and login against the simulator, which checks each request by its own reading of the notes and counts for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from actors.channels.errors import LoginFailed
from actors.channels.weixin.login import AlreadyConnected, log_in
from actors.ports import Accepted, Credentials, LoginGone, Outcome, Polled, Refused, Unknown
from actors.runtime.clock import SeededIds
from events.bot import Policy
from scripts.simulators.clock import ManualClock as SimulatedClock
from scripts.simulators.weixin import login as phone
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.knobs import Fault
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.server import WeixinServer, running
from tests.channels.weixin.fake import PEER, TOKEN, Opened, Room

OWNER = Identity(token=TOKEN, bot_id="a1b2c3d4e5f6@im.bot", user_id=PEER)


@pytest.fixture
async def weixin() -> AsyncIterator[WeixinServer]:
    async with running(WeixinModel(accounts=[OWNER]), clock=SimulatedClock()) as server:
        yield server
        assert list(server.state.violations) == []


class Inbox:
    """A running inlet and what came through it."""

    def __init__(self, room: Room) -> None:
        self.polled: list[Polled] = []
        self.lost: list[LoginGone] = []
        self.room = room
        self.start("")

    def start(self, cursor: str) -> None:
        self.task = asyncio.create_task(self.room.link.inlet.run(self._deliver, self._lose, cursor))

    async def _deliver(self, polled: Polled) -> None:
        self.polled.append(polled)

    async def _lose(self, gone: LoginGone) -> None:
        self.lost.append(gone)

    @property
    def messages(self) -> list[Any]:
        return [m for p in self.polled for m in p.messages]

    async def got(self, count: int) -> list[Any]:
        await self.room.until(lambda: len(self.messages) >= count)
        return self.messages

    async def stop(self) -> str:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        return self.polled[-1].cursor if self.polled else ""


@pytest.fixture
async def inbox(weixin: WeixinServer, opened: Opened) -> AsyncIterator[Inbox]:
    box = Inbox(opened(weixin.base_url, policy=Policy(pace_ms=0, client_timeout_ms=300)))
    yield box
    await box.stop()


Send = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def send(inbox: Inbox, order: Any) -> Send:
    """Answers the newest message."""
    numbers = iter(range(1, 1_000))

    async def send(**changes: Any) -> Outcome:
        token = inbox.messages[-1].token if inbox.messages else ""
        request = f"q{next(numbers)}"
        return await inbox.room.outcome(order(request, **{"token": token, "text": f"text of {request}", **changes}))

    return send


async def test_a_message_and_its_answer(weixin: WeixinServer, inbox: Inbox, send: Send) -> None:
    weixin.say("hi")
    (message,) = await inbox.got(1)
    assert (message.peer, message.text, message.sent_at) == (PEER, "hi", weixin.clock.now())
    outcome = await send(text="yo")
    (accepted,) = weixin.state.accepted
    assert outcome == Accepted(message_id=str(accepted.message_id))
    assert [line.text for line in weixin.state.shown] == ["hi", "yo"]


@pytest.mark.parametrize("knobs", [{"text_ids": True}, {"ids": "above_int64"}, {"ids": "small"}])
async def test_ids_of_every_kind(weixin: WeixinServer, inbox: Inbox, send: Send, knobs: dict[str, Any]) -> None:
    weixin.state.board.set(knobs)
    said = weixin.say("hi")
    (message,) = await inbox.got(1)
    assert message.message_id == str(said.message_id)
    assert await send() == Accepted(message_id=str(next(iter(weixin.state.accepted)).message_id))


async def test_the_quota_is_refused_and_opened_again(weixin: WeixinServer, inbox: Inbox, send: Send) -> None:
    weixin.say("hi")
    await inbox.got(1)
    outcomes = [await send() for _ in range(11)]
    assert all(isinstance(o, Accepted) and o.message_id for o in outcomes[:10])
    assert outcomes[10] == Refused(failure="blocked", code=-2, error="prepare failed")
    weixin.say("more")
    await inbox.got(2)
    assert isinstance(await send(), Accepted)


async def test_a_silent_drop_is_unconfirmed(weixin: WeixinServer, inbox: Inbox, send: Send) -> None:
    weixin.state.board.set({"tokenless_sends": "swallow"})
    weixin.say("hi")
    await inbox.got(1)
    assert await send(token="") == Accepted()


FAULTS: list[tuple[Fault, Any, int]] = [
    (Fault(where="send", kind="ret", code=-2), "blocked", 0),
    (Fault(where="send", kind="ret", code=-3), "bad_request", 0),
    (Fault(where="send", kind="ret", code=-14, form="errcode"), "login_lost", 0),
    (Fault(where="send", kind="ret", code=-14, form="both"), "login_lost", 0),
    (Fault(where="send", kind="http", status=429), "http_refused", 0),
    (Fault(where="send", kind="http", status=502), "server_error", 0),
    (Fault(where="send", kind="cut_before"), "connection_lost", 0),
    (Fault(where="send", kind="cut_after"), "connection_lost", 1),
    (Fault(where="send", kind="empty_body"), "server_error", 1),
    (Fault(where="send", kind="empty_object"), "", 1),
    (Fault(where="send", kind="omit_message_id", shown=True), "", 1),
    (Fault(where="send", kind="omit_ret"), "id", 1),
]


@pytest.mark.parametrize(("fault", "expected", "accepted"), FAULTS)
async def test_faults_of_a_send(  # noqa: PLR0917 (pytest passes them by name)
    weixin: WeixinServer, inbox: Inbox, send: Send, fault: Fault, expected: str, accepted: int
) -> None:
    """What is reported free is in no ledger of the server; nothing is sent twice."""
    weixin.say("hi")
    await inbox.got(1)
    weixin.state.board.add(fault)
    match await send():
        case Refused(failure=failure):
            assert (failure, accepted) == (expected, 0)
        case Unknown(reason=reason):
            assert reason == expected
        case Accepted(message_id=message_id):
            assert ("id" if message_id else "") == expected
    assert len(list(weixin.state.accepted)) == accepted
    assert weixin.state.counters["sends"] <= 1
    assert weixin.state.counters["client_id_repeats"] == 0


@pytest.mark.parametrize("kind", ["slow_headers", "slow_body"])
async def test_a_late_outcome(weixin: WeixinServer, inbox: Inbox, send: Send, kind: Any) -> None:
    weixin.say("hi")
    await inbox.got(1)
    weixin.state.board.add(Fault(where="send", kind=kind, ms=60_000))
    room = inbox.room
    assert isinstance(await send(), Unknown)
    simulated: Any = weixin.clock
    simulated.advance(60_000)
    await room.until(lambda: len(room.reports) == 2)
    assert room.reports[1][1:] == ("q1", Accepted(message_id=str(next(iter(weixin.state.accepted)).message_id)))


async def test_a_fence_lost_between_the_connection_and_the_bytes(
    weixin: WeixinServer, inbox: Inbox, send: Send
) -> None:
    weixin.say("hi")
    await inbox.got(1)
    fence = inbox.room.fence

    async def lose() -> None:
        await asyncio.sleep(0)
        fence.lost = True

    fence.before = lose
    assert await send() == Refused(failure="not_sent", error="replaced by a newer instance")
    assert inbox.room.fenced == [True]
    assert list(weixin.state.accepted) == []


@pytest.mark.parametrize("kind", ["cut_before", "http", "empty_body", "cut_after"])
async def test_messages_survive_faults_of_the_poll(weixin: WeixinServer, inbox: Inbox, kind: Any) -> None:
    weixin.state.board.add(Fault(where="poll", kind=kind, times=2))
    weixin.say("one")
    weixin.say("two")
    await inbox.got(2)
    assert [m.text for m in inbox.messages] == ["one", "two"]


async def test_a_new_start_takes_up_the_cursor(weixin: WeixinServer, inbox: Inbox) -> None:
    weixin.say("one")
    await inbox.got(1)
    cursor = await inbox.stop()
    assert weixin.state.counters["polls"] >= 1
    weixin.say("two")
    inbox.start(cursor)
    await inbox.got(2)
    assert [m.text for m in inbox.messages] == ["one", "two"]


async def test_a_redelivery_shows_its_id(weixin: WeixinServer, inbox: Inbox) -> None:
    """The inlet passes it on; that it is one message is the peer's decision, by these fields."""
    weixin.state.board.set({"redeliver": "same_id", "redeliver_after_ms": 0})
    weixin.say("one")
    first, again = await inbox.got(2)
    assert (first.message_id, first.text, first.sent_at) == (again.message_id, again.text, again.sent_at)


async def test_echoes_are_no_messages(weixin: WeixinServer, inbox: Inbox, send: Send) -> None:
    weixin.state.board.set({"echo": True})
    weixin.say("hi")
    await inbox.got(1)
    await send()
    await inbox.room.until(lambda: inbox.room.link.inlet.status.echoes == 1)
    assert len(inbox.messages) == 1


async def test_another_binding_ends_the_poll(weixin: WeixinServer, inbox: Inbox) -> None:
    weixin.say("hi")
    await inbox.got(1)
    weixin.state.kill_bots_of(PEER)
    weixin.changed.beat()
    await inbox.task
    assert inbox.lost == [LoginGone(code=-14, where="poll")]


async def test_a_second_poller_is_visible(weixin: WeixinServer, inbox: Inbox, opened: Opened) -> None:
    assert await weixin.until(lambda state: state.counters["polls"] == 1)
    weixin.state.board.set({"second_poller": "refuse"})
    second = Inbox(opened(weixin.base_url))
    await second.room.until(lambda: second.room.link.inlet.status.consecutive_failures >= 2)
    assert "another client polls with this login" in second.room.link.inlet.status.last_error
    await second.stop()


@pytest.mark.parametrize("words", [["wait", "scaned", "confirmed"], ["expired"], ["scaned", "scaned_but_redirect"]])
async def test_a_login(weixin: WeixinServer, words: list[str]) -> None:
    told: list[str] = []

    def show(_url: str) -> None:
        code = phone.find_code(weixin.state, None)
        host = weixin.base_url.removeprefix("http://")
        if len(weixin.state.codes) == 1:
            phone.script(code, words, user_id="o9new@im.wechat", host=host)
        else:
            phone.confirm(weixin.state, code, "o9new@im.wechat")
        if "scaned_but_redirect" in words:
            asyncio.get_running_loop().call_later(0.05, confirm)

    def confirm() -> None:
        phone.confirm(weixin.state, phone.find_code(weixin.state, None), "o9new@im.wechat")
        weixin.changed.beat()

    result = await log_in(
        base_url=weixin.base_url, ids=SeededIds(1), show=show, ask_code=_no_digits, say=told.append, pause_ms=1
    )
    assert isinstance(result, Credentials)
    assert (result.user_id, result.base_url) == ("o9new@im.wechat", weixin.base_url)
    assert result.token in weixin.state.accounts


async def test_a_login_with_digits(weixin: WeixinServer) -> None:
    digits = iter(["000", "123"])

    def show(_url: str) -> None:
        phone.scan(phone.find_code(weixin.state, None), digits="123")

    async def ask() -> str:
        typed = next(digits)
        if typed == "123":
            asyncio.get_running_loop().call_later(0.05, confirm)
        return typed

    def confirm() -> None:
        phone.confirm(weixin.state, phone.find_code(weixin.state, None), PEER)
        weixin.changed.beat()

    result = await log_in(
        base_url=weixin.base_url, ids=SeededIds(1), show=show, ask_code=ask, say=lambda _: None, pause_ms=1
    )
    assert isinstance(result, Credentials)


async def test_a_login_that_is_bound_already(weixin: WeixinServer) -> None:
    def show(_url: str) -> None:
        phone.confirm(weixin.state, phone.find_code(weixin.state, None), PEER)

    result = await log_in(
        base_url=weixin.base_url,
        tokens=(TOKEN,),
        ids=SeededIds(1),
        show=show,
        ask_code=_no_digits,
        say=lambda _: None,
        pause_ms=1,
    )
    assert result == AlreadyConnected()


async def test_a_login_that_nobody_scans(weixin: WeixinServer) -> None:
    def show(_url: str) -> None:
        phone.script(phone.find_code(weixin.state, None), ["expired"])

    with pytest.raises(LoginFailed, match="3 codes"):
        await log_in(
            base_url=weixin.base_url, ids=SeededIds(1), show=show, ask_code=_no_digits, say=lambda _: None, pause_ms=1
        )
    assert weixin.state.counters["codes"] == 3


async def _no_digits() -> str:
    raise AssertionError("nobody was to be asked")
