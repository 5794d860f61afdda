"""`replyledger run` inside the test's own process, with the channel in the test's hands."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from actors.ports import Credentials
from scripts import run as run_module
from scripts.configuration.config import load
from scripts.exits import ExitCode
from scripts.options import Options
from scripts.printing import Printer
from scripts.reading.opening import log_path
from scripts.running.credentials import LoginFile
from scripts.running.process import CHANNELS, GatewayProcess
from tests.gateway.stage import ANN, Line

LOGIN = Credentials(token="login-1", base_url="http://127.0.0.1:1", user_id=ANN)


class PlainStage:
    """What a line of the stage needs of it here."""

    def __init__(self) -> None:
        self.process: GatewayProcess
        self._messages = 0

    @property
    def clock(self) -> Any:
        return self.process.scheduler.clock

    @property
    def lives(self) -> Any:
        return self.process.lives

    def pulse(self) -> None:
        """Conditions are looked at by themselves."""

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)

    def number_of_message(self) -> int:
        self._messages += 1
        return self._messages


class GatewayHere:
    """A folder with a configuration, and the gateway that runs on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.path = folder / "replyledger.toml"
        self.state = folder / "state"
        self.stage = PlainStage()
        stage: Any = self.stage
        self.line = Line(stage, "main")
        monkeypatch.setitem(CHANNELS, "weixin", self.line.open)
        monkeypatch.setattr("actors.life.CHECK_MS", 1)
        self.write()

    def write(self, account: str = "", top: str = "", policy: str = "") -> None:
        """The configuration."""
        self.path.write_text(
            f'{top}\n[agents]\nlisten = "127.0.0.1:0"\n[http]\nlisten = "127.0.0.1:0"\n[accounts.main]\nchannel = "weixin"\n'
            f'{account}\n[accounts.main.policy]\nnotice_after = "1h"\n{policy}\n',
            encoding="utf-8",
        )

    def log_in(self, login: Credentials = LOGIN) -> None:
        """Keep a login, as `replyledger login` does."""
        LoginFile(self.state, "main").write(login)

    async def start(self, monkeypatch: pytest.MonkeyPatch) -> asyncio.Task[ExitCode]:
        """Run; returns once it is ready."""
        ready = asyncio.Event()
        say = run_module._say_ready

        def say_ready(process: GatewayProcess, *rest: Any) -> None:
            say(process, *rest)
            self.stage.process = process
            ready.set()

        monkeypatch.setattr(run_module, "_say_ready", say_ready)
        given = Options(config=self.path)
        task = asyncio.create_task(run_module.serve(load(self.path), given, Printer(io.StringIO(), io.StringIO())))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=10)
        waiting.cancel()
        if task.done():
            await task
        return task

    @property
    def process(self) -> GatewayProcess:
        return self.stage.process

    @property
    def life(self) -> Any:
        return self.process.lives["main"]

    @property
    def log(self) -> Path:
        """The log's file."""
        return log_path(load(self.path))

    async def until(self, condition: Any) -> None:
        await self.stage.until(condition)
