"""Rows of the table: answers and pushes that share one quota, led by an agent that answers when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.hand import Hand
from tests.e2e.phones import MINUTE, SECOND, Person
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage, stage_in

PART = 4000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage_in(tmp_path_factory.mktemp("answers")) as found:
        yield found


@pytest.fixture
def agent(table: Stage) -> Iterator[Hand]:
    table.cast.clear()
    with Hand(table.gateway.agents_url) as hand:
        yield hand
    table.phones.calm()
    table.check()


def lines(parts: int) -> str:
    """A text of exactly so many full parts, each a line, so that every cut is known."""
    return "".join(f"{number:02}".ljust(PART - 1, "x") + "\n" for number in range(1, parts + 1))


def asks(table: Stage, person: Person, agent: Hand, text: str) -> str:
    """Write, long after what was sent before, and see the agent take the turn."""
    table.later(2 * MINUTE)
    person.says(text)
    return agent.takes(person.address)


def quota_left(table: Stage, person: Person) -> int:
    return int(table.settled(person)["quota"]["left"])


def test_a_push_leaves_only_if_a_reply_remains_for_the_open_answer(table: Stage, agent: Hand) -> None:
    person = table.person()
    first = asks(table, person, agent, "one")
    table.later(2 * MINUTE)
    second = person.says("two")  # opens a window of its own; its turn waits for the first
    eventually(lambda: table.gateway.peer(person.address)["last_message_at"] >= second["at"] - SECOND, "two arrived")
    agent.answers(first, lines(8))
    turn = agent.takes(person.address)
    table.answered(person, 8)
    assert quota_left(table, person) == 2

    leaves = table.gateway.offer(person.address, "one more is free", turn_id=f"{person.id}-1")
    assert table.gateway.receipt(leaves["delivery"])["state"] == "delivered"
    assert quota_left(table, person) == 1
    waits = table.gateway.offer(person.address, "the last is not", turn_id=f"{person.id}-2")
    assert waits["state"] == "queued"
    story = table.gateway.explain(f"{person.id}-2")
    assert story["blocked_by"] == "reserved_for_answers"
    assert "kept for the answer that the peer waits for" in "\n".join(story["sentences"])
    table.silent(person, sends=9)

    agent.answers(turn, "answered with the last reply")
    table.answered(person, 10)
    assert quota_left(table, person) == 0
    assert table.gateway.receipt(waits["delivery"], 0)["state"] == "queued"
    assert table.gateway.explain(f"{person.id}-2")["blocked_by"] == "quota_spent"

    third = asks(table, person, agent, "three")
    assert table.gateway.receipt(waits["delivery"])["state"] == "delivered"
    agent.answers(third, "fine")
    table.answered(person, 12)
    assert person.reads[8:] == ["one more is free", "answered with the last reply", "the last is not", "fine"]
    slots = [(r["kind"], r["slot"]) for r in table.gateway.ledger(person.address)]
    assert slots[7:] == [("answer", 8), ("push", 9), ("answer", 10), ("push", 1), ("answer", 2)]


def test_of_an_answer_longer_than_the_quota_what_fits_and_after_the_next_message_the_remainder(
    table: Stage, agent: Hand
) -> None:
    person = table.person()
    text = lines(12)
    delivery = agent.answers(asks(table, person, agent, "tell me everything"), text)
    table.answered(person, 10)
    receipt = table.gateway.receipt(delivery, 0)
    assert (receipt["state"], receipt["delivered_bytes"]) == ("queued", 10 * PART)
    assert person.view["left"] == 0
    story = table.gateway.explain(delivery)
    assert story["blocked_by"] == "quota_spent"
    assert "next message" in "\n".join(story["sentences"])
    table.silent(person, sends=10)

    turn = asks(table, person, agent, "go on")
    table.answered(person, 12)
    assert table.gateway.receipt(delivery)["state"] == "delivered"
    agent.answers(turn, "that was all")
    table.answered(person, 13)

    assert "".join(row["text"] for row in person.accepted[:12]).replace("\n", "") == text.replace("\n", "")
    assert person.reads[-1] == "that was all"
    rows = [r for r in table.gateway.ledger(person.address) if r["parts"] > 1]
    assert [(r["part"], r["parts"]) for r in rows] == [(n, 12) for n in range(1, 13)]
    assert [r["slot"] for r in rows] == [*range(1, 11), 1, 2]
    assert "part 11 of 12" in "\n".join(table.gateway.explain(delivery)["sentences"])


def test_the_remainder_leaves_half_of_the_quota_to_new_answers(table: Stage, agent: Hand) -> None:
    person = table.person()
    text = lines(18)
    delivery = agent.answers(asks(table, person, agent, "all of it"), text)
    table.answered(person, 10)

    turn = asks(table, person, agent, "more")
    table.answered(person, 15)
    table.silent(person, sends=15)
    assert table.gateway.explain(delivery)["blocked_by"] == "reserved_for_answers"
    agent.answers(turn, "new answer")
    table.answered(person, 16)
    assert person.reads[-1] == "new answer"

    last = asks(table, person, agent, "rest")
    assert table.gateway.receipt(delivery)["state"] == "delivered"
    agent.answers(last, "ok")
    table.answered(person, 20)
    assert person.reads[-1] == "ok"
    told = "".join(t for t in person.reads if t not in ("new answer", "ok"))
    assert told.replace("\n", "") == text.replace("\n", "")


def test_a_send_in_flight_when_a_message_arrives_counts_against_the_new_window(table: Stage, agent: Hand) -> None:
    person = table.person()
    agent.answers(asks(table, person, agent, "hello"), "hi")
    table.answered(person, 1)
    table.later(2 * MINUTE)
    table.phones.faults(where="send", kind="slow_headers", ms=10 * SECOND, user=person.id)
    offered = table.gateway.offer(person.address, "in flight", turn_id=f"{person.id}-f")
    assert offered["state"] == "requested"
    eventually(lambda: len(person.accepted) == 2, "the send arrived")

    person.says("meanwhile")
    said = agent.hear("message", peer=person.address)
    assert table.gateway.peer(person.address)["open_request"]
    assert table.gateway.peer(person.address)["quota"]["left"] == 9
    assert [w["spent"] for w in person.view["windows"]][-2:] == [2, 0]  # the server itself counted it before

    table.clock.advance(10 * SECOND)
    assert table.gateway.receipt(offered["delivery"])["state"] == "delivered"
    assert quota_left(table, person) == 9
    agent.answers(said["turn_id"], "and answered")
    table.answered(person, 3)
    assert quota_left(table, person) == 8
    story = table.gateway.explain(said["message"])
    assert len(story["carried"]) == 1
    assert "1 reply was carried into its window" in "\n".join(story["sentences"])
    assert table.gateway.ledger(person.address)[-1]["slot"] == 2


def writes_within_the_poll(table: Stage, person: Person, agent: Hand, after_ms: int) -> tuple[Any, list[int]]:
    """Ask, get an answer of ten parts, and write again so long after the last of them, while the same poll is held: the message, and
    when the server took each part."""
    agent.answers(asks(table, person, agent, "tell me everything"), lines(10))
    taken = [row["at"] for row in table.answered(person, 10)]
    assert quota_left(table, person) == 0
    polls = table.phones.counters()["polls"]
    if after_ms:
        table.later(after_ms)
    person.says("and then?")
    assert table.phones.counters()["polls"] == polls, "the poll that was there during the answer"
    return agent.hear("message", peer=person.address), taken


def test_who_writes_soon_after_a_long_answer_is_answered_at_once(table: Stage, agent: Hand) -> None:
    """The channel's own dates prove that the parts were there before the message, though the poll that brings it began before them."""
    person = table.person()
    said, taken = writes_within_the_poll(table, person, agent, 8 * SECOND)
    assert quota_left(table, person) == 10
    agent.answers(said["turn_id"], "and then they lived")
    told = table.answered(person, 11)[-1]
    assert told["text"] == "and then they lived"
    assert told["at"] - taken[-1] < 30 * SECOND, "at once, and not after another message"
    assert [w["spent"] for w in person.view["windows"]][-2:] == [10, 1]
    story = table.gateway.explain(said["message"])
    assert story["carried"] == []


