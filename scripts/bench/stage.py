"""A gateway and a Weixin simulator as processes, for benchmarks that need real ones. Ends them, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec

from actors.ports import Credentials
from scripts.bench.phone import LOGIN, Announced, Arrived
from scripts.run import Running
from scripts.running.credentials import LoginFile

READY_S = 60
POLL_S = 0.002

CONFIG = """\
state_dir = "state"
[agents]
listen = "127.0.0.1:0"
[http]
listen = "127.0.0.1:0"
[logging]
level = "error"
[retention]
bodies = "3000d"
[accounts.main]
channel = "weixin"
base_url = "{base_url}"
access = {access}
[accounts.main.policy]
quota_replies = 1000
share_replies = 999
backlog_outputs = 1000
pace = "0s"
notice_after = "0s"
"""


class Phone:
    """The simulator's process."""

    def __init__(self, process: Process, announced: Announced) -> None:
        self._process, self.urls = process, announced

    async def arrival(self) -> Arrived:
        """The next send that reached it."""
        return msgspec.json.decode(await line_of(self._process), type=Arrived)


async def line_of(process: Process) -> bytes:
    """The next line that a process prints. Raises RuntimeError when it ended."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the benchmark ended with {await process.wait()}")
    return line


@contextlib.asynccontextmanager
async def phone_running() -> AsyncIterator[Phone]:
    """A simulator."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "scripts.bench.phone", stdin=PIPE, stdout=PIPE)
    try:
        yield Phone(process, msgspec.json.decode(await line_of(process), type=Announced))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def configure(folder: Path, base_url: str, access: list[str]) -> Path:
    """A configuration with a login; `access` lists the peers who may talk."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "replyledger.toml"
    path.write_text(CONFIG.format(base_url=base_url, access=msgspec.json.encode(["owner", *access]).decode()))
    login = Credentials(token=LOGIN.token, base_url=base_url, user_id=LOGIN.user_id, bot_id=LOGIN.bot_id)
    LoginFile(folder / "state", "main").write(login)
    return path


@contextlib.asynccontextmanager
async def gateway_running(config: Path) -> AsyncIterator[Running]:
    """`replyledger run`, ready: where it listens, and its process."""
    said = config.parent / "gateway.err"
    with said.open("wb") as talk:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scripts", "--json", "run", "--config", str(config), stdout=PIPE, stderr=talk
        )
    try:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session:
            gateway = await _announced(process, said)
            while not await _ready(session, gateway.http):  # noqa: ASYNC110 - another process
                await asyncio.sleep(POLL_S)
        yield gateway
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _announced(process: Process, said: Path) -> Running:
    try:
        return msgspec.json.decode(await line_of(process), type=Running)
    except RuntimeError as error:
        raise RuntimeError(f"{error}: {_end_of(said)}") from error


def _end_of(said: Path) -> str:
    return said.read_text()[-2000:]


async def _ready(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.get(f"{url}/ready") as answer:
        return answer.status == 200
