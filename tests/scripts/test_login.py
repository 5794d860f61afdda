from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from actors.gateway import api
from tests.gateway.fake import FakeGateway
from tests.scripts.console import Console

SECRET = "a1b2c3@im.bot:0600deadbeef"


class Weixin:
    """A server that shows a code, and confirms it after the states it is given."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    async def create(self, request: web.Request) -> web.Response:
        self.asked.append(("create", await request.json()))
        return web.json_response(
            {"ret": 0, "qrcode": "0" * 32, "qrcode_img_content": "https://liteapp.weixin.qq.com/q/x?qrcode=0"}
        )

    async def status(self, request: web.Request) -> web.Response:
        self.asked.append(("status", dict(request.query)))
        return web.json_response(self.answers.pop(0) if self.answers else {"status": "wait"})

    def confirm(self) -> None:
        self.answers.append(
            {
                "status": "confirmed",
                "bot_token": SECRET,
                "ilink_bot_id": "a1b2c3@im.bot",
                "ilink_user_id": "alice@im.wechat",
                "baseurl": self.url,
            }
        )


@pytest.fixture
async def weixin() -> AsyncIterator[Weixin]:
    server = Weixin()
    app = web.Application()
    app.router.add_post("/ilink/bot/get_bot_qrcode", server.create)
    app.router.add_get("/ilink/bot/get_qrcode_status", server.status)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
def here(console: Console, gateway: FakeGateway, weixin: Weixin) -> Console:
    """The console of an account on that server."""
    console.write(gateway.port, f'base_url = "{weixin.url}"\n')
    return console


def _kept(console: Console) -> Path:
    return console.folder / "state" / "accounts" / "main.json"


async def test_a_scanned_login_is_kept_privately_and_taken_up(
    here: Console, gateway: FakeGateway, weixin: Weixin
) -> None:
    weixin.answers.append({"status": "scaned"})
    weixin.confirm()
    ended = await here.run("login", "weixin", "--account", "main", "--json", "-q")
    assert ended.code == 0, ended.err
    assert ended.rows == [
        {"account": "weixin:main", "owner": "weixin:main:alice@im.wechat", "file": str(_kept(here)), "fresh": True}
    ]
    assert "https://liteapp.weixin.qq.com/q/x?qrcode=0" in ended.err  # beside the drawn code
    assert "█" in ended.err or "▄" in ended.err or "▀" in ended.err
    assert SECRET not in ended.out + ended.err
    assert json.loads(_kept(here).read_bytes())["token"] == SECRET
    assert (_kept(here).stat().st_mode & 0o777, _kept(here).parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert gateway.orders == [api.AccountOrder(account="weixin:main", action="restart", who="cli:tester")]
    assert [p.name for p in _kept(here).parent.iterdir()] == ["main.json"]


async def test_digits_are_asked_for(here: Console, weixin: Weixin) -> None:
    weixin.answers.append({"status": "need_verifycode"})
    weixin.confirm()
    ended = await here.run("login", "weixin", "-a", "main", stdin=b"4711\n")
    assert ended.code == 0, ended.err
    assert weixin.asked[-1][1]["verify_code"] == "4711"
    weixin.answers.append({"status": "need_verifycode"})
    assert (await here.run("login", "weixin", "-a", "main")).code == 1


async def test_the_known_login_is_told_and_may_still_be_good(here: Console, weixin: Weixin) -> None:
    weixin.confirm()
    await here.run("login", "weixin", "-a", "main")
    weixin.answers.append({"status": "binded_redirect"})
    again = await here.run("login", "weixin", "-a", "main", "--json")
    assert (again.code, again.rows[0]["fresh"]) == (0, False)
    creates = [body for what, body in weixin.asked if what == "create"]
    assert [c["local_token_list"] for c in creates] == [[], [SECRET]]


async def test_a_login_that_is_kept_elsewhere(here: Console, weixin: Weixin) -> None:
    weixin.answers.append({"status": "binded_redirect"})
    ended = await here.run("login", "weixin", "-a", "main")
    assert ended.code == 1
    assert "--import" in ended.err


async def test_import(here: Console, weixin: Weixin) -> None:
    (here.folder / "other.json").write_text(
        json.dumps({"token": SECRET, "baseUrl": weixin.url, "userId": "alice@im.wechat"})
    )
    ended = await here.run("login", "weixin", "-a", "main", "--import", "other.json")
    assert ended.code == 0, ended.err
    assert SECRET not in ended.out + ended.err
    assert json.loads(_kept(here).read_bytes())["token"] == SECRET
    assert weixin.asked == []


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), ("{}", "account file"), ("nonsense", "not JSON"), ('{"token": "t"}', "account file")],
)
async def test_a_bad_import_is_1_and_changes_nothing(here: Console, content: str | None, says: str) -> None:
    if content is not None:
        (here.folder / "other.json").write_text(content)
    ended = await here.run("login", "weixin", "-a", "main", "--import", "other.json")
    assert ended.code == 1
    assert says in ended.err
    assert not _kept(here).exists()


async def test_a_gateway_need_not_run(lonely: Console, weixin: Weixin) -> None:
    lonely.write(9, f'base_url = "{weixin.url}"\n')
    weixin.confirm()
    ended = await lonely.run("login", "weixin", "-a", "main")
    assert ended.code == 0
    assert "no gateway runs yet" in ended.err


async def test_an_account_that_is_not_configured_is_78(here: Console) -> None:
    ended = await here.run("login", "weixin", "-a", "mian")
    assert ended.code == 78
    assert "known: main" in ended.err
