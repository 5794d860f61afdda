"""What may leave: every reason that blocks, in its order, and what observe mode lifts."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest

from actors.deciding.commands import Operate
from actors.deciding.gate import (
    LANES,
    Lane,
    LaneName,
    forget_at,
    hard_block,
    lane_block,
    limit_block,
    next_due_at,
    next_lane,
    remainder_ends_at,
)
from actors.deciding.view import Block, Reason
from events.backlog import Output
from events.bot import Policy
from events.peer_state import Message, PeerState, Token
from events.quota import SEND_WITHIN_MS, Charge, Window
from tests.actors.one_peer import OnePeer
from tests.streams_builder import DAY, HOUR, MINUTE, NOON, SECOND

UNDER_WAY = SEND_WITHIN_MS + Policy().client_timeout_ms


def waiting() -> OnePeer:
    """A push waits behind a pace that lets nothing out, and nothing else is in its way."""
    peer = OnePeer().met()
    peer.paced_until = NOON + DAY
    peer.accept("t1", "news")
    return peer


def shared() -> OnePeer:
    """Three pushes are spent within a minute, a fourth waits."""
    peer = OnePeer().met()
    for turn in ("s1", "s2", "s3"):
        peer.accept(turn, turn)
        peer.wait(20 * SECOND)
        peer.ok()
    peer.accept("t1", "news")
    return peer


def refused_answer() -> OnePeer:
    """An answer's first part is unknown, the next is held."""
    peer = OnePeer()
    peer.message()
    peer.finish("a" * 5000)
    peer.unknown()
    return peer


def quota_spent() -> OnePeer:
    peer = OnePeer(policy=Policy(quota_replies=2)).met()
    peer.accept("s1", "first")
    peer.ok()
    peer.accept("t1", "second")
    return peer


def half_spent() -> OnePeer:
    """A long answer has used the remainders' half of the second quota."""
    peer = OnePeer(policy=Policy(quota_replies=2, part_bytes=64))
    peer.message()
    peer.finish("a" * 64 * 5)
    peer.ok()
    peer.ok()
    peer.wait(MINUTE)
    peer.message("/more")
    peer.ok()
    return peer


def reserved() -> OnePeer:
    peer = OnePeer(policy=Policy(quota_replies=1))
    peer.message()
    peer.accept("t1", "news")
    return peer


def accepted(peer: OnePeer, turn: str) -> OnePeer:
    peer.accept(turn, "news")
    return peer


def not_sent() -> OnePeer:
    peer = accepted(OnePeer().met(), "t1")
    peer.refuse("not_sent", 0)
    return peer


BLOCKS: list[tuple[str, Callable[[], OnePeer], Block]] = [
    ("nothing waits", lambda: OnePeer().met(), Block("nothing_waits")),
    ("a send is open", lambda: accepted(OnePeer().met(), "t1"), Block("open_request")),
    ("never logged in", lambda: waiting().see(generation=0), Block("no_login")),
    ("login lost", lambda: waiting().see(login_lost=True), Block("login_lost")),
    ("paused", lambda: waiting().see(paused_until=None), Block("paused")),
    ("paused until", lambda: waiting().see(paused_until=NOON + HOUR), Block("paused", NOON + HOUR)),
    ("no token known", lambda: accepted(OnePeer(), "t1"), Block("no_token")),
    ("token of an older login", lambda: waiting().see(generation=2), Block("no_token")),
    ("a send never left", not_sent, Block("retry_later", NOON + SECOND)),
    ("the window is over", lambda: waiting().wait(DAY - UNDER_WAY), Block("window_closed")),
    ("quota spent", quota_spent, Block("quota_spent")),
    ("share spent, its roll after the window", shared, Block("share_spent")),
    ("a reply is kept for the open turn", reserved, Block("reserved_for_answers")),
    ("remainders leave half", half_spent, Block("reserved_for_answers")),
    ("an answer is held", refused_answer, Block("held_until_message")),
]


@pytest.mark.parametrize(("build", "block"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS])
def test_what_blocks(build: Callable[[], OnePeer], block: Block) -> None:
    peer = build()
    assert next_lane(peer.state, peer.view, peer.now) == block


