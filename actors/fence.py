"""The fence: whether this instance still owns the account, by the log's own row."""

from __future__ import annotations

from collections.abc import Callable

from actors.runtime.clock import Clock
from store.errors import Fenced
from store.log import Log

CONFIRMED_MS = 250
"""How long a check of the fence holds, by the boot clock, which goes on while the process is stopped."""

CHECK_MS = 2_000
"""How often the fence is checked when nothing else does."""


class EpochFence:
    """Compares the account's epoch in the log with the one that this instance claimed."""

    def __init__(self, log: Log, account: str, epoch: int, clock: Clock, on_fenced: Callable[[], None]) -> None:
        self._log, self._account, self._epoch, self._clock = log, account, epoch, clock
        self._on_fenced = on_fenced
        self._confirmed_at = clock.monotonic()
        self._fenced = False

    async def confirm(self) -> None:
        """Return if the account is ours by a check no older than CONFIRMED_MS. Raises Fenced, then and ever after."""
        if not self._fenced and self._clock.monotonic() - self._confirmed_at <= CONFIRMED_MS:
            return
        await self.check()

    async def check(self) -> None:
        """Look at the log now. Raises Fenced."""
        looked_at = self._clock.monotonic()
        if not self._fenced and await self._log.epoch(self._account) == self._epoch:
            self._confirmed_at = looked_at
            return
        if not self._fenced:
            self._fenced = True
            self._on_fenced()
        raise Fenced(f"{self._account} belongs to a newer instance")
