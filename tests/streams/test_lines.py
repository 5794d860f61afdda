from __future__ import annotations

import io

import pytest

from scripts.streams import lines as module
from scripts.streams.claude import read_claude
from scripts.streams.lines import Entry, LineError, bounded_lines, entries, records
from scripts.streams.turns import Problem


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 100)
    return 100


def test_line_over_the_limit_is_a_problem(limit: int) -> None:
    long = b'{"type":"assistant","a":"' + b"x" * limit + b'"}\n'
    read = read_claude([long, b'{"type":"result","result":"ok","uuid":"u1"}\n'])
    assert read.problems == (Problem(1, "longer than 100 bytes"),)
    assert [turn.text for turn in read.turns] == ["ok"]


@pytest.mark.parametrize("length", [0, 1, 98, 99, 100, 101, 102, 200, 201, 202, 350])
@pytest.mark.parametrize("ending", [b"\n", b""])
def test_bounded_lines_keep_count(limit: int, length: int, ending: bytes) -> None:
    line = b"x" * length + ending
    found = list(bounded_lines(io.BytesIO(b"first\n" + line + (b"last" if ending else b""))))
    expected = [b"first\n", line[: limit + 1], b"last" if ending else b""]
    assert found == [one for one in expected if one]


def test_document_over_the_limit_is_read_line_by_line(limit: int) -> None:
    document = [b"{\n", *[b'"a": 1,\n'] * 20, b'"b": 2}\n']
    assert list(records(document)) == list(enumerate(document, start=1))


def test_entries_of_an_object_and_of_an_array() -> None:
    assert entries(b'{"type":"a","x":1}') == (Entry("a", b'{"type":"a","x":1}'),)
    assert entries(b'[{"type":"a"}, {"type":7}, {}]') == (
        Entry("a", b'{"type":"a"}'),
        Entry("", b'{"type":7}'),
        Entry("", b"{}"),
    )
    assert entries(b"[]") == ()


def test_error_does_not_show_the_line() -> None:
    with pytest.raises(LineError) as caught:
        entries(b"password")
    assert "password" not in str(caught.value)
    assert caught.value.__cause__ is None
