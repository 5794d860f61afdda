"""How a gateway starts and ends: exit codes, signals, the configuration read anew, logins lost and found."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.phones import ClockSource, Login, Phones
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage, stage_in

DONE, FAILED, NOT_RUNNING, LOGIN_LOST, CONFIG_REFUSED = 0, 1, 69, 77, 78


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[Gateway]:
    """A configuration that is right, and nobody who runs it. Its server and its clock do not exist."""
    gateway = Gateway(tmp_path, Login(), "http://127.0.0.1:9", "http://127.0.0.1:9")
    del gateway.tables["clock"]
    gateway.write()
    gateway.log_in()
    yield gateway
    gateway.end()


def refused(gateway: Gateway, code: int) -> str:
    """A start that must fail; what it says."""
    child = gateway.launch()
    assert child.exited() == code
    assert child.out == []
    return child.err


# --- starting -----------------------------------------------------------------------------------------------------


def test_a_port_in_use_ends_with_1_and_claims_nothing(stage: Stage) -> None:
    (before,) = stage.gateway.get("/v1/accounts")["accounts"]
    stage.gateway.launch()
    other = stage.gateway.children.pop()
    stage.children.append(other)
    assert other.exited() == FAILED
    assert "cannot listen" in other.err
    assert str(stage.gateway.http_port) in other.err
    (after,) = stage.gateway.get("/v1/accounts")["accounts"]
    assert after == before | {"last_poll_at": after["last_poll_at"]}


def test_a_port_in_use_by_a_stranger(offline: Gateway) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", offline.http_port))
        stranger.listen()
        assert "cannot listen" in refused(offline, FAILED)


def test_a_missing_secret_ends_with_78_and_is_named(offline: Gateway) -> None:
    offline.tables["http"]["token"] = "env:NOWHERE_TO_BE_FOUND"
    offline.write()
    said = refused(offline, CONFIG_REFUSED)
    assert "NOWHERE_TO_BE_FOUND" in said
    assert "http.token" in said
    assert not (offline.state / "log.sqlite").exists()


def test_an_unknown_key_ends_with_78_and_names_the_nearest(offline: Gateway) -> None:
    offline.policy["quota_replys"] = 9
    offline.write()
    said = refused(offline, CONFIG_REFUSED)
    assert "accounts.main.policy.quota_replys" in said
    assert "did you mean 'quota_replies'" in said


def test_a_wrong_unit_ends_with_78(offline: Gateway) -> None:
    offline.policy["backlog_age"] = "1 fortnight"
    offline.write()
    assert "accounts.main.policy.backlog_age" in refused(offline, CONFIG_REFUSED)


def test_a_simulated_clock_and_a_real_server_end_with_78(offline: Gateway) -> None:
    offline.tables["clock"] = "http://127.0.0.1:9"
    offline.account["base_url"] = "https://ilinkai.weixin.qq.com"
    offline.write()
    assert "is not loopback" in refused(offline, CONFIG_REFUSED)


def test_a_login_file_that_is_none_ends_with_78(offline: Gateway) -> None:
    (offline.state / "accounts" / "main.json").write_text("{not json")
    said = refused(offline, CONFIG_REFUSED)
    assert "is no login" in said
    assert "replyledger login" in said


def test_a_file_that_is_no_log_ends_with_1_and_stays_as_it_is(offline: Gateway) -> None:
    strange = offline.state / "log.sqlite"
    strange.write_bytes(b"these are not the bytes of a database" * 40)
    said = refused(offline, FAILED)
    assert str(strange) in said
    assert strange.read_bytes().startswith(b"these are not")


def test_verbs_without_a_gateway_end_with_69(offline: Gateway) -> None:
    for args in (["status"], ["send", "-t", "weixin:main", "hello"], ["pause", "weixin:main"], ["dead", "list"]):
        ended = offline.run(*args)
        assert ended.code == NOT_RUNNING, (args, ended)
        assert "replyledger run" in ended.err
    assert offline.run("send", "-t", "weixin:main", "--spool", "--turn-id", "s-1", "later").code == 75


def test_what_was_spooled_is_taken_in_at_the_next_start(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    stage.gateway.child.kill()
    assert (
        stage.gateway.run("send", "-t", guest.address, "--spool", "--turn-id", "spool-1", "from the spool").code == 75
    )
    stage.gateway.start()
    stage.answered(guest, 2)
    assert guest.reads[-1] == "from the spool"
    assert stage.gateway.explain("spool-1")["state"] == "delivered"


# --- signals ------------------------------------------------------------------------------------------------------


def test_term_drains_what_is_in_flight_and_ends_with_0(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    stage.phones.faults(where="send", kind="slow_headers", ms=5_000, user=guest.id)
    sent = stage.gateway.offer(guest.address, "in flight", turn_id="drain-1")
    eventually(lambda: len(guest.accepted) == 2, "the server took it")
    stage.gateway.child.signal(signal.SIGTERM)
    eventually(lambda: (a := stage.gateway.ready()) is None or a.status == 503, "not ready any more")
    assert stage.gateway.child.running
    stage.clock.advance(6_000)

    assert stage.gateway.child.exited() == DONE
    stage.gateway.start()
    assert stage.gateway.receipt(sent["delivery"])["state"] == "delivered"
    assert stage.phones.counters().get("stops", 1) >= 1
    stage.gateway.sound()


def test_a_second_term_stops_now_and_loses_nothing(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    stage.phones.faults(where="send", kind="slow_headers", ms=3_600_000, user=guest.id)
    sent = stage.gateway.offer(guest.address, "in flight", turn_id="now-1")
    eventually(lambda: len(guest.accepted) == 2, "the server took it")
    child = stage.gateway.child
    child.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in child.err, "it drains")
    child.signal(signal.SIGTERM)

    assert child.exited(5) == FAILED
    stage.gateway.start()
    assert stage.gateway.receipt(sent["delivery"])["state"] == "unknown"
    assert stage.gateway.ledger(guest.address)[-1]["charged"]
    stage.gateway.sound()


def test_hup_rereads_the_policy(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    assert stage.gateway.peer(guest.address)["share"]["of"] == 3
    stage.gateway.policy["share_replies"] = 1
    stage.gateway.write()
    stage.gateway.child.signal(signal.SIGHUP)
    eventually(lambda: stage.gateway.peer(guest.address)["share"]["of"] == 1, "the new policy")

    assert stage.gateway.receipt(stage.gateway.offer(guest.address, "one")["delivery"])["state"] == "delivered"
    held = stage.gateway.offer(guest.address, "two", turn_id="hup-2")
    assert stage.gateway.explain("hup-2")["blocked_by"] == "share_spent"
    assert "1 of 1" in held["reason"]

    stage.gateway.policy["share_replies"] = 2
    stage.gateway.write()
    stage.gateway.child.signal(signal.SIGHUP)
    assert stage.gateway.receipt(held["delivery"])["state"] == "delivered"  # what waits is looked at again


def test_hup_with_a_wrong_configuration_keeps_the_old_one(stage: Stage) -> None:
    stage.gateway.config.write_text("this is = no toml [", encoding="utf-8")
    stage.gateway.child.signal(signal.SIGHUP)
    eventually(lambda: "the configuration was not reread" in stage.gateway.child.err, "the refusal")
    ready = stage.gateway.ready()
    assert ready is not None
    assert ready.status == 200


# --- logins -------------------------------------------------------------------------------------------------------


def test_a_lost_login_is_degraded_and_visible_and_a_fresh_one_is_picked_up(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    stage.phones.post("kill")
    eventually(lambda: (a := stage.gateway.ready()) is not None and a.status == 503, "/ready says so")
    ready = stage.gateway.ready()
    assert ready is not None
    assert "login_lost" in ready.body["reasons"][0]
    kept = stage.gateway.offer(guest.address, "kept over the login", turn_id="login-1")
    assert kept["state"] == "queued"
    assert stage.gateway.explain("login-1")["blocked_by"] == "login_lost"
    assert stage.gateway.child.running
    stage.gateway.child.kill()
    stage.gateway.start()  # a restart remembers that the login is lost, and does not poll with it
    polls = stage.phones.counters()["polls"]
    stage.clock.advance(300_000)
    assert stage.phones.counters()["polls"] == polls

    fresh = Login(token="secret-bot-token-2@im.bot:0600", bot_id="bot2@im.bot", user_id=stage.login.user_id)
    stage.phones.post("accounts", token=fresh.token, bot_id=fresh.bot_id, user_id=fresh.user_id)
    stage.phones.post("users", user=guest.id, bot=fresh.bot_id)
    stage.gateway.log_in(fresh)
    eventually(lambda: (a := stage.gateway.ready()) is not None and a.status == 200, "ready again", 15)
    assert stage.gateway.explain("login-1")["blocked_by"] == "no_token"

    guest.says("back again")
    assert stage.gateway.receipt(kept["delivery"])["state"] == "delivered"
    assert "kept over the login" in guest.reads
    assert fresh.token not in stage.gateway.child.err


def test_a_login_that_is_lost_ends_with_77_where_the_configuration_says_so(tmp_path: Path) -> None:
    def exits(gateway: Gateway) -> None:
        gateway.account["login_lost"] = "exit"

    with stage_in(tmp_path, exits) as stage:
        stage.phones.post("kill")
        assert stage.gateway.child.exited() == LOGIN_LOST
        assert "replyledger login" in stage.gateway.child.err


def test_without_a_login_it_waits_for_one(tmp_path: Path) -> None:
    clock = ClockSource(tmp_path)
    login = Login()
    phones = Phones(tmp_path, clock, login)
    gateway = Gateway(tmp_path, login, phones.url, clock.url)
    gateway.write()
    try:
        gateway.start()
        ready = gateway.ready()
        assert ready is not None
        assert ready.status == 503
        assert "login_needed" in ready.body["reasons"][0]
        gateway.log_in()
        eventually(lambda: (a := gateway.ready()) is not None and a.status == 200, "ready", 15)
        assert phones.rows("violations") == []
    finally:
        gateway.end()
        phones.child.end()
        clock.child.end()


def test_hup_says_what_only_a_restart_changes(stage: Stage) -> None:
    child = stage.gateway.child
    accounts = stage.gateway.tables["accounts"]
    stage.gateway.tables["accounts"] = {"other": accounts["main"]}
    stage.gateway.tables["http"] = {"listen": "127.0.0.1:1"}
    stage.gateway.write()
    child.signal(signal.SIGHUP)
    eventually(lambda: "the configuration was reread" in child.err)
    for said in ("account main was removed", "account other was added", "[http]"):
        assert any(said in line and "restart" in line for line in child.err.splitlines()), child.err

    stage.phones.post("kill")  # the account that is configured no more goes on, whatever happens to it
    eventually(lambda: (a := stage.gateway.ready()) is not None and a.status == 503, "/ready says so")
    assert child.running
    assert "Traceback" not in child.err
