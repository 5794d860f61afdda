"""The fold of a peer: what cannot follow is refused, and details that the deciders' tables do not reach."""

from __future__ import annotations

import msgspec
import pytest

from events.backlog import Output
from events.base import Carried, Event
from events.bot import BotStopped
from events.errors import FoldError
from events.peer import (
    AccessRefused,
    AddressForgotten,
    BodyErased,
    ChargeNote,
    ContextTokenDropped,
    ContextTokenSeen,
    DuplicateSuppressed,
    FallbackUsed,
    MessageReceived,
    OperatorActed,
    OutputDropped,
    PeerErased,
    SendFailed,
    SendRequested,
    SendSucceeded,
    SendUnknown,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnHandedOver,
    TurnStarted,
    UnknownResolved,
)
from events.peer_state import PeerState, evolve

T = 1_750_000_000_000


def message(name: str = "m1") -> MessageReceived:
    return MessageReceived(message=name, body=f"b-{name}", total=2, sent_at=T, not_before=T, generation=1)


def completed(turn: str, *, own: bool = False, total: int = 100) -> TurnCompleted:
    origin = "inbound" if own else "scheduled"
    return TurnCompleted(turn_id=turn, output=f"d-{turn}", origin=origin, body=f"b-{turn}", total=total)  # type: ignore[arg-type]  # one of its literals


def request(name: str, *carried: Carried, kind: str = "push") -> SendRequested:
    return SendRequested(
        request=name,
        kind=kind,  # type: ignore[arg-type]  # one of its literals
        body="b",
        total=1,
        digest="d",
        client_id="c",
        login=1,
        policy="p",
        charge=ChargeNote(window=0, opened_by="", slot=1, slots=10),
        carried=carried,
    )


def after(*events: Event, at: int = T, epoch: int = 1) -> PeerState:
    state = PeerState()
    for event in events:
        state = evolve(state, event, version=state.version + 1, at=at, epoch=epoch)
    return state


whole = Carried(output="d-t1", end=100, total=100)
output = Output(output="d-t1", turn_id="t1", body="b-t1", total=100, accepted_at=T, origin="scheduled")

IMPOSSIBLE: list[tuple[str, tuple[Event, ...], str]] = [
    ("another stream's event", (BotStopped(),), "BotStopped is not an event of a peer"),
    ("a turn from no message", (TurnStarted(turn_id="t", message="m"),), "does not wait"),
    (
        "a second open turn",
        (
            message(),
            message("m2"),
            TurnStarted(turn_id="t", message="m1"),
            TurnStarted(turn_id="u", message="m2"),
        ),
        "while t is open",
    ),
    ("handing over a turn that is not open", (TurnHandedOver(turn_id="t", agent="a"),), "not open"),
    ("a second open request", (request("r1"), request("r2")), "while r1 is open"),
    ("success of no request", (SendSucceeded(request="r1"),), "not open"),
    ("failure of another request", (request("r1"), SendFailed(request="r2", failure="blocked")), "not open"),
    (
        "an unknown that was settled",
        (request("r1"), SendSucceeded(request="r1"), SendUnknown(request="r1", settled_at=T, reason="timeout")),
        "not open",
    ),
]


@pytest.mark.parametrize(("events", "says"), [row[1:] for row in IMPOSSIBLE], ids=[row[0] for row in IMPOSSIBLE])
def test_what_cannot_follow_is_refused(events: tuple[Event, ...], says: str) -> None:
    with pytest.raises(FoldError, match=says):
        after(*events)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_versions_follow_each_other(version: int) -> None:
    with pytest.raises(FoldError, match=f"version {version} cannot follow 0"):
        evolve(PeerState(), message(), version=version, at=T, epoch=1)


def test_what_changes_nothing_but_version_and_time() -> None:
    before = after(message(), completed("t1"))
    for event in (
        DuplicateSuppressed(reason="same_id", body="b", sent_at=T),
        FallbackUsed(request="r", what="no_quote"),
        ContextTokenDropped(body="k", reason="refused"),
        TurnFailed(turn_id="t9", output="d-t9", origin="scheduled"),
        AccessRefused(message="m9", reason="not_allowed"),
        OperatorActed(who="op", what="drop"),
        UnknownResolved(request="r", delivered=True, message_id="1"),
    ):
        state = evolve(before, event, version=3, at=before.at, epoch=1)
        assert state == evolve(before, OperatorActed(who="op", what="discard"), version=3, at=before.at, epoch=1)
        assert state.version == 3


def test_a_token_that_was_replaced_is_not_dropped_with_the_old_one() -> None:
    state = after(
        ContextTokenSeen(message="m1", body="k1", generation=1),
        ContextTokenSeen(message="m2", body="k2", generation=1),
        ContextTokenDropped(body="k1", reason="refused"),
    )
    assert state.token is not None
    assert state.token.body == "k2"


def test_a_cancelled_turn_takes_the_word_that_cancelled_it() -> None:
    state = after(
        message(),
        TurnStarted(turn_id="t", message="m1"),
        message("m2"),
        TurnCancelled(turn_id="t", who="peer", message="m2"),
    )
    assert (state.turn, state.inbox) == (None, ())


def test_a_push_of_another_origin_does_not_close_the_open_turn() -> None:
    state = after(message(), TurnStarted(turn_id="t1", message="m1"), completed("t2"))
    assert state.turn is not None
    assert state.open_turns == 1


