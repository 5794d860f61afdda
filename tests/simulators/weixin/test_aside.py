from __future__ import annotations

import pytest

from tests.simulators.asking import OWNER, Bot

UPLOAD = {
    "filekey": "0" * 32,
    "media_type": 3,
    "to_user_id": OWNER.user_id,
    "rawsize": 16,
    "rawfilemd5": "a" * 32,
    "filesize": 32,
    "aeskey": "f" * 32,
}


@pytest.fixture
def bot() -> Bot:
    bot = Bot()
    bot.say()
    return bot


def ticket(bot: Bot) -> str:
    return bot.call("getconfig", {"ilink_user_id": OWNER.user_id})["typing_ticket"]


def typing(bot: Bot, status: int, secret: str | None = None) -> int:
    body = {"ilink_user_id": OWNER.user_id, "typing_ticket": secret or ticket(bot), "status": status}
    return bot.call("sendtyping", body)["ret"]


def test_config_gives_a_ticket_and_no_context_token(bot: Bot) -> None:
    reply = bot.call("getconfig", {"ilink_user_id": OWNER.user_id, "context_token": bot.token})
    assert set(reply) == {"ret", "typing_ticket"}
    assert reply["typing_ticket"] == ticket(bot)


def test_config_of_the_wrong_key(bot: Bot) -> None:
    assert bot.call("getconfig", {"user_id": OWNER.user_id}) == {"ret": -2, "errmsg": "ilink_user_id required"}
    assert bot.rules == ["user_missing"]


@pytest.mark.parametrize(("needs", "expected"), [(True, -4), (False, 0)])
def test_config_before_the_first_message(needs: bool, expected: int) -> None:
    bot = Bot()
    bot.knob(config_needs_message=needs)
    assert bot.call("getconfig", {"ilink_user_id": OWNER.user_id})["ret"] == expected
    bot.say()
    assert bot.call("getconfig", {"ilink_user_id": OWNER.user_id})["ret"] == 0


def test_typing_is_counted_and_free(bot: Bot) -> None:
    assert [typing(bot, status) for status in (1, 1, 2)] == [0, 0, 0]
    assert (bot.chat.typing_starts, bot.chat.typing_stops, bot.chat.windows[0].spent) == (2, 1, 0)
    assert bot.state.counters["typing"] == 3
    assert len(bot.state.accepted) == 0


def test_typing_may_cost_a_reply(bot: Bot) -> None:
    bot.knob(typing_costs=True, quota=2)
    assert [typing(bot, 1), typing(bot, 2), typing(bot, 1), typing(bot, 1)] == [0, 0, 0, 0]
    assert [(row.typing, row.slot) for row in bot.state.accepted] == [(True, 1), (True, 2)]
    assert bot.send()["ret"] == -2


def test_tickets_expire(bot: Bot) -> None:
    bot.knob(ticket_life_ms=1000)
    old = ticket(bot)
    bot.now += 1000
    assert typing(bot, 2, old) == -2
    assert ticket(bot) != old
    assert typing(bot, 2, "never issued") == -2


@pytest.mark.parametrize(
    ("treatment", "expected"),
    [("accept", {"ret": 0}), ("-1", {"ret": -1}), ("-2", {"ret": -2}), ("-14", {"errcode": -14})],
)
def test_uploads_may_insist_on_a_context_token(bot: Bot, treatment: str, expected: dict[str, int]) -> None:
    bot.knob(tokenless_uploads=treatment)
    reply = bot.call("getuploadurl", UPLOAD)
    assert {key: reply.get(key) for key in expected} == expected
    assert bot.call("getuploadurl", UPLOAD | {"context_token": bot.token})["upload_param"]


def test_an_upload_to_nobody(bot: Bot) -> None:
    assert bot.call("getuploadurl", UPLOAD | {"to_user_id": "dummy"})["ret"] == -1


def test_start_and_stop(bot: Bot) -> None:
    assert [bot.call("msg/notifystart"), bot.call("msg/notifystop")] == [{"ret": 0}, {"ret": 0}]
    assert (bot.state.counters["starts"], bot.state.counters["stops"]) == (1, 1)
