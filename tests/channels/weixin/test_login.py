from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.channels.errors import BadCredentials, LoginFailed
from actors.channels.weixin import login as machine
from actors.channels.weixin.login import AlreadyConnected, AskCode, Create, Fail, Finish, Login, Poll
from actors.channels.weixin.wire import QrCode, QrStatus, Trouble
from actors.ports import Credentials
from actors.runtime.clock import SeededIds
from tests.channels.weixin.fake import PEER, TOKEN, Say, Server

HOME = "https://ilinkai.weixin.qq.com"
CODE = QrCode(key="k1", url="https://liteapp.weixin.qq.com/q/1")
CONFIRMED = QrStatus(status="confirmed", token=TOKEN, bot_id="a1b2c3d4e5f6@im.bot", user_id=PEER, base_url=HOME)


def scanned(home: str = HOME, tokens: tuple[str, ...] = ()) -> Login:
    return machine.created(machine.begin(home, tokens), CODE)


def word(status: str, **fields: str) -> QrStatus:
    return QrStatus(status=status, **fields)


def test_begins_with_a_code_and_shows_its_url_once() -> None:
    login = machine.begin(HOME, ("t1",))
    assert login.step == Create(tokens=("t1",))
    login = machine.created(login, CODE)
    assert (login.show, login.step) == (CODE.url, Poll(base_url=HOME, query={"qrcode": "k1"}))
    assert machine.polled(login, word("wait")).show == ""


@pytest.mark.parametrize(
    "answer", [word("wait"), word("scaned"), word("a new word"), Trouble(kind="http", status=524, detail="")]
)
def test_what_only_means_to_ask_again(answer: Any) -> None:
    assert machine.polled(scanned(), answer).step == Poll(base_url=HOME, query={"qrcode": "k1"}, pause_ms=1_000)


def test_says_once_that_it_was_scanned() -> None:
    login = machine.polled(scanned(), word("scaned"))
    assert login.say
    assert not machine.polled(login, word("scaned")).say


def test_digits_are_asked_and_sent_until_they_are_right() -> None:
    login = machine.polled(scanned(), word("need_verifycode"))
    assert login.step == AskCode()
    login = machine.coded(login, " 123 ")
    assert login.step == Poll(base_url=HOME, query={"qrcode": "k1", "verify_code": "123"})
    login = machine.polled(login, word("need_verifycode"))
    assert (login.step, "wrong" in login.say) == (AskCode(), True)
    login = machine.polled(machine.coded(login, "456"), word("scaned"))
    assert login.step == Poll(base_url=HOME, query={"qrcode": "k1"}, pause_ms=1_000)


def test_no_digits_are_asked_again() -> None:
    assert machine.coded(machine.polled(scanned(), word("need_verifycode")), "  ").step == AskCode()


@pytest.mark.parametrize("why", ["expired", "verify_code_blocked"])
def test_three_codes_at_most(why: str) -> None:
    login = scanned()
    for shown in (2, 3):
        login = machine.polled(login, word(why))
        assert login.step == Create(tokens=())
        login = machine.created(login, CODE)
        assert login.shown == shown
    assert isinstance(machine.polled(login, word(why)).step, Fail)


def test_refused_tokens_are_left_out_once() -> None:
    bad = Trouble(kind="refused", code=-3, detail="refused with -3")
    login = machine.created(machine.begin(HOME, ("t1",)), bad)
    assert login.step == Create(tokens=())
    assert isinstance(machine.created(login, bad).step, Fail)


@pytest.mark.parametrize(
    ("home", "host", "asked"),
    [
        (HOME, "sz.weixin.qq.com", "https://sz.weixin.qq.com"),
        (HOME, "", HOME),
        (HOME, "evil.example", None),
        (HOME, "127.0.0.1:80", None),
        ("http://127.0.0.1:9000", "127.0.0.1:9001", "http://127.0.0.1:9001"),
    ],
)
def test_redirects(home: str, host: str, asked: str | None) -> None:
    step = machine.polled(scanned(home), word("scaned_but_redirect", redirect_host=host)).step
    if asked is None:
        assert isinstance(step, Fail)
    else:
        assert isinstance(step, Poll)
        assert step.base_url == asked


def test_a_new_code_is_asked_for_at_home() -> None:
    login = machine.polled(scanned(), word("scaned_but_redirect", redirect_host="sz.weixin.qq.com"))
    login = machine.created(machine.polled(login, word("expired")), CODE)
    assert login.base_url == HOME


def test_bound_already_is_a_success_without_credentials() -> None:
    assert machine.polled(scanned(), word("binded_redirect")).step == Finish(result=AlreadyConnected())


def test_confirmed() -> None:
    expected = Credentials(token=TOKEN, base_url=HOME, user_id=PEER, bot_id="a1b2c3d4e5f6@im.bot")
    assert machine.polled(scanned(), CONFIRMED).step == Finish(result=expected)


@pytest.mark.parametrize("missing", ["token", "bot_id", "user_id"])
def test_confirmed_without_what_it_takes_fails(missing: str) -> None:
    fields = {"token": TOKEN, "bot_id": "b", "user_id": PEER, "base_url": HOME, missing: ""}
    step = machine.polled(scanned(), word("confirmed", **fields)).step
    assert isinstance(step, Fail)
    assert TOKEN not in step.reason


