"""The folds of sends, outcome by outcome: what an output comes to that a part of is settled, and late outcomes of unknown parts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from events import peer
from events.backlog import Dead
from events.base import Carried, Event
from events.peer_sends import LATE_MS, TURN_WAITS
from events.peer_shapes import PeerState, Unknown
from events.peer_state import evolve

T = 1_750_000_000_000
MESSAGE = peer.MessageReceived(message="m1", body="b-m1", total=2, sent_at=T, not_before=T, generation=1)


def fold(state: PeerState, *events: Event, at: int = T) -> PeerState:
    for event in events:
        state = evolve(state, event, version=state.version + 1, at=at, epoch=1)
    return state


def completed(turn: str, origin: Any = "scheduled", total: int = 100) -> peer.TurnCompleted:
    return peer.TurnCompleted(turn_id=turn, output=f"d-{turn}", origin=origin, body=f"b-{turn}", total=total)


def request(name: str, *carried: Carried, kind: Any = "push", **more: Any) -> peer.SendRequested:
    charge = peer.ChargeNote(window=1, opened_by="m1", slot=1, slots=10)
    said = {"body": "b", "total": 1, "digest": "d", "client_id": "c", "login": 1, "policy": "p", "charge": charge}
    return peer.SendRequested(request=name, kind=kind, carried=carried, **(said | more))  # type: ignore[arg-type]  # of many kinds


def unknown(name: str, settled_at: int = T) -> peer.SendUnknown:
    return peer.SendUnknown(request=name, settled_at=settled_at, reason="timeout")


def part(turn: str, start: int, end: int, total: int = 100) -> Carried:
    return Carried(output=f"d-{turn}", start=start, end=end, total=total)


PARTS = [
    # (sent as a remainder, how the part ended, parts that went out as a remainder, held in the window)
    (False, peer.SendSucceeded(request="r1", message_id="1"), 0, -1),
    (True, peer.SendSucceeded(request="r1", message_id="1"), 1, -1),
    (False, unknown("r1"), 0, 1),
    (True, unknown("r1"), 1, 1),
    (True, peer.SendFailed(request="r1", failure="blocked"), 0, 1),
    (True, peer.SendFailed(request="r1", failure="not_sent"), 0, -1),
]


@pytest.mark.parametrize(("remainder", "outcome", "parts", "held"), PARTS)
def test_an_answer_after_one_of_its_parts(remainder: bool, outcome: Event, parts: int, held: int) -> None:
    before = fold(PeerState(), MESSAGE, completed("t1", "inbound"))
    after = fold(before, request("r1", part("t1", 0, 40), kind="answer", remainder=remainder), outcome)
    (answer,) = after.answers
    assert (answer.start, answer.remainder_parts, answer.held) == (
        0 if isinstance(outcome, peer.SendFailed) else 40,
        parts,
        held,
    )
    again = fold(after, request("r2", part("t1", answer.start, 60), kind="answer", remainder=True), unknown("r2"))
    assert again.answers[0].remainder_parts == parts + 1
    assert {charge.request: charge.remainder for charge in again.charges}["r2"]


@pytest.mark.parametrize("outcome", [peer.SendSucceeded(request="r1", message_id="1"), unknown("r1")])
def test_an_outcome_touches_nothing_that_its_request_did_not_carry(outcome: Event) -> None:
    before = fold(PeerState(), MESSAGE, completed("t1", "inbound"), completed("t2", "inbound"), completed("t3"))
    after = fold(before, request("r1", part("t1", 0, 40), part("gone", 0, 9, 9), kind="answer"), outcome)
    assert (after.answers[1], after.queue) == (before.answers[1], before.queue)
    assert fold(after, request("r2", part("t3", 0, 100)), peer.SendSucceeded(request="r2", message_id="2")).queue == ()


def lost(carried: Carried, origin: Any = "scheduled") -> PeerState:
    """A request is unknown."""
    return fold(PeerState(), MESSAGE, completed("t1", origin), request("r1", carried), unknown("r1"))


LATE: list[tuple[str, PeerState, peer.UnknownResolved, tuple[str, str, int] | None]] = [
    # (what, before, the late outcome, (fate, reason, from which byte on it is listed))
    (
        "not delivered",
        lost(part("t1", 0, 100)),
        peer.UnknownResolved(request="r1", delivered=False),
        ("dropped", "not_delivered", 0),
    ),
    ("delivered", lost(part("t1", 0, 100)), peer.UnknownResolved(request="r1", delivered=True, message_id="1"), None),
    (
        "delivered without a message id",
        lost(part("t1", 0, 100)),
        peer.UnknownResolved(request="r1", delivered=True),
        ("unconfirmed", "no_message_id", 0),
    ),
    (
        "the head of a push delivered",
        lost(part("t1", 0, 40)),
        peer.UnknownResolved(request="r1", delivered=True, message_id="1"),
        ("cut", "longer_than_a_part", 40),
    ),
    (
        "a push of one byte's head delivered",
        lost(part("t1", 0, 1)),
        peer.UnknownResolved(request="r1", delivered=True, message_id="1"),
        ("cut", "longer_than_a_part", 1),
    ),
    (
        "a part of an answer delivered",
        lost(part("t1", 0, 40), "inbound"),
        peer.UnknownResolved(request="r1", delivered=True, message_id="1"),
        None,
    ),
    (
        "another request's outcome",
        lost(part("t1", 0, 100)),
        peer.UnknownResolved(request="r2", delivered=False),
        ("unknown", "timeout", 0),
    ),
]


@pytest.mark.parametrize(("before", "late", "listed"), [row[1:] for row in LATE], ids=[row[0] for row in LATE])
def test_a_late_outcome(before: PeerState, late: peer.UnknownResolved, listed: tuple[str, str, int] | None) -> None:
    after = fold(before, late)
    found = {d.output.output: (d.fate, d.reason, d.output.start) for d in after.dead}
    assert found.get("d-t1") == listed
    assert [c.request for c in after.charges] == ([] if not late.delivered and late.request == "r1" else ["r1"])


def test_a_late_outcome_leaves_what_ended_otherwise_as_it_is() -> None:
    """The same request told of it, and an operator's word came between."""
    before = lost(part("t1", 0, 100))
    (listed,) = before.dead
    dropped = msgspec.structs.replace(listed, fate="dropped", reason="operator")
    other = Dead(output=listed.output, fate="unknown", reason="timeout", at=T, request="r0")
    for dead in (dropped, other):
        after = fold(msgspec.structs.replace(before, dead=(dead,)), peer.UnknownResolved(request="r1", delivered=False))
        assert after.dead == (dead,)


