"""The simulator and the clock source as processes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from scripts.simulators.clock import ManualClock
from scripts.simulators.clock_source import ClockSource, running
from tests.simulators.asking import OWNER, START


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[dict[str, Any]]:
    """Run the simulator and give its first line; TERM ends it with 0."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scripts.simulators.weixin", *arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        yield json.loads(await asyncio.wait_for(child.stdout.readline(), 20))
    finally:
        child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(child.wait(), 20) == 0


async def test_the_process_follows_a_clock_source() -> None:
    source = ClockSource(ManualClock(0), now=START, frozen=True)
    account = f"{OWNER.token},{OWNER.bot_id},{OWNER.user_id}"
    async with (
        running(source) as clock_url,
        process("--clock", clock_url, "--account", account) as ready,
        aiohttp.ClientSession(ready["base_url"]) as http,
    ):
        source.advance(86_400_000)
        async with http.get(f"/control/wait?now={START + 86_400_000}") as answer:
            assert (await answer.json())["met"]
        async with http.post("/control/say", json={"text": "a day later"}) as answer:
            said = await answer.json()
    assert (said["at"], said["bot"]) == (START + 86_400_000, OWNER.bot_id)
