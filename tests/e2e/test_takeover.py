"""A row of the table: an older instance after a newer one started, also when it was stopped across the takeover."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.e2e.asking import ask
from tests.e2e.gateway import Gateway, toml_of
from tests.e2e.hand import Hand
from tests.e2e.load import Load
from tests.e2e.phones import MINUTE, SECOND, Login, Person
from tests.e2e.processes import Child, eventually, free_port
from tests.e2e.stage import Stage, stage_in

REPLACED = 79
TAKEOVERS = int(os.environ.get("REPLYLEDGER_E2E_TAKEOVERS", "5"))
"""How many takeovers under load."""


class Second:
    """Another process on the same log, with ports of its own."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        gateway = stage.gateway
        tables = dict(gateway.tables)
        self.http_port, agents_port = free_port(), free_port()
        tables["http"] = {"listen": f"127.0.0.1:{self.http_port}"}
        tables["agents"] = {"listen": f"127.0.0.1:{agents_port}"}
        config = gateway.folder / "second.toml"
        config.write_text(toml_of(tables), encoding="utf-8")
        self.first = gateway.child
        self.first_url = gateway.url
        self.child: Child = gateway.launch(config)
        self.instance = self.child.announced()["instance"]
        gateway.http_port, gateway.agents_port = self.http_port, agents_port


def polls_of(stage: Stage) -> int:
    return stage.phones.counters()["polls"]


def first_is_out(stage: Stage, second: Second, guest: Person, before: str) -> None:
    """The first has ended with 79; the second has the account, and works."""
    assert second.first.exited(8) == REPLACED
    assert "newer instance" in second.first.err
    assert second.child.running
    (account,) = stage.gateway.get("/v1/accounts")["accounts"]
    assert (account["state"], account["instance"], account["epoch"]) == ("running", second.instance, 2)
    told = "\n".join(stage.gateway.explain(before)["sentences"])
    assert "is fenced, and can neither append nor send" in told
    stage.echo()
    sends = len(guest.accepted)
    guest.says("who answers?")
    stage.answered(guest, sends + 1)
    assert guest.reads[-1] == "echo: who answers?"
    stage.gateway.sound()


