"""What a stream of an agent holds: turns, and what could not be read.

A stream is read to its end, whatever is in it: a line that cannot be read is a problem with its number.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from actors.text.clean import clean
from actors.text.names import fault_of

TURN_ID_CHARS_MAX = 128  # an id that is longer is replaced by a digest
SESSION_CHARS_MAX = 512  # a name that is longer is none
ERROR_CHARS_MAX = 2000  # of what an agent says went wrong; the rest is cut
REPLACEMENT = "\ufffd"  # what a line's half characters have become before it is decoded
PROBLEMS_MAX = 100  # what goes beyond is only counted, in one last problem

Status = Literal["completed", "degraded", "failed"]


class AgentTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn as its agent reported it. The text is clean, and whole where the status is `completed`."""

    turn_id: str  # empty where nothing of the turn could be read: then nothing tells it from another
    session: str  # empty where the stream names none
    status: Status
    text: str
    error: str | None = None


class Problem(msgspec.Struct, frozen=True):
    """A line that was passed over, and why. Never holds the line itself."""

    line_no: int  # the first line is 1
    what: str


class StreamResult(msgspec.Struct, frozen=True):
    """All turns of a stream in order, and the lines that could not be read.

    `complete` is False where the stream ended inside of its last turn, or held none; that turn is in `turns`, failed.
    """

    turns: tuple[AgentTurn, ...]
    problems: tuple[Problem, ...]
    complete: bool


class Problems:
    """Collects problems up to `PROBLEMS_MAX` and counts the rest."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._further = 0

    def add(self, line_no: int, what: str) -> None:
        """Take note of one line."""
        if len(self._found) < PROBLEMS_MAX:
            self._found.append(Problem(line_no, what))
        else:
            self._further += 1

    def found(self) -> tuple[Problem, ...]:
        """Return the problems so far; a last one stands for all that were only counted."""
        if not self._further:
            return tuple(self._found)
        return (*self._found, Problem(self._found[-1].line_no, f"{self._further} further problems after this line"))


class TurnDigest:
    """Gives a turn an id of its own where its agent gave none.

    The id is a digest of the session, the number of the turn in this stream, and the turn's lines as they were read.
    Reading a stream again gives the same ids. A resumed session repeats its id and counts from 1 again; there the lines
    tell the runs apart even if the agent said the same, because they carry durations and token counts. A turn without any
    line has no id: two empty streams are two turns that failed, and nothing in them says which is which.
    """

    def __init__(self) -> None:
        self._number = 1
        self._lines = hashlib.sha256()
        self._empty = True

    def add(self, line: bytes) -> None:
        """Take in one line of the running turn."""
        self._empty = False
        self._lines.update(line.strip() + b"\n")

    def close(self, agent: str, session: str) -> str:
        """Return the id of the turn that ends here, empty where it had no line, and begin the next one."""
        if self._empty:
            return ""
        whole = hashlib.sha256(f"{session}\n{self._number}\n{self._lines.hexdigest()}".encode())
        self._number += 1
        self._lines = hashlib.sha256()
        self._empty = True
        return f"{agent}-{whole.hexdigest()[:32]}"


class Named:
    """The ids that an agent gives. One that is no name (`actors.text.names`), or had half a character in it, is not mended: it
    would be the id of something else. It counts as not given, and is told of."""

    def __init__(self) -> None:
        self._told: list[str] = []

    def of(self, value: object, what: str, chars_max: int) -> str:
        """Return an id as it is, empty where there is none that can be used."""
        if value is None or value == "":
            return ""
        fault = _fault(value, chars_max)
        if not fault and isinstance(value, str):
            return value
        self._told.append(f"its {what} {fault}; it is not used")
        return ""

    def told(self) -> tuple[str, ...]:
        """Return what was wrong with ids since the last time."""
        told, self._told = self._told, []
        return tuple(told)


def _fault(value: object, chars_max: int) -> str:
    if not isinstance(value, str):
        return "is no text"
    if REPLACEMENT in value:
        return "holds half a character"
    return f"is longer than {chars_max} characters" if len(value) > chars_max else fault_of(value)


def said(value: object) -> str:
    """Return a clean text, empty where `value` is no text."""
    return clean(value) if isinstance(value, str) else ""


def complaint(*values: object, otherwise: str) -> str:
    """Return what the agent says went wrong, joined and cut to `ERROR_CHARS_MAX`, or `otherwise`."""
    joined = "; ".join(filter(None, map(said, values)))
    return joined[:ERROR_CHARS_MAX] or otherwise
