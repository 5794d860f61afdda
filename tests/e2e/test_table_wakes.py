"""A row of the table: peers with waiting outputs wake on time, after passivation and after a restart, without a scan of the log."""

from __future__ import annotations

import re

from tests.e2e.phones import HOUR, SECOND, Person
from tests.e2e.processes import Child
from tests.e2e.stage import Stage


def live_actors(stage: Stage) -> int:
    """How many actors of the account are in memory, the bot among them."""
    found = re.search(
        r'^replyledger_actors_live\{account="weixin:main"\} (\d+)', stage.gateway.get("/metrics"), re.MULTILINE
    )
    assert found
    return int(found[1])


def spent_in_an_open_window(stage: Stage) -> tuple[Person, str, int]:
    """A guest whose share is spent and rolls within an open window: (guest, the delivery that waits for it, when it rolls)."""
    guest = stage.guest()
    for number in range(3):
        sent = stage.gateway.offer(guest.address, f"push {number}")
        assert stage.gateway.receipt(sent["delivery"])["state"] == "delivered"
    stage.later(20 * HOUR)
    guest.says("evening")
    stage.answered(guest, 5)
    held = stage.gateway.offer(guest.address, "when the share rolls", turn_id=f"{guest.id}-held")
    assert held["earliest"] is not None
    return guest, held["delivery"], held["earliest"]


def wakes_on_time(stage: Stage, guest: Person, delivery: str, at: int) -> None:
    stage.at(at - 10 * SECOND)
    stage.silent(guest, sends=5)
    assert stage.gateway.explain(delivery)["blocked_until"] == at
    stage.at(at)
    assert stage.gateway.receipt(delivery)["state"] == "delivered"
    (accepted,) = guest.accepted[5:]
    assert at <= accepted["at"] <= at + SECOND
    assert guest.reads[-1] == "when the share rolls"


def test_a_peer_that_waits_wakes_on_time_after_a_restart(stage: Stage) -> None:
    stage.echo()
    others = [stage.guest() for _ in range(6)]
    guest, delivery, at = spent_in_an_open_window(stage)
    stage.gateway.restart()

    assert live_actors(stage) <= 2  # the bot, and whoever waits: nobody else was replayed
    stage.echo()
    wakes_on_time(stage, guest, delivery, at)
    assert len(others) == 6
    stage.gateway.sound()


def test_a_peer_that_waits_wakes_on_time_after_passivation(stage: Stage) -> None:
    stage.gateway.child.kill()
    small = Child(
        "small", ["tests.e2e.launch", "2", "run", "--json", "--config", str(stage.gateway.config)], stage.folder
    )
    stage.gateway.children.append(small)
    small.announced()
    stage.echo()
    guest, delivery, at = spent_in_an_open_window(stage)
    others = [stage.guest() for _ in range(4)]
    assert live_actors(stage) <= 3

    wakes_on_time(stage, guest, delivery, at)
    assert len(others) == 4
    stage.gateway.sound()
