"""The command line with a log that kills its process: `python -m tests.e2e.killing EVENT:WHEN[:N[:SIGNAL]] VERB …`.

At the N-th append that holds an EVENT (its tag), WHEN is `before` the append, `during` its transaction (its rows are written, its
COMMIT has not begun), or `after` it was durable and before anybody hears of it. `group:during` strikes when a group of two or
more appends is half written. SIGNAL is SIGKILL, or SIGSTOP, after which it goes on where it was. The program itself knows nothing of this.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from scripts.running import days
from store.admit import Admitted, Facts
from store.append import insert
from store.core import SqliteCore
from store.records import Appended, Batch
from store.sqlite import SqliteLog


class Trap:
    """Where to strike."""

    def __init__(self, given: str) -> None:
        self.event, self.when, *rest = given.split(":")
        assert self.when in ("before", "during", "after")
        self.left = int(rest[0]) if rest else 1
        self.signal = signal.Signals[rest[1]] if rest[1:] else signal.SIGKILL

    def strike(self) -> None:
        """The end, as by `kill -9`, or a pause."""
        os.kill(os.getpid(), self.signal)

    def holds(self, batch: Batch) -> bool:
        """Whether this append is the one, at any time."""
        tags = {str(event.__struct_config__.tag) for write in batch.writes for event in write.events}
        if self.event not in tags:
            return False
        self.left -= 1
        return self.left == 0


class KillingCore(SqliteCore):
    """Strikes within a transaction, in the writer's thread."""

    trap: Trap
    doomed: set[int]

    def _insert(self, admitted: Sequence[Admitted], facts: Facts) -> None:
        if self.trap.event == "group" and len(admitted) > 1:
            insert(self.connection, admitted[:1])
            self.trap.strike()
        super()._insert(admitted, facts)
        if self.doomed:
            self.trap.strike()


class KillingLog(SqliteLog):
    """The log of one doomed process."""

    trap = Trap(sys.argv.pop(1))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        core = self._core
        core.__class__ = KillingCore
        assert isinstance(core, KillingCore)
        core.trap, core.doomed = self.trap, set()
        self._killing = core

    async def append(self, batch: Batch) -> Appended:
        """See `SqliteLog.append`."""
        chosen = self.trap.holds(batch)
        if chosen and self.trap.when == "before":
            self.trap.strike()
        if chosen and self.trap.when == "during":
            self._killing.doomed.add(id(batch))
        appended = await super().append(batch)
        if chosen and self.trap.when == "after":
            self.trap.strike()
        return appended


if __name__ == "__main__":
    from scripts.main import main

    days.SqliteLog = KillingLog  # type: ignore[misc] # the one place where the composition root names the log
    sys.exit(main())
