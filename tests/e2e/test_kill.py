"""kill -9 of the gateway at chosen instants of a send's life: nothing acknowledged is lost, nothing is overspent, nothing is sent twice."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException

import pytest

from tests.e2e.asking import ask
from tests.e2e.crashes import survive
from tests.e2e.load import offer
from tests.e2e.phones import MINUTE, Person
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage, stage_in

KILLED = -9
KILLS = int(os.environ.get("REPLYLEDGER_E2E_KILLS", "150"))
"""How many random kills under load."""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage_in(tmp_path_factory.mktemp("yard")) as found:
        found.echo()
        yield found


@pytest.fixture
def ground(yard: Stage) -> Iterator[Stage]:
    yard.cast.clear()
    if not yard.gateway.child.running:
        yard.gateway.start()
    yield yard
    yard.phones.calm()
    yard.check()


def dead_after(stage: Stage) -> None:
    assert stage.gateway.child.exited() == KILLED
    stage.gateway.start()


def unknown_is_kept(stage: Stage, person: Person, turn_id: str, sends: int) -> None:
    """The request in between is unknown: charged, not resent, in audit and `dead list`."""
    rows = [r for r in stage.gateway.ledger(person.address, free=True) if turn_id in r["turn_ids"]]
    assert [(r["outcome"], r["charged"]) for r in rows] == [("unknown", True)]
    (audited,) = stage.gateway.verb("audit", "--peer", person.address, "--outcome", "unknown").rows
    assert turn_id in audited["turn_ids"]
    (dead,) = (d for d in stage.gateway.verb("dead", "list", "--peer", person.address).rows if d["turn_id"] == turn_id)
    assert dead["fate"] == "unknown"
    stage.later(MINUTE)
    stage.silent(person, sends=sends)
    person.says("are you there?")
    stage.answered(person, sends + 1)
    stage.silent(person, sends=sends + 1)
    told = "\n".join(stage.gateway.explain(turn_id)["sentences"])
    assert "unknown" in told


def test_before_the_request_commit_nothing_happened(ground: Stage) -> None:
    ground.doomed("send_requested:before:2")  # the first is the answer to the guest's hello
    guest = ground.guest()
    assert offer(ground, guest, "never accepted", f"{guest.id}-k") is None
    dead_after(ground)

    ground.silent(guest, sends=1)
    assert ground.gateway.verb("explain", f"{guest.id}-k", code=1).out == ""
    again = offer(ground, guest, "never accepted", f"{guest.id}-k")
    assert again.status == 202
    assert not again.body["repeated"]
    assert ground.gateway.receipt(again.body["deliveries"][0]["delivery"])["state"] == "delivered"
    assert len(guest.accepted) == 2
    ground.gateway.sound()


def test_within_the_request_commit_nothing_happened(ground: Stage) -> None:
    ground.doomed("send_requested:during:2")
    guest = ground.guest()
    assert offer(ground, guest, "rolled back", f"{guest.id}-k") is None
    dead_after(ground)

    ground.silent(guest, sends=1)
    assert offer(ground, guest, "rolled back", f"{guest.id}-k").body["repeated"] is False
    ground.answered(guest, 2)
    ground.gateway.sound()


def test_after_the_request_commit_it_is_unknown_though_no_byte_left(ground: Stage) -> None:
    ground.doomed("send_requested:after:2")
    guest = ground.guest()
    assert offer(ground, guest, "requested", f"{guest.id}-k") is None
    dead_after(ground)

    unknown_is_kept(ground, guest, f"{guest.id}-k", sends=1)
    again = offer(ground, guest, "requested", f"{guest.id}-k")
    assert again.body["repeated"]
    assert again.body["deliveries"][0]["state"] == "unknown"
    ground.gateway.sound()


def test_a_waiting_output_that_was_acknowledged_outlives_a_kill_at_its_request(ground: Stage) -> None:
    ground.doomed("send_requested:before:2")
    guest = ground.guest()
    ground.gateway.post("/v1/pause", {"scope": guest.address})
    accepted = ground.gateway.offer(guest.address, "acknowledged", turn_id=f"{guest.id}-k")
    with suppress(OSError, HTTPException):
        ground.gateway.post("/v1/resume", {"scope": guest.address})
    dead_after(ground)

    assert ground.gateway.receipt(accepted["delivery"])["state"] == "delivered"
    assert guest.reads == ["echo: hello", "acknowledged"]
    ground.gateway.sound()


def test_after_the_bytes_left_it_is_unknown_and_not_sent_again(ground: Stage) -> None:
    guest = ground.guest()
    ground.phones.faults(where="send", kind="slow_headers", ms=MINUTE, user=guest.id)
    accepted = ground.gateway.offer(guest.address, "on the phone", turn_id=f"{guest.id}-k")
    eventually(lambda: len(guest.accepted) == 2, "the server took it")
    ground.gateway.child.kill()
    ground.gateway.start()

    assert ground.gateway.receipt(accepted["delivery"], 0)["state"] == "unknown"
    unknown_is_kept(ground, guest, f"{guest.id}-k", sends=2)
    assert guest.reads.count("on the phone") == 1
    ground.gateway.sound()


def test_before_the_outcome_commit_it_is_unknown(ground: Stage) -> None:
    ground.doomed("send_succeeded:before:2")
    guest = ground.guest()
    accepted = offer(ground, guest, "confirmed to nobody", f"{guest.id}-k")
    assert accepted is None or accepted.status == 202
    dead_after(ground)

    unknown_is_kept(ground, guest, f"{guest.id}-k", sends=2)
    ground.gateway.sound()


def test_after_the_outcome_commit_it_is_delivered(ground: Stage) -> None:
    ground.doomed("send_succeeded:after:2")
    guest = ground.guest()
    offer(ground, guest, "confirmed", f"{guest.id}-k")
    dead_after(ground)

    (row,) = (r for r in ground.gateway.ledger(guest.address) if f"{guest.id}-k" in r["turn_ids"])
    assert (row["outcome"], row["message_id"]) == ("confirmed", str(guest.accepted[-1]["message_id"]))
    again = offer(ground, guest, "confirmed", f"{guest.id}-k")
    assert again.body["deliveries"][0]["state"] == "delivered"
    ground.silent(guest, sends=2)
    ground.gateway.sound()


def test_between_two_appends_of_one_group_neither_happened(ground: Stage) -> None:
    people = [ground.guest(f"hello {n}") for n in range(8)]
    ground.gateway.post("/v1/pause", {"scope": "weixin:main"})
    ground.doomed("group:during")
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda p: offer(ground, p, "in a group", f"{p.id}-g"), people))
    dead_after(ground)

    waiting = {b["peer"] for b in ground.gateway.verb("backlog", "list").rows}
    acknowledged = {p.address for p, answer in zip(people, seen, strict=True) if answer is not None}
    assert acknowledged <= waiting
    assert len(acknowledged) < len(people)
    assert all(answer.status == 202 for answer in seen if answer is not None)
    for person in people:
        assert offer(ground, person, "in a group", f"{person.id}-g").status == 202
    ground.gateway.post("/v1/resume", {"scope": "weixin:main"})
    for person in people:
        ground.answered(person, 2)
        assert person.reads[1:] == ["in a group"]
    ground.gateway.sound()


def test_after_a_message_was_taken_in_it_is_answered_once(ground: Stage) -> None:
    ground.doomed("message_received:after")
    person = ground.person()
    person.says("do not lose me")
    dead_after(ground)

    ground.answered(person, 1)
    assert person.reads == ["echo: do not lose me"]
    ground.later(MINUTE)
    ground.silent(person, sends=1)


def test_before_a_message_was_taken_in_it_is_polled_again(ground: Stage) -> None:
    ground.doomed("message_received:during")
    person = ground.person()
    person.says("poll me again")
    dead_after(ground)

    ground.answered(person, 1)
    assert person.reads == ["echo: poll me again"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_kills_under_load_lose_and_overspend_nothing(ground: Stage) -> None:
    """Any number by `python -m tests.e2e.crashes --kills N`."""
    moments, turns = survive(ground, random.Random(20261130), KILLS)
    assert moments.total() == KILLS
    assert turns > KILLS


def test_a_log_that_cannot_be_written_acknowledges_nothing(ground: Stage) -> None:
    """A reader that holds the log's write lock: offers are refused in time and nothing of them is there."""
    guest = ground.guest()
    holder = sqlite3.connect(ground.gateway.state / "log.sqlite", isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        answer = ask(
            ground.gateway.url, "POST", "/v1/turns", {"to": guest.address, "text": "x", "turn_id": f"{guest.id}-l"}
        )
        assert answer.status == 503, answer
    finally:
        holder.close()
    assert offer(ground, guest, "x", f"{guest.id}-l").status == 202
    ground.answered(guest, 2)
