"""Statements over many rows at once.

Python's sqlite3 lets go of the interpreter lock at every step of a statement and has to win it back from the event loop; one
statement over many rows does so once, and SQLite works beside the loop meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

CHUNKS: Final = (512, 128, 32, 8, 1)
"""Rows of a statement: few sizes, so that prepared statements are found again."""


def chunked(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The rows in slices whose lengths are CHUNKS."""
    start = 0
    for size in CHUNKS:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@lru_cache(maxsize=256)
def _values(head: str, columns: int, rows: int, tail: str) -> str:
    row = "(" + ", ".join("?" * columns) + ")"
    return f"{head} {', '.join([row] * rows)} {tail}"


def write_rows(connection: sqlite3.Connection, head: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
    """Run `head (?, ?), (?, ?) ... tail` over all rows, e.g. an INSERT ... VALUES."""
    for chunk in chunked(rows):
        sql = _values(head, len(chunk[0]), len(chunk), tail)
        connection.execute(sql, list(chain.from_iterable(chunk)))


def find_rows(
    connection: sqlite3.Connection, head: str, keys: Iterable[str], first: Sequence[str] = ()
) -> list[tuple[Any, ...]]:
    """All rows of `head ?, ?, ... )` over all keys, e.g. of a SELECT ... WHERE x IN (. `first` fills the marks of `head`."""
    found: list[tuple[Any, ...]] = []
    for chunk in chunked(list(keys)):
        found += connection.execute(_marks(head, len(chunk)), (*first, *chunk)).fetchall()
    return found


@lru_cache(maxsize=256)
def _marks(head: str, keys: int) -> str:
    return f"{head}{', '.join('?' * keys)})"
