"""Messages: words for the gateway, messages for the agent, strangers."""

from __future__ import annotations

import pytest

from actors.deciding.chat import STRANGERS_MESSAGES_MAX
from actors.deciding.commands import Bind, CancelTurn, Facts, FinishTurn, Grant, Operate, TakeTurn
from actors.deciding.view import ResetSession, Withdraw
from actors.errors import TurnNotOpen
from actors.text import notices
from events.bot import Policy
from events.peer import AccessRefused, OperatorActed
from tests.actors.one_peer import OnePeer
from tests.streams_builder import HOUR, MINUTE, SECOND

PART = 64


def said(peer: OnePeer, name: notices.Notice) -> bool:
    return peer.said[-1:] == [notices.notice(name, peer.view.locale)]


def test_more_gives_the_rest_of_what_was_cut() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART)).met()
    peer.accept("t1", "a" * 50 + "\n\n" + "b" * 50)
    peer.ok()
    assert peer.fate("t1") == ("cut", "longer_than_a_part")
    peer.wait(MINUTE)
    peer.message("/more")
    assert peer.types == ["operator_acted", "send_requested"]
    assert peer.requests[-1].kind == "answer", "it spends the quota, not the share"
    assert not peer.requests[-1].remainder
    assert peer.said[-2].count("a") + peer.said[-1].count("a") == 50
    assert peer.said[-2].count("b") + peer.said[-1].count("b") == 50
    peer.ok()
    assert not peer.state.dead
    peer.message("/MORE ")
    assert said(peer, "nothing_more")


def dropped(count: int, **policy: int) -> OnePeer:
    """A peer for whom the outputs of t1 to `count` were dropped, and one waits that came after them."""
    peer = OnePeer(policy=Policy(backlog_outputs=1, **policy))
    for number in range(1, count + 2):
        peer.accept(f"t{number}", f"text of t{number}")
    assert [d.output.turn_id for d in peer.state.dead] == [f"t{number}" for number in range(1, count + 1)]
    return peer


def more(peer: OnePeer) -> list[str]:
    """What comes for `/more`, to the end."""
    before = len(peer.said)
    peer.message("/more", not_before=peer.now)
    while peer.state.request is not None:
        peer.wait(SECOND)
        peer.ok()
    peer.wait(MINUTE)
    return peer.said[before:]


def test_more_gives_all_that_was_dropped_where_it_fits_in_time_order_and_then_the_backlog() -> None:
    peer = dropped(2)
    assert more(peer) == ["text of t1", "text of t2", "text of t3"]
    assert more(peer) == [notices.notice("nothing_more", peer.view.locale)]


def test_more_fills_half_of_the_window_and_says_how_many_are_left() -> None:
    peer = dropped(6)
    peer.do(Operate(what="drop", who="op"))
    assert more(peer) == [
        notices.notice("more_is_kept", "zh-CN", 2),
        "text of t3",
        "text of t4",
        "text of t5",
        "text of t6",
    ]
    assert [r.kind for r in peer.requests] == ["notice"] + ["answer"] * 4
    assert more(peer) == ["text of t1", "text of t2"]


def test_more_counts_the_parts_of_what_it_shows() -> None:
    peer = OnePeer(policy=Policy(backlog_outputs=1, part_bytes=PART))
    for turn, length in (("t1", 10), ("t2", 150), ("t3", 60), ("t4", 5)):
        peer.accept(turn, "x" * length)
    peer.do(Operate(what="drop", who="op"))
    assert [len(text) for text in more(peer)[1:]] == [64, 64, 22, 60]
    assert [d.output.turn_id for d in peer.state.dead] == ["t1", "t4"], (
        "t2 takes three replies and t3 one: half of nine"
    )


def test_the_number_of_what_is_left_never_takes_the_reply_that_shows_it() -> None:
    peer = dropped(3, quota_replies=1)
    peer.do(Operate(what="drop", who="op"))
    assert more(peer) == ["text of t3"]
    peer.message("to the agent")
    peer.rule(quota_replies=2)
    assert more(peer) == ["text of t2"], "one of two is kept for the open turn"


def test_what_is_left_is_said_beside_a_remainder_too() -> None:
    peer = dropped(1, part_bytes=4 * PART, quota_replies=2)
    peer.do(Operate(what="drop", who="op"))
    peer.message()
    peer.finish("x" * PART * 12)
    peer.ok()
    peer.ok()
    peer.rule(quota_replies=10)
    peer.wait(MINUTE)
    peer.message("/more")
    assert peer.said[-1] == notices.notice("more_is_kept", "zh-CN", 1)
    peer.ok()
    assert peer.requests[-1].remainder


