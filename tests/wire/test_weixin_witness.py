"""The Weixin simulator, as Tencent's own client sees it: its api and login functions run against ours, unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.knobs import Fault
from scripts.simulators.weixin.login import find_code
from scripts.simulators.weixin.login import script as script_code
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.server import WeixinServer, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SOURCES = Path(__file__).parent / "weixin_witness"
INSTALL_S = 240
OWNER = Identity(token="a1b2c3d4e5f6@im.bot:0600aa", bot_id="a1b2c3d4e5f6@im.bot", user_id="o9cq80AbC@im.wechat")


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "replyledger" / "weixin-witness-2.4.9"


def unavailable(reason: str) -> None:
    """Without the client there is no witness; CI fails then, see `tests.skips`."""
    pytest.skip(reason)


def npm(folder: Path, *arguments: str) -> None:
    command = ["npm", *arguments, "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        unavailable(f"npm {arguments[0]} failed: {done.stderr.strip()[-400:]}")


def node_of(folder: Path) -> str:
    """Return a node that is new enough for the client (22.13), installed beside it where the machine has none."""
    own = folder / "runtime" / "node_modules" / ".bin" / "node"
    for candidate in (shutil.which("node"), str(own)):
        if candidate and Path(candidate).exists():
            version = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=True).stdout
            if tuple(int(part) for part in version.strip().lstrip("v").split(".")[:2]) >= (22, 13):
                return candidate
    own.parents[2].mkdir(exist_ok=True)
    npm(own.parents[2], "install", "--prefix", ".", "node@22")
    return str(own)


@pytest.fixture(scope="module")
def witness() -> tuple[str, Path]:
    """The node program and the folder in which the official client is installed."""
    if shutil.which("npm") is None:
        unavailable("npm is not installed, so the official Weixin client cannot be fetched")
    folder = cache_folder()
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    if not (folder / "node_modules" / "@tencent-weixin" / "openclaw-weixin" / "dist").exists():
        npm(folder, "install", "--ignore-scripts")
    return node_of(folder), folder


async def converse(server: WeixinServer) -> None:
    """Be the user: write once the client polls, then confirm its login."""
    assert await server.until(lambda state: state.counters["polls"] == 1, 60_000)
    server.say("hello")
    assert await server.until(lambda state: state.counters["codes"] == 1, 60_000)
    code = find_code(server.state, None)
    script_code(code, ["wait", "scaned", "scaned_but_redirect", "confirmed"], user_id=OWNER.user_id)
    code.redirect_host = "ilinkai.weixin.qq.com"


def set_faults(server: WeixinServer) -> None:
    kinds: list[dict[str, Any]] = [
        {"kind": "slow_body", "ms": 50},
        {"kind": "omit_message_id"},
        {"kind": "empty_object"},
        {"kind": "empty_body"},
        {"kind": "ret", "code": -2, "errmsg": "prepare failed"},
        {"kind": "ret", "code": -14, "form": "errcode"},
        {"kind": "http", "status": 524},
        {"kind": "cut_after"},
    ]
    for kind in kinds:
        server.state.board.add(Fault(where="send", **kind))


async def run_witness(node: str, folder: Path, server: WeixinServer, state_dir: Path) -> dict[str, Any]:
    user = asyncio.create_task(converse(server))
    process = await asyncio.create_subprocess_exec(
        node,
        "witness.js",
        server.base_url,
        OWNER.token,
        OWNER.user_id,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(state_dir), "OPENCLAW_STATE_DIR": str(state_dir)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    await user
    return json.loads(out.decode().strip().splitlines()[-1])


async def test_official_client_accepts_the_simulator(witness: tuple[str, Path], tmp_path: Path) -> None:
    node, folder = witness
    async with running(WeixinModel(accounts=[OWNER])) as server:
        set_faults(server)
        seen = await run_witness(node, folder, server, tmp_path)
        state = server.state
        assert list(state.violations) == []

    assert (seen["start"], seen["stop"]) == ({"ret": 0}, {"ret": 0})
    message = seen["updates"]["msgs"][0]
    assert message["item_list"] == [{"type": 1, "text_item": {"text": "hello"}}]
    assert seen["updates"]["longpolling_timeout_ms"] == 35_000
    assert seen["config"]["ret"] == 0
    assert seen["config"]["typing_ticket"]

    accepted = {row.text: row for row in state.accepted}
    assert seen["sent"] == {"ret": 0, "message_id": str(accepted["one"].message_id)}, "its ids are lossless text"
    # iLink protocol notes 6.7: what the client makes of odd answers.
    assert seen["swallowed"] == {"ret": 0}
    assert seen["empty"] == {}
    assert "JSON" in seen["emptyBody"]
    assert seen["refused"] == "sendMessage ret=-2 errmsg=prepare failed"
    assert seen["errcodeOnly"] == {"errcode": -14}
    assert seen["gateway"].startswith("sendMessage 524: <html>")
    assert seen["cut"] == "fetch failed"
    assert list(accepted) == ["one", "two", "three", "four", "eight"]
    assert [row.text for row in state.shown if row.by == "bot"] == ["one", "three", "four", "eight"]

    chat = state.find_account(OWNER.bot_id).chats[OWNER.user_id]
    assert (chat.typing_starts, chat.typing_stops) == (1, 1)
    assert seen["upload"]["upload_param"]
    assert seen["idle"]["msgs"] == []

    assert seen["login"]["connected"] is True
    assert seen["login"]["baseUrl"] == server.base_url
    assert seen["login"]["userId"] == OWNER.user_id
    assert seen["login"]["botToken"] in state.accounts
    assert seen["stale"]["ret"] == seen["stale"]["errcode"] == -14, "a newer login makes the old token stale"
