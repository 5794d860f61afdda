"""Merge a peer's waiting outputs into one message of at most one part (design: backlog to one reply).

Guarantees: the newest outputs that fit whole, without a gap, in time order, separated; what does not fit beside them is
left out, the oldest first; of a newest output that alone exceeds the part its head is sent, marked. Separators, marker
and closing fences count. Each given output is either carried or left out; blank ones are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.text.clean import is_blank, text_bytes
from actors.text.errors import PartTooSmall
from actors.text.fences import closed, ends_in_fence_line
from actors.text.split import PART_BYTES_MIN, head

SEPARATOR = "\n\n———\n\n"
MARKER = "…"
_MARKER_BYTES = len(f"\n{MARKER}".encode())  # on a line of its own where the head ends with a fence


class Carried(msgspec.Struct, frozen=True, gc=False):
    """An output in a merged message: the bytes [start, end) of its UTF-8 text, which has `total_bytes`."""

    output_id: str
    start: int
    end: int
    total_bytes: int


class Merged(msgspec.Struct, frozen=True):
    """One message: what it says, what it carries in time order, and which outputs it leaves out."""

    text: str
    carried: tuple[Carried, ...]
    left_out: tuple[str, ...]


def merge(texts: Sequence[tuple[str, str]], part_bytes: int) -> Merged:
    """Merge `texts`, pairs of output id and clean text, oldest first, into one part of `part_bytes` bytes.

    Where every output is blank the message is empty and carries nothing. Raises `PartTooSmall` and `UncleanText`.
    """
    if part_bytes < PART_BYTES_MIN:
        raise PartTooSmall(part_bytes, PART_BYTES_MIN)
    seen = [(output_id, text) for output_id, text in texts if not is_blank(text)]
    fitting = _fitting([text for _, text in seen], part_bytes)
    if seen and not fitting:
        return _beheaded(texts, *seen[-1], part_bytes)
    carried = tuple(_whole(output_id, text) for output_id, text in seen[len(seen) - len(fitting) :])
    return Merged(SEPARATOR.join(fitting), carried, _left_out(texts, carried))


def _fitting(texts: Sequence[str], part_bytes: int) -> list[str]:
    """Return, in time order, the newest texts that fit one part together, as they stand in it."""
    found: list[str] = []
    free = part_bytes
    for text in reversed(texts):
        piece = closed(text.strip("\n").rstrip(), part_bytes)
        free -= text_bytes(piece) + (text_bytes(SEPARATOR) if found else 0)
        if free < 0:
            break
        found.insert(0, piece)
    if texts and len(found) <= 1 and text_bytes(texts[-1]) <= part_bytes:
        return [texts[-1]]  # alone it is sent as it is
    return found


def _beheaded(texts: Sequence[tuple[str, str]], output_id: str, text: str, part_bytes: int) -> Merged:
    piece = head(text, part_bytes - _MARKER_BYTES)
    text_so_far = piece.text.rstrip()
    total = text_bytes(text)
    carried = (Carried(output_id, piece.start, piece.end, total),)
    if piece.end < total:
        text_so_far += f"\n{MARKER}" if ends_in_fence_line(text_so_far) else MARKER
    return Merged(text_so_far, carried, _left_out(texts, carried))


def _whole(output_id: str, text: str) -> Carried:
    total = text_bytes(text)
    return Carried(output_id, 0, total, total)


def _left_out(texts: Sequence[tuple[str, str]], carried: Sequence[Carried]) -> tuple[str, ...]:
    kept = {one.output_id for one in carried}
    return tuple(output_id for output_id, _ in texts if output_id not in kept)
