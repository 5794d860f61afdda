"""Turns out of Codex's `exec --json`.

`thread.started` names the session. A turn's text is its last `item.completed` with an item of type `agent_message` that is not blank.
`turn.completed` and `turn.failed` end it; one that failed after a message is `degraded`. A line of type `error` may be
no more than a reconnect: it ends nothing, but tells why a turn failed where nothing else does. Codex gives turns no
ids.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actors.text.clean import is_blank
from scripts.streams.lines import Entry
from scripts.streams.reading import read_stream
from scripts.streams.turns import SESSION_CHARS_MAX, AgentTurn, Named, Status, StreamResult, TurnDigest, complaint, said

_AGENT = "codex"


class _Line(msgspec.Struct, frozen=True):
    thread_id: object = None
    item: object = None
    error: object = None
    message: object = None


_LINE = msgspec.json.Decoder(_Line)


def read_codex(lines: Iterable[bytes]) -> StreamResult:
    """Read the turns of a stream; each line with or without its newline."""
    return read_stream(lines, _Reader())


class _Reader:
    def __init__(self) -> None:
        self.names = Named()
        self._digest = TurnDigest()
        self._session = ""
        self._message = ""
        self._complaint = ""
        self._running = True  # a stream without any turn is a turn that failed

    def take(self, entry: Entry) -> AgentTurn | None:
        self._digest.add(entry.data)
        self._running = self._running or entry.type.startswith(("turn.started", "item."))
        if entry.type == "turn.completed":
            return self._turn("completed", None)
        if entry.type in ("thread.started", "item.completed", "turn.failed", "error"):
            return self._noted(entry.type, _LINE.decode(entry.data))
        return None

    def cut_off(self) -> AgentTurn | None:
        if not self._running:
            return None
        return self._turn("failed", complaint("the stream ended inside of a turn", self._complaint, otherwise=""))

    def _noted(self, kind: str, line: _Line) -> AgentTurn | None:
        match kind:
            case "thread.started":
                self._session = self.names.of(line.thread_id, "thread_id", SESSION_CHARS_MAX) or self._session
            case "item.completed":
                self._message = _message(line.item) or self._message
            case "error":
                self._complaint = said(line.message)
            case _:
                return self._failed(said(_field(line.error, "message")))
        return None

    def _failed(self, reason: str) -> AgentTurn:
        status: Status = "degraded" if self._message else "failed"
        return self._turn(status, complaint(reason or self._complaint, otherwise="an error"))

    def _turn(self, status: Status, error: str | None) -> AgentTurn:
        turn_id = self._digest.close(_AGENT, self._session)
        turn = AgentTurn(turn_id=turn_id, session=self._session, status=status, text=self._message, error=error)
        self._message, self._complaint, self._running = "", "", False
        return turn


def _message(item: object) -> str:
    """Return what an item says to the user, empty where it is no message or a blank one."""
    text = said(_field(item, "text")) if _field(item, "type") == "agent_message" else ""
    return "" if is_blank(text) else text


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None
