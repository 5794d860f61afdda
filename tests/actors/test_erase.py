"""Everything of a peer is erased, or all that tells of one output; and when the address may follow."""

from __future__ import annotations

from typing import Any

import pytest

from actors.deciding.commands import Bind, EraseOutput, ErasePeer, Facts
from actors.deciding.erase import BODIES_MAX
from actors.deciding.view import Erased, Withdraw
from actors.errors import PeerForgotten
from actors.ports import Accepted, Refused
from events.bot import Policy
from events.history import history
from events.peer import AccessRefused, BodyErased, OutputDropped, SendFailed, TurnCancelled
from events.streams import delivery_id
from store.records import Binding
from tests.actors.one_peer import OnePeer
from tests.streams_builder import ANN, DAY, HOUR, MINUTE, SECOND

PART = 64


def erase(peer: OnePeer, who: str = "ops") -> Erased:
    """As operators have it: the first step's reply, with what the others took."""
    first: Any = peer.do(ErasePeer(who=who)).reply
    more = first.more
    while more:
        more = peer.do(ErasePeer(who=who)).reply.more  # type: ignore[attr-defined]  # an erasure's
    assert isinstance(first, Erased)
    return first


def fates(peer: OnePeer) -> dict[str, tuple[str, str]]:
    """The fate of each turn's output, by the history."""
    return {o.turn_id: (o.fate, o.reason) for o in history(peer.recorded).outputs.values()}


def test_what_waits_is_dropped_by_an_event_and_no_text_is_left() -> None:
    peer = OnePeer().met()
    peer.see(paused_until=None)
    peer.accept("t1", "one")
    peer.accept("t2", "two")
    peer.accept("t3", "", status="failed")
    done = erase(peer)
    assert done.outputs == (peer.of("t1"), peer.of("t2"))
    assert peer.texts == {}
    assert [e.reason for e in peer.last.events if isinstance(e, OutputDropped)] == ["erased", "erased"]
    assert fates(peer)["t1"] == fates(peer)["t2"] == ("erased", "erased")
    assert fates(peer)["t3"] == ("skipped", "failed")
    state = peer.state
    assert (state.queue, state.dead, state.token, state.access) == ((), (), None, False)
    assert len(state.charges) == 1, "what was spent stays"


def test_a_turn_that_was_on_its_way_to_a_forgotten_peer_is_refused() -> None:
    """Accepted, it would wait for ever: whoever writes again is a new peer (world 34151)."""
    peer = OnePeer()
    assert erase(peer).forgotten
    with pytest.raises(PeerForgotten):
        peer.accept("t1", "too late")
    assert not peer.state.queue


def test_a_message_that_waits_and_the_open_turn_are_over() -> None:
    peer = OnePeer()
    peer.message("first")
    assert peer.state.turn is not None
    turn = peer.state.turn.turn_id
    peer.message("second")
    done = erase(peer)
    assert (done.turn, done.messages) == (turn, 1)
    assert [e.turn_id for e in peer.last.events if isinstance(e, TurnCancelled)] == [turn]
    assert [(e.message, e.reason) for e in peer.last.events if isinstance(e, AccessRefused)] == [("m-2", "erased")]
    assert Withdraw(turn, "") in peer.last.effects
    assert (peer.state.turn, peer.state.inbox, peer.texts) == (None, (), {})


def test_a_remainder_goes_and_what_was_delivered_of_it_stays_delivered() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART, quota_replies=2, answer_parts=9))
    peer.message("tell me")
    peer.finish("long " * 60)
    peer.ok("1")
    peer.ok("2")
    assert peer.state.answers
    (output,) = erase(peer).outputs
    story = history(peer.recorded).outputs[output]
    assert (story.fate, story.reason, story.cut) == ("delivered", "erased", True)
    assert story.body_erased_at == peer.now


def test_the_session_is_left() -> None:
    peer = OnePeer()
    from actors.deciding.commands import Bind

    peer.do(Bind(session="desk", who="ops"))
    done = erase(peer)
    assert done.session == "desk"
    assert peer.last.bindings == (Binding(stream=ANN, session=""),)
    assert peer.state.session == ""


