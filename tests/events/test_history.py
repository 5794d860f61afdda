"""Each output's fate and each request's story, from events alone; and that they agree with the fold of a peer's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events import peer
from events.history import history
from events.peer_state import PeerState, evolve
from events.stories import FATES, History
from events.streams import delivery_id
from tests.streams_builder import ANN, HOUR, NOON, SECOND, Streams


def fated(streams: Streams, turn: str) -> tuple[str, str, int]:
    story = history(streams.of(ANN)).outputs[delivery_id(ANN, turn)]
    return story.fate, story.reason, story.delivered_bytes


def begun() -> Streams:
    return Streams().start().message("hi").wait(SECOND)


def pushed() -> Streams:
    return begun().complete("t1").request("r1", "t1", share=1)


def answering(total: int = 9000) -> Streams:
    return (
        begun()
        .begin("t1", "hi")
        .complete("t1", origin="inbound", total=total)
        .request("r1", ("t1", 0, 4000), kind="answer", parts=3)
    )


FATED: list[tuple[str, Callable[[], Streams], tuple[str, str, int]]] = [
    ("accepted", lambda: begun().complete("t1"), ("queued", "", 0)),
    ("requested", pushed, ("requested", "", 0)),
    ("delivered", lambda: pushed().ok("r1"), ("delivered", "", 100)),
    ("unconfirmed", lambda: pushed().ok("r1", message_id=""), ("unconfirmed", "", 0)),
    ("refused: back to the queue", lambda: pushed().fail("r1"), ("queued", "", 0)),
    ("never left: back to the queue", lambda: pushed().fail("r1", "not_sent", code=0), ("queued", "", 0)),
    ("unknown", lambda: pushed().unknown("r1"), ("unknown", "", 0)),
    ("set aside", lambda: pushed().fail("r1", code=-3).drop("t1", "set_aside"), ("dropped", "set_aside", 0)),
    ("blank", lambda: begun().complete("t1", total=0).skip("t1", "blank"), ("skipped", "blank", 0)),
    (
        "failed",
        lambda: begun().add(ANN, peer.TurnFailed(turn_id="t1", output=delivery_id(ANN, "t1"), origin="scheduled")),
        ("skipped", "failed", 0),
    ),
    ("expired", lambda: begun().complete("t1").drop("t1", "expired"), ("dropped", "expired", 0)),
    (
        "erased while it waits",
        lambda: begun().complete("t1").add(ANN, peer.BodyErased(bodies=("b-t1",), reason="erased")),
        ("erased", "erased", 0),
    ),
    (
        "its text expires after the delivery",
        lambda: pushed().ok("r1").add(ANN, peer.BodyErased(bodies=("b-t1",), reason="expired")),
        ("delivered", "", 100),
    ),
    (
        "erased in flight, then refused",
        lambda: pushed().add(ANN, peer.BodyErased(bodies=("b-t1",), reason="erased")).fail("r1"),
        ("erased", "erased", 0),
    ),
    (
        "head of a push",
        lambda: begun().complete("t1", total=9000).request("r1", ("t1", 0, 3990), share=1).ok("r1"),
        ("delivered", "", 3990),
    ),
    ("answer, first of three parts open", answering, ("requested", "", 0)),
    ("answer, first of three parts there", lambda: answering().ok("r1"), ("queued", "", 4000)),
    (
        "answer, rest dropped",
        lambda: answering().ok("r1").drop("t1", "remainder_expired", start=4000),
        ("delivered", "remainder_expired", 4000),
    ),
    ("answer, part unknown, rest waits", lambda: answering().unknown("r1"), ("queued", "", 0)),
    (
        "answer, one part unknown, the others there",
        lambda: (
            answering()
            .unknown("r1")
            .request("r2", ("t1", 4000, 8000), kind="answer", part=2, parts=3)
            .ok("r2")
            .request("r3", ("t1", 8000, 9000), kind="answer", part=3, parts=3)
            .ok("r3")
        ),
        ("unknown", "", 5000),
    ),
    (
        "unknown, and later known to be there",
        lambda: pushed().unknown("r1").add(ANN, peer.UnknownResolved(request="r1", delivered=True, message_id="late")),
        ("delivered", "", 100),
    ),
    (
        "unknown, and later known not to be there",
        lambda: pushed().unknown("r1").add(ANN, peer.UnknownResolved(request="r1", delivered=False)),
        ("dropped", "not_delivered", 0),
    ),
    (
        "retried by an operator",
        lambda: (s := begun().complete("t1").drop("t1", "expired")).add(
            ANN, peer.OperatorActed(who="ann", what="retry", outputs=(s.output("t1"),))
        ),
        ("queued", "", 0),
    ),
    (
        "dropped by an operator in flight, and delivered all the same",
        lambda: pushed().drop("t1", "operator").ok("r1"),
        ("delivered", "operator", 100),
    ),
]


@pytest.mark.parametrize(("build", "expected"), [row[1:] for row in FATED], ids=[row[0] for row in FATED])
def test_fate(build: Callable[[], Streams], expected: tuple[str, str, int]) -> None:
    assert fated(build(), "t1") == expected


def test_every_fate_is_in_the_table() -> None:
    assert {row[2][0] for row in FATED} == set(FATES)


def test_cut_says_that_a_delivery_is_not_whole() -> None:
    streams = begun().complete("t1", total=9000).request("r1", ("t1", 0, 3990)).ok("r1").complete("t2")
    streams.request("r2", "t2").ok("r2")
    outputs = history(streams.of(ANN)).outputs
    assert outputs[delivery_id(ANN, "t1")].cut
    assert not outputs[delivery_id(ANN, "t2")].cut


def test_more_gives_the_rest_as_an_answer() -> None:
    streams = begun().complete("t1", total=9000).request("r1", ("t1", 0, 3990)).ok("r1")
    streams.add(
        ANN, peer.OperatorActed(who="peer", what="more", outputs=(streams.output("t1", start=3990),), message="hi")
    )
    streams.request("r2", ("t1", 3990, 7000), kind="answer").ok("r2")
    assert fated(streams, "t1") == ("queued", "", 7000)
    streams.request("r3", ("t1", 7000, 9000), kind="answer").ok("r3")
    assert fated(streams, "t1") == ("delivered", "", 9000)
    assert history(streams.of(ANN)).messages["hi"].command == "more"


def test_a_retry_that_repeats_bytes_does_not_count_them_twice() -> None:
    streams = begun().complete("t1", total=9000).request("r1", ("t1", 0, 3990)).ok("r1")
    streams.add(ANN, peer.OperatorActed(who="ann", what="retry", outputs=(streams.output("t1"),)))
    streams.request("r2", ("t1", 0, 3990)).ok("r2")
    assert fated(streams, "t1") == ("delivered", "", 3990)


def test_story_of_a_request() -> None:
    streams = begun().complete("t0").complete("t1", total=4000).wait(SECOND)
    streams.request("r1", "t1", left_out=("t0",), share=2, cause="hi").wait(2 * SECOND).ok("r1")
    story = history(streams.of(ANN)).requests["r1"]
    assert (story.kind, story.at, story.cause, story.epoch) == ("push", NOON + 2 * SECOND, "hi", 1)
    assert (story.result, story.charged, story.message_id) == ("confirmed", True, "m-r1")
    assert (story.outcome_at, story.settled_at) == (NOON + 4 * SECOND, NOON + 4 * SECOND)
    assert (story.charge.slot, story.charge.slots, story.charge.share, story.charge.shares) == (1, 10, 2, 3)
    assert story.left_out == (delivery_id(ANN, "t0"),)
    assert story.share_counted


RESULTS_OF: list[tuple[str, Callable[[], Streams], tuple[str, bool]]] = [
    ("open", pushed, ("open", True)),
    ("confirmed", lambda: pushed().ok("r1"), ("confirmed", True)),
    ("unconfirmed", lambda: pushed().ok("r1", message_id=""), ("unconfirmed", True)),
    ("unknown", lambda: pushed().unknown("r1"), ("unknown", True)),
    ("refused", lambda: pushed().fail("r1"), ("refused", False)),
    ("refused and charged", lambda: pushed().fail("r1", "http_refused", code=429, charged=True), ("refused", True)),
    ("not sent", lambda: pushed().fail("r1", "not_sent", code=0), ("not_sent", False)),
    ("too late", lambda: pushed().fail("r1", "too_late", code=0), ("not_sent", False)),
    (
        "not delivered after all",
        lambda: pushed().unknown("r1").add(ANN, peer.UnknownResolved(request="r1", delivered=False)),
        ("not_sent", False),
    ),
]


@pytest.mark.parametrize(("build", "expected"), [row[1:] for row in RESULTS_OF], ids=[row[0] for row in RESULTS_OF])
def test_result_of_a_request(build: Callable[[], Streams], expected: tuple[str, bool]) -> None:
    story = history(build().of(ANN)).requests["r1"]
    assert (story.result, story.charged) == expected


def test_an_unknown_is_charged_until_its_bytes_can_no_longer_arrive() -> None:
    story = history(pushed().unknown("r1", late_ms=7_000).of(ANN)).requests["r1"]
    assert (story.outcome_at, story.settled_at) == (NOON + SECOND, NOON + SECOND + 7_000)


def test_a_message_that_was_delivered_again_is_known_by_its_creation_time() -> None:
    streams = Streams().start().message("m1").wait(HOUR)
    (written,) = [r.event.sent_at for r in streams.of(ANN) if isinstance(r.event, peer.MessageReceived)]
    streams.add(ANN, peer.DuplicateSuppressed(reason="same_id", body="b-1", sent_at=written)).wait(HOUR)
    streams.add(ANN, peer.DuplicateSuppressed(reason="same_content", body="b-2", sent_at=written))
    streams.add(ANN, peer.DuplicateSuppressed(reason="same_id", body="b-3", sent_at=0))
    told = history(streams.of(ANN))
    assert told.messages["m1"].duplicates == told.duplicates[:2]


def test_two_messages_of_one_instant_are_not_told_apart() -> None:
    streams = Streams().start().message("m1").message("m2")
    assert len({r.event.sent_at for r in streams.of(ANN) if isinstance(r.event, peer.MessageReceived)}) == 1
    at = next(r.event.sent_at for r in streams.of(ANN) if isinstance(r.event, peer.MessageReceived))
    streams.add(ANN, peer.DuplicateSuppressed(reason="same_id", body="b-1", sent_at=at))
    assert [m.duplicates for m in history(streams.of(ANN)).messages.values()] == [(), ()]


def test_messages_turns_and_tokens() -> None:
    streams = begun().begin("t1", "hi", agent="echo").wait(HOUR)
    streams.add(ANN, peer.TurnHandedOver(turn_id="t1", agent="other"))
    streams.complete("t1", origin="inbound", status="degraded")
    streams.add(ANN, peer.ContextTokenDropped(body="k-hi", reason="refused")).message("again", token=False)
    streams.add(ANN, peer.DuplicateSuppressed(reason="same_id", body="b-again", sent_at=0))
    told = history(streams.of(ANN))
    assert (told.messages["hi"].window, told.messages["again"].window) == (1, 2)
    assert (told.messages["hi"].turn_id, told.messages["hi"].token) == ("t1", "k-hi")
    turn = told.turns["t1"]
    assert (turn.status, turn.message, [agent for _, agent in turn.agents]) == ("degraded", "hi", ["echo", "other"])
    assert (told.tokens["k-hi"].dropped_at, told.tokens["k-hi"].reason) == (NOON + SECOND + HOUR, "refused")
    assert told.duplicates == (NOON + SECOND + HOUR,)


def test_a_cancelled_turn_and_a_refused_message() -> None:
    streams = begun().begin("t1", "hi").message("stop").message("bad")
    streams.add(ANN, peer.TurnCancelled(turn_id="t1", who="peer", message="stop"))
    streams.add(ANN, peer.AccessRefused(message="bad", reason="not_allowed"))
    told = history(streams.of(ANN))
    assert told.turns["t1"].status == "cancelled"
    assert (told.messages["stop"].command, told.messages["bad"].refused) == ("cancel", "not_allowed")


class Walk:
    """Appends random events that can follow the state before them, as a decider would."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.streams = begun()
        self.state = PeerState()
        self.seen = 0
        self.count = 0

    def fold(self) -> PeerState:
        for r in self.streams.of(ANN)[self.seen :]:
            self.state = evolve(self.state, r.event, version=r.version, at=r.at, epoch=r.epoch)
            self.seen += 1
        return self.state

    def step(self) -> None:
        self.count += 1
        self.streams.wait(self.draw(st.integers(0, HOUR)))
        state = self.fold()
        moves: list[Callable[[], object]] = [self.say, self.finish]
        if state.request:
            moves = [self.settle, self.say, self.finish]
        elif state.queue or state.answers:
            moves += [self.send, self.end]
        if state.dead:
            moves.append(self.revive)
        self.draw(st.sampled_from(moves))()

    def say(self) -> None:
        self.streams.message(f"m{self.count}")

    def finish(self) -> None:
        origin = self.draw(st.sampled_from(("scheduled", "inbound")))
        self.streams.complete(f"t{self.count}", origin=origin, total=self.draw(st.integers(1, 9000)))

    def send(self) -> None:
        if self.state.answers and self.draw(st.booleans()):
            first = self.state.answers[0]
            end = self.draw(st.integers(first.start + 1, first.total)) if first.start < first.total else first.total
            self.streams.request(f"r{self.count}", (first.turn_id, first.start, end), kind="answer")
        elif self.state.queue:
            carried = self.state.queue[-self.draw(st.integers(1, 3)) :]
            self.streams.request(f"r{self.count}", *(o.turn_id for o in carried), share=1)

    def settle(self) -> None:
        assert self.state.request is not None
        name = self.state.request.request
        what = self.draw(st.sampled_from(("ok", "unconfirmed", "fail", "not_sent", "unknown")))
        if what == "ok":
            self.streams.ok(name)
        elif what == "unconfirmed":
            self.streams.ok(name, message_id="")
        elif what == "unknown":
            self.streams.unknown(name)
        else:
            self.streams.fail(name, "blocked" if what == "fail" else "not_sent")

    def end(self) -> None:
        output = self.draw(st.sampled_from((*self.state.queue, *self.state.answers)))
        match self.draw(st.sampled_from(("drop", "skip", "erase"))):
            case "drop":
                self.streams.add(ANN, peer.OutputDropped(output=output, reason="expired"))
            case "skip":
                self.streams.add(ANN, peer.OutputSkipped(output=output, reason="blank"))
            case _:
                self.streams.add(ANN, peer.BodyErased(bodies=(output.body,), reason="erased"))

    def revive(self) -> None:
        dead = self.draw(st.sampled_from(self.state.dead))
        waiting = {o.output for o in (*self.state.queue, *self.state.answers)}
        if dead.fate == "unknown" and not self.draw(st.booleans()):
            self.streams.add(ANN, peer.UnknownResolved(request=dead.request, delivered=self.draw(st.booleans())))
        elif dead.output.output not in waiting and not self.state.request:
            self.streams.add(ANN, peer.OperatorActed(who="ann", what="retry", outputs=(dead.output,)))


