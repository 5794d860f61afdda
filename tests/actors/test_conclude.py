"""Outcomes: what each class does to the token, the content, the charge and the next attempt (delivery rules 5, 7, 11, 12)."""

from __future__ import annotations

import pytest

from actors.deciding.commands import Abandon, Conclude, ErasePeer, Facts, Operate
from actors.deciding.conclude import RETRY_MS_MAX, RETRY_MS_MIN
from actors.deciding.gate import next_lane
from actors.deciding.view import Block
from actors.ports import LISTEN_MS, Accepted, Refused, Unknown
from events.base import SendClass
from events.bot import Policy
from events.peer import SendFailed, SendUnknown, UnknownResolved
from events.quota import SEND_WITHIN_MS, share_used, spent
from events.streams import fingerprint
from tests.actors.one_peer import OnePeer
from tests.streams_builder import DAY, HOUR, MINUTE, SECOND

PART = 64


def pushing(text: str = "news", **policy: int) -> OnePeer:
    peer = OnePeer(policy=Policy(**policy)).met()
    peer.accept("t1", text)
    return peer


def answering(text: str = "a" * PART * 3, **policy: int) -> OnePeer:
    peer = OnePeer(policy=Policy(part_bytes=PART, **policy))
    peer.message()
    peer.finish(text)
    return peer


def charged(peer: OnePeer) -> int:
    return spent(peer.state.charges, peer.state.window_number)


def test_confirmed() -> None:
    peer = pushing()
    peer.ok("77")
    assert peer.types == ["send_succeeded"]
    assert peer.state.waiting == 0
    assert peer.state.dead == ()
    assert charged(peer) == 2, "the answer and the push"
    assert share_used(peer.state.charges, peer.view.policy, peer.now) == 1


def test_without_a_message_id_it_is_charged_and_not_claimed() -> None:
    peer = pushing()
    peer.ok("")
    assert peer.fate("t1") == ("unconfirmed", "no_message_id")
    assert charged(peer) == 2
    peer.wait(DAY)
    peer.look()
    assert len(peer.sends) == 2


FREE: list[tuple[SendClass, int]] = [
    ("blocked", -2),
    ("bad_request", -1),
    ("bad_request", -3),
    ("bad_request", -4),
    ("login_lost", -14),
    ("http_refused", 404),
    ("not_sent", 0),
    ("too_late", 0),
]


@pytest.mark.parametrize(("failure", "code"), FREE)
def test_refusals_and_what_never_left_are_free(failure: SendClass, code: int) -> None:
    peer = pushing()
    peer.paced_until = peer.now + DAY
    peer.refuse(failure, code)
    assert charged(peer) == 1, "only the answer before"
    assert share_used(peer.state.charges, peer.view.policy, peer.now) == 0
    failed = peer.last.events[0]
    assert isinstance(failed, SendFailed)
    assert (failed.failure, failed.code, failed.charged) == (failure, code, False)


def test_a_stale_token_is_dropped_and_the_content_waits_for_the_next_message() -> None:
    peer = pushing()
    token = peer.sends[-1].token
    peer.refuse()
    assert peer.types == ["send_failed", "context_token_dropped"]
    assert peer.queued == ["t1"]
    for _ in range(50):
        peer.wait(30 * MINUTE)
        peer.look()
    assert len(peer.sends) == 2, "no attempt in between"
    peer.message("back again")
    assert peer.said[-1] == "news"
    assert peer.sends[-1].token != token


def test_refused_again_right_after_the_next_message_it_is_set_aside_and_the_next_goes_on() -> None:
    peer = pushing()
    peer.refuse()
    peer.accept("t2", "later news")
    peer.message()
    assert peer.queued == ["t1", "t2"]
    peer.refuse()
    assert peer.fate("t1") == ("dropped", "set_aside")
    assert peer.queued == ["t2"]
    peer.message()
    assert peer.said[-1] == "later news"


def test_an_answer_refused_twice_is_set_aside() -> None:
    peer = answering("hello")
    peer.refuse()
    assert peer.types == ["send_failed", "context_token_dropped"]
    peer.message()
    assert peer.requests[-1].remainder
    peer.refuse()
    assert [d.reason for d in peer.state.dead] == ["set_aside"]