def test_every_reason_is_in_the_table() -> None:
    """`pace` comes from the outlet, not from the gate."""
    assert {row[2].reason for row in BLOCKS} == set(get_args(Reason)) - {"pace"}


def test_observe_mode_lifts_our_own_limits_and_says_which() -> None:
    lifted = {}
    for name, build, block in BLOCKS:
        peer = build().rule(mode="observe")
        found = next_lane(peer.state, peer.view, peer.now)
        if isinstance(found, Lane):
            lifted[name] = found.lifted
        else:
            assert found == block, name
    assert lifted == {
        "the window is over": "window_closed",
        "quota spent": "quota_spent",
        "share spent, its roll after the window": "share_spent",
        "a reply is kept for the open turn": "reserved_for_answers",
        "remainders leave half": "reserved_for_answers",
    }


def test_hard_blocks_come_in_a_fixed_order() -> None:
    """The nearest cause to the channel is named last: an operator reads the first thing to mend."""
    peer = waiting()
    steps: list[tuple[str, dict[str, object]]] = [
        ("no_token", {"generation": 2}),
        ("paused", {"paused_until": None}),
        ("login_lost", {"login_lost": True}),
        ("no_login", {"generation": 0}),
    ]
    for reason, change in steps:
        peer.see(**change)
        block = hard_block(peer.state, peer.view, "pushes", peer.now)
        assert block is not None
        assert block.reason == reason


@pytest.mark.parametrize(("after_ms", "blocked"), [(-1, True), (0, False)])
def test_a_pause_ends_to_the_millisecond(after_ms: int, blocked: bool) -> None:
    peer = waiting().see(paused_until=NOON + HOUR)
    peer.now = NOON + HOUR + after_ms
    assert (lane_block(peer.state, peer.view, "pushes", peer.now) is not None) == blocked


@pytest.mark.parametrize(("after_ms", "reason"), [(-1, None), (0, "window_closed")])
def test_a_window_ends_early_by_the_longest_way_to_the_millisecond(after_ms: int, reason: str | None) -> None:
    peer = waiting()
    block = limit_block(peer.state, peer.view, "pushes", NOON + DAY - UNDER_WAY + after_ms)
    assert (block.reason if block else None) == reason


def test_the_share_rolls_inside_an_open_window_to_the_millisecond() -> None:
    peer = shared()
    peer.wait(20 * HOUR)
    peer.message("evening")
    peer.finish("good evening")
    peer.ok()
    rolls = NOON + 20 * SECOND + DAY
    assert next_lane(peer.state, peer.view, peer.now) == Block("share_spent", rolls)
    assert next_lane(peer.state, peer.view, rolls - 1) == Block("share_spent", rolls)
    assert next_lane(peer.state, peer.view, rolls) == Lane("pushes")
    assert next_due_at(peer.state, peer.view, peer.now) == rolls


def test_a_blocked_lane_does_not_block_the_next() -> None:
    peer = refused_answer()
    peer.accept("t1", "news")
    assert peer.requests[-1].kind == "push"


def test_the_first_block_is_named_when_several_lanes_wait() -> None:
    peer = refused_answer().rule(share_replies=1, quota_replies=1)
    peer.accept("t1", "news")
    assert next_lane(peer.state, peer.view, peer.now) == Block("held_until_message")
    peer.rule(quota_replies=10)
    assert next_lane(peer.state, peer.view, peer.now) == Lane("pushes")


def test_pushes_leave_a_reply_for_each_message_that_waits() -> None:
    peer = OnePeer(policy=Policy(quota_replies=4)).met().wait(MINUTE)
    for _ in range(3):
        peer.message()
    # the open turn and two messages behind it need three of four replies
    peer.accept("t1", "news")
    assert peer.said[-1] == "news"
    peer.ok()
    peer.accept("t2", "more news")
    assert next_lane(peer.state, peer.view, peer.now) == Block("reserved_for_answers")


