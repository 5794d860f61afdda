from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from store.rowsql import CHUNKS, chunked, find_rows, write_rows


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    opened.execute("CREATE TABLE t (a PRIMARY KEY, b)")
    yield opened
    opened.close()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 127, 128, 600, 1500])
def test_rows_are_written_and_found_whole(connection: sqlite3.Connection, count: int) -> None:
    rows = [(f"k{n}", n) for n in range(count)]
    write_rows(connection, "INSERT INTO t (a, b) VALUES", rows)
    assert connection.execute("SELECT a, b FROM t ORDER BY b").fetchall() == rows
    found = find_rows(connection, "SELECT a, b FROM t WHERE b >= ? AND a IN (", [*[a for a, _ in rows], "none"], ("0",))
    assert found == []  # a number is never >= a text
    found = find_rows(connection, "SELECT a, b FROM t WHERE a IN (", [*[a for a, _ in rows], "none"])
    assert sorted(found, key=lambda row: row[1]) == rows


def test_a_tail_follows_the_rows(connection: sqlite3.Connection) -> None:
    for value in (1, 2):
        write_rows(
            connection, "INSERT INTO t (a, b) VALUES", [("k", value)], "ON CONFLICT (a) DO UPDATE SET b = excluded.b"
        )
    assert connection.execute("SELECT * FROM t").fetchall() == [("k", 2)]


@pytest.mark.parametrize("count", range(0, 1200, 37))
def test_chunks_have_few_sizes(count: int) -> None:
    slices = list(chunked(list(range(count))))
    assert [n for part in slices for n in part] == list(range(count))
    assert {len(part) for part in slices} <= set(CHUNKS)
