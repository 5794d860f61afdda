"""Rows of the table: answers and pushes that share one quota, led by an agent that answers when the test says so."""

from __future__ import annotations

from collections.abc import Iterator

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
    assert "1 open turn" in "\n".join(story["sentences"])
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
    told = "\n".join(table.gateway.explain(said["message"])["sentences"])
    assert "in flight when it reached the channel count against its window" in told
    assert table.gateway.ledger(person.address)[-1]["slot"] == 2
