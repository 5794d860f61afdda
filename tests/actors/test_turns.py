"""Turns become outputs: who is answered, who is pushed to, what is skipped and why (delivery rules 1, 2, 3, 15)."""

from __future__ import annotations

import json

import pytest

from actors.deciding.commands import AcceptTurn, FinishTurn, LoseAgent, TakeTurn
from actors.deciding.view import Send, Withdraw
from actors.errors import TurnNotOpen, TurnTaken
from events.base import Origin, Status
from events.bot import Policy
from events.peer import OutputSkipped, TurnCompleted, TurnFailed
from events.peer_shapes import FORMER_KEPT
from events.streams import fingerprint
from tests.actors.one_peer import OnePeer
from tests.streams_builder import DAY, MINUTE, NOON


@pytest.mark.parametrize("origin", ["scheduled", "desktop", "api"])
def test_a_turn_that_nobody_asked_for_in_the_chat_is_pushed(origin: Origin) -> None:
    peer = OnePeer().met()
    decision = peer.accept("t1", "the job is done", origin=origin)
    assert peer.types == ["turn_completed", "send_requested"], "one append"
    assert peer.said[-1] == "the job is done"
    assert decision.reply == peer.of("t1")
    assert ("turn", "t1") in peer.keys
    assert json.loads(peer.keys["delivery", peer.of("t1")])["turn"] == "t1"
    peer.ok()
    assert not peer.state.queue


def test_an_answer_is_sent_once_and_never_pushed() -> None:
    peer = OnePeer()
    peer.message("how are you?")
    assert peer.types == ["turn_started"]
    assert peer.state.turn is not None
    turn = peer.state.turn.turn_id
    assert ("turn", turn) in peer.keys, "taken before the message leaves for an agent"
    peer.finish("fine")
    assert [(r.kind, r.part, r.parts) for r in peer.requests] == [("answer", 1, 1)]
    peer.ok()
    with pytest.raises(TurnNotOpen):
        peer.do(FinishTurn(turn_id=turn, status="completed", text="fine"))
    peer.wait(DAY)
    assert peer.look().due_at is None
    assert peer.said == ["fine"]


def handed(peer: OnePeer, *agents: str) -> str:
    """The open turn after it was handed to one agent after the other, each of which is lost to the next; its id."""
    peer.message("how are you?")
    assert peer.state.turn is not None
    turn = peer.state.turn.turn_id
    for number, agent in enumerate(agents):
        if number:
            peer.do(LoseAgent(agents[number - 1]))
        peer.do(TakeTurn(turn_id=turn, agent=agent))
    return turn


@pytest.mark.parametrize("agent", ["a", "b"])
def test_who_has_a_turn_or_had_it_may_finish_it_and_the_first_counts(agent: str) -> None:
    peer = OnePeer()
    turn = handed(peer, "a", "b")
    peer.do(FinishTurn(turn_id=turn, status="completed", text="fine", agent=agent))
    completed = peer.last.events[0]
    assert isinstance(completed, TurnCompleted)
    assert completed.agent == agent, "the log knows whose answer counted"
    with pytest.raises(TurnNotOpen):
        peer.do(FinishTurn(turn_id=turn, status="completed", text="well", agent="b" if agent == "a" else "a"))
    assert peer.said == ["fine"]


@pytest.mark.parametrize("agents", [(), ("a",), ("a", "b")])
def test_nobody_else_may_finish_it(agents: tuple[str, ...]) -> None:
    peer = OnePeer()
    turn = handed(peer, *agents)
    before = peer.state
    with pytest.raises(TurnTaken, match=turn) as refused:
        peer.do(FinishTurn(turn_id=turn, status="failed", text="mine now", agent="c"))
    assert not any(f"agent {agent}" in str(refused.value) for agent in "ab"), "whose it is stays untold"
    assert peer.state == before
    peer.do(FinishTurn(turn_id=turn, status="completed", text="over HTTP no agent is named"))
    assert peer.said == ["over HTTP no agent is named"]
    withdrawn = [e for e in peer.last.effects if isinstance(e, Withdraw)]
    assert withdrawn == [Withdraw(turn, agent, "answered") for agent in agents[-1:]]


