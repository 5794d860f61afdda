"""The running gateway's own log, on standard error: text for people or JSON for machines. Never secrets or message texts."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


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
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)  # tells of every single call
