"""The command line as people run it: real processes, against a listener on loopback with a hand-written gateway behind it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

TOKEN = "correct-horse"
ROOT = Path(__file__).parents[2]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Console:
    """A folder with a configuration, in which verbs are run."""

    def __init__(self, folder: Path, port: int, token: str | None = TOKEN, account: str = "") -> None:
        self.folder = folder
        self.env = {
            k: v for k, v in os.environ.items() if k not in ("HOME", "NO_COLOR", "PYTHONUNBUFFERED", "XDG_CONFIG_HOME")
        }
        self.env |= {
            "HOME": str(folder / "home"),
            "PYTHONPATH": str(ROOT),
            "USER": "tester",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }
        if token:
            self.env["RL_TOKEN"] = token
        self.write(port, account)

    def write(self, port: int, account: str = "") -> None:
        """The configuration: where the gateway is, and one account."""
        text = f'[http]\nlisten = "127.0.0.1:{port}"\ntoken = "env:RL_TOKEN"\n'
        text += f'[accounts.main]\nchannel = "weixin"\n{account}'
        (self.folder / "replyledger.toml").write_text(text, encoding="utf-8")

    async def run(self, *args: str, stdin: bytes = b"") -> Ended:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "scripts",
            *args,
            cwd=self.folder,
            env=self.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin), 60)
        ended = Ended(code=process.returncode or 0, out=out.decode(), err=err.decode())
        assert "Traceback" not in ended.err, ended.err
        assert TOKEN not in ended.out + ended.err
        return ended
