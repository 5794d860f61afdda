"""What becomes of a send, one table per knob; the quota also against a naive recount."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulators.asking import OWNER, START, Bot, texts

DAY = 86_400_000
PREPARE_FAILED = {"ret": -2, "errmsg": "prepare failed"}
OK = "ok"  # ret 0 with an id
SWALLOWED = {"ret": 0}


@pytest.fixture
def bot() -> Bot:
    bot = Bot()
    bot.say()
    return bot


def kind(reply: dict[str, Any]) -> Any:
    return OK if reply.get("ret") == 0 and "message_id" in reply else reply


def shown(bot: Bot) -> list[str]:
    return [row.text for row in bot.state.shown if row.by == "bot"]


def test_the_ledger_says_what_was_accepted(bot: Bot) -> None:
    reply = bot.send("héllo", client_id="c-1")
    (row,) = bot.state.accepted
    assert (row.seq, row.at, row.bot, row.user) == (1, START, OWNER.bot_id, OWNER.user_id)
    assert (row.client_id, row.message_id, row.text, row.bytes) == ("c-1", reply["message_id"], "héllo", 6)
    assert (row.window, row.slot, row.shown, row.told) == (1, 1, True, True)
    assert len(row.token) == 12
    assert row.token not in bot.token
    assert [(line.by, line.text) for line in bot.state.shown] == [("user", "hello"), ("bot", "héllo")]


def test_ten_replies_per_message(bot: Bot) -> None:
    replies = [kind(bot.send()) for _ in range(12)]
    assert replies == [OK] * 10 + [PREPARE_FAILED] * 2
    assert [row.slot for row in bot.state.accepted] == list(range(1, 11))
    assert [row.reason for row in bot.state.refused] == ["quota", "quota"]
    bot.say("more")
    assert kind(bot.send()) == OK
    assert [(window.spent, window.tried) for window in bot.chat.windows] == [(10, 12), (1, 1)]


@pytest.mark.parametrize(
    ("beyond", "expected"),
    [("prepare_failed", PREPARE_FAILED), ("bare", {"ret": -2}), ("swallow", SWALLOWED)],
)
def test_beyond_the_quota(bot: Bot, beyond: str, expected: dict[str, Any]) -> None:
    bot.knob(quota=1, beyond_quota=beyond)
    assert [kind(bot.send("a")), kind(bot.send("b"))] == [OK, expected]
    assert shown(bot) == ["a"]
    assert (bot.chat.windows[0].spent, bot.chat.windows[0].over) == (1, int(beyond == "swallow"))
    assert [row.slot for row in bot.state.accepted] == ([1, 0] if beyond == "swallow" else [1])


@pytest.mark.parametrize(("after_ms", "expected"), [(DAY - 1, OK), (DAY, PREPARE_FAILED)])
def test_the_window_closes_after_a_day(bot: Bot, after_ms: int, expected: Any) -> None:
    bot.knob(expired_tokens="accept")
    bot.now += after_ms
    assert kind(bot.send()) == expected
    assert [row.reason for row in bot.state.refused] == ([] if expected == OK else ["window"])


def test_nothing_before_the_first_message() -> None:
    bot = Bot()
    bot.knob(tokenless_sends="accept")
    assert bot.send(token="") == PREPARE_FAILED
    assert [row.reason for row in bot.state.refused] == ["window"]


def test_a_counted_quota_is_used_by_sends(bot: Bot) -> None:
    bot.knob(quota=0, times=1)
    assert [kind(bot.send()), kind(bot.send())] == [PREPARE_FAILED, OK]


@pytest.mark.parametrize(
    ("treatment", "expected", "visible"), [("accept", OK, 1), ("refuse", PREPARE_FAILED, 0), ("swallow", SWALLOWED, 0)]
)
@pytest.mark.parametrize("knob", ["tokenless_sends", "expired_tokens", "superseded_tokens"])
def test_context_tokens(bot: Bot, knob: str, treatment: str, expected: Any, visible: int) -> None:
    bot.knob(**{knob: treatment})
    token = {"tokenless_sends": "", "expired_tokens": bot.token, "superseded_tokens": bot.token}[knob]
    if knob == "expired_tokens":
        bot.knob(token_life_ms=1000)
        bot.now += 1000
    if knob == "superseded_tokens":
        bot.say("again")
    assert kind(bot.send("x", token=token)) == expected
    assert len(shown(bot)) == visible
    assert bot.chat.windows[-1].spent == (treatment != "refuse"), "what was swallowed was spent"


def test_a_token_of_nobody_counts_as_expired(bot: Bot) -> None:
    assert bot.send(token="AARzJWother") == PREPARE_FAILED
    assert [row.reason for row in bot.state.refused] == ["token"]


def test_a_burst_is_throttled_and_each_attempt_prolongs_it(bot: Bot) -> None:
    bot.knob(burst_sends=2, burst_window_ms=1000, burst_penalty_ms=5000)
    limited = {"ret": -2, "errmsg": "rate limited"}
    seen = []
    for at in (0, 1, 2, 4000, 8999, 14_000):
        bot.now = START + at
        seen.append(kind(bot.send()))
    assert seen == [OK, OK, limited, limited, limited, OK]
    assert bot.chat.windows[0].spent == 3


@pytest.mark.parametrize(("dedupes", "expected"), [(False, 2), (True, 1)])
def test_a_repeated_client_id(bot: Bot, dedupes: bool, expected: int) -> None:
    bot.knob(dedupe_client_id=dedupes)
    first, second = bot.send(client_id="same"), bot.send(client_id="same")
    assert (first["message_id"] == second["message_id"]) is dedupes
    assert (len(bot.state.accepted), len(shown(bot)), bot.chat.windows[0].spent) == (expected, expected, expected)
    assert bot.state.counters["client_id_repeats"] == 1
    assert bot.rules == []


@pytest.mark.parametrize(
    ("fault", "reply", "visible", "has_id"),
    [
        ({"kind": "omit_message_id"}, SWALLOWED, False, False),
        ({"kind": "omit_message_id", "shown": True}, SWALLOWED, True, False),
        ({"kind": "empty_object"}, {}, True, True),
    ],
)
def test_answers_that_say_less(bot: Bot, fault: dict[str, Any], reply: Any, visible: bool, has_id: bool) -> None:
    bot.fault(where="send", **fault)
    assert bot.send("x") == reply
    (row,) = bot.state.accepted
    assert (row.shown, row.message_id is not None, row.slot) == (visible, has_id, 1)
    assert row.told is (reply != {}), "an empty answer tells nothing"
    assert shown(bot) == (["x"] if visible else [])


def test_success_without_ret(bot: Bot) -> None:
    bot.fault(where="send", kind="omit_ret")
    assert set(bot.send()) == {"message_id"}


@pytest.mark.parametrize(
    ("item", "visible"),
    [({"type": 3, "voice_item": {"media": {"aes_key": "k" * 44}}}, False), ({"type": 11}, False), ({"type": 2}, True)],
)
def test_items_that_phones_do_not_show_cost_all_the_same(bot: Bot, item: dict[str, Any], visible: bool) -> None:
    assert kind(bot.send(item_list=[item])) == OK
    assert (len(shown(bot)), bot.chat.windows[0].spent) == (int(visible), 1)


def test_the_phone_may_show_late(bot: Bot) -> None:
    bot.knob(show_delay_ms=700)
    bot.send()
    assert bot.state.shown.rows[-1].at == START + 700


def test_echo_comes_back_as_a_bot_message(bot: Bot) -> None:
    bot.updates()
    bot.knob(echo=True)
    bot.send("mine")
    (echo,) = bot.updates()
    assert (echo["message_type"], echo["from_user_id"], texts([echo])) == (2, OWNER.bot_id, ["mine"])


@pytest.mark.parametrize(
    ("ids", "low", "high"), [("wide", 2**53, 2**63), ("small", 1, 1000), ("above_int64", 2**63, 2**64)]
)
def test_shapes_of_ids(bot: Bot, ids: str, low: int, high: int) -> None:
    bot.knob(ids=ids)
    seen = [bot.send()["message_id"] for _ in range(5)]
    assert len(set(seen)) == 5
    assert all(low <= one < high for one in seen)


def test_ids_may_be_text(bot: Bot) -> None:
    bot.knob(text_ids=True)
    bot.say()
    assert bot.send()["message_id"] == str(bot.state.accepted.rows[-1].message_id)
    assert bot.updates()[-1]["message_id"] == str(bot.state.shown.rows[1].message_id)


steps = st.lists(
    st.tuples(st.sampled_from(["say", "send", "send", "send", "old"]), st.integers(min_value=0, max_value=400)),
    max_size=60,
)


@given(steps=steps, quota=st.integers(min_value=0, max_value=4), window_ms=st.integers(min_value=1, max_value=900))
def test_the_quota_equals_a_naive_recount(steps: list[tuple[str, int]], quota: int, window_ms: int) -> None:
    bot = Bot()
    bot.knob(quota=quota, window_ms=window_ms)
    log: list[tuple[str, int]] = []  # what happened: ("said" or "spent", at)
    for step, wait_ms in steps:
        bot.now += wait_ms
        if step == "say":
            bot.say()
            log.append(("said", bot.now))
            continue
        token = next(iter(bot.chat.tokens), "none") if step == "old" else bot.token
        expected = may_send(log, bot.now, quota, window_ms)
        assert (kind(bot.send(token=token)) == OK) == expected
        if expected:
            log.append(("spent", bot.now))
    spent = [window.spent for window in bot.chat.windows]
    assert sum(spent) == len(bot.state.accepted) == sum(what == "spent" for what, _ in log)
    assert all(one <= quota for one in spent)


def may_send(log: list[tuple[str, int]], now: int, quota: int, window_ms: int) -> bool:
    """Count again from the whole log: replies since the user's last message, and its age."""
    said = [index for index, (what, _) in enumerate(log) if what == "said"]
    if not said or now - log[said[-1]][1] >= window_ms:
        return False
    return len(log) - said[-1] - 1 < quota
