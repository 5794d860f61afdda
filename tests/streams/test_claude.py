from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.streams.claude import read_claude
from scripts.streams.turns import ERROR_CHARS_MAX, PROBLEMS_MAX, AgentTurn, Problem

INIT = {"type": "system", "subtype": "init", "session_id": "s1", "tools": ["Bash"], "model": "m"}
ASSISTANT = {"type": "assistant", "session_id": "s1", "message": {"content": [{"type": "text", "text": "hm"}]}}
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "duration_ms": 5,
    "result": "Done.",
    "session_id": "s1",
    "uuid": "u1",
}
DONE = AgentTurn(turn_id="u1", session="s1", status="completed", text="Done.")


def lines(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() + b"\n" for value in values]


def result(**changes: object) -> dict[str, object]:
    return {key: value for key, value in {**RESULT, **changes}.items() if value is not ...}


def test_stream_of_one_turn() -> None:
    read = read_claude(lines(INIT, ASSISTANT, {"type": "user", "message": {}}, RESULT))
    assert read.turns == (DONE,)
    assert read.problems == ()
    assert read.complete


@pytest.mark.parametrize(
    "output",
    [
        lines(RESULT),
        lines([INIT, ASSISTANT, RESULT]),
        json.dumps(RESULT, indent=2).encode().splitlines(),
        json.dumps([INIT, RESULT], indent=2).encode().splitlines(keepends=True),
        [b"\xef\xbb\xbf" + json.dumps(RESULT).encode()],
        [b"\r\n", json.dumps(RESULT).encode() + b"\r\n", b"  "],
    ],
    ids=["object", "array", "object over lines", "array over lines", "bom", "blank lines"],
)
def test_json_output(output: list[bytes]) -> None:
    read = read_claude(output)
    assert (read.turns, read.problems, read.complete) == ((DONE,), (), True)


@pytest.mark.parametrize(
    ("changes", "status", "text", "error"),
    [
        ({}, "completed", "Done.", None),
        ({"is_error": ...}, "completed", "Done.", None),
        ({"subtype": ...}, "completed", "Done.", None),
        ({"result": ""}, "completed", "", None),
        ({"result": "a\r\nb\0"}, "completed", "a\nb", None),
        ({"new_field": [{}]}, "completed", "Done.", None),
        ({"is_error": True, "result": "API Error: 500"}, "degraded", "API Error: 500", "an error"),
        ({"is_error": True, "result": " \n"}, "failed", " \n", "an error"),
        ({"is_error": True, "result": ...}, "failed", "", "an error"),
        ({"is_error": True, "result": {"a": 1}}, "failed", "", "an error"),
        ({"subtype": "error_max_turns", "result": ...}, "failed", "", "error_max_turns"),
        (
            {"subtype": "error_during_execution", "result": ..., "is_error": True},
            "failed",
            "",
            "error_during_execution",
        ),
        ({"subtype": "error_max_turns", "result": "so far"}, "degraded", "so far", "error_max_turns"),
        ({"subtype": "error_x", "result": ..., "errors": ["one", 2, "two"]}, "failed", "", "error_x; one; two"),
    ],
)
def test_status(changes: dict[str, object], status: str, text: str, error: str | None) -> None:
    (turn,) = read_claude(lines(INIT, result(**changes))).turns
    assert (turn.status, turn.text, turn.error) == (status, text, error)
    assert turn.turn_id == "u1"


def test_error_is_cut() -> None:
    (turn,) = read_claude(lines(result(subtype="error_x", errors=["e" * 9000]))).turns
    assert turn.error is not None
    assert len(turn.error) == ERROR_CHARS_MAX


def test_several_turns_in_a_stream() -> None:
    read = read_claude(lines(INIT, ASSISTANT, RESULT, INIT, ASSISTANT, result(uuid="u2", result="More.")))
    assert [(turn.turn_id, turn.text) for turn in read.turns] == [("u1", "Done."), ("u2", "More.")]
    assert read.complete


@pytest.mark.parametrize("uuid", [..., None, "", 7, "u" * 129])
def test_turn_without_uuid_gets_an_id_that_reading_again_repeats(uuid: object) -> None:
    stream = lines(INIT, ASSISTANT, result(uuid=uuid), ASSISTANT, result(uuid=uuid))
    ids = [turn.turn_id for turn in read_claude(stream).turns]
    assert ids == [turn.turn_id for turn in read_claude([line.strip() for line in stream]).turns]
    assert len(set(ids)) == 2
    assert all(turn_id.startswith("claude-") and len(turn_id) == 39 for turn_id in ids)