def test_a_success_forgets_the_refusal_before() -> None:
    peer = answering()
    peer.refuse()
    peer.message()
    peer.ok()
    peer.refuse()
    assert peer.state.answers[0].refusals == 1
    assert not peer.state.dead


@pytest.mark.parametrize("kind", ["push", "answer"])
def test_refused_with_an_old_token_while_a_newer_one_is_there_it_goes_at_once(kind: str) -> None:
    peer = pushing() if kind == "push" else answering("hello")
    old = peer.sends[-1].token
    peer.message("one more thing")
    peer.refuse()
    assert "context_token_dropped" not in peer.types, "the newer one is not to blame"
    assert peer.state.request is not None
    assert peer.sends[-1].token != old
    assert peer.said[-1] == peer.said[-2]


@pytest.mark.parametrize(
    ("failure", "code"), [("bad_request", -1), ("bad_request", -3), ("bad_request", -4), ("http_refused", 400)]
)
def test_refused_for_what_it_is_it_is_set_aside_at_once_and_the_next_goes(failure: SendClass, code: int) -> None:
    peer = pushing()
    peer.accept("t2", "later news")
    peer.refuse(failure, code)
    assert peer.fate("t1") == ("dropped", "set_aside")
    assert peer.said[-1] == "later news"
    assert peer.state.token is not None


def test_login_lost_ends_all_attempts_until_a_new_login_and_message() -> None:
    """The bot learns of it a moment later: in between nothing may be tried with the old login."""
    peer = pushing()
    peer.refuse("login_lost", -14)
    assert peer.state.request is None
    assert peer.queued == ["t1"]
    peer.see(login_lost=True).look()
    peer.see(login_lost=False, generation=2).look()
    assert len(peer.sends) == 2
    assert next_lane(peer.state, peer.view, peer.now) == Block("no_token")
    peer.message("hello again")
    assert peer.said[-1] == "news"


def test_login_lost_for_an_old_token_leaves_the_new_login_alone() -> None:
    """The answer to a send of the old login may come after a new login and its first message."""
    peer = pushing()
    peer.see(generation=2)
    peer.hears("hello from the new login")
    peer.refuse("login_lost", -14)
    assert peer.said[-1] == "news"
    assert peer.requests[-1].login == 2


def test_what_never_left_is_tried_again_after_1_s_to_60_s() -> None:
    peer = pushing()
    waits = []
    for _ in range(9):
        peer.refuse("not_sent", 0)
        due_at = peer.last.due_at
        assert due_at is not None
        waits.append(due_at - peer.now)
        peer.now = due_at - 1
        peer.look()
        assert peer.state.request is None
        peer.wait(1)
        peer.look()
        assert peer.state.request is not None
    assert waits == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]
    assert (waits[0], waits[-1]) == (RETRY_MS_MIN, RETRY_MS_MAX)
    peer.ok()
    peer.accept("t2", "x")
    peer.refuse("too_late", 0)
    assert peer.last.due_at == peer.now + RETRY_MS_MIN, "a success begins anew"


def test_flush_tries_at_once() -> None:
    peer = pushing()
    peer.refuse("not_sent", 0)
    peer.do(Operate(what="flush", who="op"))
    assert peer.state.request is not None


def test_unknown_is_charged_listed_and_never_resent() -> None:
    peer = pushing()
    before = peer.now
    peer.wait(16 * SECOND)
    peer.unknown()
    assert peer.fate("t1") == ("unknown", "timeout")
    assert charged(peer) == 2
    settled = before + SEND_WITHIN_MS + peer.view.policy.client_timeout_ms + LISTEN_MS
    assert [c.settled_at for c in peer.state.charges if c.kind == "push"] == [settled]
    assert share_used(peer.state.charges, peer.view.policy, settled + DAY - 1) == 1
    assert share_used(peer.state.charges, peer.view.policy, settled + DAY) == 0
    peer.wait(DAY)
    peer.message()
    assert len(peer.sends) == 2