def test_an_older_instance_after_a_newer_one_started(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    (before,) = stage.gateway.get("/v1/accounts")["accounts"]
    second = Second(stage)

    with suppress(OSError, HTTPException):  # it may be gone already
        late = ask(
            second.first_url, "POST", "/v1/turns", {"to": guest.address, "text": "from the old", "turn_id": "old-1"}
        )
        assert late.status == 503, late
    first_is_out(stage, second, guest, before["instance"])
    assert all("from the old" not in row["text"] for row in guest.accepted)
    assert stage.gateway.verb("explain", "old-1", code=1).out == ""


def test_an_instance_that_was_stopped_across_the_takeover(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    (before,) = stage.gateway.get("/v1/accounts")["accounts"]
    stage.gateway.post("/v1/pause", {"scope": guest.address})
    waiting = stage.gateway.offer(guest.address, "waits", turn_id="waits-1")
    stage.gateway.child.signal(signal.SIGSTOP)
    second = Second(stage)
    stage.later(MINUTE)
    stage.gateway.post("/v1/resume", {"scope": guest.address})
    assert stage.gateway.receipt(waiting["delivery"])["state"] == "delivered"
    polls = polls_of(stage)

    second.first.signal(signal.SIGCONT)

    first_is_out(stage, second, guest, before["instance"])
    assert guest.reads.count("waits") == 1
    assert polls_of(stage) - polls <= 4  # of the second alone: one for each message, and one that is held
    assert len([r for r in stage.gateway.ledger(guest.address) if r["kind"] == "push"]) == 1


def test_a_request_that_was_durable_before_the_stop_is_not_sent_after_the_takeover(stage: Stage) -> None:
    """The residual window: the first is stopped with a send on its way to the server; the outcome finds the way nowhere."""
    stage.echo()
    guest = stage.guest()
    (before,) = stage.gateway.get("/v1/accounts")["accounts"]
    stage.phones.faults(where="send", kind="slow_headers", ms=30 * SECOND, user=guest.id)
    sent = stage.gateway.offer(guest.address, "in between", turn_id="between-1")
    eventually(lambda: len(guest.accepted) == 2, "the server took it")
    stage.gateway.child.signal(signal.SIGSTOP)
    second = Second(stage)
    assert stage.gateway.receipt(sent["delivery"])["state"] == "unknown"
    stage.later(MINUTE)
    second.first.signal(signal.SIGCONT)

    first_is_out(stage, second, guest, before["instance"])
    assert stage.gateway.receipt(sent["delivery"])["state"] == "unknown"
    assert guest.reads.count("in between") == 1
    rows = stage.gateway.ledger(guest.address, free=True)
    assert [(r["outcome"], r["epoch"]) for r in rows] == [("confirmed", 1), ("unknown", 1), ("confirmed", 2)]


def stopped_between_request_and_bytes(stage: Stage) -> tuple[Person, Child]:
    """A guest to whom an answer was requested, durably, and the process that stopped before any byte of it left."""
    child = stage.doomed("send_requested:after:2:SIGSTOP")
    stage.echo()
    guest = stage.guest()
    guest.says("late")
    state = Path(f"/proc/{child.process.pid}/stat")
    eventually(lambda: state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T", "it has stopped")
    assert len(guest.accepted) == 1
    return guest, child


def test_a_request_whose_bytes_had_not_left_before_the_takeover_never_leaves(stage: Stage) -> None:
    guest, first = stopped_between_request_and_bytes(stage)
    second = Second(stage)
    assert second.first is first
    (dead,) = stage.gateway.get("/v1/dead", peer=guest.address)["dead"]
    assert dead["fate"] == "unknown"

    first.signal(signal.SIGCONT)

    assert first.exited(8) == REPLACED
    stage.silent(guest, sends=1)
    assert [r["outcome"] for r in stage.gateway.ledger(guest.address)] == ["confirmed", "unknown"]
    stage.gateway.sound()


def test_bytes_leave_within_five_seconds_of_their_request_or_not_at_all(stage: Stage) -> None:
    """Nobody took over: after a long stop the request is free, and its content leaves with a request of its own."""
    guest, child = stopped_between_request_and_bytes(stage)
    stopped_at = stage.clock.now
    eventually(
        lambda: stage.clock.now > stopped_at + 5 * SECOND, "five seconds, which the gateway does not live through"
    )

    child.signal(signal.SIGCONT)

    stage.answered(guest, 2)
    assert guest.reads == ["echo: hello", "echo: late"]
    rows = stage.gateway.ledger(guest.address, free=True)
    assert [(r["outcome"], r["charged"]) for r in rows] == [
        ("confirmed", True),
        ("not_sent", False),
        ("confirmed", True),
    ]
    stage.gateway.sound()


def test_a_process_goes_on_while_it_has_another_account(tmp_path: Path) -> None:
    """One of two accounts goes to a newer instance: the process keeps the other, says so, and ends with its last."""
    side = Login(token="secret-side-token@im.bot:0600", bot_id="bot9@im.bot", user_id="side-owner@im.wechat")

    def two(gateway: Gateway) -> None:
        gateway.tables["accounts"]["side"] = {"channel": "weixin", "base_url": gateway.weixin_url}
        gateway.log_in(side, "side")

    with stage_in(tmp_path, two) as stage:
        stage.phones.post("accounts", token=side.token, bot_id=side.bot_id, user_id=side.user_id)
        gateway = stage.gateway
        first = gateway.child
        gateway.post("/v1/accounts", {"account": "side", "action": "restart"})  # its login came after the start
        eventually(lambda: (a := gateway.ready()) is not None and a.status == 200, "both accounts")
        old_ports, all_accounts = (gateway.http_port, gateway.agents_port), gateway.tables["accounts"]

        gateway.tables["accounts"] = {"main": all_accounts["main"]}
        Second(stage)
        second_ports = (gateway.http_port, gateway.agents_port)
        gateway.http_port, gateway.agents_port = old_ports
        ready = eventually(lambda: (a := gateway.ready()) is not None and a.status == 503 and a, "the first says so")
        assert ready
        assert ready.body["reasons"] == ["weixin:main: fenced (a newer instance has claimed this account)"]
        assert first.running
        with Hand(gateway.agents_url) as agent:
            owner = Person(stage.phones, side.user_id, "side")
            stage.phones.post("say", text="still there?", user=side.user_id, bot=side.bot_id)
            agent.answers(agent.takes(owner.address), "yes")
            eventually(lambda: owner.reads == ["yes"], "the other account works")

        gateway.tables["accounts"] = {"side": all_accounts["side"]}
        gateway.launch(second_config(gateway)).announced()
        assert first.exited(8) == REPLACED
        gateway.http_port, gateway.agents_port = second_ports
        assert gateway.get("/v1/status")["ready"]


def second_config(gateway: Gateway) -> Path:
    """A configuration of the accounts as they stand, on ports of its own."""
    tables = dict(gateway.tables)
    tables["http"], tables["agents"] = {"listen": "127.0.0.1:0"}, {"listen": "127.0.0.1:0"}
    config = gateway.folder / "third.toml"
    config.write_text(toml_of(tables), encoding="utf-8")
    return config


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_takeovers_under_load_lose_and_overspend_nothing(stage: Stage) -> None:
    stage.echo()
    load = Load(stage, [stage.guest(f"hello {n}") for n in range(3)])
    with load.running():
        for _ in range(TAKEOVERS):
            load.goes_on()
            second = Second(stage)
            stage.echo()
            assert second.first.exited(8) == REPLACED
    load.check()
    assert stage.gateway.get("/v1/accounts")["accounts"][0]["epoch"] == 1 + TAKEOVERS
    stage.gateway.sound()
