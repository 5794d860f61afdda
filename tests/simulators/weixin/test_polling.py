from __future__ import annotations

from typing import Any

import pytest

from scripts.simulators.errors import UnknownAccountError, UnknownMessageError
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.polling import find_delivery, redeliver
from scripts.simulators.weixin.state import Answer, Hold
from tests.simulators.asking import OWNER, START, Bot, read, text_item, texts


@pytest.fixture
def bot() -> Bot:
    return Bot()


def held(answer: Answer | Hold) -> Hold:
    assert isinstance(answer, Hold)
    return answer


def resumed(bot: Bot, hold: Hold) -> dict[str, Any]:
    return read(bot.model.resume(hold, bot.now))


def test_a_message_as_it_comes(bot: Bot) -> None:
    said = bot.say("hello")
    (message,) = bot.updates()
    assert message == {
        "seq": 1,
        "message_id": said.message_id,
        "from_user_id": OWNER.user_id,
        "to_user_id": OWNER.bot_id,
        "client_id": f"wx-{said.message_id}",
        "create_time_ms": START,
        "session_id": f"{OWNER.user_id}#{OWNER.bot_id}",
        "message_type": 1,
        "message_state": 2,
        "context_token": bot.token,
        "item_list": [text_item("hello")],
    }
    assert said.message_id > 2**53


def test_each_message_brings_a_new_context_token(bot: Bot) -> None:
    for _ in range(3):
        bot.say()
    assert len({message["context_token"] for message in bot.updates()}) == 3


def test_an_idle_poll_is_held_and_ends_empty(bot: Bot) -> None:
    hold = held(bot.poll())
    assert hold.until == START + 35_000
    bot.now += 34_999
    assert isinstance(bot.model.resume(hold, bot.now), Hold)
    bot.now += 1
    reply = resumed(bot, hold)
    assert (reply["ret"], reply["msgs"], reply["longpolling_timeout_ms"]) == (0, [], 35_000)
    assert reply["get_updates_buf"]


def test_a_held_poll_gets_the_message(bot: Bot) -> None:
    hold = held(bot.poll())
    bot.say("now")
    assert texts(resumed(bot, hold)["msgs"]) == ["now"]


@pytest.mark.parametrize(
    ("values", "until_ms", "advertised"),
    [({"hold_ms": 5}, 5, 35_000), ({"hold_ms": 90_000}, 90_000, 35_000), ({"advertised_ms": None}, 35_000, None)],
)
def test_hold_and_what_is_advertised(bot: Bot, values: dict[str, Any], until_ms: int, advertised: int | None) -> None:
    bot.knob(**values)
    hold = held(bot.poll())
    assert hold.until == START + until_ms
    bot.now += until_ms
    assert resumed(bot, hold).get("longpolling_timeout_ms") == advertised


@pytest.mark.parametrize(("delivery", "again"), [("cursor", ["a", "b"]), ("consumed", [])])
def test_an_old_cursor(bot: Bot, delivery: str, again: list[str]) -> None:
    bot.knob(delivery=delivery)
    bot.say("a")
    bot.say("b")
    assert texts(bot.updates(keep=False)) == ["a", "b"]
    assert texts(bot.updates()) == again
    assert texts(bot.updates()) == []


@pytest.mark.parametrize(("empty_cursor", "expected"), [("unacknowledged", ["b"]), ("everything", ["a", "b"])])
@pytest.mark.parametrize("delivery", ["cursor", "consumed"])
def test_an_empty_cursor(bot: Bot, empty_cursor: str, expected: list[str], delivery: str) -> None:
    bot.say("a")
    bot.updates()
    bot.updates()  # this one acknowledges
    bot.say("b")
    bot.knob(empty_cursor=empty_cursor, delivery=delivery)
    assert texts(bot.updates("")) == expected


def test_everything_again_once(bot: Bot) -> None:
    bot.say("a")
    bot.updates()
    bot.updates()
    bot.knob(empty_cursor="everything", times=1)
    assert [texts(bot.updates("")), texts(bot.updates(""))] == [["a"], []]


