"""What durability costs without any database: the events of a commit at the end of a plain file, and one `fdatasync`.

`Bytes` writes the encoded events as they are, `Lines` makes a line of JSON of each row, as a log in a text file would. No index, no
fence, no versions, no digests: nothing can be found in them again but by reading all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from store.prepare import prepare
from store.records import Batch

encode = msgspec.json.Encoder().encode


class Line(msgspec.Struct, frozen=True, gc=False):
    """A row of a log in a text file."""

    stream: str
    type: str
    at: int
    epoch: int
    data: msgspec.Raw


class Bytes:
    """The events' bytes, and nothing else."""

    def __init__(self, path: Path, _at: int) -> None:
        self._path = path.with_suffix(".plain")
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def learn(self, batches: Sequence[Batch]) -> None:
        """Nothing: a file knows no streams."""

    def rows(self, batches: Sequence[Batch]) -> bytes:
        """The bytes of one commit."""
        return b"".join([data for batch in batches for rows in prepare(batch).encoded for _, data in rows])

    def write(self, commit: bytes) -> None:
        """Append and wait for the disk."""
        _put(self._file, commit)

    def close(self) -> None:
        """Close the file and remove it."""
        os.close(self._file)
        self._path.unlink()


class Lines:
    """One line of JSON for each event; the events are encoded before the clock starts, the lines are not."""

    def __init__(self, path: Path, _at: int) -> None:
        self._path = path.with_suffix(".jsonl")
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def learn(self, batches: Sequence[Batch]) -> None:
        """Nothing: a file knows no streams."""

    def rows(self, batches: Sequence[Batch]) -> list[Line]:
        """The rows of one commit."""
        return [
            Line(write.stream, tag, batch.at, batch.epoch, msgspec.Raw(data))
            for batch in batches
            for write, rows in zip(batch.writes, prepare(batch).encoded, strict=True)
            for tag, data in rows
        ]

    def write(self, commit: list[Line]) -> None:
        """Encode, append and wait for the disk."""
        _put(self._file, b"".join([encode(line) + b"\n" for line in commit]))

    def close(self) -> None:
        """Close the file and remove it."""
        os.close(self._file)
        self._path.unlink()


def _put(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
    os.fdatasync(file)