def test_explain_tells_what_counts_against_the_window_of_who_writes_within_seconds(table: Stage, agent: Hand) -> None:
    person = table.person()
    said, _ = writes_within_the_poll(table, person, agent, 0)
    assert quota_left(table, person) == 0
    waits = agent.answers(said["turn_id"], "that is all")
    assert table.gateway.receipt(waits, 0)["state"] == "queued"
    story = table.gateway.explain(said["message"])
    assert len(story["carried"]) == 10
    told = "\n".join(story["sentences"])
    assert "10 replies were carried into its window" in told
    table.silent(person, sends=10)

    asks(table, person, agent, "still there?")
    assert table.gateway.receipt(waits)["state"] == "delivered"


@pytest.mark.parametrize("knobs", [{"date": "none"}, {"create_time": "zero"}, {"date_skew_ms": 60 * SECOND}])
def test_without_the_channels_time_only_polls_prove_something(table: Stage, agent: Hand, knobs: dict[str, Any]) -> None:
    """Then the window is counted as before: never more than the channel allows."""
    table.phones.knobs(**knobs)
    table.gateway.restart()  # what was measured goes with the process
    agent.close()
    with Hand(table.gateway.agents_url) as again:
        person = table.person()
        writes_within_the_poll(table, person, again, 8 * SECOND)
        assert quota_left(table, person) == 0