def test_the_server_may_not_send_the_token_anywhere() -> None:
    fields = {"token": TOKEN, "bot_id": "b", "user_id": PEER, "base_url": "https://evil.example"}
    assert isinstance(machine.polled(scanned(), word("confirmed", **fields)).step, Fail)


def test_confirmed_without_a_server_keeps_the_one_that_was_asked() -> None:
    login = machine.polled(scanned(), word("scaned_but_redirect", redirect_host="sz.weixin.qq.com"))
    step = machine.polled(login, word("confirmed", token=TOKEN, bot_id="b", user_id=PEER)).step
    assert isinstance(step, Finish)
    assert isinstance(step.result, Credentials)
    assert step.result.base_url == "https://sz.weixin.qq.com"


WORDS = st.sampled_from(
    ["wait", "scaned", "scaned_but_redirect", "need_verifycode", "verify_code_blocked", "expired", "binded_redirect",
     "confirmed", "?"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=40))
def test_any_order_of_words_ends_or_goes_on(words: list[str]) -> None:
    login = scanned()
    for status in words:
        match login.step:
            case Create():
                login = machine.created(login, CODE)
            case AskCode():
                login = machine.coded(login, "1")
            case Finish() | Fail():
                break
            case Poll():
                pass
        login = machine.polled(login, word(status))
        assert login.shown <= 3


class Person:
    """Who looks at the screen."""

    def __init__(self, *digits: str) -> None:
        self.digits = list(digits)
        self.shown: list[str] = []
        self.told: list[str] = []

    async def log_in(self, server: Server, **more: Any) -> Credentials | AlreadyConnected:
        return await machine.log_in(
            base_url=server.url,
            ids=SeededIds(1),
            show=self.shown.append,
            ask_code=self.ask,
            say=self.told.append,
            pause_ms=1,
            **more,
        )

    async def ask(self) -> str:
        return self.digits.pop(0)


QR = Say({"qrcode": "k1", "qrcode_img_content": "https://liteapp.weixin.qq.com/q/1?qrcode=k1&bot_type=3"})


async def test_the_shell_runs_it_all(server: Server) -> None:
    server.says("get_bot_qrcode", Say({"ret": -3}), QR)
    server.says(
        "get_qrcode_status",
        Say({"status": "wait"}),
        Say(b"<html>", status=524),
        Say(cut=True),
        Say({"status": "need_verifycode"}),
        Say({"status": "scaned"}),
        Say({"status": "confirmed", "bot_token": TOKEN, "ilink_bot_id": "b@im.bot", "ilink_user_id": PEER,
             "baseurl": server.url}),
    )  # fmt: skip
    person = Person("123")
    result = await person.log_in(server, tokens=("old",))
    assert result == Credentials(token=TOKEN, base_url=server.url, user_id=PEER, bot_id="b@im.bot")
    assert len(person.shown) == 1
    asked = server.to("get_bot_qrcode")
    assert [c.body for c in asked] == [{"local_token_list": ["old"]}, {"local_token_list": []}]
    assert (asked[0].query, "Authorization" in asked[0].headers) == ({"bot_type": "3"}, False)
    polls = server.to("get_qrcode_status")
    assert [p.query.get("verify_code") for p in polls] == [None, None, None, None, "123", None]
    assert "AuthorizationType" not in polls[0].headers
    assert polls[0].headers["iLink-App-ClientVersion"] == "132105"


async def test_nobody_in_time(server: Server) -> None:
    server.says("get_bot_qrcode", QR)
    server.says("get_qrcode_status", Say(headers_after=asyncio.Event()))
    with pytest.raises(LoginFailed, match="in time"):
        await Person().log_in(server, deadline_ms=100)


async def test_no_code_is_a_clear_failure(server: Server) -> None:
    server.says("get_bot_qrcode", Say(b"down", status=503))
    with pytest.raises(LoginFailed, match="HTTP 503"):
        await Person().log_in(server)


def test_import() -> None:
    data = json.dumps({"token": TOKEN, "baseUrl": HOME + "/", "userId": PEER, "savedAt": "x"}).encode()
    expected = Credentials(token=TOKEN, base_url=HOME, user_id=PEER, bot_id="a1b2c3d4e5f6@im.bot")
    assert machine.import_credentials(data) == expected


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not JSON"),
        (b"[" * 60_000, "not JSON|not as expected"),
        (b" " * 70_000, "too large"),
        (b"[]", "not as expected"),
        ({"baseUrl": HOME, "userId": PEER}, "token"),
        ({"token": 5, "baseUrl": HOME, "userId": PEER}, "token"),
        ({"token": "a\nb", "baseUrl": HOME, "userId": PEER}, "token"),
        ({"token": TOKEN, "baseUrl": HOME, "userId": " "}, "userId"),
        ({"token": TOKEN, "userId": PEER}, "baseUrl"),
        ({"token": TOKEN, "baseUrl": "https://evil.example", "userId": PEER}, "baseUrl"),
        ({"token": TOKEN, "baseUrl": "http://127.0.0.1:1", "userId": PEER}, "baseUrl"),
    ],
)
def test_imports_that_fail_say_why(data: Any, says: str) -> None:
    with pytest.raises(BadCredentials, match=says) as raised:
        machine.import_credentials(data if isinstance(data, bytes) else json.dumps(data).encode())
    assert TOKEN not in str(raised.value)
