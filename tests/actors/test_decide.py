"""Commands that are not turns or outcomes: bindings, operators, erasure, texts that are not at hand."""

from __future__ import annotations

import pytest

from actors.deciding.commands import (
    Abandon,
    AcceptTurn,
    Advance,
    Bind,
    CancelTurn,
    Command,
    EraseOutput,
    ErasePeer,
    ExpireBodies,
    Facts,
    FinishTurn,
    Grant,
    LoseAgent,
    Operate,
    TakeTurn,
)
from actors.deciding.decide import decide
from actors.deciding.draft import Texts
from actors.deciding.view import Erased
from actors.errors import Refusal, TextsNeeded, TurnNotOpen, TurnTaken, UnknownOutput
from events.bot import Policy
from events.peer import BodyErased, OperatorActed, OutputDropped, TurnHandedOver
from store.records import Binding
from tests.actors.one_peer import OnePeer
from tests.streams_builder import DAY, HOUR, MINUTE

PART = 64


def bound(session: str) -> tuple[Binding, ...]:
    return (Binding(stream=OnePeer().stream, session=session),)


def test_binding_and_unbinding_keep_the_cache_in_step() -> None:
    peer = OnePeer()
    assert peer.do(Bind(session="s", who="op")).bindings == bound("s")
    assert peer.types == ["session_bound"]
    peer.do(Bind(session="s", who="op"))
    assert (peer.types, peer.last.bindings) == ([], ())
    peer.do(Bind(session="other", who="agent", only_if_unbound=True))
    assert peer.types == [], "an operator's word goes before"
    assert peer.do(Bind(session="", who="op")).bindings == bound("")
    assert peer.types == ["session_unbound"]
    peer.do(Bind(session="", who="op"))
    assert peer.types == []
    peer.do(Bind(session="other", who="agent", only_if_unbound=True))
    assert peer.state.session == "other"


def test_a_turn_remembers_its_session_over_rebinding() -> None:
    peer = OnePeer()
    peer.do(Bind(session="s", who="op"))
    peer.message()
    peer.do(Bind(session="other", who="op"))
    assert peer.state.turn is not None
    assert peer.state.turn.session == "s"


# --- operators ----------------------------------------------------------------------------------------------------


def test_drop_all_or_some() -> None:
    peer = OnePeer()
    for turn in ("t1", "t2", "t3"):
        peer.accept(turn, turn)
    peer.do(Operate(what="drop", who="op", outputs=(peer.of("t2"),)))
    assert peer.types == ["operator_acted", "output_dropped"]
    assert peer.queued == ["t1", "t3"]
    assert peer.fate("t2") == ("dropped", "operator")
    peer.do(Operate(what="drop", who="op"))
    assert peer.queued == []


def test_drop_never_takes_what_is_in_flight() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "leaving")
    peer.accept("t2", "waiting")
    with pytest.raises(UnknownOutput):
        peer.do(Operate(what="drop", who="op", outputs=(peer.of("t1"),)))
    peer.do(Operate(what="drop", who="op"))
    assert [o.output.turn_id for o in peer.last.events if isinstance(o, OutputDropped)] == ["t2"]


@pytest.mark.parametrize("what", ["drop", "retry", "discard"])
def test_unknown_ids_change_nothing(what: str) -> None:
    peer = OnePeer()
    peer.accept("t1", "x")
    before = peer.state
    with pytest.raises(UnknownOutput, match="d-nowhere"):
        peer.do(Operate(what=what, who="op", outputs=("d-nowhere",)))  # type: ignore[arg-type]  # one of its literals
    assert peer.state == before


def test_retry_lets_what_was_dropped_wait_again_as_fresh() -> None:
    peer = OnePeer(policy=Policy(backlog_outputs=1))
    peer.accept("t1", "one")
    peer.accept("t2", "two")
    peer.wait(2 * HOUR)
    peer.rule(backlog_outputs=20).do(Operate(what="retry", who="op", outputs=(peer.of("t1"),)))
    assert peer.fate("t2") == ("dropped", "expired"), "not the newest any more"
    assert peer.queued == ["t1"]
    assert peer.waiting("t1").accepted_at == peer.now
    assert [d.output.turn_id for d in peer.state.dead] == ["t2"]


def test_retry_of_an_unknown_sends_it_again_on_the_operators_word() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "news")
    peer.unknown()
    peer.do(Operate(what="retry", who="op", outputs=(peer.of("t1"),)))
    assert peer.said[-2:] == ["news", "news"]
    peer.ok()
    assert peer.state.dead == ()


def test_retry_of_an_unconfirmed_sends_all_of_it() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "news")
    peer.ok("")
    peer.do(Operate(what="retry", who="op"))
    assert peer.said[-2:] == ["news", "news"]


