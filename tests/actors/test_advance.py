"""What is due after every command: bounds of the backlog, ages, notices, the pace, and when to look again (rules 4, 6, 16)."""

from __future__ import annotations

import pytest

from actors.deciding.commands import Facts, Operate
from actors.text import notices
from events.bot import Policy
from tests.actors.one_peer import OnePeer
from tests.streams_builder import DAY, HOUR, MINUTE, NOON, SECOND

WAITS = notices.notice("waiting_for_agent", "zh-CN")


def queueing(count: int) -> OnePeer:
    peer = OnePeer()
    for n in range(1, count + 1):
        peer.accept(f"t{n}", f"text {n}")
    return peer


def test_the_21st_output_drops_the_oldest() -> None:
    peer = queueing(20)
    assert peer.state.dead == ()
    peer.accept("t21", "text 21")
    assert peer.types == ["turn_completed", "output_dropped"]
    assert peer.fate("t1") == ("dropped", "backlog_full")
    assert peer.queued[0] == "t2"
    assert len(peer.queued) == 20


def test_what_an_open_request_carries_is_not_dropped_nor_is_the_newest() -> None:
    peer = queueing(20)
    peer.message()
    assert len(peer.state.carried) == 20
    peer.accept("t21", "text 21")
    assert peer.state.dead == (), "the twenty are leaving"
    peer.accept("t22", "text 22")
    assert peer.fate("t21") == ("dropped", "backlog_full")
    assert peer.queued[-1] == "t22"
    assert len(peer.queued) == 21
    peer.refuse()
    assert len(peer.queued) == 20
    assert peer.queued[0] == "t2"


@pytest.mark.parametrize(("after_ms", "gone"), [(-1, []), (0, ["t1"])])
def test_an_output_is_too_old_after_an_hour_to_the_millisecond(after_ms: int, gone: list[str]) -> None:
    peer = OnePeer()
    peer.accept("t1", "old")
    peer.wait(MINUTE)
    assert peer.accept("t2", "newer").due_at == NOON + HOUR
    peer.now = NOON + HOUR + after_ms
    peer.look()
    assert [d.output.turn_id for d in peer.state.dead] == gone
    if gone:
        assert peer.fate("t1") == ("dropped", "expired")


def test_the_newest_never_expires_until_a_newer_one_comes() -> None:
    peer = OnePeer()
    assert peer.accept("t1", "old").due_at is None
    peer.wait(30 * DAY)
    assert peer.look().events == ()
    peer.accept("t2", "new")
    assert peer.fate("t1") == ("dropped", "expired")
    peer.message()
    assert peer.said == ["new"]


def test_what_is_in_flight_expires_only_if_it_comes_back() -> None:
    peer = OnePeer()
    peer.accept("t1", "old")
    peer.accept("t2", "newer")
    peer.wait(HOUR - SECOND)
    peer.message()
    peer.accept("t3", "newest")
    peer.wait(2 * SECOND)
    assert peer.look().events == ()
    peer.refuse()
    assert [d.output.turn_id for d in peer.state.dead] == ["t1", "t2"]


def test_a_remainder_ends_with_the_length_of_a_window() -> None:
    peer = OnePeer()
    peer.message()
    peer.finish("x" * 5000)
    peer.refuse()
    assert peer.last.due_at == NOON + DAY
    peer.now = NOON + DAY - 1
    assert peer.look().events == ()
    peer.wait(1)
    peer.look()
    assert [(d.fate, d.reason) for d in peer.state.dead] == [("dropped", "remainder_expired")]


def test_the_share_holds_a_push_until_it_rolls_inside_an_open_window() -> None:
    peer = OnePeer().met()
    for turn in ("t1", "t2", "t3"):
        peer.accept(turn, turn)
        peer.wait(SECOND)
        peer.ok()
    peer.accept("t4", "held")
    assert len(peer.sends) == 4
    peer.wait(20 * HOUR)
    peer.message("evening")
    peer.finish("good evening")
    assert peer.ok().due_at == NOON + SECOND + DAY
    peer.now = NOON + SECOND + DAY - 1
    peer.look()
    assert peer.state.request is None
    peer.wait(1)
    peer.look()
    assert peer.said[-1] == "held"
    assert peer.requests[-1].charge.share == 3


def test_the_share_that_rolls_after_the_window_waits_for_the_next_message() -> None:
    peer = OnePeer().met()
    for turn in ("t1", "t2", "t3"):
        peer.accept(turn, turn)
        peer.ok()
    assert peer.accept("t4", "held").due_at is None
    peer.wait(2 * DAY)
    peer.look()
    assert len(peer.sends) == 4
    peer.message()
    assert peer.said[-1] == "held"


def test_an_open_push_counts_against_the_share() -> None:
    peer = OnePeer(policy=Policy(share_replies=1)).met()
    peer.accept("t1", "first")
    peer.accept("t2", "second")
    peer.unknown()
    assert peer.state.request is None
    assert peer.queued == ["t2"]


def test_a_share_lowered_in_the_middle_counts_what_was_spent() -> None:
    peer = OnePeer().met()
    for turn in ("t1", "t2"):
        peer.accept(turn, turn)
        peer.ok()
    peer.rule(share_replies=2).accept("t3", "held")
    assert peer.queued == ["t3"]
    peer.rule(share_replies=3).look()
    assert peer.said[-1] == "held"


