from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from scripts.asking import sources
from scripts.asking.sources import Addressed, Format, Source
from scripts.exits import Failed, Misused
from tests.scripts.reading import Paper


def _offers(path: Path, format_: Format, paper: Paper | None = None, **given: str) -> Any:
    names = {"to": "", "session": "", "turn_id": "", **given}
    source = Source(text=None, file=path, format=format_)
    return sources.offers(source, Addressed(**names, origin="desktop"), paper or Paper())


def _result(text: str, **more: Any) -> bytes:
    line = {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": "s1", **more}
    return json.dumps(line).encode() + b"\n"


def test_a_text_gets_an_id_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"hi")
    (one,) = _offers(path, Format.text, to="weixin:main")
    (two,) = _offers(path, Format.text, to="weixin:main")
    assert (one.text, one.origin, one.status) == ("hi", "desktop", "completed")
    assert one.turn_id.startswith("cli-")
    assert one.turn_id != two.turn_id


def test_turns_of_a_stream_go_to_its_session_or_where_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(_result("one") + _result("two"))
    assert [(o.session, o.to, o.text) for o in _offers(path, Format.claude)] == [("s1", "", "one"), ("s1", "", "two")]
    assert {(o.session, o.to) for o in _offers(path, Format.claude, to="weixin:main")} == {("", "weixin:main")}
    assert {o.session for o in _offers(path, Format.claude, session="mine")} == {"mine"}
    assert len({o.turn_id for o in _offers(path, Format.claude)}) == 2


def test_a_turn_that_failed_is_offered_as_failed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(_result("", subtype="error_during_execution", is_error=True))
    (offer,) = _offers(path, Format.claude)
    assert offer.status != "completed"


def test_a_stream_that_ends_within_its_turn_says_so(tmp_path: Path) -> None:
    path, paper = tmp_path / "s", Paper()
    path.write_bytes(b'{"type":"system","subtype":"init","session_id":"s1"}\n')
    (offer,) = _offers(path, Format.claude, paper)
    assert offer.status == "failed"
    assert "ended" in paper.talked


@pytest.mark.parametrize(
    ("content", "given", "kind", "says"),
    [
        (b'{"type":"result","result":"x"}', {}, Misused, "names no session"),
        (_result("a") + _result("b"), {"turn_id": "t"}, Misused, "names one turn, and the stream holds 2"),
        (_result("a"), {"to": "x", "session": "y"}, Misused, "at most one of"),
        (_result("x" * 1_048_577), {}, Failed, "at most 1048576"),
    ],
)
def test_streams_that_are_refused(
    tmp_path: Path, content: bytes, given: dict[str, str], kind: type[Exception], says: str
) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(kind, match=says):
        _offers(path, Format.claude, **given)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from there")))
    (offer,) = sources.offers(
        Source(text="-", file=None, format=Format.text),
        Addressed(to="a", session="", turn_id="t", origin="api"),
        Paper(),
    )
    assert (offer.text, offer.turn_id) == ("from there", "t")


@pytest.mark.parametrize(
    ("data", "text", "said"),
    [
        (b"caf\xe9", "caf\ufffd", "1 place in the text is no UTF-8, and sent as \ufffd\n"),
        (b"\xff a \xfe\xfd", "\ufffd a \ufffd\ufffd", "3 places in the text are no UTF-8, and sent as \ufffd\n"),
        ("a \ufffd of its own".encode(), "a \ufffd of its own", ""),
        ("\ufeffcafé".encode(), "café", ""),
    ],
)
@pytest.mark.parametrize("given", ["file", "-"])
def test_bytes_that_are_no_utf8_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, given: str, data: bytes, text: str, said: str
) -> None:
    paper, path = Paper(), tmp_path / "t"
    path.write_bytes(data)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    source = Source(text="-" if given == "-" else None, file=None if given == "-" else path, format=Format.text)
    (offer,) = sources.offers(source, Addressed(to="a", session="", turn_id="t", origin="api"), paper)
    assert (offer.text, paper.talked) == (text, said)
