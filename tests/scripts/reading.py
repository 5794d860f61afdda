"""What the tests of reading verbs share: a log filled from streams written by hand, and a printer that keeps what it is given."""

from __future__ import annotations

import io
import json
from datetime import UTC
from typing import Any

from scripts.printing import Printer
from store.memory import MemoryLog
from tests.streams_builder import Streams


class Paper(Printer):
    """A printer whose output can be read again."""

    def __init__(self, *, json: bool = False) -> None:
        self.out, self.error = io.StringIO(), io.StringIO()
        super().__init__(self.out, self.error, json=json, zone=UTC)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    @property
    def talked(self) -> str:
        return self.error.getvalue()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


async def log_of(streams: Streams) -> MemoryLog:
    log = MemoryLog()
    await streams.fill(log)
    return log