def test_retry_of_an_answer_is_an_answer_in_one_lane_only() -> None:
    """An answer never becomes a push."""
    peer = OnePeer(policy=Policy(part_bytes=PART))
    peer.message()
    peer.finish("x" * PART * 3)
    peer.unknown()
    output = peer.state.answers[0].output
    peer.do(Operate(what="retry", who="op", outputs=(output,)))
    assert [o.output for o in peer.state.answers] == [output]
    assert peer.state.queue == ()
    assert (peer.requests[-1].kind, peer.requests[-1].part) == ("answer", 1)
    for _ in range(3):
        peer.ok()
    assert peer.state.waiting == 0
    assert peer.state.dead == ()


def test_retry_never_takes_what_is_in_flight() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART))
    peer.message()
    peer.finish("x" * PART * 3)
    peer.unknown()
    peer.message()
    output = peer.state.answers[0].output
    assert output in peer.state.carried
    with pytest.raises(UnknownOutput):
        peer.do(Operate(what="retry", who="op", outputs=(output,)))


def test_discard_forgets() -> None:
    peer = OnePeer()
    peer.accept("t1", "x", status="failed")
    assert peer.fate("t1") == ("skipped", "failed")
    peer.do(Operate(what="discard", who="op", outputs=(peer.of("t1"),)))
    assert peer.state.dead == ()
    acted = peer.last.events[0]
    assert isinstance(acted, OperatorActed)
    assert [o.turn_id for o in acted.outputs] == ["t1"]


# --- erasure ------------------------------------------------------------------------------------------------------


def test_expiry_keeps_what_waits() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART))
    peer.hears("with a picture", media=("media-1",))
    peer.do(Facts(()))
    peer.message("behind it", media=("media-2",))
    peer.accept("t1", "n" * 80)
    assert peer.state.turn is not None
    assert peer.state.request is not None
    needed = {
        peer.waiting("t1").body,
        peer.state.request.body,
        "k-2",
        "in-1",
        "media-1",
        "in-2",
        "media-2",
    }
    peer.do(ExpireBodies(bodies=tuple(peer.texts)))
    assert set(peer.texts) & needed == needed - {"media-1", "media-2"}
    event = peer.last.events[0]
    assert isinstance(event, BodyErased)
    assert set(event.bodies) == {"k-1"}
    assert peer.last.erase == event.bodies
    assert not {"media-1", "media-2"} & set(peer.do(ExpireBodies(bodies=("media-1", "media-2"))).erase)
    assert peer.types == []


def test_what_is_over_expires_and_is_listed_no_more() -> None:
    peer = OnePeer()
    peer.accept("t1", "x", status="failed")
    body = peer.dead("t1").output.body
    peer.wait(30 * DAY)
    assert peer.do(ExpireBodies(bodies=(body,))).reply == (body,)
    assert peer.state.dead == ()
    assert body not in peer.texts


def test_an_expiry_spares_the_token() -> None:
    peer = OnePeer().met()
    peer.do(ExpireBodies(bodies=("k-1",)))
    assert peer.state.token is not None


# --- purity -------------------------------------------------------------------------------------------------------


def test_what_is_not_at_hand_is_asked_for_and_nothing_happens() -> None:
    peer = OnePeer(policy=Policy(part_bytes=PART))
    peer.accept("t1", "one")
    peer.accept("t2", "two")
    peer.hears("/more")
    with pytest.raises(TextsNeeded) as first:
        decide(peer.draft(Texts()), Facts(()))
    assert first.value.bodies == {"in-1"}
    known = Texts({"in-1": "/more"})
    with pytest.raises(TextsNeeded) as second:
        decide(peer.draft(known), Facts(()))
    assert second.value.bodies == {o.body for o in peer.state.queue}, "all that the merge needs, at once"


REFUSED: list[Command] = [
    FinishTurn(turn_id="t-none", status="completed", text="x"),
    TakeTurn(turn_id="t-none", agent="a"),
    CancelTurn("op"),
    Operate(what="retry", who="op", outputs=("d-none",)),
]


@pytest.mark.parametrize("command", REFUSED, ids=lambda c: type(c).__name__)
def test_a_refusal_changes_nothing(command: Command) -> None:
    peer = OnePeer()
    with pytest.raises(Refusal):
        peer.do(command)
    assert peer.recorded == []


def test_a_turn_that_is_not_open_is_refused_by_name() -> None:
    with pytest.raises(TurnNotOpen, match="t-none is not open"):
        OnePeer().do(FinishTurn(turn_id="t-none", status="completed", text="x"))


def test_the_same_decision_twice_differs_only_in_new_ids() -> None:
    peer = OnePeer().met()
    command = AcceptTurn(turn_id="t1", origin="api", status="completed", text="news", keys_value="{}")
    count = peer.ids.count
    first = peer.rehearse(command)
    peer.ids.count = count
    assert peer.rehearse(command) == first
    assert peer.state.queue == (), "a rehearsal changes nothing"


