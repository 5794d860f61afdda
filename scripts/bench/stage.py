"""A gateway and a Weixin simulator as processes, for benchmarks that need real ones. Ends them, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec

from actors.ports import Credentials
from scripts.asking.client import PORT_FILE
from scripts.bench.phone import LOGIN, Announced, Arrived
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
        return msgspec.json.decode(await _line(self._process), type=Arrived)


async def _line(process: Process) -> bytes:
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
        yield Phone(process, msgspec.json.decode(await _line(process), type=Announced))
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
async def gateway_running(config: Path) -> AsyncIterator[str]:
    """`replyledger run` until it is ready; the base URL of its HTTP API."""
    port_file = config.parent / "state" / PORT_FILE
    port_file.unlink(missing_ok=True)
    with (config.parent / "gateway.err").open("wb") as talk:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scripts", "run", "--config", str(config), stdout=DEVNULL, stderr=talk
        )
    try:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session:
            url = await _ready(process, port_file, session)
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _ready(process: Process, port_file: Path, session: aiohttp.ClientSession) -> str:
    while process.returncode is None:
        if port := _text(port_file):
            url = f"http://127.0.0.1:{port}"
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.get(f"{url}/ready") as answer:
                    if answer.status == 200:
                        return url
        await asyncio.sleep(POLL_S)
    said = (port_file.parents[1] / "gateway.err").read_text()
    raise RuntimeError(f"the gateway of the benchmark ended with {process.returncode}: {said[-2000:]}")


def _text(path: Path) -> str:
    """A file's text, "" while it is not there."""
    return path.read_text() if path.exists() else ""