@pytest.mark.parametrize("answer", ["accepted", "refused", "never left", "nobody knows"])
def test_what_is_on_its_way_ends_with_its_outcome_and_never_waits_again(answer: str) -> None:
    peer = OnePeer().met()
    peer.accept("t1", "secret")
    assert peer.state.request is not None
    request = peer.state.request.request
    done = erase(peer)
    assert (done.in_flight, done.outputs, done.forget_at) == (request, (), None)
    assert peer.texts == {}, "the outlet has the text in hand; the log has it no more"
    match answer:
        case "accepted":
            peer.ok()
        case "refused":
            peer.outcome(Refused(failure="blocked", code=-2, error="secret is bad"))
        case "never left":
            peer.outcome(Refused(failure="not_sent", error="secret is bad"))
        case "nobody knows":
            peer.unknown()
    expected = {"accepted": ("delivered", ""), "nobody knows": ("unknown", "")}.get(answer, ("erased", "erased"))
    assert fates(peer)["t1"] == expected
    assert (peer.state.waiting, peer.state.request, peer.texts) == (0, None, {}), "not even what the channel says of it"
    assert all(not r.event.error for r in peer.recorded if isinstance(r.event, SendFailed))


def test_a_part_of_an_answer_on_its_way_is_the_last_one() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART))
    peer.message("tell me")
    peer.finish("long " * 60)
    erase(peer)
    peer.ok()
    (story,) = history(peer.recorded).outputs.values()
    assert (story.fate, story.reason, story.cut) == ("delivered", "erased", True)
    assert peer.state.waiting == 0


# --- the address --------------------------------------------------------------------------------------------------


def test_the_address_of_a_peer_that_spent_nothing_goes_at_once() -> None:
    peer = OnePeer()
    peer.accept("t1", "news")
    done = erase(peer)
    assert done.forgotten
    assert peer.last.forget
    assert peer.types[-1] == "address_forgotten"
    assert peer.last.due_at is None


def test_the_address_goes_by_itself_once_nothing_that_was_spent_counts_any_more() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "news")
    peer.wait(SECOND).ok("2")
    settled = peer.now
    done = erase(peer.wait(HOUR))
    assert (done.forgotten, done.forget_at) == (False, settled + DAY)
    assert not peer.last.forget
    assert peer.last.unname, "the name goes at once"
    assert peer.last.due_at == peer.last.wake_at == settled + DAY
    peer.now = settled + DAY - 1
    assert not peer.look().forget
    peer.wait(1)
    assert peer.look().forget
    assert peer.types == ["address_forgotten"]
    assert peer.look().due_at is None


def test_the_longest_of_window_and_share_counts() -> None:
    peer = OnePeer(policy=Policy(share_window_ms=3 * DAY)).met()
    assert erase(peer).forget_at == peer.now + 3 * DAY
    peer = OnePeer(policy=Policy(share_window_ms=HOUR)).met()
    assert erase(peer).forget_at == peer.now + DAY
    peer = OnePeer()
    peer.message("hi", ago_ms=MINUTE)
    assert peer.state.window is not None
    assert erase(peer).forget_at == peer.state.window.opened_at + DAY, "a window that nothing was spent of"


def test_whoever_writes_before_that_begins_anew_under_the_same_name() -> None:
    peer = OnePeer().met()
    erase(peer)
    peer.wait(HOUR).message("me again")
    assert peer.state.erased_at == 0
    assert peer.state.turn is not None
    peer.finish("hello again")
    peer.ok()
    peer.wait(2 * DAY)
    assert not peer.look().forget
    assert set(peer.texts), "what came since stays"
    erase(peer)
    assert peer.state.erased_at == peer.now, "and can be erased, too"


def test_what_came_between_goes_with_the_address() -> None:
    peer = OnePeer().met()
    erase(peer)
    peer.wait(HOUR).accept("t9", "news for nobody")
    assert peer.queued == ["t9"], "it has no reply handle, and waits"
    peer.wait(2 * DAY)
    assert peer.look().forget
    assert peer.texts == {}
    assert fates(peer)["t9"] == ("erased", "erased")


def test_a_text_that_comes_at_that_very_moment_goes_a_moment_later() -> None:
    peer = OnePeer().met()
    erase(peer)
    peer.wait(2 * DAY)
    decision = peer.accept("t9", "news for nobody")
    assert not decision.forget
    assert decision.due_at == peer.state.charges[-1].settled_at + DAY  # type: ignore[operator]  # settled
    assert decision.due_at <= peer.now
    assert peer.look().forget
    assert peer.texts == {}


def test_the_login_keeps_the_address() -> None:
    peer = OnePeer().met()
    peer.see(pinned=True)
    done = erase(peer)
    assert (done.forgotten, done.forget_at, peer.last.due_at) == (False, None, None)
    peer.wait(9 * DAY)
    assert not peer.look().forget
    peer.see(pinned=False)
    assert peer.look().forget


