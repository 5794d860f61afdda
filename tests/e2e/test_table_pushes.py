"""Rows of the table: outputs that nobody asked for in the chat, from the job to the phone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.phones import DAY, HOUR, MINUTE, SECOND, Person
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage

CLAUDE = (
    '{"type":"system","subtype":"init","session_id":"desk"}\n'
    '{"type":"result","subtype":"success","is_error":false,"result":"nightly build is green","session_id":"desk",'
    '"uuid":"claude-turn-1"}\n'
)


@pytest.mark.parametrize("origin", ["scheduled", "desktop"])
def test_a_turn_of_the_bound_session_is_pushed(play: Stage, origin: str) -> None:
    guest = play.guest()
    play.gateway.verb("bind", guest.address, f"desk-{origin}")
    stream = CLAUDE.replace('"desk"', f'"desk-{origin}"').replace("turn-1", origin).encode()

    sent = play.gateway.verb("send", "--from", "claude", "-", "--origin", origin, "--wait", "20", stdin=stream).row

    assert (sent["state"], sent["peer"]) == ("delivered", guest.address)
    assert guest.reads == ["echo: hello", "nightly build is green"]
    row = play.gateway.ledger(guest.address)[-1]
    assert (row["kind"], row["turn_ids"], row["outcome"]) == ("push", [f"claude-{origin}"], "confirmed")
    assert (row["slot"], row["slots"], row["share"], row["shares"]) == (2, 10, 1, 3)
    assert row["message_id"] == str(guest.accepted[-1]["message_id"])
    told = "\n".join(play.gateway.explain(f"claude-{origin}")["sentences"])
    assert "because nothing blocked it" in told
    assert "delivered, whole" in told


def test_a_message_is_answered_exactly_once_and_never_pushed_as_well(play: Stage) -> None:
    guest = play.guest("what is up?")
    (row,) = play.gateway.ledger(guest.address)
    (turn_id,) = row["turn_ids"]

    claimed = play.gateway.post(
        "/v1/turns", {"to": guest.address, "turn_id": turn_id, "origin": "desktop", "text": "echo: what is up?"}
    )

    assert claimed.status in (202, 409), claimed
    if claimed.status == 202:
        assert claimed.body["repeated"]
        assert claimed.body["deliveries"][0]["state"] == "delivered"
    play.silent(guest, sends=1)
    assert guest.reads == ["echo: what is up?"]
    assert (row["kind"], row["share"], row["slot"]) == ("answer", 0, 1)
    told = "\n".join(play.gateway.explain(turn_id)["sentences"])
    assert "answered by the inbound path and never pushed as well" in told


def test_several_turns_are_merged_into_one_reply(play: Stage) -> None:
    guest = play.guest()
    play.gateway.post("/v1/pause", {"scope": guest.address})
    ids = [play.gateway.offer(guest.address, f"report {n}", turn_id=f"merge-{n}")["delivery"] for n in (1, 2, 3)]
    story = play.gateway.explain("merge-1")
    assert story["blocked_by"] == "paused"

    play.gateway.post("/v1/resume", {"scope": guest.address})

    receipts = [play.gateway.receipt(delivery) for delivery in ids]
    assert [r["state"] for r in receipts] == ["delivered"] * 3
    assert len({tuple(r["message_ids"]) for r in receipts}) == 1
    assert len(guest.accepted) == 2
    assert [guest.reads[-1].index(f"report {n}") for n in (1, 2, 3)] == sorted(
        guest.reads[-1].index(f"report {n}") for n in (1, 2, 3)
    )
    row = play.gateway.ledger(guest.address)[-1]
    assert sorted(row["turn_ids"]) == ["merge-1", "merge-2", "merge-3"]
    assert row["share"] == 1
    assert "merged with" in "\n".join(play.gateway.explain("merge-2")["sentences"])


def spend_share(play: Stage) -> Person:
    """A guest who was pushed to three times."""
    guest = play.guest()
    for number in range(3):
        offered = play.gateway.offer(guest.address, f"push {number}", turn_id=f"{guest.id}-{number}")
        assert play.gateway.receipt(offered["delivery"])["state"] == "delivered"
    return guest


def test_a_spent_share_rolls_inside_an_open_window(play: Stage) -> None:
    guest = spend_share(play)
    warnings = play.gateway.child.err.count("the share of pushes")

    held = play.gateway.offer(guest.address, "push 4", turn_id=f"{guest.id}-held")
    assert held["state"] == "queued"
    assert "share" in held["reason"]
    story = play.gateway.explain(f"{guest.id}-held")
    assert story["blocked_by"] == "share_spent"
    assert "the peer writes after" in "\n".join(story["sentences"])  # the window ends before the share rolls

    play.later(20 * HOUR)
    guest.says("evening")  # opens a window in which the share rolls
    play.answered(guest, 5)
    view = play.gateway.peer(guest.address)
    assert (view["quota"]["left"], view["share"]["used"]) == (9, 3)
    earliest = play.gateway.receipt(held["delivery"], 0)["earliest"]
    assert earliest is not None
    assert play.gateway.explain(f"{guest.id}-held")["blocked_until"] == earliest

    play.at(earliest - 10 * SECOND)
    play.silent(guest, sends=5)
    play.at(earliest)

    assert play.gateway.receipt(held["delivery"])["state"] == "delivered"
    assert guest.reads[-1] == "push 4"
    pushed = [r for r in play.gateway.ledger(guest.address) if r["kind"] == "push"]
    assert [r["share"] for r in pushed] == [1, 2, 3, 3]
    assert play.gateway.child.err.count("the share of pushes") == warnings + 1
    assert "the share" in "\n".join(play.gateway.explain(f"{guest.id}-held")["sentences"])


def test_a_spent_share_outside_a_window_waits_for_the_next_message(play: Stage) -> None:
    guest = spend_share(play)
    held = play.gateway.offer(guest.address, "late push", turn_id=f"{guest.id}-late")
    assert held["earliest"] is None

    play.later(DAY + HOUR)
    play.silent(guest, sends=4)
    play.mark()
    story = play.gateway.explain(f"{guest.id}-late")
    assert story["blocked_by"] == "window_closed"

    guest.says("morning")

    assert play.gateway.receipt(held["delivery"])["state"] == "delivered"
    play.answered(guest, 6)
    assert set(guest.reads[-2:]) == {"echo: morning", "late push"}
    row = next(r for r in play.gateway.ledger(guest.address) if f"{guest.id}-late" in r["turn_ids"])
    assert (row["kind"], row["share"]) == ("push", 1)


def test_without_a_context_token_outputs_wait_for_the_message_that_brings_one(play: Stage) -> None:
    person = play.person()
    person.says("hi", context_token=None)
    waits = play.gateway.peer
    eventually(lambda: any(p["peer"] == person.address for p in play.gateway.get("/v1/peers")["peers"]))
    offered = play.gateway.offer(person.address, "no handle yet", turn_id=f"{person.id}-n")
    assert offered["state"] == "queued"
    eventually(lambda: waits(person.address)["waiting"] == 2, "answer and push wait")
    assert not waits(person.address)["token"]
    assert play.gateway.explain(f"{person.id}-n")["blocked_by"] == "no_token"
    assert "no context token is" in offered["reason"]
    play.later(MINUTE)
    play.silent(person, sends=0)

    person.says("and now?")

    assert play.gateway.receipt(offered["delivery"])["state"] == "delivered"
    play.answered(person, 3)
    assert sorted(person.reads) == ["echo: and now?", "echo: hi", "no handle yet"]
    told = "\n".join(play.gateway.explain(f"{person.id}-n")["sentences"])
    assert "no context token" in told


def test_a_stale_token_is_dropped_and_the_content_kept_for_the_next_message(play: Stage) -> None:
    guest = play.guest()
    play.phones.faults(where="send", kind="ret", code=-2, user=guest.id)
    offered = play.gateway.offer(guest.address, "kept", turn_id=f"{guest.id}-s")
    eventually(lambda: len(guest.refused) == 1, "the refusal")
    play.settled(guest)
    assert not play.gateway.peer(guest.address)["token"]
    story = play.gateway.explain(f"{guest.id}-s")
    assert story["blocked_by"] == "no_token"

    for _ in range(3):
        play.later(20 * MINUTE)
        play.silent(guest, sends=1, refusals=1)
    guest.says("again")

    assert play.gateway.receipt(offered["delivery"])["state"] == "delivered"
    play.answered(guest, 3)
    rows = [r for r in play.gateway.ledger(guest.address, free=True) if f"{guest.id}-s" in r["turn_ids"]]
    assert [(r["outcome"], r["charged"]) for r in rows] == [("refused", False), ("confirmed", True)]
    assert len(play.gateway.verb("audit", "--peer", guest.address).rows) == 3
    told = "\n".join(play.gateway.explain(f"{guest.id}-s")["sentences"])
    assert "refused" in told


def test_of_an_output_longer_than_a_part_the_head_is_sent_and_the_rest_retrievable(play: Stage) -> None:
    guest = play.guest()
    text = "界" * 2000  # 6000 bytes; 4000 is no multiple of 3
    offered = play.gateway.offer(guest.address, text, turn_id=f"{guest.id}-l")
    receipt = play.gateway.receipt(offered["delivery"])
    head = guest.reads[-1]

    assert len(head.encode()) <= 4000
    assert text.startswith(head.rstrip("…"))
    assert 0 < receipt["delivered_bytes"] <= 4000 < receipt["bytes"] == 6000
    assert len(guest.accepted) == 2
    (dead,) = play.gateway.verb("dead", "list", "--peer", guest.address).rows
    assert (dead["delivery"], dead["fate"], dead["start"]) == (
        offered["delivery"],
        "cut",
        receipt["delivered_bytes"],
    )
    assert "cut" in "\n".join(play.gateway.explain(f"{guest.id}-l")["sentences"])

    guest.says("/more")
    play.answered(guest, 3)
    assert guest.reads[-2].removesuffix("…") + guest.reads[-1] == text


def test_failed_and_blank_turns_are_skipped_and_degraded_ones_delivered(play: Stage) -> None:
    guest = play.guest()
    offers = [("failed", "boom", "f"), ("completed", " \u200b\n\t", "b"), ("degraded", "half of it works", "d")]
    found = {
        name: play.gateway.receipt(
            play.gateway.offer(guest.address, text, status=status, turn_id=f"{guest.id}-{name}")["delivery"]
        )
        for status, text, name in offers
    }

    assert {name: r["state"] for name, r in found.items()} == {"f": "skipped", "b": "skipped", "d": "delivered"}
    assert "failed" in found["f"]["reason"]
    assert "blank" in found["b"]["reason"]
    assert guest.reads == ["echo: hello", "half of it works"]
    dead = {d["turn_id"]: d for d in play.gateway.verb("dead", "list", "--peer", guest.address).rows}
    assert {t: d["fate"] for t, d in dead.items()} == {f"{guest.id}-f": "skipped", f"{guest.id}-b": "skipped"}
    assert play.gateway.verb("dead", "show", found["f"]["delivery"]).row["text"] == "boom"
    assert "the turn failed" in "\n".join(play.gateway.explain(f"{guest.id}-f")["sentences"])
    assert "blank" in "\n".join(play.gateway.explain(f"{guest.id}-b")["sentences"])


def test_two_triggers_at_once_are_one_send(play: Stage) -> None:
    guest = play.guest()
    body = {"to": guest.address, "text": "only once", "turn_id": f"{guest.id}-t"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: play.gateway.post("/v1/turns", body), range(8)))

    assert [a.status for a in answers] == [202] * 8, json.dumps([a.body for a in answers])
    assert sum(not a.body["repeated"] for a in answers) == 1
    assert len({a.body["deliveries"][0]["delivery"] for a in answers}) == 1
    assert play.gateway.receipt(answers[0].body["deliveries"][0]["delivery"])["state"] == "delivered"
    play.silent(guest, sends=2)
    assert guest.reads == ["echo: hello", "only once"]
    assert len(play.gateway.ledger(guest.address)) == 2
    play.gateway.explain(f"{guest.id}-t")
