"""Frames of agents: what is read, what is refused and where, what is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.agent_wire import (
    AUTH_SCHEMA,
    DELTA_BYTES_MAX,
    KINDS,
    Completed,
    Degraded,
    Delta,
    Error,
    Failed,
    Goodbye,
    Hello,
    Message,
    Receipt,
    Reset,
    Started,
    Welcome,
    encode,
    read_frame,
    token_in,
)
from store.records import TEXT_BYTES_MAX


def read(value: Any) -> Any:
    return read_frame(json.dumps(value))


@pytest.mark.parametrize(
    ("given", "frame"),
    [
        ({"type": "hello", "agent": "core-1/0.3", "protocol": 1}, Hello(agent="core-1/0.3", protocol=1)),
        (
            {
                "type": "hello",
                "agent": "a",
                "protocol": 1,
                "sessions": ["s"],
                "accounts": ["weixin:main"],
                "max_turns": 2,
            },
            Hello(agent="a", protocol=1, sessions=("s",), accounts=("weixin:main",), max_turns=2),
        ),
        ({"type": "started", "turn_id": "t"}, Started(turn_id="t")),
        ({"type": "started", "turn_id": "t", "session": "s"}, Started(turn_id="t", session="s")),
        ({"type": "delta", "turn_id": "t", "text": "x"}, Delta(turn_id="t", text="x")),
        ({"type": "completed", "turn_id": "t", "text": "你好"}, Completed(turn_id="t", text="你好")),
        ({"type": "completed", "turn_id": "t", "text": ""}, Completed(turn_id="t", text="")),
        (
            {"type": "degraded", "turn_id": "t", "text": "x", "origin": "scheduled", "to": "weixin:main"},
            Degraded(turn_id="t", text="x", origin="scheduled", to="weixin:main"),
        ),
        ({"type": "failed", "turn_id": "t"}, Failed(turn_id="t")),
        ({"type": "goodbye"}, Goodbye()),
        ({"type": "delta", "turn_id": "t", "text": "a\x00\r\nb\ud800"}, Delta(turn_id="t", text="a\nb\ufffd")),
    ],
)
def test_what_is_read(given: Any, frame: Any) -> None:
    assert read(given) == frame


@pytest.mark.parametrize(
    ("kind", "status"), [("completed", "completed"), ("degraded", "degraded"), ("failed", "failed")]
)
def test_how_a_turn_ended(kind: str, status: str) -> None:
    assert read({"type": kind, "turn_id": "t", "text": "x"}).status == status


COMPLETED = {"type": "completed", "turn_id": "t", "text": "x"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([], "$"),
        ("text", "$"),
        ({}, "$.type"),
        ({"type": 1}, "$.type"),
        ({"type": "message"}, "$.type"),
        ({"type": "hello", "agent": "a", "protocol": 2}, "$.protocol"),
        ({"type": "hello", "agent": "a b", "protocol": 1}, "$.agent"),
        ({"type": "hello", "agent": "a\n", "protocol": 1}, "$.agent"),
        ({"type": "hello", "agent": "", "protocol": 1}, "$.agent"),
        ({"type": "hello", "agent": "a" * 65, "protocol": 1}, "$.agent"),
        ({"type": "hello", "agent": "a", "protocol": 1, "max_turns": 0}, "$.max_turns"),
        ({"type": "hello", "agent": "a", "protocol": 1, "sessions": [""]}, "$.sessions[0]"),
        ({"type": "started", "turn_id": ""}, "$.turn_id"),
        ({"type": "started", "turn_id": 7}, "$.turn_id"),
        ({"type": "delta", "turn_id": "t"}, "$"),
        ({"type": "completed", "turn_id": "t"}, "$"),
        ({**COMPLETED, "txt": "x"}, "$.txt"),
        ({**COMPLETED, "origin": "cron"}, "$.origin"),
        ({**COMPLETED, "origin": "scheduled"}, "$"),
        ({**COMPLETED, "origin": "inbound", "to": "weixin:main"}, "$"),
        ({**COMPLETED, "to": "weixin:main", "session": "s"}, "$"),
        ({**COMPLETED, "turn_id": "t\x00"}, "$.turn_id"),
        ({**COMPLETED, "turn_id": "\ud800"}, "$.turn_id"),
        ({**COMPLETED, "turn_id": "\u200b "}, "$.turn_id"),
        ({**COMPLETED, "to": "weixin:main\r\n"}, "$.to"),
        ({**COMPLETED, "session": "a\x1bb"}, "$.session"),
        ({**COMPLETED, "te\x00xt": "x"}, "$.text"),
        ({**COMPLETED, "\ud800": "x"}, "$.\ufffd"),
        ({"type": "hel\x00lo", "agent": "a", "protocol": 1}, "$.type"),
        ({"type": "hello", "agent": "a\x00", "protocol": 1}, "$.agent"),
        ({"type": "hello", "agent": "a", "protocol": 1, "sessions": ["s", "\x85"]}, "$.sessions[1]"),
        ({"type": "hello", "agent": "a", "protocol": 1, "accounts": ["weixin:main\x00"]}, "$.accounts[0]"),
    ],
)
def test_what_is_refused_and_where(given: Any, path: str) -> None:
    error = read(given)
    assert isinstance(error, Error)
    assert (error.code, error.path) == ("bad_request", path)
    assert encode(error)


def test_a_field_twice_is_refused_and_names_no_turn() -> None:
    error = read_frame('{"type":"completed","turn_id":"a","text":"x","turn_id":"b"}')
    assert isinstance(error, Error)
    assert (error.code, error.path, error.turn_id) == ("bad_request", "$.turn_id", "")


def test_an_error_does_not_repeat_what_is_no_name() -> None:
    assert read({**COMPLETED, "turn_id": "t\x00"}).turn_id == ""
    assert read({**COMPLETED, "session": "t\x00"}).turn_id == "t"


@pytest.mark.parametrize(
    "data", ["", "{", "{}x", '{"type":"goodbye"}' + "]", "[" * 5_000, b'{"type":"goodbye"}', "\ud800"]
)
def test_what_is_no_frame(data: str | bytes) -> None:
    error = read_frame(data)
    assert isinstance(error, Error)
    assert (error.code, error.path) == ("bad_request", "$")


def test_an_error_names_the_turn_and_what_is_near() -> None:
    error = read({"type": "complete", "turn_id": "t"})
    assert (error.turn_id, error.near) == ("t", ("completed",))


@pytest.mark.parametrize(("kind", "most"), [("delta", DELTA_BYTES_MAX), ("completed", TEXT_BYTES_MAX)])
def test_texts_are_bounded_in_bytes(kind: str, most: int) -> None:
    fits = "é" * (most // 2)
    assert read({"type": kind, "turn_id": "t", "text": fits}).text == fits
    error = read({"type": kind, "turn_id": "t", "text": fits + "x"})
    assert (error.code, error.path, error.turn_id) == ("too_large", "$.text", "t")


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(["agent", "protocol", "turn_id", "text", "to", "session", "origin", "sessions", "max_turns"])


@given(st.dictionaries(FIELDS, JSONS | st.just(1), max_size=4), st.sampled_from(list(KINDS)))
def test_anything_is_a_frame_or_an_error(fields: dict[str, Any], kind: str) -> None:
    frame = read({"type": kind, **fields})
    assert isinstance(frame, KINDS[kind] | Error)
    if isinstance(frame, Error):
        encode(frame).encode()


@given(st.text() | st.binary())
def test_any_data_is_answered(data: str | bytes) -> None:
    read_frame(data)
    token_in(data)


@pytest.mark.parametrize(
    ("data", "token"),
    [
        (json.dumps({"schema": AUTH_SCHEMA, "token": "x"}), "x"),
        (json.dumps({"schema": AUTH_SCHEMA}), ""),
        (json.dumps({"schema": AUTH_SCHEMA, "token": 1}), ""),
        (json.dumps({"schema": "other", "token": AUTH_SCHEMA}), None),
        (json.dumps([AUTH_SCHEMA]), None),
        (AUTH_SCHEMA, None),
        (json.dumps({"schema": AUTH_SCHEMA, "token": "x"}).encode(), None),
        ("{}", None),
    ],
)
def test_authentication_frames(data: str | bytes, token: str | None) -> None:
    assert token_in(data) == token


@pytest.mark.parametrize(
    ("frame", "sent"),
    [
        (
            Welcome(protocol=1, now=5, text_bytes_max=6, frame_bytes_max=7),
            {"type": "welcome", "protocol": 1, "now": 5, "text_bytes_max": 6, "frame_bytes_max": 7},
        ),
        (
            Message(
                turn_id="t", session="", resets=0, peer="p", message="m", text="x", contents=("text",), sent_at=1, at=2
            ),
            {
                "type": "message",
                "turn_id": "t",
                "session": "",
                "resets": 0,
                "peer": "p",
                "message": "m",
                "text": "x",
                "contents": ["text"],
                "sent_at": 1,
                "at": 2,
            },
        ),
        (Receipt(turn_id="t", state="queued"), {"type": "receipt", "turn_id": "t", "state": "queued"}),
        (Reset(resets=1), {"type": "reset", "resets": 1}),
        (Error(code="c", message="m"), {"type": "error", "code": "c", "message": "m"}),
    ],
)
def test_what_is_sent(frame: Any, sent: Any) -> None:
    assert json.loads(encode(frame)) == sent