def test_who_had_a_turn_is_remembered_boundedly_and_once() -> None:
    peer = OnePeer()
    handed(peer, "a", "b", "a", "c", *(f"x{number}" for number in range(FORMER_KEPT)))
    turn = peer.state.turn
    assert turn is not None
    assert turn.former == ("c", *(f"x{number}" for number in range(FORMER_KEPT - 1)))
    assert not turn.held_by("a")
    assert turn.held_by(f"x{FORMER_KEPT - 1}")


SKIPPED: list[tuple[str, Status, str, str]] = [
    ("blank", "completed", " \n\u200b", "blank"),
    ("empty", "completed", "", "blank"),
    ("only a directive", "completed", "[[reply_to:x1]]\n", "blank"),
    ("degraded and blank", "degraded", "", "blank"),
    ("failed with text", "failed", "traceback", "failed"),
    ("failed without", "failed", "", "failed"),
]


@pytest.mark.parametrize(("status", "text", "reason"), [row[1:] for row in SKIPPED], ids=[row[0] for row in SKIPPED])
@pytest.mark.parametrize("own", [True, False], ids=["answer", "push"])
def test_skipped_with_a_reason(own: bool, status: Status, text: str, reason: str) -> None:
    peer = OnePeer()
    peer.message()
    if own:
        peer.finish(text, status=status)
        assert peer.state.turn is None
    else:
        peer.accept("t1", text, status=status)
    skipped = peer.last.events[1]
    assert isinstance(skipped, OutputSkipped)
    assert skipped.reason == reason
    assert isinstance(peer.last.events[0], TurnFailed if status == "failed" else TurnCompleted)
    assert peer.state.waiting == 0
    assert not peer.sends
    assert bool(skipped.output.body) == (bool(text.strip()) and "[[" not in text), "the body is kept for dead list"


def test_a_degraded_turn_with_text_is_delivered() -> None:
    peer = OnePeer()
    peer.message()
    peer.finish("I could not reach the calendar.", status="degraded")
    peer.ok()
    peer.accept("t1", "The job stopped half-way.", status="degraded")
    assert peer.said == ["I could not reach the calendar.", "The job stopped half-way."]


def test_origins_that_the_policy_keeps_out() -> None:
    peer = OnePeer(policy=Policy(push_origins=("scheduled",))).met()
    peer.accept("t1", "from the desk", origin="desktop")
    assert peer.types == ["turn_completed", "output_skipped"]
    assert peer.fate("t1") == ("skipped", "origin_excluded")
    peer.accept("t2", "from the timer")
    assert peer.said[-1] == "from the timer"


@pytest.mark.parametrize("limits", [{"share_replies": 0}, {"quota_replies": 0}])
def test_a_push_that_can_never_fit_is_refused_at_acceptance(limits: dict[str, int]) -> None:
    peer = OnePeer(policy=Policy(**limits))
    peer.accept("t1", "news")
    assert peer.fate("t1") == ("skipped", "no_share")
    peer.rule(mode="observe").accept("t2", "news")
    assert peer.queued == ["t2"]


def test_a_quote_is_asked_for_and_falls_back_where_the_channel_has_none() -> None:
    for can_quote in (False, True):
        peer = OnePeer(can_quote=can_quote)
        peer.message()
        peer.finish("[[reply_to:x1]]\nyes")
        send = peer.sends[-1]
        assert (send.text, send.quote) == ("yes", "x1" if can_quote else "")
        assert peer.requests[-1].quote == "x1"
        peer.ok()
        assert peer.types == (["send_succeeded"] if can_quote else ["send_succeeded", "fallback_used"])


def test_one_open_turn_per_peer_and_the_next_message_follows() -> None:
    peer = OnePeer()
    peer.message("first")
    peer.message("second")
    assert peer.types == []
    assert peer.state.turn is not None
    assert len(peer.state.inbox) == 1
    first = peer.state.turn
    assert peer.do(TakeTurn(turn_id=first.turn_id, agent="echo")).reply[1] == "first"  # type: ignore[index]  # (turn, text)
    peer.finish("one")
    assert peer.types == ["turn_completed", "turn_started", "send_requested"]
    assert peer.state.turn is not None
    assert peer.state.turn.turn_id != first.turn_id


