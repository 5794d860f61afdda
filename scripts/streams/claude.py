"""Turns out of Claude Code's `--output-format stream-json` and `json`.

`stream-json` is one object a line; `json` is the last of them alone, or an array of all. The line of type `result` ends
a turn and holds its text; a session repeats its `session_id` over turns, so a turn goes by the result's `uuid`. What
went wrong still counts as said where there is a text (`degraded`), else the turn is `failed`. Older versions report a
turn that ran into its limit with `is_error: false`, so the subtype counts too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actors.text.clean import is_blank
from scripts.streams.lines import Entry
from scripts.streams.reading import read_stream
from scripts.streams.turns import (
    SESSION_CHARS_MAX,
    TURN_ID_CHARS_MAX,
    AgentTurn,
    Named,
    Status,
    StreamResult,
    TurnDigest,
    complaint,
    said,
)

_AGENT = "claude"
_RUNNING = frozenset({"assistant", "user", "stream_event"})  # system lines also come behind a result


class _Line(msgspec.Struct, frozen=True):
    subtype: object = None
    is_error: object = None
    result: object = None
    errors: object = None
    session_id: object = None
    uuid: object = None


_LINE = msgspec.json.Decoder(_Line)


def read_claude(lines: Iterable[bytes]) -> StreamResult:
    """Read the turns of a stream; each line with or without its newline."""
    return read_stream(lines, _Reader())


class _Reader:
    def __init__(self) -> None:
        self.names = Named()
        self._digest = TurnDigest()
        self._session = ""
        self._running = True  # a stream without any result is a turn that failed

    def take(self, entry: Entry) -> AgentTurn | None:
        self._digest.add(entry.data)
        self._running = self._running or entry.type in _RUNNING
        if entry.type not in ("system", "result"):
            return None
        line = _LINE.decode(entry.data)
        self._session = self.names.of(line.session_id, "session_id", SESSION_CHARS_MAX) or self._session
        return self._ended(line) if entry.type == "result" else None

    def cut_off(self) -> AgentTurn | None:
        if not self._running:
            return None
        return self._turn("", "failed", "", "the stream ended without a result")

    def _ended(self, line: _Line) -> AgentTurn:
        self._running = False
        text, uuid = said(line.result), self.names.of(line.uuid, "uuid", TURN_ID_CHARS_MAX)
        if not _went_wrong(line):
            return self._turn(uuid, "completed", text, None)
        errors = line.errors if isinstance(line.errors, list) else []
        error = complaint(line.subtype if line.subtype != "success" else None, *errors, otherwise="an error")
        return self._turn(uuid, "failed" if is_blank(text) else "degraded", text, error)

    def _turn(self, uuid: str, status: Status, text: str, error: str | None) -> AgentTurn:
        own_id = self._digest.close(_AGENT, self._session)
        return AgentTurn(turn_id=uuid or own_id, session=self._session, status=status, text=text, error=error)


def _went_wrong(line: _Line) -> bool:
    return line.is_error is True or line.subtype not in (None, "success")