def test_a_quota_lowered_in_the_middle_of_a_window() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "one")
    peer.ok()
    peer.rule(quota_replies=2).accept("t2", "held")
    assert peer.queued == ["t2"]
    peer.rule(quota_replies=3).look()
    assert peer.said[-1] == "held"
    assert (peer.requests[-1].charge.slot, peer.requests[-1].charge.slots) == (3, 3)


def test_a_paused_bot_resumes() -> None:
    peer = OnePeer().met().see(paused_until=NOON + HOUR)
    assert peer.accept("t1", "news").due_at == NOON + HOUR
    peer.now = NOON + HOUR
    peer.see(paused_until=0).look()
    assert peer.said[-1] == "news"


def test_the_pace_is_asked_and_waited_for() -> None:
    peer = OnePeer().met()
    peer.paced_until = NOON + 3 * SECOND
    decision = peer.accept("t1", "news")
    assert (decision.due_at, decision.wake_at) == (NOON, NOON + 3 * SECOND)
    assert peer.state.request is None
    peer.wait(3 * SECOND)
    peer.look()
    assert peer.said[-1] == "news"


def test_two_triggers_at_once_are_one_send() -> None:
    peer = OnePeer().met()
    peer.hears("hi")
    peer.accept("t1", "news")
    peer.do(Facts(()))
    peer.do(Operate(what="flush", who="op"))
    peer.look()
    assert peer.said[1:] == ["news"]


def test_an_observed_push_says_what_would_have_held_it() -> None:
    peer = OnePeer(policy=Policy(mode="observe", share_replies=1)).met()
    peer.accept("t1", "one")
    peer.ok()
    assert peer.requests[-1].lifted == ""
    peer.accept("t2", "two")
    assert peer.requests[-1].lifted == "share_spent"
    assert peer.requests[-1].charge.share == 2


# --- the notice that no agent is there ----------------------------------------------------------------------------


def unattended(**policy: int) -> OnePeer:
    peer = OnePeer(policy=Policy(**policy)).see(agents=0)
    peer.message("anybody?")
    return peer


def test_one_notice_at_most_while_no_agent_is_there() -> None:
    peer = unattended()
    assert peer.last.due_at == NOON + 30 * SECOND
    peer.wait(30 * SECOND - 1)
    assert peer.look().events == ()
    peer.wait(1)
    peer.look()
    assert peer.said == [WAITS]
    assert (peer.requests[-1].kind, peer.requests[-1].charge.share) == ("notice", 0)
    peer.refuse("not_sent", 0)
    for _ in range(5):
        peer.wait(HOUR)
        peer.look()
    assert peer.said == [WAITS]
    peer.see(agents=1)
    peer.finish("here I am")
    assert peer.said == [WAITS, "here I am"]


def test_no_notice_with_an_agent_or_a_policy_that_wants_none() -> None:
    peer = unattended(notice_after_ms=0)
    peer.wait(HOUR)
    assert peer.look().events == ()
    peer = unattended().see(agents=1)
    peer.wait(HOUR)
    assert peer.look().events == ()


def test_a_notice_leaves_the_last_reply_to_the_answer() -> None:
    peer = unattended(quota_replies=1)
    peer.wait(HOUR)
    assert peer.look().due_at is None
    assert not peer.sends


def test_a_notice_goes_before_a_push() -> None:
    peer = unattended().see(paused_until=None)
    peer.accept("t1", "news")
    peer.wait(MINUTE).see(paused_until=0).look()
    peer.ok()
    assert peer.said == [WAITS, "news"]


# --- re-login -----------------------------------------------------------------------------------------------------


def test_a_new_login_voids_token_and_window_but_not_the_share() -> None:
    peer = OnePeer().met()
    for turn in ("t1", "t2", "t3"):
        peer.accept(turn, turn)
        peer.ok()
    peer.see(generation=2).accept("t4", "held")
    assert peer.queued == ["t4"]
    peer.message("hello, new login")
    assert peer.queued == ["t4"], "three pushes in any 24 h, whatever the login"
    peer.finish("hello")
    assert peer.requests[-1].login == 2


# --- carried requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("not_before", "carried"), [(-1, 1), (0, 1), (1, 0)])
def test_a_send_that_the_server_may_count_in_the_new_window_is_carried(not_before: int, carried: int) -> None:
    peer = OnePeer().met()
    settled = peer.now
    peer.wait(MINUTE)
    peer.message(not_before=settled + not_before)
    assert [c.window for c in peer.state.charges].count(2) == carried


def test_a_message_while_a_send_is_in_flight_carries_it() -> None:
    peer = OnePeer(policy=Policy(quota_replies=2)).met()
    peer.wait(MINUTE)
    peer.accept("t1", "news")
    peer.message()
    peer.finish("hello")
    peer.ok()
    assert peer.requests[-1].charge.slot == 2
    peer.ok()
    peer.accept("t2", "more")
    assert peer.queued == ["t2"], "the second window had two replies, one of them in flight"
