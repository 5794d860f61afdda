"""Split a text into parts that a channel takes in one message each.

Guarantees: a part's text has at most `part_bytes` UTF-8 bytes; no character is torn, and what people see as one
character only where it is longer than a cut may step back; a cut prefers the end of a paragraph, a line, a word, in
this order, as far as that spends no further reply, and a little beyond; a code fence open at a cut is closed and opened
again; the byte ranges of the parts follow each other and cover the whole text; no part is blank. Time is linear.

Because each part spends a reply, `predicted_replies` runs the splitter itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from actors.text.clean import encoded, is_blank
from actors.text.errors import PartTooSmall
from actors.text.fences import Fences, find_fences, looks_like_fence
from actors.text.graphemes import may_cut, may_start

PART_BYTES = 4000  # what Weixin takes by default (iLink protocol notes)
PART_BYTES_MIN = 64  # below it fences leave no room for text
HEAD_BYTES_MIN = 32
STEP_BACK_CHARS = 64  # how far a cut looks for the start of what people see as one character

_BLANK_LINES = re.compile(rb"(?:[ \t\r]*\n)*")
_SPACES = re.compile(rb"[ \t]*")
_WORD_ENDS = tuple(mark.encode() for mark in (" ", "\t", "　", "。", "！", "？", "；", "，", "、", "："))
_AHEAD_BYTES = 32  # of the next part, to see what it would begin with


class Part(msgspec.Struct, frozen=True, gc=False):
    """One message: its rendered text, and the range [start, end) of the source's UTF-8 bytes that it carries."""

    text: str
    start: int
    end: int


class _Source(msgspec.Struct, frozen=True):
    data: bytes
    fences: Fences
    part_bytes: int
    thrifty: bool  # a cut may move up as long as the rest needs no further part


class _Piece(msgspec.Struct, frozen=True, gc=False):
    text: str
    end: int
    blank: bool


def parts(text: str, part_bytes: int) -> tuple[Part, ...]:
    """Split a clean `text` into parts of at most `part_bytes` bytes; a blank text has none.

    A text that fits is its own single part, unchanged. Raises `PartTooSmall` and `UncleanText`.
    """
    _check(part_bytes, PART_BYTES_MIN)
    if is_blank(text):
        return ()
    data = encoded(text)
    if len(data) <= part_bytes:
        return (Part(text, 0, len(data)),)
    pieces = _pieces(_Source(data, find_fences(data, part_bytes), part_bytes, thrifty=True))
    return _joined(pieces, len(data))


def head(text: str, room_bytes: int) -> Part:
    """Return the largest first piece of a clean `text` that fits `room_bytes`, with an open fence closed.

    A text that fits comes back whole; of a blank one that does not, nothing is left to see and all of it is carried.
    """
    _check(room_bytes, HEAD_BYTES_MIN)
    data = encoded(text)
    if len(data) <= room_bytes:
        return Part(text, 0, len(data))
    source = _Source(data, find_fences(data, room_bytes), room_bytes, thrifty=False)
    for piece in _pieces(source):
        if not piece.blank:
            rest_blank = not data[piece.end :].strip()
            return Part(piece.text, 0, len(data) if rest_blank else piece.end)
    return Part("", 0, len(data))


def predicted_replies(text: str, part_bytes: int) -> int:
    """Return how many replies a clean `text` spends in parts of `part_bytes` bytes."""
    return len(parts(text, part_bytes))


def _check(room_bytes: int, least_bytes: int) -> None:
    if room_bytes < least_bytes:
        raise PartTooSmall(room_bytes, least_bytes)


def _joined(pieces: Iterator[_Piece], total: int) -> tuple[Part, ...]:
    """Leave out blank pieces; their bytes belong to the next part, at the end to the last."""
    found: list[Part] = []
    start = 0
    for piece in pieces:
        if not piece.blank:
            found.append(Part(piece.text, start, piece.end))
            start = piece.end
    if found and start < total:
        found[-1] = msgspec.structs.replace(found[-1], end=total)
    return tuple(found)


def _pieces(source: _Source) -> Iterator[_Piece]:
    position = 0
    while position < len(source.data):
        piece = _piece(source, position)
        position = piece.end
        yield piece


