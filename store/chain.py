"""Digests over the log: one per row, chained along its stream, and one root over all streams. Pure.

They show corruption, and edits made after a root was published. Whoever can rewrite the whole log can recompute them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec

from store.records import Row

DIGEST_BYTES = 32
GENESIS = bytes(DIGEST_BYTES)
"""What the first row of a stream is chained to."""

Columns = tuple[int, str, int, str, int, int, str, bytes]
"""position, stream, version, type, at, epoch, cause, data"""

_ROOT_PREFIX = "rl1"
_ROOT = re.compile(rf"{_ROOT_PREFIX}:(?P<position>[0-9]{{1,19}}):(?P<digest>[0-9A-Fa-f]{{{2 * DIGEST_BYTES}}})")
_NUMBERS = struct.Struct(">QQQQIII")


class Root(msgspec.Struct, frozen=True):
    """A digest over all heads at a position. As text `rl1:POSITION:HEX`, to be published somewhere else."""

    position: int
    digest: bytes

    def __str__(self) -> str:
        return f"{_ROOT_PREFIX}:{self.position}:{self.digest.hex()}"


def link(previous: bytes, columns: Columns) -> bytes:
    """The digest of a row: over the digest before it in its stream and every column, each of known length."""
    position, stream, version, tag, at, epoch, cause, data = columns
    numbers = _NUMBERS.pack(position, version, at, epoch, len(stream), len(tag), len(cause))
    head = previous + numbers + f"{stream}{tag}{cause}".encode()
    return blake2b(head + data, digest_size=DIGEST_BYTES).digest()


def link_row(previous: bytes, row: Row) -> bytes:
    """The digest that a stored row should have."""
    return link(
        previous, (row.position, row.stream, row.version, row.type, row.at, row.epoch, row.cause, bytes(row.data))
    )


def root(position: int, heads: Mapping[str, tuple[int, bytes]] | Iterable[tuple[str, tuple[int, bytes]]]) -> Root:
    """The root over streams and their (version, digest) at a position."""
    whole = blake2b(digest_size=DIGEST_BYTES)
    for stream, (version, digest) in sorted(dict(heads).items()):
        name = stream.encode()
        whole.update(struct.pack(">IQ", len(name), version) + name + digest)
    return Root(position, whole.digest())


def parse_root(text: str) -> Root:
    """Read `rl1:POSITION:HEX`. Raises ValueError."""
    found = _ROOT.fullmatch(text.strip())
    if not found:
        raise ValueError(
            f"{text[:100]!r} is not a root; it looks like {_ROOT_PREFIX}:POSITION:{'X' * 8}... (64 hex digits)"
        )
    return Root(int(found["position"]), bytes.fromhex(found["digest"]))
