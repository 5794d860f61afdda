"""What a reading verb prints: data on standard output, as text or as one JSON object per line; talk on standard error."""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any, TextIO

import msgspec

from actors.text.moments import show_moment
from events.base import Millis

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """A text of strangers that cannot command the terminal: control characters become U+FFFD; tabs and line feeds stay."""
    return _CONTROL.sub("\ufffd", text)


class Printer:
    """Where a verb's rows go. In JSON mode only `row` prints data; `zone` None = the local one."""

    def __init__(
        self, out: TextIO, err: TextIO, *, json: bool = False, quiet: bool = False, zone: tzinfo | None = None
    ) -> None:
        self._out, self._err = out, err
        self.json, self.quiet, self.zone = json, quiet, zone

    def row(self, data: Any, text: str) -> None:
        """One record: `data` (a struct or a mapping with stable keys) as a JSON line, else `text`, which cannot command the terminal."""
        self._out.write(f"{msgspec.json.encode(data).decode() if self.json else plain(text)}\n")

    def line(self, text: str = "") -> None:
        """Text that says nothing the rows do not say; left out of JSON."""
        if not self.json:
            self._out.write(f"{plain(text)}\n")

    def raw(self, text: str) -> None:
        """Text as it is, without a newline, whatever the mode."""
        self._out.write(text)

    def flush(self) -> None:
        """Let a follower's reader see what was printed."""
        self._out.flush()

    def talk(self, text: str) -> None:
        """Something about the work, not of it; silent with -q."""
        if not self.quiet:
            self._err.write(f"{plain(text)}\n")

    def time(self, at: Millis) -> str:
        """A time in the printer's zone, which is named."""
        return show_moment(at, self.zone)

    @property
    def live(self) -> bool:
        """Whether somebody watches standard error: progress is shown only then."""
        return not self.quiet and self._err.isatty()

    @property
    def err(self) -> TextIO:
        """Standard error, for progress."""
        return self._err
