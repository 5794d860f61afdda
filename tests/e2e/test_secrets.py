"""Tokens, context tokens and texts appear in no log, metric, event, process list or answer of a whole run, however much it tells; files
are for this user alone whatever the umask; and a listener that others could reach has a token."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.e2e.asking import ask
from tests.e2e.gateway import Gateway
from tests.e2e.hand import Hand
from tests.e2e.phones import MINUTE, Login, Phones
from tests.e2e.processes import Child, eventually
from tests.e2e.stage import Stage, stage_in

HTTP_TOKEN, AGENT_TOKEN, CONTEXT = "http-secret-5f1d", "agent-secret-77aa", "context-secret-90ab"
ASKED, ANSWERED, PUSHED, FAILED = "asked-in-private", "answered-in-private", "pushed-in-private", "failed-in-private"
SECRETS = {Login().token, CONTEXT, HTTP_TOKEN, AGENT_TOKEN, ASKED, ANSWERED, PUSHED, FAILED}


@pytest.mark.parametrize(("log_format", "level"), [("text", "info"), ("json", "info"), ("json", "debug")])
def test_a_whole_run_tells_no_secret(tmp_path: Path, log_format: str, level: str) -> None:
    def configure(gateway: Gateway) -> None:
        gateway.tables["http"]["token"] = "env:E2E_HTTP"
        gateway.tables["agents"]["token"] = "env:E2E_AGENT"
        gateway.tables["logging"] = {"format": log_format, "level": level}

    env = {"E2E_HTTP": HTTP_TOKEN, "E2E_AGENT": AGENT_TOKEN}
    bearer = {"Authorization": f"Bearer {HTTP_TOKEN}"}
    with stage_in(tmp_path, configure, **env) as stage:
        gateway, phones = stage.gateway, stage.phones
        phones.knobs(expired_tokens="accept")
        said: list[str] = []

        def turn(text: str, turn_id: str) -> str:
            body = {"to": "weixin:main", "text": text, "turn_id": turn_id}
            return str(ask(gateway.url, "POST", "/v1/turns", body, **bearer).body["deliveries"][0]["delivery"])

        def receipt(delivery: str) -> str:
            answer = ask(gateway.url, "GET", f"/v1/deliveries/{delivery}?wait=10", **bearer)
            said.append(json.dumps(answer.body))
            return str(answer.body["state"])

        owner = stage.owner()
        with Hand(f"{gateway.agents_url}?token={AGENT_TOKEN}") as agent:
            owner.says(ASKED, context_token=CONTEXT)
            agent.answers(agent.takes(owner.address), ANSWERED)
            agent.say_raw('{"type":"completed","turn_id":"x","text":"' + FAILED + '","wrong":1}')
            agent.hear("error")
        assert receipt(turn(PUSHED, "push-1")) == "delivered"
        phones.faults(where="send", kind="ret", code=-2, errmsg=f"prepare failed for {CONTEXT}: {PUSHED}")
        refused = turn(PUSHED, "push-2")
        eventually(lambda: len(owner.refused) == 1)
        phones.faults(where="poll", kind="http", status=502)
        phones.faults(where="poll", kind="ret", code=-1, errmsg=stage.login.token)
        owner.says(ASKED, context_token=CONTEXT + "-2")
        assert receipt(refused) == "delivered"
        ask(
            gateway.url,
            "POST",
            "/v1/turns",
            None,
            b'{"to": "weixin:main", "text": "' + FAILED.encode() + b'", "x": 1}',
            **bearer,
        )
        ask(gateway.url, "GET", f"/v1/peers?token={HTTP_TOKEN}")
        phones.post("kill")
        eventually(lambda: (a := gateway.ready()) is not None and a.status == 503)
        gateway.child.signal(signal.SIGHUP)
        eventually(lambda: "was reread" in gateway.child.err)
        said += logged_in_anew(stage, env)
        wait_at = f"{gateway.agents_url}?token={AGENT_TOKEN}x"
        with pytest.raises(InvalidStatus), connect(wait_at, proxy=None):
            pass
        said += process_list()
        said += crashed_with_a_spool(stage, env)
        stage.clock.advance(MINUTE)

        said.append(ask(gateway.url, "GET", "/metrics", **bearer).body)
        paths = ("/v1/status", "/v1/accounts", "/v1/peers", "/v1/ledger", "/v1/dead", "/v1/backlog", "/ready")
        said += [json.dumps(ask(gateway.url, "GET", path, **bearer).body) for path in paths]
        for verb in (
            ["audit"],
            ["replay"],
            ["explain", "push-2"],
            ["events", "export"],
            ["events", "tail", "-n", "100"],
        ):
            ended = gateway.run("--json", *verb)
            assert ended.code == 0, ended
            said.append(ended.out + ended.err)
        gateway.child.signal(signal.SIGTERM)
        assert gateway.child.exited() == 0
        said += [text for _, text in stage.logs()]
        said += tables_but_bodies(gateway.state)
        assert len(said) > 20

        for secret in SECRETS:
            for text in said:
                assert secret not in text, f"{secret} in {text[:2000]}"
        assert level in stage.gateway.child.err or level == "info", "nothing was told at this level"


def logged_in_anew(stage: Stage, env: dict[str, str]) -> list[str]:
    """What a login by QR code says, which a running gateway takes up."""
    gateway = stage.gateway
    verb = ["scripts", "-v", "login", "weixin", "--account", "main", "--config", str(gateway.config)]
    login = Child("login", verb, stage.folder, HOME=str(stage.folder / "home"), **env)
    stage.children.append(login)
    eventually(lambda: "Scan the code" in login.err)
    stage.phones.post("qr/scan")
    stage.phones.post("qr/confirm")
    assert login.exited() == 0, login.err
    kept = json.loads((gateway.state / "accounts" / "main.json").read_bytes())
    SECRETS.add(kept["token"])
    assert kept["token"] != stage.login.token
    eventually(lambda: (a := gateway.ready()) is not None and a.status == 200)
    return ["".join(login.out), login.err]


def crashed_with_a_spool(stage: Stage, env: dict[str, str]) -> list[str]:
    """What is said of a gateway that was killed within a send, of turns that were left meanwhile, and of its next start."""
    gateway = stage.gateway
    stage.phones.faults(where="send", kind="cut_after")
    stage.phones.post("say", text=ASKED, user=stage.login.user_id, message={"context_token": CONTEXT + "-3"})
    gateway.child.kill()
    left = []
    for to in (stage.owner().address, "weixin:main:nobody@im.wechat"):
        left.append(gateway.run("send", "--json", "-t", to, "--spool", "-", stdin=PUSHED.encode(), **env))
        assert left[-1].code == 75, left[-1]
    gateway.start(**env)
    eventually(lambda: "was set aside" in gateway.child.err)
    return [ended.out + ended.err for ended in left]


def process_list() -> list[str]:
    """The arguments of all processes that this user may look at."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    # the server's own arguments stand for the phone, which knows the login
    return [line for line in found if "simulators.weixin" not in line]