@pytest.mark.parametrize(("quota", "spent"), [(1, 1), (2, 1), (3, 1), (10, 5), (11, 5)])
def test_remainders_use_half_of_a_quota_rounded_down_but_one(quota: int, spent: int) -> None:
    peer = OnePeer(policy=Policy(quota_replies=quota, part_bytes=64, answer_parts=100))
    peer.message()
    peer.finish("a" * 64 * 50)
    for _ in range(quota):
        peer.ok()
    assert peer.state.request is None
    peer.wait(MINUTE)
    peer.message("/more")
    sent = 0
    while peer.state.request is not None:
        sent += 1
        assert peer.requests[-1].remainder
        peer.ok()
    assert sent == spent


@pytest.mark.parametrize(("carried", "spent"), [(0, 5), (1, 4), (4, 3), (5, 2), (8, 1), (9, 0)])
def test_remainders_leave_half_of_what_was_not_carried(carried: int, spent: int) -> None:
    """A person writes while the last parts of a long answer are under way: what counts in both windows is nobody's to share, and
    the very last reply is for the new answer."""
    peer = OnePeer(policy=Policy(part_bytes=64, answer_parts=100))
    peer.message()
    peer.finish("a" * 64 * 50)
    for _ in range(10):
        peer.wait(SECOND).ok()
    peer.wait(SECOND).message("and this?", not_before=NOON + (11 - carried) * SECOND)
    sent = 0
    while peer.state.request is not None:
        sent += 1
        assert peer.requests[-1].remainder
        peer.ok()
    assert sent == spent
    peer.finish("short")
    assert peer.said[-1] == "short"


def test_due_at_is_the_earliest_of_age_roll_notice_and_remainder() -> None:
    peer = OnePeer(policy=Policy(notice_after_ms=30_000)).see(agents=0)
    peer.message()
    assert next_due_at(peer.state, peer.view, peer.now) == NOON + 30 * SECOND
    peer.rule(notice_after_ms=0)
    assert next_due_at(peer.state, peer.view, peer.now) is None
    peer.see(paused_until=NOON + 3 * HOUR)
    peer.accept("t1", "old")
    assert next_due_at(peer.state, peer.view, peer.now) == NOON + 3 * HOUR
    peer.wait(MINUTE)
    peer.accept("t2", "new")
    assert next_due_at(peer.state, peer.view, peer.now) == NOON + HOUR
    peer.finish("an answer")
    assert peer.state.answers
    peer.see(paused_until=None)
    assert next_due_at(peer.state, peer.view, peer.now) == NOON + HOUR
    peer.do(Operate(what="drop", who="op", outputs=(peer.of("t1"),)))
    assert next_due_at(peer.state, peer.view, peer.now) == NOON + MINUTE + DAY, "only the answer's own age is left"


def test_lanes_in_their_order() -> None:
    assert LANES == ("remainders", "answers", "notices", "pushes")


def charges(kinds: str) -> tuple[Charge, ...]:
    """What is spent of window 2: `n`otices, `r`emainders, `c`arried ones, and `p`ushes of a minute ago."""
    return tuple(
        Charge(
            request=f"r{n}",
            kind="push" if kind == "p" else "notice" if kind == "n" else "answer",
            requested_at=NOON - MINUTE,
            settled_at=NOON - MINUTE,
            window=2,
            remainder=kind == "r",
            carried=kind == "c",
        )
        for n, kind in enumerate(kinds)
    )


def resumed(spent: str, *, turns: int = 0, answers: int = 0, opened_at: int = NOON - MINUTE) -> PeerState:
    """The second window of a peer with the rest of an answer, `turns` messages and `answers` new answers."""
    rest = Output(
        output="d-1", turn_id="t1", body="b", total=900, accepted_at=NOON, origin="inbound", window=1, start=9
    )
    new = tuple(msgspec.structs.replace(rest, output=f"d-new-{n}", window=2, start=0) for n in range(answers))
    message = Message(message="m", body="b", at=NOON - MINUTE, sent_at=NOON - MINUTE)
    return PeerState(
        window=Window(number=2, message="m2", opened_at=opened_at, generation=1),
        token=Token(body="k", message="m2", generation=1),
        charges=charges(spent),
        answers=(rest, *new),
        inbox=(message,) * turns,
    )


