from __future__ import annotations

import json

import pytest

from scripts.streams.codex import read_codex
from scripts.streams.turns import Problem

THREAD = {"type": "thread.started", "thread_id": "t1"}
STARTED = {"type": "turn.started"}
REASONING = {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "thinking"}}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 2}}
FAILED = {"type": "turn.failed", "error": {"message": "out of credit"}}
ERROR = {"type": "error", "message": "Reconnecting... 1/5"}


def message(text: object) -> dict[str, object]:
    return {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}}


def lines(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() + b"\n" for value in values]


@pytest.mark.parametrize(
    ("values", "status", "text", "error"),
    [
        ([STARTED, REASONING, message("Done."), COMPLETED], "completed", "Done.", None),
        ([STARTED, message("first"), REASONING, message("last"), COMPLETED], "completed", "last", None),
        ([STARTED, message("seen"), message(" \n"), COMPLETED], "completed", "seen", None),
        ([STARTED, message("seen"), message(7), COMPLETED], "completed", "seen", None),
        ([STARTED, COMPLETED], "completed", "", None),
        ([message("no start"), COMPLETED], "completed", "no start", None),
        ([STARTED, ERROR, message("ok"), COMPLETED], "completed", "ok", None),
        ([STARTED, FAILED], "failed", "", "out of credit"),
        ([STARTED, message("half"), FAILED], "degraded", "half", "out of credit"),
        ([STARTED, message(" "), FAILED], "failed", "", "out of credit"),
        ([STARTED, ERROR, {"type": "turn.failed"}], "failed", "", "Reconnecting... 1/5"),
        ([STARTED, {"type": "turn.failed", "error": "text"}], "failed", "", "an error"),
        (
            [STARTED, {"type": "item.completed"}, {"type": "item.new", "item": 7}, message("x"), COMPLETED],
            "completed",
            "x",
            None,
        ),
        ([STARTED, {"type": "item.started", "item": message("x")["item"]}, COMPLETED], "completed", "", None),
    ],
)
def test_turn(values: list[object], status: str, text: str, error: str | None) -> None:
    read = read_codex(lines(THREAD, *values))
    (turn,) = read.turns
    assert (turn.session, turn.status, turn.text, turn.error) == ("t1", status, text, error)
    assert turn.turn_id.startswith("codex-")
    assert read.complete
    assert read.problems == ()


def test_several_turns_do_not_share_texts_or_ids() -> None:
    turn = [STARTED, message("Done."), COMPLETED]
    read = read_codex(lines(THREAD, *turn, *turn, *turn, STARTED, COMPLETED))
    assert [one.text for one in read.turns] == ["Done.", "Done.", "Done.", ""]
    assert len({one.turn_id for one in read.turns}) == 4


def test_reading_again_gives_the_same_ids_and_a_resumed_session_others() -> None:
    stream = lines(THREAD, STARTED, message("Done."), COMPLETED)
    resumed = lines(THREAD, STARTED, message("Done."), {"type": "turn.completed", "usage": {"input_tokens": 20}})
    elsewhere = lines({**THREAD, "thread_id": "t2"}, STARTED, message("Done."), COMPLETED)
    assert read_codex(stream) == read_codex(iter(stream))
    ids = {read_codex(one).turns[0].turn_id for one in (stream, resumed, elsewhere)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("values", "text", "error"),
    [
        ([], "", "the stream ended inside of a turn"),
        ([THREAD], "", "the stream ended inside of a turn"),
        ([THREAD, STARTED, message("half")], "half", "the stream ended inside of a turn"),
        ([THREAD, STARTED, ERROR], "", "the stream ended inside of a turn; Reconnecting... 1/5"),
    ],
)
def test_stream_without_its_final_line_is_a_failed_turn(values: list[object], text: str, error: str) -> None:
    read = read_codex(lines(*values))
    assert not read.complete
    assert [(turn.status, turn.text, turn.error) for turn in read.turns] == [("failed", text, error)]


def test_stream_cut_off_inside_of_its_second_turn() -> None:
    read = read_codex(lines(THREAD, STARTED, message("a"), COMPLETED, STARTED))
    assert [turn.status for turn in read.turns] == ["completed", "failed"]
    assert not read.complete


def test_line_that_cannot_be_read_is_reported_and_stops_nothing() -> None:
    read = read_codex([*lines(THREAD), b"WARN something\n", *lines(STARTED, message("a"), COMPLETED)])
    assert read.problems == (Problem(2, "not JSON"),)
    assert read.turns[0].text == "a"
    assert read.complete


def test_a_session_that_is_no_name_counts_as_none() -> None:
    read = read_codex([b'{"type":"thread.started","thread_id":"a\\u0000b"}\n', b'{"type":"turn.completed"}\n'])
    assert [turn.session for turn in read.turns] == [""]
    assert [(p.line_no, p.what) for p in read.problems] == [(1, "its thread_id holds a NUL; it is not used")]


def test_an_empty_stream_has_no_id() -> None:
    assert [turn.turn_id for turn in read_codex([]).turns] == [""]