def tables_but_bodies(state: Path) -> list[str]:
    """Every row of every table of the log but the one for texts, tokens and names."""
    (file,) = [p for p in state.iterdir() if p.is_file() and p.read_bytes()[:15] == b"SQLite format 3"]
    log = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        names = [n for (n,) in log.execute("SELECT name FROM sqlite_schema WHERE type = 'table'") if n != "bodies"]
        assert "events" in names
        return [repr(log.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names]
    finally:
        log.close()


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask that lets everybody do everything."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
def test_what_is_kept_is_for_this_user_alone(tmp_path: Path) -> None:
    seen: set[str] = set()

    def look() -> None:
        kept = [stage.gateway.state, *stage.gateway.state.rglob("*"), *tmp_path.glob("*.backup")]
        for path in kept:
            with contextlib.suppress(FileNotFoundError):
                mode = stat.S_IMODE(path.stat().st_mode)
                assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has {mode:o}"
                seen.add(path.suffix or path.name)

    with stage_in(tmp_path) as stage:
        gateway = stage.gateway
        gateway.verb("send", "-t", stage.owner().address, "hello", code=75)
        look()
        stage.phones.post("say", text="hello", user=stage.login.user_id)
        look()
        gateway.verb("backup", "copy.backup")
        gateway.child.signal(signal.SIGTERM)
        assert gateway.child.exited() == 0
        gateway.verb("send", "-t", stage.owner().address, "--spool", "later", code=75)
        look()
        gateway.verb("audit", "--head")
        look()
    assert {".backup", ".json", "spool", "accounts"} <= seen, seen


def test_a_crash_leaves_no_core_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))  # what a tester allows is inherited
    try:
        with stage_in(tmp_path) as stage:
            limits = Path(f"/proc/{stage.gateway.child.process.pid}/limits").read_text(encoding="ascii")
            (core,) = [line.split() for line in limits.splitlines() if line.startswith("Max core file size")]
            assert core[4] == "0", core
            stage.gateway.child.signal(signal.SIGABRT)
            assert stage.gateway.child.exited() == -signal.SIGABRT
            assert [p for p in tmp_path.rglob("core*") if p.is_file()] == []
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_a_login_that_others_can_read_is_said(tmp_path: Path) -> None:
    with stage_in(tmp_path) as stage:
        file = stage.gateway.state / "accounts" / "main.json"
        file.chmod(0o644)
        ended = stage.gateway.run("doctor")
        assert "main.json" in ended.out + ended.err
        assert Login().token not in ended.out + ended.err