def test_an_unknown_part_holds_the_later_ones_until_the_next_message() -> None:
    peer = answering()
    peer.unknown()
    peer.wait(HOUR)
    assert peer.look().due_at == peer.now - HOUR + DAY, "only its age is due"
    assert len(peer.sends) == 1
    peer.message()
    assert (peer.requests[-1].part, peer.requests[-1].remainder) == (2, True)
    peer.ok()
    assert peer.requests[-1].part == 3
    peer.ok()
    assert peer.state.answers == ()
    assert [(d.fate, d.output.start) for d in peer.state.dead] == [("unknown", 0)]


def test_a_part_that_is_unknown_after_the_next_message_came_holds_nothing() -> None:
    peer = answering()
    peer.message()
    peer.unknown()
    assert peer.requests[-1].part == 2


def test_a_confirmed_part_goes_on_and_an_unconfirmed_one_too() -> None:
    peer = answering()
    peer.ok()
    assert peer.requests[-1].part == 2
    peer.ok("")
    assert peer.requests[-1].part == 3
    peer.ok()
    assert [(d.fate, d.reason) for d in peer.state.dead] == [("unconfirmed", "no_message_id")]


def test_what_was_left_out_is_dropped_only_by_the_outcome_that_delivers() -> None:
    def beside() -> OnePeer:
        peer = OnePeer(policy=Policy(part_bytes=PART))
        peer.accept("t1", "old" * 10)
        peer.accept("t2", "new" * 20)
        peer.message()
        assert peer.requests[-1].left_out == (peer.of("t1"),)
        return peer

    peer = beside()
    peer.refuse()
    assert peer.queued == ["t1", "t2"], "on a refusal everything stays queued"
    peer = beside()
    peer.unknown()
    assert "t1" not in [d.output.turn_id for d in peer.state.dead]
    peer = beside()
    peer.ok("")
    assert "t1" not in [d.output.turn_id for d in peer.state.dead]
    peer = beside()
    peer.ok()
    assert peer.fate("t1") == ("dropped", "merged_out")


# --- late outcomes ------------------------------------------------------------------------------------------------


def lost(text: str = "news", **policy: int) -> tuple[OnePeer, str]:
    peer = pushing(text, **policy)
    assert peer.state.request is not None
    request = peer.state.request.request
    peer.unknown()
    return peer, request


def test_a_late_success_resolves_an_unknown() -> None:
    peer, request = lost()
    peer.ok("9", request)
    assert peer.last.events == (UnknownResolved(request=request, delivered=True, message_id="9", who="outlet"),)
    assert peer.state.dead == ()
    assert charged(peer) == 2
    peer.ok("9", request)
    assert peer.last.events == (), "once"


def test_a_late_success_without_a_message_id_is_unconfirmed() -> None:
    peer, request = lost()
    peer.ok("", request)
    assert peer.fate("t1") == ("unconfirmed", "no_message_id")


def test_a_late_success_of_a_cut_push_leaves_its_rest_retrievable() -> None:
    peer, request = lost("a" * 100, part_bytes=PART)
    peer.ok("9", request)
    assert peer.fate("t1") == ("cut", "longer_than_a_part")
    assert peer.dead("t1").output.start == peer.requests[-1].carried[0].end


def test_a_late_refusal_frees_the_charge() -> None:
    peer, request = lost()
    peer.refuse(request=request)
    assert peer.last.events == (UnknownResolved(request=request, delivered=False, who="outlet"),)
    assert peer.fate("t1") == ("dropped", "not_delivered")
    assert charged(peer) == 1


def test_nothing_new_from_a_late_unknown_or_of_a_settled_request() -> None:
    peer, request = lost()
    peer.outcome(Unknown(reason="timeout", settled_at=peer.now), request)
    assert peer.last.events == ()
    peer = pushing()
    assert peer.state.request is not None
    request = peer.state.request.request
    peer.ok()
    for outcome in (Accepted(message_id="8"), Refused(failure="blocked"), Unknown(reason="timeout", settled_at=1)):
        assert peer.do(Conclude(request, outcome)).events == ()
        assert peer.do(Conclude("r-never", outcome)).events == ()


def test_a_late_success_of_an_answers_part_does_not_touch_the_rest() -> None:
    peer = answering()
    assert peer.state.request is not None
    request = peer.state.request.request
    peer.unknown()
    peer.ok("9", request)
    assert peer.state.dead == ()
    assert peer.state.answers[0].start == PART
    peer.message()
    assert peer.requests[-1].part == 2


