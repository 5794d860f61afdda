"""The coroutines that run beside an account's life, by name: begun, ended, and told of when they fail.

An error that operations bring about is one line; a stack is for a defect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from actors.errors import LoginUnreadable
from actors.runtime.errors import RuntimeRefusal
from store.errors import StoreError

logger = logging.getLogger("replyledger.account")

FORESEEN = (StoreError, RuntimeRefusal, LoginUnreadable)
"""Errors that operations bring about: their text tells all, and quotes no message."""


class Tasks:
    """The tasks of one account. `on_failed` hears of each that failed, with the reason."""

    def __init__(self, account: str, on_failed: Callable[[str], None]) -> None:
        self._account, self._on_failed = account, on_failed
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine under a name."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._account} {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda t: self._ended(name, t))

    async def cancel(self, name: str) -> None:
        """End a task, if there is one and it is not the one that asks."""
        task = self._tasks.pop(name, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait((task,))

    async def over(self, name: str) -> None:
        """Wait for a task, if there is one."""
        task = self._tasks.pop(name, None)
        if task is not None:
            await asyncio.wait((task,))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, FORESEEN):
            logger.error("account %s: %s failed: %s", self._account, name, why(error))
        else:
            logger.error("account %s: %s failed", self._account, name, exc_info=error)
        self._on_failed(f"{name}: {why(error)}")


def why(error: BaseException) -> str:
    """What is said of an error: its text where that is ours, else its type."""
    if isinstance(error, asyncio.CancelledError):
        return "cut short"
    return str(error) if isinstance(error, FORESEEN) else type(error).__name__