# --- servers that a server names ----------------------------------------------------------------------------------------

ELSEWHERE = (
    "evil.example",
    "evil.example%2f.weixin.qq.com",
    "169.254.169.254",
    "127.0.0.1:9@evil.example",
    "sz.weixin.qq.com/..",
)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_a_login_follows_no_server_elsewhere(offline: Gateway, phones: Phones, host: str) -> None:
    offline.account["base_url"] = phones.url
    offline.write()
    kept = (offline.state / "accounts" / "main.json").read_bytes()
    login = Child(
        "login", ["scripts", "login", "weixin", "-a", "main", "--config", str(offline.config)], offline.folder
    )
    offline.children.append(login)
    eventually(lambda: "Scan the code" in login.err)
    phones.post("qr/redirect", host=host)
    assert login.exited() == 1, login.err
    assert "server" in login.err
    assert "Traceback" not in login.err
    assert (offline.state / "accounts" / "main.json").read_bytes() == kept


@pytest.fixture
def phones(tmp_path: Path) -> Iterator[Phones]:
    """A Weixin server alone."""
    found = Phones(tmp_path, None, Login())
    yield found
    found.child.end()


# --- listeners --------------------------------------------------------------------------------------------------------


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[Gateway]:
    """A configuration that is right but for what the test does to it, and nobody who runs it."""
    gateway = Gateway(tmp_path, Login(), "http://127.0.0.1:9", "http://127.0.0.1:9")
    del gateway.tables["clock"]
    gateway.log_in()
    yield gateway
    gateway.end()


BEYOND = ("0.0.0.0", "[::]", "192.0.2.7", "example.org", "127.0.0.1.example.org", "localhost.example.org")


@pytest.mark.parametrize("listener", ["http", "agents"])
@pytest.mark.parametrize("host", BEYOND)
def test_a_listener_that_others_can_reach_needs_a_token(offline: Gateway, listener: str, host: str) -> None:
    offline.tables[listener]["listen"] = f"{host}:0"
    offline.write()
    ended = offline.run("run")
    assert ended.code == 78, ended
    assert f"{listener}.token is needed" in ended.err
    assert [p.name for p in offline.state.iterdir()] == ["accounts"], "something was opened first"


@pytest.mark.parametrize("listener", ["http", "agents"])
def test_an_empty_token_is_none(offline: Gateway, listener: str) -> None:
    offline.tables[listener] |= {"listen": "0.0.0.0:0", "token": "env:E2E_EMPTY"}
    offline.write()
    for value in ("", "  ", "caf\u00e9", "a b"):
        ended = offline.run("run", E2E_EMPTY=value)
        assert ended.code == 78, ended
        assert "caf" not in ended.err


def test_hup_opens_no_listener_to_others(stage: Stage) -> None:
    gateway = stage.gateway
    for listener, port in (("http", gateway.http_port), ("agents", gateway.agents_port)):
        kept = dict(gateway.tables[listener])
        gateway.tables[listener] = {"listen": f"0.0.0.0:{port}"}
        gateway.write()
        before = gateway.child.err.count("was not reread")
        gateway.child.signal(signal.SIGHUP)
        eventually(lambda seen=before: gateway.child.err.count("was not reread") > seen)
        assert f"{listener}.token is needed" in gateway.child.err
        gateway.tables[listener] = kept
    assert listening_at(gateway.http_port, gateway.agents_port) == {"127.0.0.1"}
    assert gateway.ready() is not None


def listening_at(*ports: int) -> set[str]:
    """The addresses at which anybody of this machine listens on these ports."""
    found = set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        host, port = local.split(":")
        if state == "0A" and int(port, 16) in ports:
            found.add(socket.inet_ntoa(bytes.fromhex(host)[::-1]))
    for line in Path("/proc/net/tcp6").read_text(encoding="ascii").splitlines()[1:]:
        port = line.split()[1].split(":")[1]
        if line.split()[3] == "0A" and int(port, 16) in ports:
            found.add("v6")
    return found


def test_a_token_may_be_missing_from_the_second_listener_alone_on_loopback(tmp_path: Path) -> None:
    """Each listener is judged by itself: the token of one is no token of the other."""

    def configure(gateway: Gateway) -> None:
        gateway.tables["http"] |= {"token": "env:E2E_HTTP"}

    with stage_in(tmp_path, configure, E2E_HTTP=HTTP_TOKEN) as stage:
        assert ask(stage.gateway.url, "GET", "/v1/status").status == 401
        with Hand(stage.gateway.agents_url):
            pass
