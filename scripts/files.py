"""Files that only their owner may read, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from actors.runtime.clock import SystemIds


def private_folder(path: Path) -> Path:
    """Make a folder (and those above it) that only its owner may enter; an existing one is left as it is."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 durably: readers see the old content or the new one, never half of it."""
    private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{SystemIds().token(6)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """The name itself must survive a loss of power. (Not every system lets a folder be opened.)"""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
