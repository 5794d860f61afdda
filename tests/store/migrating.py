"""A process that opens a log to write, and dies as `kill -9` ends it after so many statements of the migration. Run by
test_migration.

    migrating.py LOG STATEMENTS
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from store import schema
from store.sqlite import connect

migrate = schema.migrate


def main(path: Path, statements: int) -> None:
    left = [statements]

    def step(_statement: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

    def killed(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(step)
        migrate(connection)
        os._exit(9)

    schema.migrate = killed
    connect(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
