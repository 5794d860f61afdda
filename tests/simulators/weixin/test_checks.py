"""Each rule: a faithful request breaks none, and each small change breaks exactly the one that is meant."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.simulators.asking import OWNER, Bot, message, read, text_item

UPLOAD = {
    "filekey": "0" * 32,
    "media_type": 1,
    "to_user_id": OWNER.user_id,
    "rawsize": 20,
    "rawfilemd5": "a" * 32,
    "filesize": 32,
    "no_need_thumb": True,
    "aeskey": "f" * 32,
}
IMAGE = {"media": {"encrypt_query_param": "x", "aes_key": "k" * 44, "encrypt_type": 1}, "mid_size": 32}


@pytest.fixture
def bot() -> Bot:
    bot = Bot()
    bot.say()
    return bot


def test_a_faithful_client_breaks_no_rule(bot: Bot) -> None:
    bot.updates()
    bot.send("hi")
    bot.send("", item_list=[{"type": 2, "image_item": IMAGE}])
    ticket = bot.call("getconfig", {"ilink_user_id": OWNER.user_id})["typing_ticket"]
    bot.call("sendtyping", {"ilink_user_id": OWNER.user_id, "typing_ticket": ticket, "status": 1})
    bot.call("getuploadurl", UPLOAD)
    bot.call("msg/notifystart")
    bot.call("msg/notifystop")
    assert bot.rules == []


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"ilink_app_id": None}, "app_id"),
        ({"ilink_app_id": "Bot"}, "app_id"),
        ({"ilink_app_clientversion": None}, "client_version"),
        ({"ilink_app_clientversion": "2.4.9"}, "client_version"),
        ({"content_type": "text/plain"}, "content_type"),
        ({"authorizationtype": None}, "authorization_type"),
        ({"x_wechat_uin": None}, "uin"),
        ({"x_wechat_uin": base64.b64encode(b"\0\0\0\1").decode()}, "uin"),
        ({"authorization": None}, "bearer"),
        ({"authorization": "Bearer other"}, "bearer"),
        ({"authorization": OWNER.token}, "bearer"),
    ],
)
def test_headers(bot: Bot, changed: dict[str, str | None], rule: str) -> None:
    bot.model.handle(bot.request("msg/notifystart", {}, **changed), bot.now)
    assert bot.rules == [rule]


def test_uin_varies(bot: Bot) -> None:
    same = {"x_wechat_uin": base64.b64encode(b"77").decode()}
    for _ in range(2):
        bot.model.handle(bot.request("msg/notifystart", {}, **same), bot.now)
    assert bot.rules == ["uin_repeated"]


@pytest.mark.parametrize(
    ("info", "rules"),
    [
        (None, ["base_info"]),
        ({}, ["base_info"]),
        ({"channel_version": 2}, ["base_info"]),
        ({"channel_version": "1"}, []),
        ({"channel_version": "1", "bot_agent": "x" * 257}, ["bot_agent"]),
        ({"channel_version": "1", "bot_agent": "机器人"}, ["bot_agent"]),
    ],
)
def test_base_info(bot: Bot, info: Any, rules: list[str]) -> None:
    bot.call("msg/notifystart", {"base_info": info})
    assert bot.rules == rules


@pytest.mark.parametrize(
    ("changed", "rule", "code"),
    [
        ({"to_user_id": OWNER.user_id.lower()}, "user_case", -3),
        ({"to_user_id": "someone@im.wechat"}, "user", -3),
        ({"to_user_id": ""}, "user_missing", -3),
        ({"from_user_id": OWNER.bot_id}, "from_user_id", -3),
        ({"client_id": ""}, "client_id", -3),
        ({"message_type": 1}, "message_type", -3),
        ({"message_state": 1}, "message_state", -3),
        ({"item_list": []}, "items", -3),
        ({"item_list": [text_item("a"), text_item("b")]}, "items", -3),
        ({"item_list": [{"type": 9}]}, "item_type", -3),
        ({"item_list": [text_item("")]}, "text_missing", -2),
        ({"item_list": [text_item("字" * 5462)]}, "text_bytes", -2),
        ({"item_list": [text_item("hi") | {"create_time_ms": 1}]}, "inbound_only_key", -3),
        ({"item_list": [{"type": 2, "image_item": IMAGE | {"aeskey": "f" * 32}}]}, "inbound_only_key", -3),
        ({"item_list": [{"type": 2, "image_item": {"media": {"aes_key": "short"}}}]}, "aes_key", -3),
        ({"session_id": "x"}, "inbound_only_key", -3),
    ],
)
def test_a_wrong_send_is_recorded_and_refused(bot: Bot, changed: dict[str, Any], rule: str, code: int) -> None:
    body = {"msg": message("hi", token=bot.token, client_id="c") | changed}
    assert read(bot.ask("sendmessage", body))["ret"] == code
    assert bot.rules == [rule]
    assert [(row.code, row.reason) for row in bot.state.refused] == [(code, "invalid")]
    assert len(bot.state.accepted) == 0


@pytest.mark.parametrize("size", [1, 16_384])
def test_texts_up_to_the_limit_pass(bot: Bot, size: int) -> None:
    assert bot.send("x" * size)["ret"] == 0
    assert bot.rules == []


@pytest.mark.parametrize("msg", [None, [], {"item_list": 7}, {"to_user_id": 7}])
def test_a_send_of_the_wrong_shape(bot: Bot, msg: Any) -> None:
    assert bot.call("sendmessage", {"msg": msg})["ret"] == -3
    assert bot.rules == ["msg"]


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"filekey": "zz"}, "filekey"),
        ({"aeskey": "F" * 31}, "aeskey"),
        ({"rawfilemd5": ""}, "rawfilemd5"),
        ({"media_type": 9}, "media_type"),
        ({"filesize": 20}, "filesize"),
        ({"rawsize": 32}, "filesize"),
        ({"to_user_id": "dummy"}, "user"),
    ],
)
def test_uploads(bot: Bot, changed: dict[str, Any], rule: str) -> None:
    bot.call("getuploadurl", UPLOAD | changed)
    assert bot.rules == [rule]


@pytest.mark.parametrize(
    ("body", "rules"),
    [({"get_updates_buf": ""}, []), ({}, ["cursor"]), ({"get_updates_buf": "Ck1leGFtcGxl"}, ["cursor"])],
)
def test_cursors(bot: Bot, body: dict[str, Any], rules: list[str]) -> None:
    bot.ask("getupdates", body)
    assert bot.rules == rules
