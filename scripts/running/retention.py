"""Texts and message keys are forgotten in time: bodies after the configured age unless something waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping

from actors.deciding.commands import ExpireBodies
from actors.life import AccountLife
from actors.runtime.errors import RuntimeRefusal
from actors.runtime.scheduler import Scheduler
from events.base import Millis
from events.bot import DAY_MS, HOUR_MS
from store.errors import AppendRefused, LogUnusable
from store.log import Log

logger = logging.getLogger("replyledger.retention")

EVERY_MS = HOUR_MS
PAGE = 1_000
MESSAGE_KEYS_MS = 35 * DAY_MS
"""How long a message is recognised if the channel delivers it again; a month at least."""


class Retention:
    """Runs once after the start and then every hour."""

    def __init__(
        self,
        lives: Mapping[str, AccountLife],
        log: Log,
        scheduler: Scheduler,
        bodies_ms: Millis,
        on_log_failed: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self._on_log_failed = on_log_failed
        self._lives, self._log, self._scheduler, self._bodies_ms = lives, log, scheduler, bodies_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._run()

    def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _run(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._round(), name="retention")
        self._task.add_done_callback(self._ended)
        self._scheduler.call_at(self._scheduler.clock.now() + EVERY_MS, self._again)

    def _again(self) -> None:
        if self._task is None:
            return
        if self._task.done():
            self._run()
        else:  # a long round, or a clock that jumped: what it leaves is for the next
            self._scheduler.call_at(self._scheduler.clock.now() + EVERY_MS, self._again)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LogUnusable):
            self._on_log_failed(error)
        elif error is not None:
            logger.error("nothing more was forgotten this hour", exc_info=error)

    async def _round(self) -> None:
        now = self._scheduler.clock.now()
        for life in self._lives.values():
            if not life.awake:
                continue
            try:
                await expire(life, self._log, now - self._bodies_ms)
                await self._log.prune_keys(life.spec.address.bot, "message", now - MESSAGE_KEYS_MS)
            except (AppendRefused, RuntimeRefusal) as refusal:
                logger.warning("%s: nothing was forgotten this hour: %s", life.spec.address, refusal)
        # What was erased, here or on somebody's word, leaves the files, too; a reader may have been in the way before.
        await self._log.checkpoint()


async def expire(life: AccountLife, log: Log, before: Millis) -> int:
    """Let the peers of an account erase their bodies older than `before`; how many went."""
    gone = 0
    kept: set[str] = set()
    while True:
        found = [
            row for row in await log.expired(life.spec.address.bot, before, PAGE + len(kept)) if row[1] not in kept
        ]
        if not found:
            return gone
        by_stream: dict[str, list[str]] = defaultdict(list)
        for stream, body in found:
            by_stream[stream].append(body)
        for stream, bodies in by_stream.items():
            erased: tuple[str, ...] = await life.account.peers.ask(stream, ExpireBodies(tuple(bodies))) or ()
            gone += len(erased)
            kept.update(set(bodies) - set(erased))
