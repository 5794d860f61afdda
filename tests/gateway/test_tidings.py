"""What agents hear of their deliveries, event by event."""

from __future__ import annotations

import pytest

from actors.gateway.tidings import Tiding, Tidings
from events.backlog import Output
from events.base import Carried, Event, Kind, Recorded
from events.peer import (
    ChargeNote,
    MessageReceived,
    OutputDropped,
    OutputSkipped,
    SendFailed,
    SendRequested,
    SendSucceeded,
    SendUnknown,
)

WHOLE = Carried(output="d-1", start=0, end=4, total=4)
FIRST = Carried(output="d-2", start=0, end=4, total=8)
LAST = Carried(output="d-2", start=4, end=8, total=8)
OUTPUT = Output(output="d-3", turn_id="t", body="b", total=4, accepted_at=1, origin="api")


def requested(*carried: Carried, kind: Kind = "push") -> SendRequested:
    return SendRequested(
        request="r-1",
        kind=kind,
        body="b",
        total=4,
        digest="x",
        client_id="c",
        login=1,
        token="b-t",
        policy="p",
        charge=ChargeNote(window=1, opened_by="m", slot=1, slots=10),
        carried=carried,
        part=1,
        parts=1,
    )


def tell(tidings: Tidings, *events: Event) -> list[Tiding]:
    recorded = tuple(
        Recorded(position=i, stream="peer-0", version=i, type="", at=1, epoch=1, cause="", event=e)
        for i, e in enumerate(events, 1)
    )
    return list(tidings.of(recorded))


@pytest.mark.parametrize(
    ("carried", "outcome", "expected"),
    [
        ((WHOLE,), SendSucceeded(request="r-1", message_id="m"), [("d-1", "delivered")]),
        ((WHOLE, LAST), SendSucceeded(request="r-1", message_id="m"), [("d-1", "delivered"), ("d-2", "delivered")]),
        ((WHOLE,), SendSucceeded(request="r-1"), [("d-1", "unconfirmed")]),
        ((WHOLE,), SendFailed(request="r-1", failure="blocked"), [("d-1", "queued")]),
        ((WHOLE,), SendUnknown(request="r-1", settled_at=1, reason="timeout"), [("d-1", "unknown")]),
        ((), SendSucceeded(request="r-1", message_id="m"), []),
    ],
)
def test_outcomes(carried: tuple[Carried, ...], outcome: Event, expected: list[tuple[str, str]]) -> None:
    tidings = Tidings()
    begun = tell(tidings, requested(*carried))
    assert [(t.delivery, t.state) for t in begun] == [(c.output, "requested") for c in carried]
    assert [(t.delivery, t.state) for t in tell(tidings, outcome)] == expected
    assert tell(tidings, outcome) == [], "an outcome is told once"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("push", [Tiding("d-2", "delivered", "its first 4 of 8 bytes were delivered; the rest is retrievable")]),
        ("answer", []),
    ],
)
def test_a_push_that_was_cut_is_over_and_an_answer_goes_on(kind: Kind, told: list[Tiding]) -> None:
    tidings = Tidings()
    tell(tidings, requested(FIRST, kind=kind))
    assert tell(tidings, SendSucceeded(request="r-1", message_id="m")) == told


def test_what_never_leaves() -> None:
    told = tell(Tidings(), OutputDropped(output=OUTPUT, reason="expired"), OutputSkipped(output=OUTPUT, reason="blank"))
    assert [(t.state, t.reason) for t in told] == [
        ("dropped", "it waited longer than the backlog's age, and a newer output was there"),
        ("skipped", "its text is blank"),
    ]


def test_other_events_and_outcomes_of_other_processes_say_nothing() -> None:
    heard = MessageReceived(message="m", body="b", total=1, sent_at=1, not_before=0, generation=1)
    assert tell(Tidings(), heard, SendSucceeded(request="r-9", message_id="m")) == []
