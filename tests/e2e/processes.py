"""Real processes of a test: started, heard, signalled, and ended by their own pid, whatever becomes of the test."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
WAIT_S = 10.0
"""How long a condition may take on a busy machine before a test fails."""

LOOK_S = 0.01
"""How often a condition is looked at that nobody announces."""

T = TypeVar("T")


def environment(**more: str) -> dict[str, str]:
    """An environment without the tester's home and settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("REPLYLEDGER_", "XDG_")) and k != "NO_COLOR"}
    return kept | {"PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "TZ": "UTC", "USER": "tester"} | more


def eventually(look: Callable[[], T], what: str = "", wait_s: float = WAIT_S) -> T:
    """The first true value of `look`; fails after `wait_s` with the last one."""
    tick = threading.Event()
    found = look()
    for _ in range(int(wait_s / LOOK_S)):
        if found:
            return found
        tick.wait(LOOK_S)
        found = look()
    raise AssertionError(f"not within {wait_s} s: {what or look}; last seen: {found!r}")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """A process of this program. What it prints on standard output are JSON lines; the rest goes to a file."""

    def __init__(self, name: str, args: Sequence[str], folder: Path, **env: str) -> None:
        self.name = name
        self.err_path = folder / f"{name}.err"
        self.out: list[str] = []
        self._announced: queue.Queue[Any] = queue.Queue()
        with self.err_path.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *args],
                cwd=folder,
                env=environment(**env),
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out.append(line)
            with contextlib.suppress(ValueError):
                self._announced.put(json.loads(line))
        self._announced.put(None)

    def announced(self, wait_s: float = WAIT_S) -> dict[str, Any]:
        """The next JSON line; fails if the process ends, or says nothing for long."""
        try:
            said = self._announced.get(timeout=wait_s)
        except queue.Empty:
            raise AssertionError(f"{self.name} says nothing: {self.err}") from None
        assert said is not None, f"{self.name} ended with {self.process.wait()}: {self.err}"
        return dict(said)

    @property
    def err(self) -> str:
        """What it wrote on standard error so far."""
        return self.err_path.read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exited(self, wait_s: float = WAIT_S) -> int:
        """Its exit code; fails if it goes on. A code below 0 is the signal that killed it."""
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end: {self.err}") from None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Whatever state it is in: gone, with its pipes."""
        if self.running:
            self.kill()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
