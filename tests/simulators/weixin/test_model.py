"""The model as a whole: paths, stale tokens, faults at each endpoint, and determinism."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.simulators.weixin.codec import Request
from scripts.simulators.weixin.model import ENDPOINTS, HTML, WeixinModel
from scripts.simulators.weixin.state import Answer, Hold
from tests.simulators.asking import OWNER, START, Bot, message, read, texts

PLACES = {
    "poll": ("getupdates", {"get_updates_buf": ""}),
    "config": ("getconfig", {"ilink_user_id": OWNER.user_id}),
    "start": ("msg/notifystart", {}),
    "stop": ("msg/notifystop", {}),
}


@pytest.fixture
def bot() -> Bot:
    bot = Bot()
    bot.say()
    return bot


def ask(bot: Bot, place: str) -> Answer:
    answer = bot.try_send() if place == "send" else bot.ask(*PLACES[place])
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.parametrize(
    ("method", "path", "status", "rule"),
    [
        ("POST", "/ilink/bot/sendmessages", 404, "path"),
        ("GET", "/", 404, "path"),
        ("GET", "/ilink/bot/getupdates", 405, "method"),
        ("POST", "/ilink/bot/get_qrcode_status", 405, "method"),
    ],
)
def test_wrong_paths_and_methods(bot: Bot, method: str, path: str, status: int, rule: str) -> None:
    answer = bot.model.handle(Request(method=method, path=path), START)
    assert isinstance(answer, Answer)
    assert (answer.status, bot.rules) == (status, [rule])


def test_a_body_that_is_no_json(bot: Bot) -> None:
    request = msgspec.structs.replace(bot.request("sendmessage", {}), body=b"<xml/>")
    assert read(bot.model.handle(request, START))["ret"] == -3
    assert bot.rules == ["json"]


@pytest.mark.parametrize("place", ["poll", "send", "config", "start"])
def test_a_stale_token_is_told_so_everywhere(bot: Bot, place: str) -> None:
    bot.state.find_account(None).alive = False
    assert json.loads(ask(bot, place).body) == {"ret": -14, "errcode": -14, "errmsg": "session timeout"}
    assert bot.rules == [], "the client could not know"
    assert [row.reason for row in bot.state.refused] == (["login"] if place == "send" else [])


def test_a_held_poll_learns_that_its_token_went_stale() -> None:
    bot = Bot()
    hold = bot.poll()
    assert isinstance(hold, Hold)
    bot.state.kill_bots_of(OWNER.user_id)
    assert read(bot.model.resume(hold, START))["errcode"] == -14
    assert bot.state.accounts[OWNER.token].poll is None


@pytest.mark.parametrize("code", [-1, -2, -3, -4, -14])
@pytest.mark.parametrize(("form", "keys"), [("both", {"ret", "errcode"}), ("errcode", {"errcode"}), ("ret", {"ret"})])
@pytest.mark.parametrize("place", ["poll", "send", "config"])
def test_forced_codes(bot: Bot, place: str, code: int, form: str, keys: set[str]) -> None:
    bot.fault(where=place, kind="ret", code=code, form=form)
    assert json.loads(ask(bot, place).body) == dict.fromkeys(keys, code)
    assert (len(bot.state.accepted), bot.chat.windows[0].spent) == (0, 0)
    assert json.loads(ask(bot, place).body)["ret"] == 0, "once only"


@pytest.mark.parametrize("place", ["poll", "send", "config", "stop"])
@pytest.mark.parametrize(
    ("fault", "expected", "handled"),
    [
        ({"kind": "cut_before"}, {"cut": True}, False),
        ({"kind": "cut_after"}, {"cut": True}, True),
        ({"kind": "empty_body"}, {"body": b""}, True),
        ({"kind": "empty_object"}, {"body": b"{}"}, True),
        ({"kind": "http", "status": 403, "html": False}, {"status": 403, "body": b""}, False),
        ({"kind": "http", "status": 524}, {"status": 524, "body": HTML, "content_type": "text/html"}, False),
        ({"kind": "slow_headers", "ms": 70}, {"headers_after_ms": 70, "status": 200}, True),
        ({"kind": "slow_body", "ms": 80}, {"body_after_ms": 80, "status": 200}, True),
    ],
)
def test_faults_at_each_place(bot: Bot, place: str, fault: Any, expected: dict[str, Any], handled: bool) -> None:
    bot.fault(where=place, **fault)
    answer = ask(bot, place)
    assert {key: getattr(answer, key) for key in expected} == expected
    counter = {"poll": "polls", "send": "sends", "config": "configs", "stop": "stops"}[place]
    assert bot.state.counters[counter] == int(handled)


@pytest.mark.parametrize(("kind", "accepted", "told"), [("cut_before", 0, []), ("cut_after", 1, [False])])
def test_a_cut_before_or_after_acceptance(bot: Bot, kind: str, accepted: int, told: list[bool]) -> None:
    bot.fault(where="send", kind=kind)
    ask(bot, "send")
    assert len(bot.state.accepted) == bot.chat.windows[0].spent == accepted
    assert [row.told for row in bot.state.accepted] == told
    assert len(bot.state.shown) == 1 + accepted
    assert [row.reason for row in bot.state.refused] == ["forced"] * (1 - accepted)


@pytest.mark.parametrize(("delivery", "again"), [("cursor", ["hello"]), ("consumed", [])])
def test_a_poll_whose_answer_was_lost(bot: Bot, delivery: str, again: list[str]) -> None:
    bot.knob(delivery=delivery)
    bot.fault(where="poll", kind="cut_after")
    ask(bot, "poll")
    assert texts(bot.updates()) == again


def test_a_fault_waits_out_the_hold() -> None:
    bot = Bot()
    bot.fault(where="poll", kind="empty_body")
    hold = bot.poll()
    assert isinstance(hold, Hold)
    bot.say()
    answer = bot.model.resume(hold, START)
    assert isinstance(answer, Answer)
    assert answer.body == b""


def test_a_fault_for_one_user(bot: Bot) -> None:
    bot.say(user="o9Guest@im.wechat")
    guest = bot.state.find_chat(None, "o9Guest@im.wechat")
    bot.fault(where="send", kind="ret", user=guest.user, times=None)
    assert bot.send()["ret"] == 0
    assert bot.send(user=guest.user, token=guest.newest_token)["ret"] == -2


def test_poll_success_without_ret(bot: Bot) -> None:
    bot.fault(where="poll", kind="omit_ret")
    assert "ret" not in json.loads(ask(bot, "poll").body)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = """msg to_user_id item_list type text_item text image_item media base_info client_id get_updates_buf
