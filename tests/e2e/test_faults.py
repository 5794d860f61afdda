"""Whatever the server does to a send or a poll: the ledger says what the server counts, and nobody is answered twice."""

from __future__ import annotations

import pytest

from tests.e2e.phones import MINUTE, SECOND
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage

CONFIRMED, UNCONFIRMED, UNKNOWN, REFUSED = "confirmed", "unconfirmed", "unknown", "refused"

FAULTS = [
    ({"kind": "omit_ret"}, CONFIRMED, "delivered", 1),
    ({"kind": "omit_message_id"}, UNCONFIRMED, "unconfirmed", 1),
    ({"kind": "empty_object"}, UNCONFIRMED, "unconfirmed", 1),
    ({"kind": "empty_body"}, UNKNOWN, "unknown", 1),
    ({"kind": "cut_after"}, UNKNOWN, "unknown", 1),
    ({"kind": "cut_before"}, UNKNOWN, "unknown", 0),
    ({"kind": "http", "status": 502}, UNKNOWN, "unknown", 0),
    ({"kind": "http", "status": 403}, REFUSED, "dropped", 0),
    ({"kind": "ret", "code": -1}, REFUSED, "dropped", 0),
    ({"kind": "ret", "code": -3}, REFUSED, "dropped", 0),
    ({"kind": "ret", "code": -4, "form": "errcode"}, REFUSED, "dropped", 0),
]


@pytest.mark.parametrize(("fault", "outcome", "state", "taken"), FAULTS)
def test_the_ledger_says_what_the_server_counts(
    play: Stage, fault: dict[str, object], outcome: str, state: str, taken: int
) -> None:
    guest = play.guest()
    play.phones.faults(where="send", user=guest.id, **fault)
    offered = play.gateway.offer(guest.address, "once, whatever happens", turn_id=f"{guest.id}-x")
    receipt = play.gateway.receipt(offered["delivery"])

    assert receipt["state"] == state, receipt
    assert len(guest.accepted) == 1 + taken
    (row,) = (r for r in play.gateway.ledger(guest.address, free=True) if f"{guest.id}-x" in r["turn_ids"])
    assert (row["outcome"], row["charged"]) == (outcome, outcome != REFUSED)
    view = play.gateway.peer(guest.address)
    assert view["quota"]["left"] == 9 - int(row["charged"]) <= guest.view["left"]
    assert view["share"]["used"] == int(row["charged"])
    told = "\n".join(play.gateway.explain(f"{guest.id}-x")["sentences"])
    assert {"delivered": "whole"}.get(state, "dead retry") in told
    play.later(MINUTE)
    play.silent(guest, sends=1 + taken, refusals=len(guest.refused))

    after = play.gateway.offer(guest.address, "and on it goes")
    assert play.gateway.receipt(after["delivery"])["state"] == "delivered"
    assert guest.reads[-1] == "and on it goes"


def test_a_server_that_is_away_costs_nothing_and_is_tried_again(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    stage.phones.child.kill()  # nobody listens: the connection is refused, which proves that nothing was sent
    offered = stage.gateway.offer(guest.address, "when you are back", turn_id="away-1")
    eventually(lambda: stage.gateway.ledger(guest.address, free=True)[-1]["outcome"] == "not_sent", "the proof")
    for _ in range(3):
        stage.clock.advance(61 * SECOND)
        before = len(stage.gateway.ledger(guest.address, free=True))
        eventually(lambda: len(stage.gateway.ledger(guest.address, free=True)) > before, "the next try")  # noqa: B023
    rows = stage.gateway.ledger(guest.address, free=True)[1:]
    assert {(r["outcome"], r["charged"]) for r in rows if r["outcome"] != "open"} == {("not_sent", False)}
    assert stage.gateway.receipt(offered["delivery"], 0)["state"] in ("queued", "requested")
    assert stage.gateway.peer(guest.address)["share"]["used"] <= 1  # a try may be open at this moment
    assert "provably" in "\n".join(stage.gateway.explain("away-1")["sentences"])


@pytest.mark.parametrize("kind", ["same_id", "new_id"])
def test_a_message_that_is_delivered_again_is_answered_once(play: Stage, kind: str) -> None:
    person = play.person()
    said = person.says("only one answer, please")
    play.answered(person, 1)
    for _ in range(2):
        play.phones.post("redeliver", message_id=said["message_id"], new_id=kind == "new_id")
    other = play.guest("a later message, so that the copies are read")
    assert other.reads
    play.silent(person, sends=1)
    person.says("only one answer, please")  # an honest repetition
    play.answered(person, 2)
    assert person.reads == ["echo: only one answer, please"] * 2


def test_polls_that_fail_are_backed_off_and_nothing_is_missed(play: Stage) -> None:
    person = play.person()
    play.phones.faults(where="poll", kind="http", status=503)
    play.phones.faults(where="poll", kind="empty_body")
    play.clock.advance(36 * SECOND)  # the poll that is held comes back
    person.says("did you miss me?")
    play.answered(person, 1)
    assert person.reads == ["echo: did you miss me?"]
