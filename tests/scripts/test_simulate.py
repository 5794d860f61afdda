from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripts.exits import ExitCode, code_of
from scripts.main import main

ROOT = Path(__file__).parents[2]
BY_ARGUMENT = "b@im.bot:0600,b@im.bot,u@im.wechat"


@asynccontextmanager
async def simulating(*args: str) -> AsyncIterator[tuple[dict[str, Any], asyncio.subprocess.Process]]:
    """`replyledger --json simulate ARGS`, once it listens; TERM ends it with status 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "scripts", "--json", "simulate", *args),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield json.loads(await asyncio.wait_for(process.stdout.readline(), 20)), process
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_server_that_follows_a_clock() -> None:
    async with simulating("clock", "--now", "5000", "--frozen") as (clock, _):
        assert set(clock) == {"base_url", "pid"}
        async with (
            simulating("weixin", "--clock", clock["base_url"], "--account", BY_ARGUMENT) as (phone, _),
            aiohttp.ClientSession() as http,
        ):
            async with http.post(f"{phone['base_url']}/control/say", json={"text": "hi"}) as answer:
                said = await answer.json()
            assert (said["at"], said["user"]) == (5000, "u@im.wechat")
            async with http.post(f"{clock['base_url']}/advance", json={"ms": 7}) as answer:
                assert (await answer.json())["now"] == 5007
            async with http.get(f"{phone['base_url']}/control/wait?now=5007") as answer:
                assert (await answer.json())["met"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("weixin", "--host", "192.0.2.1"), ExitCode.USAGE, "loopback only"),
        (("clock", "--host", "192.0.2.1"), ExitCode.USAGE, "loopback only"),
        (("weixin", "--account", "only-a-token"), ExitCode.USAGE, "TOKEN,BOT_ID,USER_ID"),
        (("weixin", "--clock", "http://192.0.2.1:7001"), ExitCode.USAGE, "on this machine"),
        (("weixin", "--clock", "http://[x"), ExitCode.USAGE, "on this machine"),
        (("weixin", "--clock", "http://127.0.0.1:9"), ExitCode.FAILED, "no clock answers"),
        ((), ExitCode.USAGE, ""),
    ],
)
def test_what_is_refused(args: tuple[str, ...], code: ExitCode, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *args]) == code
    assert said in capsys.readouterr().err


def test_disagreements_and_failed_days_are_failures() -> None:
    from scripts.demonstration.errors import DemoFailed, Disagreement

    assert code_of(DemoFailed()) == code_of(Disagreement()) == ExitCode.FAILED