def test_only_the_notice_that_a_turn_waits_counts_as_that_notice() -> None:
    peer = OnePeer(policy=Policy(notice_after_ms=30 * SECOND)).see(agents=0)
    peer.message("work")
    peer.message("/more", not_before=peer.now)
    assert said(peer, "nothing_more")
    peer.ok()
    assert peer.state.turn is not None
    assert not peer.state.turn.noticed
    peer.wait(31 * SECOND)
    peer.look()
    assert said(peer, "waiting_for_agent")
    assert [r.notice for r in peer.requests] == ["nothing_more", "waiting_for_agent"]
    assert peer.state.turn.noticed


def test_more_never_shows_what_an_operator_took_away_or_what_is_gone() -> None:
    peer = OnePeer(policy=Policy(backlog_outputs=2))
    peer.accept("t1", "mine")
    peer.accept("t2", "secret")
    peer.do(Operate(what="drop", who="op", outputs=(peer.of("t2"),)))
    peer.accept("t3", "lost")
    peer.accept("t4", "kept")
    peer.erased(peer.waiting("t3").body)
    peer.message()
    assert peer.fate("t1") == ("dropped", "backlog_full")
    assert peer.fate("t2") == ("dropped", "operator")
    assert peer.fate("t3") == ("dropped", "text_gone")
    assert peer.said == ["kept"]
    peer.finish("hello")
    peer.ok()
    peer.ok()
    peer.message("/more")
    assert peer.said[-1] == "mine"
    peer.ok()
    peer.message("/more")
    assert said(peer, "nothing_more")


def test_more_with_a_remainder_needs_no_choice() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART, quota_replies=2))
    peer.message()
    peer.finish("x" * PART * 3)
    peer.ok()
    peer.ok()
    peer.wait(MINUTE)
    peer.message("/more")
    acted = peer.last.events[0]
    assert isinstance(acted, OperatorActed)
    assert acted.outputs == ()
    assert peer.requests[-1].remainder


def test_reset_begins_anew_and_drops_nothing() -> None:
    peer = OnePeer()
    peer.do(Bind(session="s", who="op"))
    peer.accept("t1", "news")
    peer.message("/reset")
    assert peer.last.effects[0] == ResetSession("s", 1)
    assert peer.said == ["news"], "what was queued leaves; the notice is not kept for later"
    assert peer.state.turn is None
    peer.ok()
    peer.message("/reset")
    assert said(peer, "session_reset")


def test_cancel_ends_the_turn_as_cancelled() -> None:
    peer = OnePeer()
    peer.message("long work")
    assert peer.state.turn is not None
    turn = peer.state.turn.turn_id
    peer.do(TakeTurn(turn_id=turn, agent="echo"))
    peer.message("/cancel")
    assert peer.types[0] == "turn_cancelled"
    assert peer.last.effects[0] == Withdraw(turn, "echo")
    assert said(peer, "turn_cancelled")
    with pytest.raises(TurnNotOpen):
        peer.do(FinishTurn(turn_id=turn, status="completed", text="too late"))
    peer.ok()
    peer.message("/cancel")
    assert said(peer, "nothing_to_cancel")
    (acted,) = (e for e in peer.last.events if isinstance(e, OperatorActed))
    assert (acted.who, acted.what) == ("peer", "cancel"), "it is told as what it was, and tries nothing anew"


def test_cancel_goes_on_with_the_message_behind() -> None:
    peer = OnePeer()
    peer.message("first")
    peer.message("second")
    peer.message("/cancel")
    assert peer.types[:2] == ["turn_cancelled", "turn_started"]
    assert peer.state.turn is not None
    assert peer.texts[peer.state.turn.message.body] == "second"


def test_messages_of_one_poll_are_read_in_their_order() -> None:
    """`hello` and `/cancel` in one poll come to the same as in two."""
    peer = OnePeer()
    peer.hears("hello")
    peer.hears("/cancel")
    peer.do(Facts(()))
    assert peer.types[:2] == ["turn_started", "turn_cancelled"]
    assert said(peer, "turn_cancelled")
    assert peer.state.turn is None


def test_an_operator_cancels() -> None:
    peer = OnePeer()
    with pytest.raises(TurnNotOpen):
        peer.do(CancelTurn("op"))
    peer.message()
    peer.do(CancelTurn("op"))
    assert peer.types == ["turn_cancelled"]
    assert peer.state.turn is None


def test_a_stranger_gets_nothing() -> None:
    peer = OnePeer(allowed=False)
    peer.message("hello?")
    peer.message("/more")
    assert peer.types == ["access_refused"]
    assert peer.state.inbox == ()
    assert peer.state.turn is None
    assert not peer.sends
    assert peer.fetched == [], "its words are not even read"
    peer.do(Grant("op"))
    assert peer.types == ["access_granted"]
    peer.do(Grant("op"))
    assert peer.types == []
    peer.message("hello")
    assert peer.types == ["turn_started"]