def compare(state: PeerState, told: History) -> None:
    waiting = {o.output for o in (*state.queue, *state.answers)}
    for name, story in told.outputs.items():
        assert story.fate in FATES
        if name in state.carried:
            assert story.fate == "requested"
        elif name in waiting:
            assert story.fate == "queued"
        else:
            assert story.fate not in ("queued", "requested")
    assert waiting <= set(told.outputs)
    counted = {c.request for c in state.charges}
    assert counted <= {r.request for r in told.requests.values() if r.charged}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_an_output_has_one_fate_and_the_state_agrees(data: st.DataObject) -> None:
    """60 examples of up to 25 steps; every step is compared."""
    walk = Walk(data)
    for _ in range(data.draw(st.integers(1, 25))):
        walk.step()
        compare(walk.fold(), history(walk.streams.of(ANN)))


def test_an_unknown_output_that_is_sent_anew_and_confirmed_is_delivered() -> None:
    streams = pushed().unknown("r1")
    assert fated(streams, "t1")[0] == "unknown"
    streams.add(ANN, peer.OperatorActed(who="op", what="retry", outputs=(streams.output("t1"),)))
    assert fated(streams, "t1")[0] == "queued"
    streams.request("r2", "t1", share=2).ok("r2")
    assert fated(streams, "t1") == ("delivered", "", streams.output("t1").total)


