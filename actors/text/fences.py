"""Where the fenced code blocks of a Markdown text are, in bytes.

The rules are CommonMark's (section 4.5: same character, at least as long, nothing behind a closing fence, no backtick
in the info string of a backtick fence) with one liberty: an opening fence may be indented up to 12 columns, because
agents write fences inside list items, which would take a whole parser to recognise. Fences in block quotes are not
seen. Time is linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

_CANDIDATE = re.compile(rb"\n([ \t]{0,12})(`{3,}|~{3,})([^\n]*)")
_LOOK = re.compile(rb"[ \t]*(?:`{3}|~{3})")
_INDENT_EXTRA = 3  # columns by which a closing fence may be indented deeper than its opener


class Fence(msgspec.Struct, frozen=True, gc=False):
    """One fenced block. Positions are byte offsets in the text."""

    start: int  # first byte of the opening line
    body: int  # first byte after the opening line
    end: int  # first byte of the closing line; the length of the text where nothing closes it
    after: int  # first byte after the closing line
    opener: bytes  # the line that opens it again, newline included
    closer: bytes  # what closes it early, a newline in front


class Fences(msgspec.Struct, frozen=True):
    """All fenced blocks of a text, in order; they never overlap."""

    found: tuple[Fence, ...]
    starts: tuple[int, ...]

    def open_at(self, at: int) -> Fence | None:
        """Return the block that a cut at byte `at` would tear apart; its opening line belongs to it."""
        index = bisect_left(self.starts, at) - 1
        if index < 0 or at > self.found[index].end:
            return None
        return self.found[index]

    def closer_bytes_max(self, start: int, end: int) -> int:
        """Return the longest closing that any cut in [start, end] could need, in bytes."""
        first = max(0, bisect_left(self.starts, start) - 1)
        last = bisect_left(self.starts, end)
        return max((len(fence.closer) for fence in self.found[first:last] if fence.after >= start), default=0)


def find_fences(data: bytes, part_bytes: int) -> Fences:
    """Find the blocks of UTF-8 `data` for parts of `part_bytes`.

    A fence line whose indent and run take over an eighth of a part is plain text. An opening line over a quarter of a
    part opens again without its info string.
    """
    found = tuple(_blocks(data, part_bytes)) if b"```" in data or b"~~~" in data else ()
    return Fences(found, tuple(fence.start for fence in found))


def looks_like_fence(data: bytes, at: int) -> bool:
    """Say whether a line that began at byte `at` could be taken for a fence."""
    return _LOOK.match(data, at) is not None


def ends_in_fence_line(text: str) -> bool:
    """Say whether the last line of `text` could be taken for a fence, so that nothing may be put right behind it."""
    return looks_like_fence(text[text.rfind("\n") + 1 :].encode(), 0)


def closed(text: str, part_bytes: int) -> str:
    """Return `text` with its last fence closed, so that nothing put behind it becomes code."""
    data = text.encode()
    fence = find_fences(data, part_bytes).open_at(len(data))
    return text.rstrip("\n") + fence.closer.decode() if fence else text


def _blocks(data: bytes, part_bytes: int) -> Iterator[Fence]:
    opening: re.Match[bytes] | None = None
    for line in _CANDIDATE.finditer(b"\n" + data):  # the added newline makes a match's start its line's offset in data
        if opening is None:
            opening = line if _opens(line, part_bytes) else None
        elif _closes(line, opening):
            yield _fence(opening, line.start(), _after(line, data), data, part_bytes)
            opening = None
    if opening is not None:
        yield _fence(opening, len(data), len(data), data, part_bytes)


def _opens(line: re.Match[bytes], part_bytes: int) -> bool:
    indent, run, info = line.groups()
    return len(indent) + len(run) <= part_bytes // 8 and not (run[:1] == b"`" and b"`" in info)


def _closes(line: re.Match[bytes], opening: re.Match[bytes]) -> bool:
    indent, run, info = line.groups()
    return (
        run.startswith(opening[2])
        and not info.strip()
        and len(indent.expandtabs(4)) <= len(opening[1].expandtabs(4)) + _INDENT_EXTRA
    )


def _after(line: re.Match[bytes], data: bytes) -> int:
    return min(line.end(), len(data))


def _fence(opening: re.Match[bytes], end: int, after: int, data: bytes, part_bytes: int) -> Fence:
    bare = opening[1] + opening[2]
    whole = opening[0][1:].rstrip()
    opener = whole if len(whole) < part_bytes // 4 else bare
    return Fence(opening.start(), _after(opening, data), end, after, opener + b"\n", b"\n" + bare)
