"""What a disk holds after a power loss: all that was synced, and of what was not any part, in any order, torn anywhere."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.power.journal import Entry

SECTOR = 512
"""A disk writes this much whole or not at all."""


class File:
    """A file: what was synced, and what was written since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.synced = bytearray()
        self.there = False  # whether a sync made it last
        self.pending: list[Entry] = []

    def sync(self) -> None:
        for entry in self.pending:
            put(self.synced, entry)
        self.pending.clear()
        self.there = True

    def after_loss(self, chance: Random) -> bytes:
        """Its bytes if the power goes now."""
        left = bytearray(self.synced)
        luck = chance.random()
        for entry in self.pending:
            if chance.random() < luck:
                put(left, torn(entry, chance) if chance.random() < 0.3 else entry)
        return bytes(left)


class Disk:
    """The watched files of a process, as its journal goes on."""

    def __init__(self) -> None:
        self._files: dict[int, File] = {}

    def take(self, entry: Entry) -> None:
        """The next entry of the journal."""
        match entry.op:
            case "O":
                self._files.setdefault(entry.file, File(Path(entry.data.decode())))
            case "W" | "T":
                self._files[entry.file].pending.append(entry)
            case "S":
                self._files[entry.file].sync()
            case "U":
                self._unlink(Path(entry.data.decode()))

    def lose_power(self, folder: Path, chance: Random) -> None:
        """Write what is left into a folder. A file that was never synced may be gone."""
        for file in self._files.values():
            if file.there or (file.pending and chance.random() < 0.5):
                (folder / file.path.name).write_bytes(file.after_loss(chance))

    @property
    def unsynced(self) -> int:
        """How many writes a loss could take now."""
        return sum(len(file.pending) for file in self._files.values())

    def _unlink(self, path: Path) -> None:
        for file in self._files.values():
            if file.path == path:
                file.synced.clear()
                file.pending.clear()
                file.there = False


def put(content: bytearray, entry: Entry) -> None:
    """Do to a file's content what an entry says."""
    if entry.op == "T":
        del content[entry.offset :]
    end = entry.offset + len(entry.data)
    content.extend(bytes(max(0, end - len(content))))
    content[entry.offset : end] = entry.data


def torn(entry: Entry, chance: Random) -> Entry:
    """Only the first sectors of a write."""
    whole = len(entry.data) // SECTOR
    return Entry(entry.op, entry.file, entry.offset, entry.data[: SECTOR * chance.randint(0, whole)])