def test_time_never_runs_backwards_within_a_stream() -> None:
    peer = OnePeer().met()
    peer.now -= MINUTE
    peer.accept("t1", "news")
    ats = [r.at for r in peer.recorded]
    assert ats == sorted(ats)
    assert peer.waiting("t1").accepted_at == ats[-1]


def test_looking_again_changes_nothing() -> None:
    peer = OnePeer()
    peer.accept("t1", "news")
    peer.message()
    before = peer.last.due_at
    assert peer.do(Advance()).events == ()
    assert peer.last.due_at == before


def test_a_blank_turn_can_be_taken_off_the_list() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "  ")
    assert peer.fate("t1") == ("skipped", "blank")
    peer.do(Operate(what="discard", who="op", outputs=(peer.of("t1"),)))
    assert not peer.state.dead


@pytest.mark.parametrize(("typing", "token", "read"), [(True, True, True), (False, True, False), (True, False, False)])
def test_the_token_is_at_hand_where_a_typing_sign_needs_it(typing: bool, token: bool, read: bool) -> None:
    peer = OnePeer(typing=typing)
    peer.message("work", token=token)
    assert peer.state.turn is not None
    peer.fetched.clear()
    turn, text = peer.do(TakeTurn(turn_id=peer.state.turn.turn_id, agent="echo")).reply  # type: ignore[misc]  # a pair
    assert (turn.agent, text) == ("echo", "work")
    assert any("k-1" in need.bodies for need in peer.fetched) is read


def test_a_turn_whose_message_has_lost_its_text_is_taken_all_the_same() -> None:
    peer = OnePeer()
    peer.message("work")
    peer.erased("in-1")
    assert peer.state.turn is not None
    assert peer.do(TakeTurn(turn_id=peer.state.turn.turn_id, agent="echo")).reply == (peer.state.turn, "")
    peer.do(TakeTurn(turn_id=peer.state.turn.turn_id, agent="echo"))
    assert peer.types == [], "it has it already"


def test_the_turn_of_an_agent_that_is_gone_is_nobodys() -> None:
    peer = OnePeer()
    with pytest.raises(TurnTaken):
        peer.do(LoseAgent("echo"))
    peer.message("work")
    assert peer.state.turn is not None
    turn = peer.state.turn.turn_id
    peer.do(TakeTurn(turn_id=turn, agent="echo"))
    with pytest.raises(TurnTaken):
        peer.do(LoseAgent("other"))
    assert peer.do(LoseAgent("echo")).events == (TurnHandedOver(turn_id=turn, agent=""),)
    assert (peer.state.turn.agent, peer.state.turn.former) == ("", ("echo",))
    peer.do(TakeTurn(turn_id=turn, agent="other"))
    assert peer.state.turn.agent == "other"


def test_what_never_had_a_text_can_be_discarded_and_not_retried() -> None:
    peer = OnePeer()
    peer.accept("t1", "")
    peer.accept("t2", "broken", status="failed")
    with pytest.raises(UnknownOutput):
        peer.do(Operate(what="retry", who="op", outputs=(peer.of("t1"),)))
    assert [o.turn_id for o in peer.do(Operate(what="retry", who="op")).reply] == ["t2"]  # type: ignore[attr-defined]  # outputs
    assert [o.turn_id for o in peer.do(Operate(what="discard", who="op")).reply] == ["t1"]  # type: ignore[attr-defined]  # outputs
    assert peer.state.dead == ()


def test_access_is_granted_once() -> None:
    peer = OnePeer(allowed=False, pairing=True)
    peer.message("let me in")
    assert peer.state.turn is None
    peer.do(Grant("op"))
    assert peer.types == ["access_granted", "turn_started"]
    assert peer.do(Grant("op")).events == ()


def test_what_is_over_for_the_request_that_is_open_is_not_over_for_another() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "news")
    assert peer.do(Abandon("r-other")).events == ()
    assert peer.state.request is not None
    peer.do(Abandon(peer.state.request.request))
    assert peer.types == ["send_failed", "send_requested"]
    peer.ok()
    assert peer.do(Abandon("r-other")).events == ()


def test_an_open_turn_is_cancelled_and_what_is_erased_is_told() -> None:
    peer = OnePeer()
    peer.message("work")
    peer.do(CancelTurn("op"))
    assert peer.types == ["turn_cancelled"]
    peer.accept("t1", "news")
    done = peer.do(EraseOutput(output=peer.of("t1"), bodies=())).reply
    assert done == Erased(in_flight=peer.requests[-1].request)
    assert isinstance(peer.do(ErasePeer(who="op")).reply, Erased)