def _piece(source: _Source, position: int) -> _Piece:
    data, fences = source.data, source.fences
    reopened = fences.open_at(position)
    opener = reopened.opener if reopened else b""
    torn = fences.open_at(len(data))
    last_bytes = len(data) - position + (len(torn.closer) if torn else 0)
    if len(opener) + last_bytes <= source.part_bytes:
        return _rendered(opener, data[position:], torn.closer if torn else b"", len(data))
    room = source.part_bytes - len(opener)
    room -= fences.closer_bytes_max(position, position + room)
    stop = _off_fence_lines(source, position, _boundary(source, position, room))
    torn = fences.open_at(stop)
    following = _following(source, stop)
    if torn and following == torn.end:
        following = _following(source, torn.after)  # the closing we add is the one that the text has here
    body = data[position:stop]
    if b"\n" in (data[stop : stop + 1], data[stop - 1 : stop]):
        body = body.rstrip()  # the cut itself ends the line
    return _rendered(opener, body, torn.closer if torn else b"", following)


def _rendered(opener: bytes, body: bytes, closer: bytes, end: int) -> _Piece:
    text = body.decode()
    kept = text.rstrip("\n") if closer else text
    return _Piece(opener.decode() + kept + closer.decode(), end, is_blank(text))


def _boundary(source: _Source, position: int, room: int) -> int:
    """Return where the part that starts at `position` stops: a byte offset at most `room` later."""
    data, limit = source.data, position + room
    free = _free(source, position, room)
    floor = min(free, limit - room // 8)
    for mark in (b"\n\n", b"\n"):
        found = data.rfind(mark, floor, limit + len(mark))
        if found >= floor:
            return found
    return _settled(data, position, _word_end(data, min(free, limit - room // 4), limit))


def _free(source: _Source, position: int, room: int) -> int:
    """Return the first offset at which a cut spends no more parts than a cut at `room` would."""
    if not source.thrifty:
        return position + room
    rest = len(source.data) - position
    further = -(-rest // room) - 1
    return position + max(rest - further * room, room // 2)


def _word_end(data: bytes, floor: int, limit: int) -> int:
    """Return the last end of a word in (floor, limit], else the last character boundary."""
    if data[limit : limit + 1] in (b" ", b"\t"):
        return limit
    found = max(data.rfind(mark, floor, limit) + len(mark) for mark in _WORD_ENDS)
    if found > floor:
        return found
    while data[limit] & 0xC0 == 0x80:  # a continuation byte of UTF-8
        limit -= 1
    return limit


def _settled(data: bytes, position: int, stop: int) -> int:
    """Step back from `stop` to where neither a visible character is torn nor the rest would begin like a fence."""
    window = data[position : stop + _AHEAD_BYTES].decode(errors="ignore")
    at = len(data[position:stop].decode())
    for index in range(at, max(0, at - STEP_BACK_CHARS), -1):
        if may_cut(window, index) and may_start(window[index]) and not _like_fence(window, index):
            return stop - len(window[index:at].encode())
    return stop


def _like_fence(window: str, index: int) -> bool:
    return window[index] in " \t`~" and looks_like_fence(window[index : index + _AHEAD_BYTES].encode(), 0)


def _off_fence_lines(source: _Source, position: int, stop: int) -> int:
    """Move a cut inside of a fence's line, or right behind an opening one, to before that line."""
    data = source.data
    line = data.rfind(b"\n", position, stop) + 1
    if position < line < stop and stop - line <= source.part_bytes // 4 and looks_like_fence(data, line):
        stop = line
    torn = source.fences.open_at(stop)
    if torn and position < torn.start and not data[torn.body : stop].strip():
        stop = torn.start
    return stop


def _following(source: _Source, stop: int) -> int:
    """Return where the next part starts: behind the blank lines, or inside a line behind the spaces, of the cut."""
    data = source.data
    matched = _BLANK_LINES.match(data, stop)
    following = matched.end() if matched else stop
    if following == stop and data[stop - 1 : stop] != b"\n":
        spaces = _SPACES.match(data, stop)
        following = spaces.end() if spaces else stop
    return following
