"""The running gateway's own log, on standard error: text for people or JSON for machines. Never secrets or message texts."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TextLines(logging.Formatter):
    """A line for people: local time with its offset, for an hour comes twice when clocks are put back."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, _datefmt: str | None = None) -> str:  # noqa: N802 (logging's name)
        """The time of a record: `2026-10-25 02:30:00.000+02:00`."""
        return (_EPOCH + timedelta(seconds=record.created)).astimezone().isoformat(" ", "milliseconds")


class JsonLines(logging.Formatter):
    """One JSON object a line: at, level, logger, message, error."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(form: str, level: str) -> None:
    """Log to standard error from here on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)  # tells of every single call