ilink_user_id typing_ticket rawsize local_token_list bot_agent"""
keys = st.sampled_from(sorted(KEYS.split()))
nested = st.recursive(
    anything, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
)


@given(path=st.sampled_from(sorted(ENDPOINTS)), body=st.dictionaries(keys, nested, max_size=5), user=st.booleans())
def test_no_body_makes_it_fail(path: str, body: dict[str, Any], user: bool) -> None:
    bot = Bot()
    bot.say()
    if user and isinstance(body.get("msg"), dict):
        body["msg"]["to_user_id"] = OWNER.user_id
    result = bot.ask(path, body)
    assert isinstance(result, Hold) or result.status in (200, 405)


@given(st.binary(max_size=40), st.text(max_size=20))
def test_no_bytes_make_it_fail(body: bytes, header: str) -> None:
    bot = Bot()
    request = bot.request("sendmessage", {}, x_wechat_uin=header, ilink_app_clientversion=header)
    assert read(bot.model.handle(msgspec.structs.replace(request, body=body), START))["ret"] == -3


def test_a_lone_surrogate_is_no_json(bot: Bot) -> None:
    request = bot.request("sendmessage", {"msg": message("\ud800", token=bot.token, client_id="c")})
    assert read(bot.model.handle(request, START))["ret"] == -3


def history(seed: str) -> list[str]:
    bot = Bot(model=WeixinModel(seed=seed, accounts=[OWNER]))
    bot.say()
    replies = [bot.send(), bot.call(*PLACES["config"]), bot.call(*PLACES["poll"])]
    return [json.dumps(reply) for reply in replies]


def test_the_same_requests_give_the_same_answers() -> None:
    assert history("a") == history("a") != history("b")


def test_reset_keeps_the_living_accounts(bot: Bot) -> None:
    bot.send()
    bot.knob(quota=1)
    bot.model.reset()
    assert (len(bot.state.accepted), len(bot.state.shown), bot.state.board.look("quota")) == (0, 0, 10)
    assert list(bot.state.accounts) == [OWNER.token]
    assert bot.chat.window is None
