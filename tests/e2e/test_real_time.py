"""The same program on the machine's own time, as in production: no simulated clock anywhere, and a log that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.runtime.clock import NS_PER_MS, BootClock, boot_id, boot_ns
from events.streams import fingerprint
from scripts.reading.opening import LOG_FILE
from store.records import Start
from store.sqlite import SqliteLog
from tests.e2e.gateway import Gateway
from tests.e2e.hand import Hand
from tests.e2e.phones import Login, Person, Phones
from tests.e2e.processes import eventually


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


BOT = "weixin:main"
DAYS_MS = 3 * 86_400_000


async def began_earlier(file: Path) -> None:
    """A log whose gateway started in this boot, a minute ago, when the wall clock was three days behind what it says now."""
    log = await SqliteLog.open(file, at=1, salt=b"a salt for tests")
    try:
        boot = fingerprint(log.salt, boot_id())
        minute_ago = boot_ns() // NS_PER_MS - 60_000
        await log.claim(BOT, "i-before", BootClock().now() - DAYS_MS - 60_000, Start(boot=boot, boot_ms=minute_ago))
    finally:
        await log.close()


@pytest.mark.skipif(not boot_id(), reason="nothing names the machine's boot")
def test_a_wall_clock_that_was_set_forward_since_the_last_start_moves_no_time(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, Login(), "http://127.0.0.1:9", "")
    del gateway.tables["clock"]
    gateway.write()
    gateway.state.mkdir(mode=0o700)
    asyncio.run(began_earlier(gateway.state / LOG_FILE))
    try:
        gateway.start()
        behind_ms = BootClock().now() - gateway.get("/v1/status")["now"]
        assert abs(behind_ms - DAYS_MS) < 10_000
        stepped = eventually(
            lambda: [r for r in gateway.run("--json", "events", "export").rows if r["type"] == "clock_stepped"],
            "a step",
        )
        assert abs(stepped[0]["data"]["step_ms"] - DAYS_MS) < 10_000
        assert "the wall clock was set forward by" in gateway.child.err
    finally:
        gateway.end()
