"""What became of outputs where it is not told by one outcome: late ones, erasures, what an operator does in between, damaged logs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from events import peer
from events.base import Carried
from events.fates import Fates
from events.history import history
from events.stories import OutputStory, RequestStory, Wait
from events.streams import delivery_id
from tests.streams_builder import ANN, HOUR, MINUTE, NOON, SECOND, Streams

LATER = NOON + SECOND + HOUR


def begun() -> Streams:
    return Streams().start().message("hi").wait(SECOND)


def pushed() -> Streams:
    return begun().complete("t1").request("r1", "t1", share=1)


def answering() -> Streams:
    """The first 4000 of 9000 bytes are on their way."""
    s = begun().begin("t1", "hi").complete("t1", origin="inbound", total=9000)
    return s.request("r1", ("t1", 0, 4000), kind="answer", parts=3)


def told(streams: Streams, turn: str = "t1") -> OutputStory:
    return history(streams.of(ANN)).outputs[delivery_id(ANN, turn)]


def request(streams: Streams, name: str = "r1") -> RequestStory:
    return history(streams.of(ANN)).requests[name]


def resolved(streams: Streams, *, delivered: bool, who: str = "") -> Streams:
    event = peer.UnknownResolved(request="r1", delivered=delivered, message_id="9" if delivered else "", who=who)
    return streams.wait(HOUR).add(ANN, event)


def rest_sent(streams: Streams) -> Streams:
    return streams.wait(SECOND).request("r2", ("t1", 4000, 9000), kind="answer").ok("r2")


LATE: list[tuple[str, Callable[[], Streams], tuple[str, str, int, int]]] = [
    # what, how it went, (fate, its reason, bytes that arrived, since when)
    (
        "never arrived",
        lambda: resolved(pushed().unknown("r1"), delivered=False),
        ("dropped", "not_delivered", 0, LATER),
    ),
    ("arrived", lambda: resolved(pushed().unknown("r1"), delivered=True), ("delivered", "", 100, NOON + SECOND)),
    (
        "never arrived, but an operator had dropped it before",
        lambda: resolved(pushed().drop("t1", "operator").unknown("r1"), delivered=False),
        ("dropped", "operator", 0, NOON + SECOND),
    ),
    (
        "a part of an answer never arrived while the rest waits",
        lambda: resolved(answering().unknown("r1"), delivered=False),
        ("queued", "", 0, NOON + SECOND),
    ),
    (
        "a part of an answer never arrived, and the rest did after that",
        lambda: rest_sent(resolved(answering().unknown("r1"), delivered=False)),
        ("delivered", "", 5000, LATER + SECOND),
    ),
    (
        "a part of an answer never arrived, and the rest had before",
        lambda: resolved(rest_sent(answering().unknown("r1")), delivered=False),
        ("delivered", "", 5000, NOON + 2 * SECOND),
    ),
    (
        "never arrived, and an operator has sent it anew since",
        lambda: resolved(retried(pushed().unknown("r1")).request("r2", "t1", share=2).ok("r2"), delivered=False),
        ("delivered", "", 100, NOON + SECOND),
    ),
]


def retried(streams: Streams) -> Streams:
    return streams.add(ANN, peer.OperatorActed(who="op", what="retry", outputs=(streams.output("t1"),)))


@pytest.mark.parametrize(("build", "expected"), [row[1:] for row in LATE], ids=[row[0] for row in LATE])
def test_a_late_outcome(build: Callable[[], Streams], expected: tuple[str, str, int, int]) -> None:
    story = told(build())
    assert (story.fate, story.reason, story.delivered_bytes, story.at) == expected


def test_who_told_late() -> None:
    assert request(pushed().unknown("r1")).resolved_by == ""
    assert request(resolved(pushed().unknown("r1"), delivered=True)).resolved_by == "a late outcome"
    assert request(resolved(pushed().unknown("r1"), delivered=False, who="ops")).resolved_by == "ops"


def test_every_wait_is_told_with_its_reason() -> None:
    streams = pushed().wait(SECOND).fail("r1").wait(SECOND)
    streams.request("r2", "t1", share=1).wait(SECOND).fail("r2", "not_sent", code=0)
    retried(streams.wait(SECOND).drop("t1", "expired"))
    whys = [
        Wait(at=NOON + n * SECOND, why=why)
        for n, why in ((1, "accepted"), (2, "refused"), (4, "not_sent"), (5, "retry"))
    ]
    assert told(streams).waits == tuple(whys)
    assert told(streams).requests == ("r1", "r2")


def test_what_an_operator_dropped_in_flight_waits_no_more_when_it_is_refused() -> None:
    story = told(pushed().drop("t1", "operator").wait(SECOND).fail("r1"))
    assert (story.fate, story.reason) == ("dropped", "operator")
    assert [w.why for w in story.waits] == ["accepted"]


def test_a_failed_turn_has_no_bytes_for_the_peer() -> None:
    failed = peer.TurnFailed(turn_id="t1", output=delivery_id(ANN, "t1"), origin="desktop", error="b-why")
    story = told(begun().add(ANN, failed))
    assert (story.fate, story.reason, story.total, story.body, story.origin) == (
        "skipped",
        "failed",
        0,
        "b-why",
        "desktop",
    )


def test_bytes_that_were_sent_twice_arrived_once() -> None:
    streams = answering().ok("r1")
    streams.add(ANN, peer.OperatorActed(who="peer", what="more", outputs=(streams.output("t1", start=3000),)))
    streams.request("r2", ("t1", 3000, 3500), kind="answer").ok("r2")
    assert told(streams).delivered_bytes == 4000
    streams.request("r3", ("t1", 3500, 4100), kind="answer").ok("r3")
    assert told(streams).delivered_bytes == 4100


def test_when_a_peer_is_erased_what_waits_is_over_and_what_was_there_has_no_text_any_more() -> None:
    s = begun().complete("gone").request("r1", "gone").ok("r1").wait(MINUTE)
    s.add(ANN, peer.BodyErased(bodies=("b-gone",), reason="expired"))
    s.complete("there").request("r2", "there").ok("r2")
    s.complete("waits").complete("leaves").request("r3", "leaves").wait(MINUTE)
    blank = peer.TurnCompleted(turn_id="mute", output=delivery_id(ANN, "mute"), origin="api", body="", total=0)
    s.add(ANN, blank).skip("mute", "blank").wait(MINUTE).add(ANN, peer.PeerErased(who="ops"))
    now = s.now
    fates = {
        turn: (told(s, turn).fate, told(s, turn).body_erased_at)
        for turn in ("gone", "there", "mute", "waits", "leaves")
    }
    assert fates == {
        "gone": ("delivered", NOON + SECOND + MINUTE),
        "there": ("delivered", now),
        "mute": ("skipped", None),
        "waits": ("erased", now),
        "leaves": ("requested", now),
    }
    assert (told(s, "waits").reason, told(s, "waits").at) == ("erased", now)
    assert (told(s, "there").at, told(s, "mute").reason) == (NOON + SECOND + MINUTE, "blank")
    assert told(s.wait(MINUTE).fail("r3"), "leaves").fate == "erased"


def test_a_plainer_form_is_told_of_its_request() -> None:
    streams = pushed().add(ANN, peer.FallbackUsed(request="r1", what="no_quote"))
    streams.add(ANN, peer.FallbackUsed(request="r1", what="no_media"), peer.FallbackUsed(request="r9", what="no_quote"))
    assert request(streams).fallbacks == ("no_quote", "no_media")
    assert list(history(streams.of(ANN)).requests) == ["r1"]


def test_an_output_that_nobody_accepted_is_accepted_where_it_is_first_named() -> None:
    named = begun().complete("t1").output("t1", accepted_at=NOON - HOUR)
    dropped = begun().add(ANN, peer.OutputDropped(output=named, reason="expired"))
    assert (told(dropped).accepted_at, told(dropped).at) == (NOON - HOUR, NOON + SECOND)
    undated = begun().complete("t1").output("t1", accepted_at=0)
    assert told(begun().add(ANN, peer.OutputDropped(output=undated, reason="expired"))).accepted_at == NOON + SECOND


OUTCOMES: list[Callable[[Streams], Streams]] = [
    lambda s: s.ok("r1"),
    lambda s: s.fail("r1"),
    lambda s: resolved(s.unknown("r1"), delivered=False),
]


@pytest.mark.parametrize("end", OUTCOMES, ids=["ok", "refused", "never arrived"])
def test_a_request_that_carries_what_nobody_accepted_is_told_all_the_same(end: Callable[[Streams], Streams]) -> None:
    """An audit reads damaged logs as well."""
    stray = Carried(output="d-nobody", end=9, total=9)
    streams = begun().complete("t1").request("r1", "t1")
    asked = streams.recorded[-1].event
    assert isinstance(asked, peer.SendRequested)
    streams.recorded.pop()
    streams.add(ANN, msgspec.structs.replace(asked, carried=(*asked.carried, stray)))
    found = history(end(streams).of(ANN))
    assert list(found.outputs) == [delivery_id(ANN, "t1")]
    assert found.requests["r1"].result in {"confirmed", "refused", "not_sent"}


@pytest.mark.parametrize("end", OUTCOMES, ids=["ok", "refused", "never arrived"])
def test_an_outcome_of_a_request_that_nobody_made_tells_nothing(end: Callable[[Streams], Streams]) -> None:
    fates = Fates()
    for recorded in end(pushed()).of(ANN):
        if not isinstance(recorded.event, peer.SendRequested):
            fates.apply(recorded)
    assert fates.requests() == {}
    assert [story.fate for story in fates.outputs().values()] == ["queued"]