# --- requests that nobody holds -----------------------------------------------------------------------------------


def test_a_request_of_an_older_epoch_is_unknown_and_spent() -> None:
    peer = pushing()
    asked = peer.now
    peer.wait(HOUR).see(epoch=2)
    peer.hears("evening")
    peer.do(Facts(()))
    event = peer.last.events[0]
    assert isinstance(event, SendUnknown)
    assert (event.reason, event.settled_at) == (
        "stopped",
        asked + SEND_WITHIN_MS + peer.view.policy.client_timeout_ms + LISTEN_MS,
    )
    assert peer.fate("t1") == ("unknown", "stopped")
    assert charged(peer) == 1, "the window of the evening has it: the server may have seen it after the message"
    assert len(peer.sends) == 2


def test_an_outcome_that_arrives_first_settles_the_request_of_an_older_epoch() -> None:
    peer = pushing()
    peer.see(epoch=2)
    peer.ok()
    assert peer.types == ["send_succeeded"]


def test_an_abandoned_request_is_free_and_goes_again_at_once_but_only_once() -> None:
    peer = pushing()
    assert peer.state.request is not None
    peer.do(Abandon(peer.state.request.request))
    assert peer.types == ["send_failed", "send_requested"]
    assert charged(peer) == 2
    assert peer.state.request is not None
    peer.do(Abandon(peer.state.request.request))
    assert peer.types == ["send_failed"], "without an outlet this would go round for ever"
    assert peer.last.due_at == peer.now + RETRY_MS_MIN
    assert peer.do(Abandon("r-other")).events == ()


def test_a_raw_error_goes_among_the_bodies() -> None:
    peer = pushing()
    peer.outcome(Refused(failure="bad_request", code=-1, error='{"ret":-1}'))
    failed = peer.last.events[0]
    assert isinstance(failed, SendFailed)
    assert peer.texts[failed.error] == '{"ret":-1}'


def test_a_remainder_ends_after_its_number_of_parts() -> None:
    peer = answering("a" * PART * 9, quota_replies=4, answer_parts=3)
    for _ in range(4):
        peer.ok()
    for expected in (1, 2):
        peer.wait(MINUTE)
        peer.message()
        assert peer.requests[-1].remainder
        peer.ok()
        peer.ok() if peer.state.request else None
        assert peer.state.answers == () or peer.state.answers[0].remainder_parts == 2 * expected
    assert [(d.fate, d.reason, d.output.start) for d in peer.state.dead] == [("cut", "beyond_parts", PART * 7)]


@pytest.mark.parametrize("how", ["unknown", "stopped"])
def test_a_remainder_whose_last_part_nobody_knows_of_ends_as_well(how: str) -> None:
    peer = answering("a" * PART * 9, quota_replies=2, answer_parts=1)
    peer.ok()
    peer.ok()
    peer.wait(MINUTE)
    peer.message()
    assert peer.requests[-1].remainder
    if how == "unknown":
        peer.unknown()
    else:
        peer.see(epoch=2).look()
    assert [(d.fate, d.reason, d.output.start) for d in peer.state.dead] == [("cut", "beyond_parts", PART * 3)]
    assert peer.types == ["send_unknown", "output_dropped"]
    assert peer.state.answers == ()


def failed(peer: OnePeer) -> SendFailed:
    return next(r.event for r in reversed(peer.recorded) if isinstance(r.event, SendFailed))


def test_what_the_channel_said_is_kept_with_its_fingerprint_and_only_where_it_said_something() -> None:
    peer = pushing()
    peer.outcome(Refused(failure="bad_request", code=-1, error="no"))
    event = failed(peer)
    assert event.digest == fingerprint(peer.salts[event.error], "no")
    assert (event.retry_at, event.charged) == (0, False), "for what it is: no time will mend it"
    peer.accept("t2", "more news")
    peer.refuse()
    assert (failed(peer).error, failed(peer).digest, failed(peer).retry_at) == ("", "", 0)


def test_what_the_channel_says_of_an_erased_peer_is_not_kept() -> None:
    peer = pushing()
    peer.do(ErasePeer(who="ops"))
    peer.outcome(Refused(failure="bad_request", code=-1, error="no"))
    assert (failed(peer).error, failed(peer).digest, peer.texts) == ("", "", {})
