"""What a process wrote, synced and said, in order: a library preloaded into it keeps the journal (`journal.c`)."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

SOURCE = Path(__file__).with_name("journal.c")
HEAD = struct.Struct("=cIQI")


class Entry(msgspec.Struct, frozen=True):
    """One thing that a process did; see `journal.c` for the operations."""

    op: str
    file: int
    offset: int
    data: bytes


def build(folder: Path) -> Path:
    """Compile the library that keeps the journal. Raises CalledProcessError with what the compiler said."""
    library = folder / "journal.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


def preloaded(library: Path, journal: Path, files: Path) -> dict[str, str]:
    """The environment of a process whose files beginning with the path `files` are watched."""
    return {"LD_PRELOAD": str(library), "JOURNAL": str(journal), "JOURNAL_FILES": str(files)}


def read(journal: Path) -> Iterator[Entry]:
    """The entries of a journal; what a kill cut off at its end is left out."""
    kept = journal.read_bytes()
    at = 0
    while at + HEAD.size <= len(kept):
        op, file, offset, length = HEAD.unpack_from(kept, at)
        at += HEAD.size
        if at + length > len(kept):
            return
        yield Entry(op.decode(), file, offset, kept[at : at + length])
        at += length
