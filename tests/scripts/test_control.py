"""The verbs that ask and control a running gateway."""

from __future__ import annotations

from typing import Any

import pytest

from actors.gateway import api
from scripts.asking.client import PORT_FILE
from tests.gateway.fake import FakeGateway
from tests.scripts.console import TOKEN, Console

ALICE = "weixin:main:alice@im.wechat"


@pytest.mark.parametrize(
    ("args", "order"),
    [
        (["bind", ALICE, "s2"], api.BindOrder(peer=ALICE, session="s2", who="cli:tester")),
        (["unbind", ALICE], api.UnbindOrder(peer=ALICE, who="cli:tester")),
        (
            ["pause", "weixin:main", "--for", "2h"],
            api.PauseOrder(scope="weixin:main", for_ms=7_200_000, who="cli:tester"),
        ),
        (["pause", ALICE], api.PauseOrder(scope=ALICE, for_ms=None, who="cli:tester")),
        (["resume", ALICE], api.ResumeOrder(scope=ALICE, who="cli:tester")),
        (["backlog", "flush", ALICE], api.FlushOrder(peer=ALICE, who="cli:tester")),
        (["accounts", "restart", "main"], api.AccountOrder(account="main", action="restart", who="cli:tester")),
        (["accounts", "logout", "main"], api.AccountOrder(account="main", action="logout", who="cli:tester")),
        (["access", "grant", ALICE], api.AccessOrder(peer=ALICE, action="grant", who="cli:tester")),
        (["erase", "--peer", ALICE, "--yes"], api.EraseOrder(peer=ALICE, who="cli:tester")),
    ],
)
async def test_orders(console: Console, gateway: FakeGateway, args: list[str], order: api.Request) -> None:
    ended = await console.run(*args, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert gateway.orders == [order]
    assert len(ended.rows) == 1


async def test_status_health_and_accounts(console: Console, gateway: FakeGateway) -> None:
    status = await console.run("status")
    assert status.code == 0
    assert "ready" in status.out
    assert "weixin:main" in status.out
    assert (await console.run("status", "--json")).rows[0]["position"] == 17
    assert (await console.run("health", "--json")).rows[0]["ready"] is True
    gateway.is_ready = False
    health = await console.run("health")
    assert health.code == 1
    assert "weixin:main needs a login" in health.out
    assert (await console.run("accounts", "list", "--json")).rows[0]["account"] == "weixin:main"


async def test_peers_cannot_command_the_terminal(console: Console) -> None:
    ended = await console.run("peers")
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert (await console.run("peers", "--json")).rows[0]["peer"] == ALICE
    one = await console.run("peers", ALICE)
    assert "\x1b" not in one.out
    assert "[bold]Alice[/bold]" in one.out  # no markup of ours either
    assert "quota 7 of 10 left" in one.out
    assert (await console.run("peers", "weixin:main:zzz")).code == 1
    assert (await console.run("peers", "--account", "mian")).code == 1


async def test_the_life_of_an_output(console: Console) -> None:
    await console.run("send", "-t", ALICE, "--turn-id", "t1", "hel\x1b[31mlo")
    listed = await console.run("backlog", "list")
    assert f"{ALICE}  waits for the peer's next message" in listed.out
    (row,) = (await console.run("backlog", "list", "--json", "--peer", ALICE)).rows
    delivery = row["waiting"][0]["delivery"]
    shown = await console.run("backlog", "show", delivery[:6])
    assert shown.out.endswith("hel�[31mlo\n")
    dropped = await console.run("backlog", "drop", delivery[:6])
    assert dropped.out == f"dropped: {delivery} (turn t1)\n"
    dead = await console.run("dead", "list")
    assert "operator" in dead.out
    assert (await console.run("dead", "show", delivery, "--json")).rows[0]["text"] == "hel\x1b[31mlo"
    retried = await console.run("dead", "retry", delivery[:6], "--json")
    assert retried.rows[0]["state"] == "queued"
    await console.run("backlog", "drop", delivery)
    assert (await console.run("dead", "discard", delivery)).out == f"discarded: {delivery} (turn t1)\n"
    nothing = await console.run("dead", "list")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "nothing\n")
    assert (await console.run("dead", "show", "zzz")).code == 1


EVERY: list[list[str]] = [
    ["status"],
    ["health"],
    ["peers"],
    ["backlog", "list"],
    ["dead", "list"],
    ["accounts", "list"],
    ["bind", ALICE, "s"],
    ["resume", ALICE],
]


async def test_none_answers_is_69(lonely: Console) -> None:
    for args in EVERY:
        ended = await lonely.run(*args)
        assert (ended.code, ended.out) == (69, "")


async def test_a_wrong_token_is_78(console: Console) -> None:
    console.env["RL_TOKEN"] = "wrong"
    ended = await console.run("status")
    assert ended.code == 78
    assert "refuses the token" in ended.err


async def test_a_port_0_is_found_in_the_state_folder(console: Console, gateway: FakeGateway) -> None:
    console.write(0)
    assert (await console.run("status")).code == 69
    (console.folder / "state").mkdir()
    (console.folder / "state" / PORT_FILE).write_text(f"{gateway.port}\n")
    assert (await console.run("status")).code == 0


async def test_a_port_0_without_a_gateway_spools(console: Console) -> None:
    console.write(0)
    ended = await console.run("send", "-t", ALICE, "--spool", "x")
    assert ended.code == 75
    assert "left in" in ended.out


async def test_no_proxy_is_asked(console: Console) -> None:
    proxy: dict[str, Any] = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    console.env |= proxy
    assert (await console.run("status")).code == 0
    assert TOKEN  # the console checks that no output holds it
