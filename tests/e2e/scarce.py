"""The command line with a disk that a file speaks for: `python -m tests.e2e.scarce FILE VERB …`. FILE holds the bytes that are free
above the reserve, and may change at any time. The program itself knows nothing of this."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from store import sqlite

FREE = Path(sys.argv.pop(1))


def free_space(_log: Path) -> Callable[[], int]:
    """See `store.sqlite.free_space`."""
    return lambda: int(FREE.read_text(encoding="ascii"))


if __name__ == "__main__":
    from scripts.main import main

    sqlite.free_space = free_space
    sys.exit(main())
