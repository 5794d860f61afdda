"""From bytes to JSON objects, line by line, within limits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from actors.text.clean import clean

LINE_BYTES_MAX = 16 * 1024 * 1024  # agents put whole files and images into one line
_BOM = b"\xef\xbb\xbf"


class LineError(ValueError):
    """A line cannot be read; the message says why without showing it."""


class _Object(msgspec.Struct, frozen=True):
    type: object = None


_OBJECT = msgspec.json.Decoder(_Object | list[msgspec.Raw])


class Entry(msgspec.Struct, frozen=True):
    """One JSON object of a stream: its `type`, empty where it has none, and its bytes."""

    type: str
    data: bytes


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of `file`; of a line over `LINE_BYTES_MAX` only its first bytes, one over the limit."""
    while line := file.readline(LINE_BYTES_MAX + 1):
        yield line
        ended = line.endswith(b"\n") or len(line) <= LINE_BYTES_MAX
        while not ended:
            rest = file.readline(LINE_BYTES_MAX)
            ended = not rest or rest.endswith(b"\n")


def records(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their numbers, from 1.

    Where the first one is a lone bracket, and all lines together are one JSON document, they come as one record.
    """
    found = _numbered(lines)
    held = _held(found)
    document = b"\n".join(line for _, line in held)
    if len(held) > 1 and _is_document(document):
        yield held[0][0], document
    else:
        yield from held
    yield from found


def _held(found: Iterator[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Take the first line, and behind a lone bracket all lines that one record may hold."""
    held: list[tuple[int, bytes]] = []
    free = LINE_BYTES_MAX
    for number, line in found:
        held.append((number, line))
        free -= len(line) + 1
        if held[0][1].strip() not in (b"{", b"[") or free < 0:
            break
    return held


def _is_document(data: bytes) -> bool:
    try:
        entries(data)
    except LineError:
        return False
    return True


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their numbers; a BOM at the start is dropped."""
    for number, line in enumerate(lines, start=1):
        bare = line.removeprefix(_BOM) if number == 1 else line
        if bare.strip():
            yield number, bare


def entries(line: bytes) -> tuple[Entry, ...]:
    """Return the objects of a line: one, or those of an array. Raises `LineError`."""
    if len(line) > LINE_BYTES_MAX:
        raise LineError(f"longer than {LINE_BYTES_MAX} bytes")
    line = _readable(line)
    found = _decoded(line)
    if isinstance(found, _Object):
        return (_entry(found, line),)
    return tuple(entry for raw in found for entry in _element(bytes(raw)))


def _element(data: bytes) -> tuple[Entry, ...]:
    found = _decoded(data)
    if not isinstance(found, _Object):
        raise LineError("an array inside of an array")
    return (_entry(found, data),)


def _entry(found: _Object, data: bytes) -> Entry:
    return Entry(found.type if isinstance(found.type, str) else "", data)


def _decoded(data: bytes) -> _Object | list[msgspec.Raw]:
    try:
        return _OBJECT.decode(data)
    except msgspec.ValidationError:
        raise LineError("not a JSON object") from None
    except msgspec.DecodeError:
        raise LineError("not JSON") from None
    except RecursionError:
        raise LineError("nested too deeply") from None


def _readable(line: bytes) -> bytes:
    """Check that a line is UTF-8, and give lone surrogates in it a form that the decoder takes."""
    try:
        line.decode()
    except UnicodeDecodeError:
        raise LineError("not UTF-8") from None
    return _without_lone_surrogates(line) if rb"\ud" in line.lower() else line


def _without_lone_surrogates(line: bytes) -> bytes:
    # JavaScript cuts texts between UTF-16 units and then writes half of a pair as an escape; that must not cost a turn.
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line  # the decoder says what is wrong with it
    return clean(json.dumps(value, ensure_ascii=False)).encode()
