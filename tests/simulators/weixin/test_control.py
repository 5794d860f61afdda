"""The control API over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from scripts.simulators.clock import ManualClock
from scripts.simulators.weixin.control import guard
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.server import WeixinServer, running
from tests.simulators.asking import OWNER, START, Bot, read, text_item, texts

GUEST = "o9Guest@im.wechat"


class Desk:
    """Asks the control API; `bot` talks to the same model from the other side."""

    def __init__(self, http: aiohttp.ClientSession, server: WeixinServer, clock: ManualClock) -> None:
        self.http, self.server, self.clock = http, server, clock
        self.bot = Bot(model=server.model)

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.http.request(method, f"/control/{path}", json=body) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> Any:
        status, value = await self.ask("GET", path)
        assert status == 200, value
        return value

    async def post(self, path: str, **body: Any) -> Any:
        status, value = await self.ask("POST", path, body)
        assert status == 200, value
        return value


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    clock = ManualClock(START)
    server = running(WeixinModel(accounts=[OWNER]), clock=clock)
    async with server as shell, aiohttp.ClientSession(shell.base_url) as http:
        yield Desk(http, shell, clock)


async def test_say_and_read_everything_back(desk: Desk) -> None:
    said = await desk.post("say", text="hi")
    assert texts(desk.bot.updates()) == ["hi"]
    desk.bot.send("yo")
    desk.bot.send("no", user=OWNER.user_id.upper())
    assert [row["text"] for row in (await desk.get("ledger/accepted"))["accepted"]] == ["yo"]
    shown = (await desk.get("ledger/shown"))["shown"]
    assert [(row["by"], row["text"]) for row in shown] == [("user", "hi"), ("bot", "yo")]
    assert shown[0]["message_id"] == said["message_id"]
    assert (await desk.get("ledger/shown?since=1"))["shown"] == shown[1:]
    assert [row["code"] for row in (await desk.get("ledger/refused"))["refused"]] == [-3]
    assert [row["rule"] for row in (await desk.get("ledger/violations"))["violations"]] == ["user_case"]


async def test_the_quota_of_a_user(desk: Desk) -> None:
    assert (await desk.get("user"))["windows"] == []
    await desk.post("say", text="hi")
    desk.bot.send()
    view = await desk.get(f"user?bot={OWNER.bot_id}&user={OWNER.user_id}")
    assert (view["open"], view["left"], view["closes_at"]) == (True, 9, START + 86_400_000)
    assert view["windows"] == [{"number": 1, "opened_at": START, "spent": 1, "over": 0, "tried": 1}]
    desk.clock.advance(86_400_000)
    assert ((await desk.get("user"))["open"], (await desk.get("user"))["left"]) == (False, 0)


async def test_raw_items_and_message_keys(desk: Desk) -> None:
    await desk.post("say", items=[{"type": 99}], message={"message_type": 2, "message_id": None})
    (message,) = desk.bot.updates()
    assert (message["item_list"], message["message_type"], "message_id" in message) == ([{"type": 99}], 2, False)


async def test_redelivery(desk: Desk) -> None:
    said = await desk.post("say", text="hi")
    copy = await desk.post("redeliver", message_id=said["message_id"], new_id=True)
    first, second = desk.bot.updates()
    assert (first["message_id"], second["message_id"]) == (said["message_id"], copy["message_id"])


async def test_users_and_accounts(desk: Desk) -> None:
    await desk.post("users", user=GUEST)
    assert (await desk.get(f"user?user={GUEST}"))["windows"] == []
    await desk.post("accounts", token="t2", bot_id="c3@im.bot", user_id="o9Other@im.wechat")
    await desk.post("say", text="x", bot="c3@im.bot")
    await desk.post("kill", bot=OWNER.bot_id)
    assert desk.bot.call("msg/notifystart")["errcode"] == -14


async def test_knobs_and_faults(desk: Desk) -> None:
    await desk.post("say", text="hi")
    assert (await desk.post("knobs", set={"quota": 1}))["quota"] == 1
    await desk.post("knobs", set={"beyond_quota": "bare"}, times=1)
    await desk.post("faults", where="poll", kind="http", status=502, times=None)
    assert [desk.bot.send()["ret"], desk.bot.send(), desk.bot.send()["errmsg"]] == [0, {"ret": -2}, "prepare failed"]
    view = await desk.get("knobs")
    assert (view["knobs"]["quota"], view["once"], view["faults"][0]["status"]) == (1, [], 502)
    assert (await desk.ask("DELETE", "knobs"))[0] == 200
    assert (await desk.get("knobs"))["faults"] == []
    assert desk.bot.send()["ret"] == 0


@pytest.mark.parametrize(
    ("deed", "body", "status"),
    [
        ("scan", {}, "scaned"),
        ("scan", {"digits": "77"}, "need_verifycode"),
        ("confirm", {"user_id": GUEST}, "confirmed"),
        ("expire", {}, "expired"),
        ("redirect", {"host": "h.example"}, "scaned_but_redirect"),
        ("script", {"words": ["verify_code_blocked"]}, "verify_code_blocked"),
    ],
)
async def test_qr(desk: Desk, deed: str, body: dict[str, Any], status: str) -> None:
    code = read(desk.bot.get("get_bot_qrcode"))["qrcode"]
    assert (await desk.post(f"qr/{deed}", **body))["qrcode"] == code
    assert read(desk.bot.get("get_qrcode_status", qrcode=code))["status"] == status


async def test_wait_ends_when_the_counts_are_reached(desk: Desk) -> None:
    await desk.post("say", text="hi")
    waiting = asyncio.create_task(desk.get("wait?accepted=1&shown=2&timeout=20"))
    await desk.get("counters")
    assert not waiting.done()
    desk.bot.send()
    await desk.post("users", user=GUEST)  # the bot above bypasses the shell, so something else has to beat
    result = await asyncio.wait_for(waiting, 5)
    assert (result["met"], result["counters"]["accepted"]) == (True, 1)


async def test_wait_for_the_clock(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.get(f"wait?now={START + 10}&timeout=20"))
    await desk.get("counters")
    desk.clock.advance(10)
    assert (await asyncio.wait_for(waiting, 5))["met"]


async def test_wait_gives_up(desk: Desk) -> None:
    assert (await desk.get("wait?accepted=1&timeout=0.01"))["met"] is False


async def test_reset(desk: Desk) -> None:
    await desk.post("say", text="hi")
    await desk.post("reset")
    counters = await desk.get("counters")
    assert (counters.get("said", 0), counters["shown"]) == (0, 0)
    await desk.post("say", text="again")


@pytest.mark.parametrize(
    "mistake",
    [
        ("GET", "ledger/secrets", None, 404, "accepted"),
        ("GET", "user?user=nobody", None, 404, "nobody"),
        ("GET", "wait?accepted=many", None, 400, "many"),
        ("POST", "say", {"txt": "hi"}, 400, "txt"),
        ("POST", "say", {"text": "hi", "bot": "x@im.bot"}, 404, "x@im.bot"),
        ("POST", "knobs", {"set": {"quotas": 1}}, 404, "quotas"),
        ("POST", "knobs", {"set": {"quota": "x"}}, 400, "int"),
        ("POST", "faults", {"where": "poll", "kind": "flood"}, 400, "flood"),
        ("POST", "redeliver", {"message_id": 5}, 404, "5"),
        ("POST", "qr/scan", {}, 404, "QR"),
        ("POST", "qr/eat", {}, 404, "QR"),
        ("POST", "wait", {}, 404, "POST /control/wait"),
    ],
)
async def test_mistakes_are_answered(desk: Desk, mistake: tuple[str, str, Any, int, str]) -> None:
    method, path, body, status, word = mistake
    answered, value = await desk.ask(method, path, body)
    assert answered == status
    assert word in value["error"]
    assert desk.bot.rules == [], "a mistake of the test is none of the client"


async def test_others_may_not_control() -> None:
    request = make_mocked_request("POST", "/control/reset")  # it has no peer address
    answer = await guard(request, lambda _request: pytest.fail("handled"))
    assert answer.status == 403


async def test_items_of_text(desk: Desk) -> None:
    await desk.post("say", items=[text_item("a"), text_item("b")])
    assert (await desk.get("ledger/shown"))["shown"][0]["text"] == "a\nb"