def test_runs_of_a_resumed_session_do_not_share_an_id_when_they_say_the_same() -> None:
    first, second = (read_claude(lines(result(uuid=..., duration_ms=took))).turns for took in (5, 6))
    assert first[0].turn_id != second[0].turn_id
    assert first[0].text == second[0].text


@pytest.mark.parametrize(
    ("stream", "session"),
    [
        ([], ""),
        (lines(INIT), "s1"),
        (lines(INIT, ASSISTANT), "s1"),
        ([b"oops\n"], ""),
        ([b'{"type":"result","resu'], ""),
    ],
)
def test_stream_without_a_result_is_a_failed_turn(stream: list[bytes], session: str) -> None:
    read = read_claude(stream)
    assert not read.complete
    assert [(turn.status, turn.text, turn.session) for turn in read.turns] == [("failed", "", session)]
    assert read.turns[0].error == "the stream ended without a result"


def test_stream_cut_off_inside_of_its_second_turn() -> None:
    read = read_claude(lines(INIT, ASSISTANT, RESULT, ASSISTANT))
    assert [turn.status for turn in read.turns] == ["completed", "failed"]
    assert not read.complete


def test_system_lines_behind_the_result_begin_no_turn() -> None:
    assert read_claude(lines(INIT, RESULT, {"type": "system", "subtype": "hook"}, {"type": "later"}, {})).complete


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"oops", "not JSON"),
        (b'{"type": "assistant"', "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b"7", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"[[]]", "an array inside of an array"),
        (b'{"type": "\xff"}', "not UTF-8"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_line_that_cannot_be_read_is_reported_and_stops_nothing(line: bytes, what: str) -> None:
    read = read_claude([*lines(INIT), line, b"\n", *lines(RESULT)])
    assert read.turns == (DONE,)
    assert read.problems == (Problem(2, what),)
    assert read.complete


def test_lone_bracket_that_begins_no_document_costs_nothing() -> None:
    read = read_claude([b"{\n", *lines(INIT, RESULT)])
    assert read.turns == (DONE,)
    assert read.problems == (Problem(1, "not JSON"),)


@pytest.mark.parametrize("kind", ["assistant", "result"])
def test_half_a_surrogate_pair_costs_no_turn(kind: str) -> None:
    stream = [
        rb'{"type":"%s","result":"cut \ud83d here \\ud83d \uD83D\uDE00","uuid":"u1"}' % kind.encode(),
        *lines(RESULT),
    ]
    read = read_claude(stream)
    assert read.problems == ()
    if kind == "result":
        assert read.turns[0].text == "cut \ufffd here \\ud83d 😀"


UNUSABLE = [
    ("u\x00", "its uuid holds a NUL; it is not used"),
    ("u\n1", "its uuid holds the control character U+000A; it is not used"),
    ("u\ud800", "its uuid holds half a character; it is not used"),
    (" \u200b", "its uuid shows nothing that a person could read; it is not used"),
    ("u" * 129, "its uuid is longer than 128 characters; it is not used"),
    (7, "its uuid is no text; it is not used"),
]


@pytest.mark.parametrize(("uuid", "what"), UNUSABLE)
def test_an_id_that_is_no_name_is_not_mended_but_replaced_and_told_of(uuid: object, what: str) -> None:
    read = read_claude(lines(INIT, result(uuid=uuid)))
    assert read.problems == (Problem(2, what),)
    (turn,) = read.turns
    assert turn.turn_id.startswith("claude-")
    assert turn == read_claude(lines(INIT, result(uuid=uuid))).turns[0]
    assert (turn.session, turn.text, read.complete) == ("s1", "Done.", True)


def test_a_session_that_is_no_name_counts_as_none() -> None:
    read = read_claude(lines(result(session_id="s\x001")))
    assert read.turns[0].session == ""
    assert read.problems == (Problem(1, "its session_id holds a NUL; it is not used"),)


@pytest.mark.parametrize("stream", [[], [b"\n"], [b"not json\n"]])
def test_nothing_tells_two_empty_streams_apart_so_they_have_no_id(stream: list[bytes]) -> None:
    (turn,) = read_claude(stream).turns
    assert (turn.turn_id, turn.status) == ("", "failed")


def test_problems_are_bounded() -> None:
    read = read_claude([b"oops\n"] * 1000)
    assert len(read.problems) == PROBLEMS_MAX + 1
    assert read.problems[-1] == Problem(PROBLEMS_MAX, "900 further problems after this line")


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_are_read_to_the_end(garbage: list[bytes]) -> None:
    read = read_claude([*garbage, *lines(RESULT)])
    assert read.turns[-1].text == "Done."