@pytest.mark.parametrize("what", ["cancel", "flush"])
def test_a_cancel_with_nothing_open_is_told_as_one_also_where_an_older_log_calls_it_a_flush(what: Any) -> None:
    streams = begun().add(ANN, peer.OperatorActed(who="peer", what=what, message="hi"))
    assert history(streams.of(ANN)).messages["hi"].command == "cancel"


@pytest.mark.parametrize(("sent_at", "known"), [(0, 0), (1, 1), (-1, 0)])
def test_without_a_creation_time_a_message_cannot_be_known_again(sent_at: int, known: int) -> None:
    streams = Streams().start().message("m1", sent_at=sent_at)
    streams.add(ANN, peer.DuplicateSuppressed(reason="same_id", body="b-1", sent_at=sent_at))
    told = history(streams.of(ANN))
    assert len(told.messages["m1"].duplicates) == known
    assert len(told.duplicates) == 1


def test_a_message_that_asks_for_a_new_beginning_is_told_as_that() -> None:
    streams = begun().add(ANN, peer.SessionReset(who="peer", message="hi"), peer.SessionReset(who="ops"))
    assert history(streams.of(ANN)).messages["hi"].command == "reset"


def test_what_is_said_of_things_nobody_heard_of_is_left_out() -> None:
    """An audit reads damaged logs as well."""
    streams = begun().add(
        ANN,
        peer.ContextTokenDropped(body="k-9", reason="refused"),
        peer.TurnHandedOver(turn_id="t9", agent="echo"),
        peer.TurnCancelled(turn_id="t9", who="peer", message="m9"),
        peer.AccessRefused(message="m9", reason="not_allowed"),
    )
    told = history(streams.of(ANN))
    assert (list(told.messages), list(told.turns), list(told.tokens)) == (["hi"], [], ["k-hi"])
    assert (told.tokens["k-hi"].dropped_at, told.messages["hi"].refused) == (None, "")


def test_who_ended_a_turn_and_who_cancelled_it() -> None:
    streams = begun().begin("t1", "hi").message("m2").wait(SECOND)
    ended = peer.TurnCompleted(
        turn_id="t1", output=delivery_id(ANN, "t1"), origin="inbound", body="b", total=1, agent="echo"
    )
    streams.add(ANN, ended).begin("t2", "m2").wait(SECOND).add(ANN, peer.TurnCancelled(turn_id="t2", who="ops"))
    failed = peer.TurnFailed(turn_id="t3", output=delivery_id(ANN, "t3"), origin="api", session="s9", agent="cron")
    turns = history(streams.add(ANN, failed).of(ANN)).turns
    assert (turns["t1"].ended_by, turns["t1"].ended_at, turns["t1"].output) == ("echo", NOON + 2 * SECOND, ended.output)
    assert (turns["t2"].who, turns["t2"].ended_at, turns["t2"].status) == ("ops", NOON + 3 * SECOND, "cancelled")
    assert (turns["t3"].status, turns["t3"].session, turns["t3"].ended_by, turns["t3"].at) == (
        "failed",
        "s9",
        "cron",
        NOON + 3 * SECOND,
    )