def test_an_erasure_of_much_takes_several_appends() -> None:
    peer = OnePeer().met()
    peer.texts |= {f"old-{n}": "x" for n in range(9)}
    peer.held_max = 4
    first: Any = peer.do(ErasePeer(who="ops")).reply
    assert first.more
    assert (len(first.kinds), len(peer.last.erase)) == (4, 4)
    assert peer.types.count("peer_erased") == 1
    erase(peer)
    assert peer.texts == {}
    assert [len(r.event.bodies) for r in peer.recorded if isinstance(r.event, BodyErased)] == [4, 4, 4]
    assert [r.type for r in peer.recorded].count("peer_erased") == 1


def test_an_address_waits_for_the_last_of_many_bodies() -> None:
    peer = OnePeer()
    peer.texts |= {f"old-{n}": "x" for n in range(9)}
    peer.held_max = 4
    while not peer.do(ErasePeer(who="ops")).forget:
        assert peer.texts
    assert peer.texts == {}


def test_one_append_takes_no_more_than_it_should() -> None:
    assert BODIES_MAX * 1_000 < 16 * 2**20


# --- one output ---------------------------------------------------------------------------------------------------


def test_one_output_that_waits_is_dropped_and_the_others_stay() -> None:
    peer = OnePeer()
    peer.accept("t1", "one")
    peer.accept("t2", "two")
    body = peer.waiting("t1").body
    done = peer.do(EraseOutput(output=peer.of("t1"), bodies=(body,))).reply
    assert done == Erased(outputs=(peer.of("t1"),))
    assert peer.queued == ["t2"]
    assert list(peer.texts.values()) == ["two"]
    assert fates(peer)["t1"] == ("erased", "erased")
    assert peer.state.dead == ()


def test_one_output_on_its_way_is_erased_and_its_outcome_is_told() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "one")
    assert peer.state.request is not None
    done = peer.do(EraseOutput(output=peer.of("t1"), bodies=(peer.waiting("t1").body,))).reply
    assert done == Erased(in_flight=peer.state.request.request)
    peer.outcome(Accepted(message_id="7"))
    assert fates(peer)["t1"] == ("delivered", "")


def test_a_late_outcome_is_heard_however_much_ended_since() -> None:
    """It was found only among the twenty newest that did not arrive."""
    peer = OnePeer(policy=Policy(share_replies=3, quota_replies=10)).met()
    peer.accept("t1", "one")
    assert peer.state.request is not None
    request = peer.state.request.request
    peer.unknown()
    for number in range(30):
        peer.accept(f"f{number}", "no", status="failed")
    assert request not in {d.request for d in peer.state.dead}
    peer.ok("late", request)
    assert history(peer.recorded).requests[request].message_id == "late"
    peer.ok("later", request)
    assert peer.types == [], "told once"


def test_a_late_outcome_is_heard_after_an_erasure() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "one")
    assert peer.state.request is not None
    request = peer.state.request.request
    peer.unknown()
    erase(peer)
    peer.refuse(request=request)
    assert history(peer.recorded).requests[request].result == "not_sent"
    assert all(c.request != request for c in peer.state.charges)


def test_ids_are_of_the_stream() -> None:
    assert OnePeer().of("t") == delivery_id(ANN, "t")
    assert OnePeer().do(Facts(())).events == ()


def test_one_output_is_erased_while_another_is_on_its_way() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "leaving")
    peer.accept("t2", "waiting")
    body = peer.waiting("t2").body
    done = peer.do(EraseOutput(output=peer.of("t2"), bodies=(body,))).reply
    assert done == Erased(outputs=(peer.of("t2"),))
    assert peer.types == ["output_dropped", "body_erased"]
    assert peer.last.erase == (body,)
    assert [d.reason for d in peer.last.events if isinstance(d, OutputDropped)] == ["erased"]


def test_an_output_whose_text_is_gone_already_waits_no_more_either() -> None:
    peer = OnePeer()
    peer.accept("t1", "one")
    done = peer.do(EraseOutput(output=peer.of("t1"), bodies=())).reply
    assert done == Erased(outputs=(peer.of("t1"),))
    assert (peer.types, peer.queued, peer.last.erase) == (["output_dropped"], [], ())


def test_what_came_between_is_let_go_of_before_the_address() -> None:
    peer = OnePeer().met()
    erase(peer)
    peer.do(Bind(session="s", who="op"))
    peer.accept("t1", "too late")
    peer.wait(2 * DAY)
    done = peer.look()
    assert done.forget
    assert peer.types == ["output_dropped", "session_unbound", "body_erased", "address_forgotten"]
    assert [binding.session for binding in done.bindings] == [""]
    assert (peer.state.session, peer.state.queue, peer.texts) == ("", (), {})