LIMITS: list[tuple[str, LaneName, int, PeerState, str]] = [
    # (what, lane, quota, state, what blocks it)
    ("half of ten is five", "remainders", 10, resumed("rrrr"), ""),
    ("half of ten is spent", "remainders", 10, resumed("rrrrr"), "reserved_for_answers"),
    ("only remainders count for their half", "remainders", 10, resumed("nnnnnrrrr"), ""),
    ("the last reply, and nothing is to come", "remainders", 2, resumed("n"), ""),
    ("the last reply, and a turn is open", "remainders", 2, resumed("n", turns=1), "reserved_for_answers"),
    ("the last reply, and an answer waits", "remainders", 2, resumed("n", answers=1), "reserved_for_answers"),
    ("the last of what was not carried", "remainders", 2, resumed("c", turns=1), "reserved_for_answers"),
    ("a quota of one, or nothing would ever go on", "remainders", 1, resumed("", turns=1), ""),
    ("nothing is left", "remainders", 2, resumed("nn"), "quota_spent"),
    ("an answer may take the last", "answers", 2, resumed("n", turns=3), ""),
    ("a notice may take the last", "notices", 2, resumed("n"), ""),
    ("a notice leaves one to an open turn", "notices", 2, resumed("n", turns=1), "reserved_for_answers"),
    ("a notice leaves one, however many turns", "notices", 3, resumed("n", turns=3), ""),
    ("a push leaves one to each turn", "pushes", 3, resumed("n", turns=2), "reserved_for_answers"),
    ("a push takes what no turn wants", "pushes", 3, resumed("n", turns=1), ""),
    ("a push may take the last", "pushes", 2, resumed("n"), ""),
    ("the share is spent", "pushes", 10, resumed("ppp"), "share_spent"),
]


@pytest.mark.parametrize(
    ("lane", "quota", "state", "blocks"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS]
)
def test_what_our_own_count_forbids(lane: LaneName, quota: int, state: PeerState, blocks: str) -> None:
    block = limit_block(state, OnePeer(policy=Policy(quota_replies=quota)).view, lane, NOON)
    assert (block.reason if block else "") == blocks


@pytest.mark.parametrize(("ms", "until"), [(0, None), (1, NOON - MINUTE + DAY)])
def test_a_share_that_rolls_at_the_very_end_of_the_window_frees_nothing(ms: int, until: int | None) -> None:
    opened_at = NOON - MINUTE + UNDER_WAY + ms
    state = resumed("ppp", opened_at=opened_at)
    view = OnePeer().view
    assert limit_block(state, view, "pushes", opened_at + 1) == Block("share_spent", until)


def test_what_is_due_now_and_blocked_until_a_fact_is_not_looked_at_again_before() -> None:
    """Otherwise the peer would be looked at without end."""
    peer = OnePeer(policy=Policy(notice_after_ms=30_000)).see(agents=0)
    peer.message(token=False)
    due = NOON + 30 * SECOND
    assert next_due_at(peer.state, peer.view, due - 1) == due
    assert next_due_at(peer.state, peer.view, due) is None
    assert next_due_at(peer.state, peer.view, due + 1) is None


def test_an_answer_on_its_way_has_no_age() -> None:
    peer = OnePeer()
    peer.message()
    peer.finish("hello")
    assert peer.state.request is not None
    assert remainder_ends_at(peer.state, peer.view.policy) is None
    peer.refuse("not_sent", 0)
    assert remainder_ends_at(peer.state, peer.view.policy) == NOON + DAY


def test_when_the_address_of_an_erased_peer_may_go() -> None:
    view = OnePeer().view
    erased = msgspec.structs.replace(resumed("n"), erased_at=NOON, answers=())
    assert forget_at(erased, view) == NOON - MINUTE + DAY
    assert forget_at(msgspec.structs.replace(erased, forgotten=True), view) is None
    assert forget_at(msgspec.structs.replace(erased, erased_at=0), view) is None
    assert forget_at(erased, msgspec.structs.replace(view, pinned=True)) is None