@pytest.mark.parametrize(("ms", "awaited"), [(LATE_MS - 1, ["r1", "r2"]), (LATE_MS, ["r2"])])
def test_an_unknown_request_is_remembered_for_as_long_as_its_outcome_may_come(ms: int, awaited: list[str]) -> None:
    before = fold(PeerState(), MESSAGE, request("r1"), unknown("r1", T + 5), request("r2"))
    after = fold(before, unknown("r2", T + 9 + ms), at=T + 5 + ms)
    assert [u.request for u in after.unknowns] == awaited
    assert after.unknowns[-1] == Unknown("r2", T + 9 + ms)
    resolved = fold(after, peer.UnknownResolved(request="r2", delivered=True, message_id="1"), at=T + 5 + ms)
    assert [u.request for u in resolved.unknowns] == awaited[:-1]


NOTICES = [
    ("notice", "", True),  # nobody wrote down which one it was
    ("notice", TURN_WAITS, True),
    ("notice", "nothing_more", False),
    ("answer", "", False),
]


@pytest.mark.parametrize(("kind", "notice", "noticed"), NOTICES)
def test_which_sends_tell_the_sender_that_a_turn_waits(kind: str, notice: str, noticed: bool) -> None:
    before = fold(PeerState(), MESSAGE, peer.TurnStarted(turn_id="t", message="m1"))
    assert before.turn
    assert not before.turn.noticed
    after = fold(before, request("r1", kind=kind, notice=notice)).turn
    assert after
    assert after.noticed is noticed
    assert fold(PeerState(), MESSAGE, request("r1", kind=kind, notice=notice)).turn is None


def test_tries_are_counted_until_one_leaves() -> None:
    never = peer.SendFailed(request="r1", failure="not_sent", retry_at=T + 7)
    state = fold(PeerState(), MESSAGE, request("r1"), never)
    assert (state.retries, state.retry_at, state.charges) == (1, T + 7, ())
    state = fold(state, request("r2"))
    assert (state.retries, state.retry_at) == (1, 0)
    again = fold(state, msgspec.structs.replace(never, request="r2"))
    assert again.retries == 2
    assert fold(state, peer.SendFailed(request="r2", failure="blocked")).retries == 0
    assert fold(state, peer.SendSucceeded(request="r2", message_id="1")).retries == 0


def test_a_refusal_that_the_channel_charges_keeps_its_charge() -> None:
    state = fold(PeerState(), MESSAGE, request("r1"))
    charged = fold(state, peer.SendFailed(request="r1", failure="http_refused", charged=True), at=T + 3)
    assert [(c.request, c.settled_at) for c in charged.charges] == [("r1", T + 3)]


def test_a_request_keeps_all_that_its_outcome_needs() -> None:
    said = {"token": "k", "left_out": ("d-t0",), "part": 2, "parts": 3, "remainder": True, "quote": "m1"}
    state = fold(PeerState(), MESSAGE, request("r1", part("t1", 0, 100), kind="answer", **said))
    assert state.request
    for name, value in said.items():
        assert getattr(state.request, name) == value
    assert (state.request.epoch, state.request.requested_at, state.request.window) == (1, T, 1)
    assert (state.carried, state.request.login) == ({"d-t1"}, 1)
