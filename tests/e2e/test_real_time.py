"""The same program on the machine's own time, as in production: no simulated clock anywhere, and a log that says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.hand import Hand
from tests.e2e.phones import Login, Person, Phones


@pytest.fixture
def real(tmp_path: Path) -> Iterator[tuple[Gateway, Phones]]:
    phones = Phones(tmp_path, None, Login())
    gateway = Gateway(tmp_path, phones.login, phones.url, "")
    del gateway.tables["clock"]
    gateway.write()
    gateway.log_in()
    try:
        gateway.start()
        yield gateway, phones
        assert phones.rows("violations") == []
        assert "Traceback" not in gateway.child.err
    finally:
        gateway.end()
        phones.child.end()


def test_an_answer_pushes_a_kill_and_a_restart_in_real_time(real: tuple[Gateway, Phones]) -> None:
    gateway, phones = real
    owner = Person(phones, phones.login.user_id)
    with Hand(gateway.agents_url) as agent:
        owner.says("good morning")
        agent.answers(agent.takes(owner.address), "good morning to you")
    for number in range(3):
        sent = gateway.offer("weixin:main", f"push {number}", turn_id=f"real-{number}")
        assert gateway.receipt(sent["delivery"])["state"] == "delivered"
    held = gateway.offer("weixin:main", "the fourth", turn_id="real-held")
    assert held["state"] == "queued"
    gateway.child.kill()
    gateway.start()

    status = gateway.get("/v1/status")
    assert not status["simulated"]
    assert status["ready"]
    assert [(r["kind"], r["slot"], r["share"]) for r in gateway.ledger(owner.address)] == [
        ("answer", 1, 0),
        ("push", 2, 1),
        ("push", 3, 2),
        ("push", 4, 3),
    ]
    assert len(owner.accepted) == 4
    assert gateway.receipt(held["delivery"], 0)["state"] == "queued"
    assert gateway.explain("real-held")["blocked_by"] == "share_spent"
    assert gateway.explain("real-0")["state"] == "delivered"
    assert gateway.verb("status").row["simulated"] is False
    gateway.sound()


def test_the_pace_of_sends_holds_with_the_default_policy(real: tuple[Gateway, Phones]) -> None:
    """Five sends may leave at once; from then on one a second. Nothing of it is refused or lost."""
    gateway, phones = real
    owner = Person(phones, phones.login.user_id)
    text = "".join(f"{n}".ljust(3999, "x") + "\n" for n in range(8))
    with Hand(gateway.agents_url) as agent:
        owner.says("everything, please")
        delivery = agent.answers(agent.takes(owner.address), text)
        assert gateway.receipt(delivery)["state"] == "delivered"
    at = [row["at"] for row in owner.accepted]
    assert len(at) == 8
    assert at[7] - at[4] >= 2_900
    assert at[4] - at[0] < at[7] - at[4]