@pytest.mark.parametrize("new_id", [False, True])
def test_redelivery_after_a_while(bot: Bot, new_id: bool) -> None:
    bot.knob(redeliver="new_id" if new_id else "same_id", redeliver_after_ms=1000, times=1)
    bot.say("once")
    (first,) = bot.updates()
    bot.say("other")
    assert texts(bot.updates()) == ["other"], "what comes late holds nothing up"
    hold = held(bot.poll())
    assert hold.until == START + 1000
    bot.now += 1000
    (second,) = resumed(bot, hold)["msgs"]
    assert (second["message_id"] == first["message_id"]) is not new_id
    same = ("from_user_id", "create_time_ms", "item_list", "client_id", "context_token")
    assert [second[key] for key in same] == [first[key] for key in same]
    assert len(bot.chat.windows) == 2, "a redelivery opens no window"


def test_redelivery_on_demand(bot: Bot) -> None:
    said = bot.say("old")
    bot.updates()
    account = bot.state.find_account(None)
    redeliver(bot.state, bot.now, account, find_delivery(account, said.message_id), new_id=False)
    assert texts(bot.updates()) == ["old"]
    with pytest.raises(UnknownMessageError):
        find_delivery(account, 1)


def test_reordering(bot: Bot) -> None:
    for text in "abc":
        bot.say(text)
    bot.knob(reorder=True)
    assert texts(bot.updates()) == ["c", "b", "a"]


def test_batches(bot: Bot) -> None:
    for text in "abcde":
        bot.say(text)
    bot.knob(batch=2)
    assert [texts(bot.updates()) for _ in range(3)] == [["a", "b"], ["c", "d"], ["e"]]


def test_a_second_poller_steals(bot: Bot) -> None:
    first, second = held(bot.poll()), held(bot.poll())
    bot.say("x")
    assert resumed(bot, first)["msgs"] == []
    assert texts(resumed(bot, second)["msgs"]) == ["x"]


def test_a_second_poller_is_refused(bot: Bot) -> None:
    bot.knob(second_poller="refuse")
    first = held(bot.poll())
    answer = bot.poll()
    assert isinstance(answer, Answer)
    assert answer.status == 403
    bot.say("x")
    assert texts(resumed(bot, first)["msgs"]) == ["x"]
    assert isinstance(bot.poll(), Answer), "the first was answered, so this one is no second"


def test_pollers_may_share(bot: Bot) -> None:
    bot.knob(second_poller="share")
    first, second = held(bot.poll()), held(bot.poll())
    bot.say("x")
    assert [texts(resumed(bot, hold)["msgs"]) for hold in (first, second)] == [["x"], ["x"]]


def test_a_poller_that_went_away_is_none(bot: Bot) -> None:
    bot.knob(second_poller="refuse")
    bot.model.release(held(bot.poll()))
    held(bot.poll())


@pytest.mark.parametrize(
    ("knob", "extra", "expected"),
    [
        ({"clock_skew_ms": -5000}, {}, {"create_time_ms": START - 5000}),
        ({"create_time": "zero"}, {}, {"create_time_ms": 0}),
        ({"inbound_id": "missing"}, {}, {"message_id": None}),
        ({}, {"group_id": "g"}, {"group_id": "g"}),
        ({}, {"message_type": 2}, {"message_type": 2}),
        ({}, {"context_token": None}, {"context_token": None}),
    ],
)
def test_odd_messages(bot: Bot, knob: dict[str, Any], extra: dict[str, Any], expected: dict[str, Any]) -> None:
    bot.knob(**knob)
    bot.say("x", extra=extra)
    (message,) = bot.updates()
    assert {key: message.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    "items",
    [
        [{"type": 3, "voice_item": {"text": "spoken", "playtime": 900}}],
        [{"type": 3, "voice_item": {"playtime": 900}}],
        [{"type": 99, "other_item": {}}],
        [{"text_item": None}],
        [text_item("a"), {"type": 2, "image_item": {}}],
        [text_item("see") | {"ref_msg": {"svr_id": 7497484083968569736}}],
    ],
)
def test_items_go_over_the_wire_as_given(bot: Bot, items: list[dict[str, Any]]) -> None:
    bot.say(items=items)
    assert bot.updates()[0]["item_list"] == items


def test_users_and_bots_are_kept_apart(bot: Bot) -> None:
    other = Bot(Identity(token="t2", bot_id="c3@im.bot", user_id="o9Other@im.wechat"), bot.model)
    bot.state.add_account(other.identity)
    bot.say("to one", bot=OWNER.bot_id)
    bot.say("to two", bot=other.identity.bot_id, user="o9Guest@im.wechat")
    assert [texts(bot.updates()), texts(other.updates())] == [["to one"], ["to two"]]
    with pytest.raises(UnknownAccountError):
        bot.say("to whom?")
