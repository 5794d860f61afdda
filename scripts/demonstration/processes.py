"""The processes of the demo: started, heard until they are ready, and ended by their own ids, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import msgspec

from scripts.demonstration.errors import DemoFailed

READY_S = 20.0
"""How long a process may take until it is ready."""

END_S = 8.0
"""How long a process may take to end when it is asked to; after that it is killed."""

TAIL_LINES = 25
"""Lines of each process's own log that are shown after a failure."""

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


class Child:
    """One process. Its standard error goes to a file, its first line on standard output says that it is ready."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name, self.log = name, log
        self._process = process
        self._first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._hearing = asyncio.get_running_loop().create_task(self._hear(), name=f"hearing {name}")

    async def ready(self, kind: type[T]) -> T:
        """What it says of itself when it is ready. Raises DemoFailed."""
        try:
            line = await asyncio.wait_for(asyncio.shield(self._first), READY_S)
        except TimeoutError:
            raise DemoFailed(f"the {self.name} was not ready within {READY_S:.0f} s") from None
        if not line:
            raise DemoFailed(f"the {self.name} ended before it was ready, with status {await self._process.wait()}")
        return msgspec.json.decode(line, type=kind)

    async def ended(self, within_s: float = END_S) -> int:
        """Its exit status, once it has ended by itself. Raises DemoFailed."""
        try:
            status = await asyncio.wait_for(self._process.wait(), within_s)
        except TimeoutError:
            raise DemoFailed(f"the {self.name} still runs after {within_s:.0f} s") from None
        await self._hearing
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this very process, unless it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        self.signal(signal.SIGCONT)  # one that is stopped would not hear
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self._process.wait()
        await self._hearing

    async def _hear(self) -> None:
        """Read to the end, so that a talkative process never stands still."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if not self._first.done():
                self._first.set_result(line)
        if not self._first.done():
            self._first.set_result(b"")

    def tail(self) -> str:
        """The end of its own log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])


class Processes:
    """All that were started, in the order of their start."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.children: list[Child] = []

    async def start(self, name: str, *args: str) -> Child:
        """Start `python -m ARGS`; its log is kept in a file of that name."""
        log = self._logs / f"{name.replace(' ', '-')}.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *args,
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C ends the demo, which then ends these in order
            )
        child = Child(name, process, log)
        self.children.append(child)
        return child

    async def stop(self) -> None:
        """End what still runs, the newest first; at once if this is cut short."""
        try:
            for child in reversed(self.children):
                await child.stop()
        finally:
            for child in self.children:
                child.signal(signal.SIGKILL)

    def tails(self) -> str:
        """The ends of all logs, for a failure."""
        return "\n".join(f"--- {child.name} ({child.log})\n{child.tail()}" for child in self.children)


@contextlib.asynccontextmanager
async def processes(logs: Path) -> AsyncIterator[Processes]:
    """Processes that do not outlive the block."""
    found = Processes(logs)
    try:
        yield found
    finally:
        await asyncio.shield(asyncio.ensure_future(found.stop()))
