"""Somebody who follows the README: in a fresh clone, with a fresh environment and home, line by line as it is written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.e2e.processes import ROOT, free_port

README = ROOT / "README.md"
INSTALL_S = 400.0
LINE_S = 90.0

STANDS_IN = {
    "claude": [
        {"type": "system", "subtype": "init", "cwd": "/home", "session_id": "5f0c", "tools": ["Bash"], "model": "opus"},
        {
            "type": "assistant",
            "session_id": "5f0c",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Looking at the logs."}]},
        },
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "duration_ms": 2100,
            "num_turns": 3,
            "result": "Nightly report: all jobs are green.",
            "session_id": "5f0c",
            "uuid": "9e1d33aa-0000-4000-8000-000000000001",
        },
    ],
    "codex": [
        {"type": "thread.started", "thread_id": "0199-abc"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "Counting."}},
        {
            "type": "item.completed",
            "item": {"id": "item_1", "type": "agent_message", "text": "Nightly report: 3 branches."},
        },
        {"type": "turn.completed", "usage": {"input_tokens": 24763, "cached_input_tokens": 0, "output_tokens": 122}},
    ],
}
"""What the programs print that the README pipes into `replyledger`, and that nobody can install here."""


class Said(msgspec.Struct, frozen=True):
    """A command line that has ended."""

    code: int
    out: str
    err: str


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, text) of every fenced block."""
    yield from re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block_commands(text: str) -> list[str]:
    """The command lines of the blocks, without comments and without the spaces that align them."""
    lines = [line for language, block in blocks(text) if language == "sh" for line in block.splitlines()]
    return [re.sub(r"  +\|", " |", re.sub(r"\s+# .*", "", line)).strip() for line in lines if line.strip()]


def named_commands(text: str) -> list[str]:
    """The command lines within sentences."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        span for span in re.findall(r"`([^`\n]+)`", prose) if re.match(r"(\w+=\S+ )?(replyledger |\./|\.ci/)", span)
    ]


class Reader:
    """A clone, an environment, stand-ins on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clone, self.venv = folder, folder / "clone", folder / "venv"
        self._git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(self.clone))
        (folder / "home").mkdir()
        self._stand_in()

    @property
    def readme(self) -> str:
        """What is read: the clone's own."""
        return (self.clone / "README.md").read_text(encoding="utf-8")

    def _git(self, *args: str) -> None:
        subprocess.run(["git", *args], check=True, capture_output=True, timeout=LINE_S)

    def _stand_in(self) -> None:
        places = self.folder / "stand-ins"
        places.mkdir()
        for name, lines in STANDS_IN.items():
            stream = places / f"{name}.jsonl"
            stream.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            program = places / name
            program.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(stream))}\n", encoding="utf-8")
            program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What a new user has, and the way to the packages that this machine has."""
        kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_", "REQUESTS_"))}
        path = [self.venv / "bin", self.folder / "stand-ins", Path(sys.executable).resolve().parent, "/usr/bin", "/bin"]
        return kept | {
            "HOME": str(self.folder / "home"),
            "PATH": ":".join(map(str, path)),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "USER": "reader",
            "PYTHON": str(Path(sys.executable).resolve()),
        }

    def environment_of_the_lock(self) -> None:
        """A fresh environment with the locked packages, and nothing of this project."""
        make = [self.environment["PYTHON"], "-m", "venv", str(self.venv)]
        subprocess.run(make, check=True, capture_output=True, timeout=LINE_S)
        done = self.run("pip install --quiet --require-hashes -r requirements.txt", wait_s=INSTALL_S)
        assert done.code == 0, done

    def run(self, line: str, wait_s: float = LINE_S) -> Said:
        """A command line, by the shell, in the clone."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.clone,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=wait_s,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def begin(self, line: str) -> subprocess.Popen[str]:
        """A command that goes on; what it prints goes to `NAME.log` beside the clone."""
        with self.log_of(line).open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                shlex.split(line),
                executable=self.venv / "bin" / shlex.split(line)[0],
                cwd=self.clone,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def log_of(self, line: str) -> Path:
        return self.folder / f"{'-'.join(re.findall(r'[a-z0-9]+', line))}.log"

    def move_to_loopback(self, server: str, name: str = "replyledger.toml") -> str:
        """Edit the configuration as a reader would for a trial: the simulator for the channel, free ports. Its HTTP address."""
        file = self.clone / name
        http = f"127.0.0.1:{free_port()}"
        text = file.read_text(encoding="utf-8")
        for old, new in (
            ("https://ilinkai.weixin.qq.com", server),
            ("127.0.0.1:8080", f"127.0.0.1:{free_port()}"),
            ("127.0.0.1:8081", http),
        ):
            assert text.count(f'"{old}"') == 1, old
            text = text.replace(f'"{old}"', f'"{new}"')
        file.write_text(text, encoding="utf-8")
        return f"http://{http}"