def test_an_answer_remembers_its_window_and_becomes_a_remainder_with_the_next() -> None:
    state = after(message(), TurnStarted(turn_id="t1", message="m1"), completed("t1", own=True))
    assert state.answers[0].window == 1
    assert state.remainders == ()
    assert evolve(state, message("m2"), version=4, at=T, epoch=1).remainders == state.answers


def test_an_outcome_of_an_output_that_was_erased_meanwhile() -> None:
    for outcome in (
        SendSucceeded(request="r1", message_id="1"),
        SendUnknown(request="r1", settled_at=T, reason="timeout"),
        SendFailed(request="r1", failure="blocked"),
    ):
        state = after(completed("t1"), request("r1", whole), BodyErased(bodies=("b-t1",), reason="erased"), outcome)
        assert (state.request, state.queue, state.dead) == (None, (), ())


def test_a_drop_of_a_part_is_a_cut() -> None:
    state = after(completed("t1"), OutputDropped(output=msgspec.structs.replace(output, start=9), reason="operator"))
    assert [d.fate for d in state.dead] == ["cut"]
    state = after(completed("t1"), OutputDropped(output=output, reason="operator"))
    assert [d.fate for d in state.dead] == ["dropped"]


def test_a_charged_failure_keeps_its_charge() -> None:
    state = after(request("r1", kind="answer"), SendFailed(request="r1", failure="http_refused", charged=True))
    assert [(c.request, c.settled_at) for c in state.charges] == [("r1", T)]


def test_a_notice_marks_the_open_turn() -> None:
    state = after(message(), TurnStarted(turn_id="t1", message="m1"), request("r1", kind="notice"))
    assert state.turn is not None
    assert state.turn.noticed
    assert after(request("r1", kind="notice")).turn is None


def test_the_epoch_of_a_request_is_that_of_its_row() -> None:
    state = after(request("r1"), epoch=4)
    assert state.request is not None
    assert state.request.epoch == 4


def test_an_agent_that_gets_a_turn_back_is_not_among_those_who_had_it() -> None:
    state = after(message(), TurnStarted(turn_id="t", message="m1"))
    seen = []
    for agent in ("a", "b", "", "a", "c", "b"):
        handed = TurnHandedOver(turn_id="t", agent=agent)
        state = evolve(state, handed, version=state.version + 1, at=T, epoch=1)
        assert state.turn is not None
        seen.append((state.turn.agent, state.turn.former))
    assert seen == [
        ("a", ()),
        ("b", ("a",)),
        ("", ("a", "b")),
        ("a", ("b",)),
        ("c", ("b", "a")),
        ("b", ("a", "c")),
    ]


def test_erased_bodies_take_everything_along_that_stands_on_them_and_nothing_else() -> None:
    before = after(
        message(),
        message("m2"),
        ContextTokenSeen(message="m2", body="k2", generation=1),
        completed("t1"),
        completed("t2"),
        completed("t3", own=True),
        completed("t4", own=True),
        OutputDropped(output=msgspec.structs.replace(output, output="d-5", body="b-5"), reason="operator"),
        OutputDropped(output=msgspec.structs.replace(output, output="d-6", body="b-6"), reason="operator"),
    )
    one = BodyErased(bodies=("b-m1", "b-t1", "b-t3", "b-5", "k9"), reason="expired")
    state = evolve(before, one, version=10, at=T, epoch=1)
    assert [m.message for m in state.inbox] == ["m2"]
    assert [o.turn_id for o in (*state.queue, *state.answers)] == ["t2", "t4"]
    assert [d.output.output for d in state.dead] == ["d-6"]
    assert state.token == before.token
    assert evolve(state, BodyErased(bodies=("k2",), reason="erased"), version=11, at=T, epoch=1).token is None


def test_whoever_writes_after_an_erasure_begins_anew() -> None:
    state = after(message(), completed("t1"), PeerErased(who="ops"), AddressForgotten())
    assert (state.erased_at, state.forgotten, state.queue, state.inbox) == (T, True, (), ())
    again = evolve(state, message("m2"), version=5, at=T + 1, epoch=1)
    assert (again.erased_at, again.forgotten, again.window_number) == (0, False, 2)


def test_without_a_message_there_is_no_window() -> None:
    state = after(completed("t1", own=True))
    assert (state.window_number, state.answers[0].window, state.remainders) == (0, 0, ())
    assert after(message()).window_number == 1


REVIVED = [
    # (what, origin, the lanes afterwards: backlog, answers)
    ("retry", "scheduled", (["d-t1"], [])),
    ("retry", "inbound", ([], ["d-t1"])),
    ("more", "scheduled", ([], ["d-t1"])),
]


@pytest.mark.parametrize(("what", "origin", "lanes"), REVIVED)
def test_what_waits_again_begins_as_fresh_and_in_one_lane(
    what: str, origin: str, lanes: tuple[list[str], list[str]]
) -> None:
    worn = msgspec.structs.replace(
        output, origin=origin, refusals=2, held=1, remainder_parts=4, start=9, accepted_at=T - 5
    )
    acted = OperatorActed(who="op", what=what, outputs=(worn,), message="m1")  # type: ignore[arg-type]  # one of its literals
    state = after(message(), OutputDropped(output=worn, reason="expired"), acted)
    assert ([o.output for o in state.queue], [o.output for o in state.answers]) == lanes
    (fresh,) = (*state.queue, *state.answers)
    assert fresh == msgspec.structs.replace(worn, refusals=0, held=-1, remainder_parts=0, accepted_at=T, window=1)
    assert (state.dead, state.inbox) == ((), ())