@pytest.mark.parametrize("text", ["/more please", "more", "//more", "/resett", "/cancel" + " " * 20])
def test_other_messages_are_for_the_agent(text: str) -> None:
    peer = OnePeer()
    peer.message(text)
    assert peer.types == ["turn_started"]


def test_long_messages_are_not_read_to_know_that_they_are_no_words() -> None:
    peer = OnePeer()
    peer.message("x" * 17)
    assert peer.fetched == []


def test_a_notice_is_never_the_last_reply_while_a_turn_is_open() -> None:
    peer = OnePeer(policy=Policy(quota_replies=2)).met()
    peer.message("work")
    assert peer.state.turn is not None
    peer.message("/more")
    assert peer.said == ["hello"], "the reply of a second ago counts on, so one is left: it belongs to the open turn"
    peer.wait(MINUTE)
    peer.message("/more")
    assert said(peer, "nothing_more")
    peer.ok()
    peer.finish("done")
    assert peer.said[-1] == "done"


def test_without_an_open_turn_a_notice_may_be_the_last() -> None:
    peer = OnePeer(policy=Policy(quota_replies=1))
    peer.message("/more")
    assert said(peer, "nothing_more")
    assert peer.requests[-1].kind == "notice"
    assert peer.requests[-1].charge.share == 0


def test_a_notice_keeps_to_the_pace() -> None:
    peer = OnePeer()
    peer.paced_until = peer.now + SECOND
    peer.message("/more")
    assert not peer.sends
    peer.wait(HOUR)
    peer.look()
    assert not peer.sends, "it is not kept for later"


def test_words_in_observe_mode_are_answered_beyond_the_quota() -> None:
    peer = OnePeer(policy=Policy(quota_replies=1, mode="observe"))
    peer.message("/more")
    peer.ok()
    peer.message("/more", not_before=0)
    assert len(peer.sends) == 2
    assert peer.requests[-1].lifted == "quota_spent"


def test_english_where_the_locale_says_so() -> None:
    peer = OnePeer(locale="en-GB")
    peer.message("/cancel")
    assert peer.said == ["Nothing is running."]


def test_with_pairing_a_strangers_messages_wait_for_access() -> None:
    peer = OnePeer().see(allowed=False, pairing=True)
    peer.message("first")
    assert peer.state.inbox
    assert peer.state.turn is None
    peer.do(Grant("operator"))
    assert peer.state.turn is not None
    assert not peer.state.inbox


def test_of_a_stranger_only_so_many_messages_are_kept() -> None:
    peer = OnePeer().see(allowed=False, pairing=True)
    for number in range(STRANGERS_MESSAGES_MAX + 1):
        peer.message(f"message {number}")
    assert len(peer.state.inbox) == STRANGERS_MESSAGES_MAX
    refused = [r.event for r in peer.recorded if isinstance(r.event, AccessRefused)]
    assert [e.reason for e in refused] == ["too_many_wait"]


@pytest.mark.parametrize(("size", "word"), [(16, True), (17, False)])
def test_a_word_may_have_blanks_around_it_up_to_a_size(size: int, word: bool) -> None:
    peer = OnePeer()
    peer.message("/more".ljust(size))
    assert (peer.state.turn is None) is word


@pytest.mark.parametrize(("quota", "shown"), [(8, 3), (9, 4), (10, 4), (11, 5)])
def test_half_of_the_free_replies_is_used_to_the_last(quota: int, shown: int) -> None:
    """One of the quota is for the notice."""
    peer = dropped(6, quota_replies=quota)
    peer.do(Operate(what="drop", who="op"))
    assert len(more(peer)) == shown + 1


def test_a_notice_goes_before_the_rest_only_where_both_fit() -> None:
    peer = dropped(3, quota_replies=2)
    peer.do(Operate(what="drop", who="op"))
    assert more(peer) == [notices.notice("more_is_kept", "zh-CN", 2), "text of t3"]


def test_more_says_nothing_where_a_remainder_goes_on_by_itself() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART, quota_replies=2))
    peer.message()
    peer.finish("x" * PART * 4)
    peer.ok()
    peer.ok()
    assert (peer.state.dead, len(peer.state.answers)) == ((), 1)
    peer.rule(quota_replies=10).wait(MINUTE)
    assert more(peer) == ["x" * PART, "x" * PART]


def test_what_has_lost_its_text_takes_no_room_among_what_is_shown() -> None:
    peer = dropped(5, quota_replies=5)
    peer.do(Operate(what="drop", who="op"))
    peer.erased(peer.dead("t4").output.body)
    assert more(peer) == [notices.notice("more_is_kept", "zh-CN", 2), "text of t3", "text of t5"]
