"""What agents hear of their deliveries, event by event."""

from __future__ import annotations

import msgspec
import pytest

from actors.deciding.facts import HELD, UNCONFIRMED
from actors.gateway.tidings import Tiding, Tidings
from actors.gateway.views import State
from actors.ports import Accepted, Unknown
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
    UnknownResolved,
)
from tests.gateway.stage import Stage

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


UNSURE = "nobody can say whether it arrived (no answer came in time); it is charged and not sent again"
LOST = SendUnknown(request="r-1", settled_at=1, reason="timeout")


@pytest.mark.parametrize(
    ("carried", "resolved", "told"),
    [
        (
            WHOLE,
            UnknownResolved(request="r-1", delivered=True, message_id="m"),
            ("d-1", "delivered", "it was delivered"),
        ),
        (
            FIRST,
            UnknownResolved(request="r-1", delivered=True, message_id="m"),
            ("d-2", "delivered", "its first 4 of 8 bytes were delivered; the rest is retrievable"),
        ),
        (WHOLE, UnknownResolved(request="r-1", delivered=True), ("d-1", "unconfirmed", UNCONFIRMED)),
        (
            WHOLE,
            UnknownResolved(request="r-1", delivered=False),
            ("d-1", "dropped", "it turned out not to have arrived"),
        ),
    ],
)
def test_what_becomes_known_of_an_unknown_one_is_told_once(
    carried: Carried, resolved: UnknownResolved, told: tuple[str, State, str]
) -> None:
    tidings = Tidings()
    tell(tidings, requested(carried))
    assert tell(tidings, LOST) == [Tiding(carried.output, "unknown", UNSURE)]
    assert tell(tidings, resolved) == [Tiding(*told)]
    assert tell(tidings, resolved) == []


def test_an_answer_of_which_a_part_is_unknown_waits_and_is_unknown_at_its_end_until_that_is_known() -> None:
    tidings = Tidings()
    tell(tidings, requested(FIRST, kind="answer"))
    assert tell(tidings, LOST) == [Tiding("d-2", "queued", HELD.sentence)], "its rest still waits"
    last = msgspec.structs.replace(requested(LAST, kind="answer"), request="r-2")
    assert [t.state for t in tell(tidings, last)] == ["requested"]
    assert tell(tidings, SendSucceeded(request="r-2", message_id="m")) == [Tiding("d-2", "unknown", UNSURE)]
    resolved = UnknownResolved(request="r-1", delivered=True, message_id="m0")
    assert tell(tidings, resolved) == [Tiding("d-2", "delivered", "it was delivered")]


def test_an_answer_whose_part_is_unconfirmed_goes_on_and_ends_as_unconfirmed() -> None:
    tidings = Tidings()
    tell(tidings, requested(FIRST, kind="answer"))
    assert tell(tidings, SendSucceeded(request="r-1")) == []
    tell(tidings, msgspec.structs.replace(requested(LAST, kind="answer"), request="r-2"))
    assert tell(tidings, SendSucceeded(request="r-2", message_id="m")) == [Tiding("d-2", "unconfirmed", UNCONFIRMED)]


def test_what_is_sent_anew_is_what_its_new_try_comes_to() -> None:
    tidings = Tidings()
    tell(tidings, requested(WHOLE))
    tell(tidings, LOST)
    tell(tidings, msgspec.structs.replace(requested(WHOLE), request="r-2"))
    assert [t.state for t in tell(tidings, SendSucceeded(request="r-2", message_id="m"))] == ["delivered"]
    assert tell(tidings, UnknownResolved(request="r-1", delivered=False)) == []


def test_what_never_leaves() -> None:
    told = tell(Tidings(), OutputDropped(output=OUTPUT, reason="expired"), OutputSkipped(output=OUTPUT, reason="blank"))
    assert [(t.state, t.reason) for t in told] == [
        ("dropped", "it waited longer than the backlog's age, and a newer output was there"),
        ("skipped", "its text is blank"),
    ]


def test_other_events_and_outcomes_of_other_processes_say_nothing() -> None:
    heard = MessageReceived(message="m", body="b", total=1, sent_at=1, not_before=0, generation=1)
    assert tell(Tidings(), heard, SendSucceeded(request="r-9", message_id="m")) == []


async def test_a_late_answer_of_the_channel_is_told_as_the_receipt_tells_it(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    line.answer(Unknown(reason="timeout", settled_at=stage.clock.now()))
    assert (await stage.final(delivery)).state == "unknown"
    line.answer(Accepted(message_id="m1"))
    await stage.until(lambda: stage.tidings[-1].state == "delivered")
    receipt = await stage.service.delivery(delivery)
    assert stage.tidings[-1] == Tiding(delivery, receipt.state, receipt.reason)
    assert [t.state for t in stage.tidings] == ["requested", "unknown", "delivered"]