def test_handed_to_one_agent_and_offered_again_under_the_same_id() -> None:
    peer = OnePeer()
    peer.message()
    assert peer.state.turn is not None
    turn = peer.state.turn.turn_id
    peer.do(TakeTurn(turn_id=turn, agent="one"))
    assert peer.types == ["turn_handed_over"]
    peer.do(TakeTurn(turn_id=turn, agent="one"))
    assert peer.types == [], "the same agent again is no news"
    with pytest.raises(TurnTaken):
        peer.do(LoseAgent("two"))
    peer.do(LoseAgent("one"))
    peer.do(TakeTurn(turn_id=turn, agent="two"))
    assert (peer.state.turn.turn_id, peer.state.turn.agent) == (turn, "two")
    with pytest.raises(TurnNotOpen):
        peer.do(TakeTurn(turn_id="t-other", agent="two"))


def test_a_turn_keeps_the_session_it_began_in() -> None:
    peer = OnePeer()
    peer.message()
    peer.finish("x")
    completed = peer.last.events[0]
    assert isinstance(completed, TurnCompleted)
    assert completed.session == ""


def test_texts_and_events_come_in_one_decision() -> None:
    peer = OnePeer().met()
    decision = peer.accept("t1", "news")
    assert [b.kind for b in decision.bodies] == ["output"], "a push sent as it is needs no second body"
    assert [b.text for b in decision.bodies] == ["news"]
    assert isinstance(decision.effects[0], Send)
    assert decision.state.request is not None
    assert peer.requests[-1].body == decision.bodies[0].id


def test_the_same_text_decided_twice_keeps_its_body() -> None:
    """A version conflict decides again: the body must not get a second id."""
    peer = OnePeer().met()
    draft = peer.draft()
    again = peer.draft(draft._texts)
    assert draft.store("output", "news") == again.store("output", "news")


def test_accepting_while_no_token_is_known_waits() -> None:
    peer = OnePeer()
    assert peer.accept("t1", "news").due_at is None, "the newest never expires"
    peer.wait(MINUTE)
    assert peer.accept("t2", "more").due_at == NOON + 60 * MINUTE
    assert not peer.sends


def test_an_own_turn_is_not_accepted_as_a_push() -> None:
    """The recorded id beats any claimed origin."""
    peer = OnePeer()
    peer.message()
    assert peer.state.turn is not None
    with pytest.raises(TurnTaken):
        peer.do(AcceptTurn(turn_id=peer.state.turn.turn_id, origin="scheduled", status="completed", text="x"))


def test_a_turns_end_is_recorded_with_the_fingerprint_of_its_text() -> None:
    peer = OnePeer()
    peer.accept("t1", "news")
    done = next(e for e in peer.last.events if isinstance(e, TurnCompleted))
    assert (done.total, done.digest) == (4, fingerprint(peer.salts[done.body], "news"))
    peer.accept("t2", "broken", status="failed")
    lost = next(e for e in peer.last.events if isinstance(e, TurnFailed))
    assert lost.digest == fingerprint(peer.salts[lost.error], "broken")
    peer.accept("t3", "")
    empty = next(e for e in peer.last.events if isinstance(e, TurnCompleted))
    assert (empty.body, empty.total, empty.digest) == ("", 0, "")
    peer.accept("t4", "", status="failed")
    mute = next(e for e in peer.last.events if isinstance(e, TurnFailed))
    assert (mute.error, mute.digest) == ("", "")


def test_a_blank_turn_is_skipped_and_nothing_else() -> None:
    peer = OnePeer()
    peer.message()
    peer.see(paused_until=None)
    peer.finish("an answer")
    peer.accept("t1", "news")
    peer.accept("t2", " ")
    assert [d.output.turn_id for d in peer.state.dead] == ["t2"]
    assert (peer.queued, len(peer.state.answers)) == (["t1"], 1)
