"""Rows of the table: how much waits, and for how long."""

from __future__ import annotations

from tests.e2e.phones import DAY, HOUR, MINUTE
from tests.e2e.stage import Stage


def test_the_21st_output_drops_the_oldest_which_stays_listed_and_retrievable(play: Stage) -> None:
    guest = play.guest()
    play.gateway.post("/v1/pause", {"scope": guest.address})
    offers = [play.gateway.offer(guest.address, f"n{n}.", turn_id=f"{guest.id}-{n}") for n in range(1, 21)]
    assert {play.gateway.receipt(o["delivery"], 0)["state"] for o in offers} == {"queued"}

    last = play.gateway.offer(guest.address, "n21.", turn_id=f"{guest.id}-21")

    oldest = offers[0]["delivery"]
    receipt = play.gateway.receipt(oldest)
    assert receipt["state"] == "dropped"
    assert "newer outputs" in receipt["reason"]
    (dead,) = play.gateway.verb("dead", "list", "--peer", guest.address).rows
    assert (dead["delivery"], dead["fate"], dead["retrievable"]) == (oldest, "dropped", True)
    (backlog,) = play.gateway.verb("backlog", "list", "--peer", guest.address).rows
    assert [w["turn_id"] for w in backlog["waiting"]] == [f"{guest.id}-{n}" for n in range(2, 22)]
    assert receipt["reason"] in "\n".join(play.gateway.explain(f"{guest.id}-1")["sentences"])

    play.gateway.post("/v1/resume", {"scope": guest.address})
    assert play.gateway.receipt(last["delivery"])["state"] == "delivered"
    assert len(guest.accepted) == 2
    assert "n2." in guest.reads[-1]
    assert "n1." not in guest.reads[-1]
    play.gateway.verb("dead", "retry", oldest)
    assert play.gateway.receipt(oldest)["state"] == "delivered"
    assert guest.reads[-1] == "n1."


def test_an_output_over_an_hour_old_is_dropped_but_the_newest_never_expires(play: Stage) -> None:
    guest = play.guest()
    play.gateway.post("/v1/pause", {"scope": guest.address})
    old = play.gateway.offer(guest.address, "old news", turn_id=f"{guest.id}-old")["delivery"]
    play.later(59 * MINUTE)
    new = play.gateway.offer(guest.address, "news", turn_id=f"{guest.id}-new")["delivery"]
    assert play.gateway.receipt(old, 0)["state"] == "queued"

    play.later(MINUTE)
    receipt = play.gateway.receipt(old)
    assert receipt["state"] == "dropped"
    assert "longer than the backlog's age" in receipt["reason"]
    assert receipt["reason"] in "\n".join(play.gateway.explain(f"{guest.id}-old")["sentences"])
    play.later(3 * DAY + HOUR)
    assert play.gateway.receipt(new, 0)["state"] == "queued"
    assert play.gateway.explain(f"{guest.id}-new")["blocked_by"] == "paused"

    play.gateway.post("/v1/resume", {"scope": guest.address})
    play.silent(guest, sends=1)
    play.mark()
    assert play.gateway.explain(f"{guest.id}-new")["blocked_by"] == "window_closed"
    guest.says("/more")  # brings a window; asks for what was dropped
    play.answered(guest, 3)
    assert play.gateway.receipt(new)["state"] == "delivered"
    assert sorted(guest.reads) == ["echo: hello", "news", "old news"]


def test_more_shows_what_fits_and_how_many_are_left_until_nothing_is(play: Stage) -> None:
    guest = play.guest()
    play.gateway.post("/v1/pause", {"scope": guest.address})
    for number in range(1, 7):
        play.gateway.offer(guest.address, f"n{number}.")
    waiting = play.gateway.verb("backlog", "list", "--peer", guest.address).rows[0]["waiting"]
    play.later(59 * MINUTE)
    play.gateway.offer(guest.address, "news")
    play.later(MINUTE)
    for one in waiting:
        assert play.gateway.receipt(one["delivery"])["state"] == "dropped"
    play.gateway.post("/v1/resume", {"scope": guest.address})
    play.answered(guest, 2)

    play.later(MINUTE)  # the poll after those sends has ended: the next window is whole
    guest.says("/more")
    play.answered(guest, 7)
    first = "Older outputs not shown here: 2. Write /more again to see them."
    assert guest.reads[2:] == [first, "n3.", "n4.", "n5.", "n6."]
    play.later(MINUTE)
    guest.says("/more")
    play.answered(guest, 9)
    assert guest.reads[7:] == ["n1.", "n2."]
    play.later(MINUTE)
    guest.says("/more")
    play.answered(guest, 10)
    assert guest.reads[9:] == ["There is nothing more to show."]
    assert [r["kind"] for r in play.gateway.ledger(guest.address)[2:]] == ["notice"] + ["answer"] * 6 + ["notice"]
