"""Tokens, context tokens and texts appear in no log, no metric and no answer of a whole run at the default level."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import pytest

from tests.e2e.asking import ask
from tests.e2e.gateway import Gateway
from tests.e2e.hand import Hand
from tests.e2e.phones import MINUTE, Login
from tests.e2e.processes import eventually
from tests.e2e.stage import stage_in

HTTP_TOKEN, AGENT_TOKEN, CONTEXT = "http-secret-5f1d", "agent-secret-77aa", "context-secret-90ab"
ASKED, ANSWERED, PUSHED, FAILED = "asked-in-private", "answered-in-private", "pushed-in-private", "failed-in-private"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_whole_run_tells_no_secret(tmp_path: Path, log_format: str) -> None:
    def configure(gateway: Gateway) -> None:
        gateway.tables["http"]["token"] = "env:E2E_HTTP"
        gateway.tables["agents"]["token"] = "env:E2E_AGENT"
        gateway.tables["logging"] = {"format": log_format}

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
        assert len(said) > 15

        for secret in (stage.login.token, CONTEXT, HTTP_TOKEN, AGENT_TOKEN, ASKED, ANSWERED, PUSHED, FAILED):
            for text in said:
                assert secret not in text, f"{secret} in {text[:2000]}"


def test_what_is_kept_is_for_this_user_alone(tmp_path: Path) -> None:
    with stage_in(tmp_path) as stage:
        stage.echo()
        stage.guest()
        for path in [stage.gateway.state, *stage.gateway.state.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has {mode:o}"


def test_a_login_that_others_can_read_is_said(tmp_path: Path) -> None:
    with stage_in(tmp_path) as stage:
        file = stage.gateway.state / "accounts" / "main.json"
        file.chmod(0o644)
        ended = stage.gateway.run("doctor")
        assert "main.json" in ended.out + ended.err
        assert Login().token not in ended.out + ended.err
