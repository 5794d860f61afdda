"""Targets: texts and streams that agents write, and what people type."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC
from itertools import pairwise

from actors.gateway.listen import parse_listen
from actors.text.clean import clean, is_blank
from actors.text.directives import _ID, parse
from actors.text.merge import merge
from actors.text.moments import parse_moment, parse_until, show_moment
from actors.text.names import fault_of
from actors.text.split import head, parts
from events.errors import BadAddress
from events.streams import parse_address
from scripts.configuration import values
from scripts.streams.claude import read_claude
from scripts.streams.codex import read_codex
from scripts.streams.lines import bounded_lines
from scripts.streams.turns import ERROR_CHARS_MAX, PROBLEMS_MAX, TURN_ID_CHARS_MAX, StreamResult
from store.chain import parse_root

NOW = 1_750_000_000_000


def as_text(data: bytes) -> str:
    """Any text that can come from outside: also one with halves of characters, made clean."""
    return clean(data.decode("utf-8", "surrogateescape"))


def splitter(data: bytes) -> None:
    """The first two bytes say how long a part may be. The ranges cover the text, and every part fits and shows something."""
    room, text = 64 + int.from_bytes(data[:2], "big") % 5_000, as_text(data[2:])
    raw = text.encode()
    found = parts(text, room)
    assert bool(found) != is_blank(text)
    assert all(len(part.text.encode()) <= room and not is_blank(part.text) for part in found)
    assert all(earlier.end == later.start for earlier, later in pairwise(found))
    if found:
        assert (found[0].start, found[-1].end) == (0, len(raw))
        assert b"".join(raw[p.start : p.end] for p in found) == raw
        assert all(raw[p.start : p.end].decode() for p in found), "a character is torn"
    first = head(text, room)
    assert len(first.text.encode()) <= room
    assert first.start == 0
    merged = merge([("a", text), ("b", "newest")], room)
    assert len(merged.text.encode()) <= room
    assert sorted([*merged.left_out, *(c.output_id for c in merged.carried)]) == ["a", "b"]


def directives(data: bytes) -> None:
    """What is no directive stays as it is, and an id to quote is an id."""
    text = as_text(data)
    found = parse(text)
    assert found.reply_to is None or _ID.fullmatch(found.reply_to)
    assert len(found.text) <= len(text)
    assert "".join(found.text.split()) in "".join(text.split())
    if not text.lstrip().startswith("[["):
        assert found.text == text
    for part in (found.text, text):
        parse(part)


def claude_stream(data: bytes) -> None:
    """Claude Code's lines."""
    _stream(
        data,
        read_claude,
        b'{"type":"result","subtype":"success","is_error":false,"result":"last one","session_id":"s","uuid":"u"}',
    )


def codex_stream(data: bytes) -> None:
    """Codex's lines."""
    said = b'{"type":"item.completed","item":{"type":"agent_message","text":"last one"}}\n{"type":"turn.completed"}'
    _stream(data, read_codex, said)


def _stream(data: bytes, read: Callable[..., StreamResult], good: bytes) -> None:
    """A stream is read to its end, whatever is in it: a good turn behind it is always found."""
    found = read(bounded_lines(io.BytesIO(data)))
    lines = data.count(b"\n") + 1
    assert len(found.problems) <= PROBLEMS_MAX + 1
    assert all(1 <= p.line_no <= lines and p.what for p in found.problems)
    for turn in found.turns:
        assert clean(turn.text) == turn.text
        turn.session.encode()
        assert len(turn.turn_id) <= TURN_ID_CHARS_MAX
        assert turn.turn_id or turn.status == "failed"
        assert not fault_of(turn.turn_id) + fault_of(turn.session)
        assert turn.status == "completed" or turn.error
        assert turn.error is None or len(turn.error) <= ERROR_CHARS_MAX
        assert turn.status != "degraded" or not is_blank(turn.text)
    again = read(bounded_lines(io.BytesIO(data + b"\n" + good)))
    assert again.complete
    assert (again.turns[-1].status, again.turns[-1].text) == ("completed", "last one")


def small_values(data: bytes) -> None:
    """A word of a person or a file: read and shown the same, or refused with a ValueError."""
    text = data.decode("utf-8", "replace")
    _same(text, parse_listen)
    _same(text, values.parse_duration)
    _same(text, values.parse_secret)
    _same(text, values.parse_url)
    _same(text, values.parse_listen_at)
    _same(text, parse_root)
    for read in (parse_moment, parse_until):
        try:
            read(text, NOW, UTC)
            at = read(text, NOW)
        except ValueError:
            continue
        show_moment(at if isinstance(at, int) else at[1] or at[0])
    try:
        address = parse_address(text)
    except BadAddress:
        return
    assert parse_address(str(address)) == address


def _same(text: str, read: Callable[[str], object]) -> None:
    try:
        found = read(text)
    except ValueError:
        return
    assert read(str(found)) == found
