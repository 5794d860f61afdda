from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.text.clean import clean, is_blank
from actors.text.errors import PartTooSmall, TextError, UncleanText
from actors.text.split import HEAD_BYTES_MIN, PART_BYTES_MIN, Part, head, parts, predicted_replies
from tests.corpus import Document, documents

SIZES = (64, 257, 4000, 16_384)

MARKDOWN = st.lists(
    st.sampled_from(
        [
            "a", "word ", "汉字", "。", " ", "\n", "\n\n", "\t", "```", "```py\n", "\n```\n", "~~~", "\n~~~~\n", "    ",
            "e\u0301", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "\u200b", "`", "longerwordwithoutspaces", "\r\n", "“引用。”",
        ]
    ),
    max_size=120,
).map("".join)  # fmt: skip
ANY_TEXT = st.one_of(MARKDOWN, st.text(max_size=400).map(clean))


def fence_left_open(text: str) -> bool:
    """An independent reading of fences, line by line."""
    run, depth = "", 0
    for line in text.split("\n"):
        bare, indent = line.strip(), len(line) - len(line.lstrip())
        mark = bare[:1]
        length = len(bare) - len(bare.lstrip(mark)) if mark and mark in "`~" else 0
        if length < 3:
            continue
        if not run:
            run, depth = ("", 0) if mark == "`" and "`" in bare[length:] else (mark * length, indent)
        elif mark == run[0] and length >= len(run) and length == len(bare) and indent <= depth + 3:
            run = ""
    return bool(run)


def letters(text: str) -> str:
    """What must survive: all that can be seen."""
    return "".join(character for character in text if not is_blank(character))


def check_parts(text: str, found: tuple[Part, ...], part_bytes: int) -> None:
    data = text.encode()
    assert all(len(part.text.encode()) <= part_bytes for part in found)
    assert all(earlier.end == later.start for earlier, later in pairwise(found))
    assert not any(is_blank(part.text) for part in found)
    assert bool(found) != is_blank(text)
    if found:
        assert found[0].start == 0
        assert found[-1].end == len(data)
        assert all(part.start < part.end for part in found)
        assert "".join(data[part.start : part.end].decode() for part in found) == text


@pytest.mark.parametrize("part_bytes", SIZES)
@pytest.mark.parametrize("document", documents(), ids=lambda document: document.name)
def test_corpus_splits_into_parts_that_cover_it(document: Document, part_bytes: int) -> None:
    text = clean(document.text)
    found = parts(text, part_bytes)
    check_parts(text, found, part_bytes)
    if len(found) > 1 and part_bytes >= 257:
        assert [number for number, part in enumerate(found) if fence_left_open(part.text)] == []
    assert predicted_replies(text, part_bytes) == len(found)


@pytest.mark.parametrize("document", documents(), ids=lambda document: document.name)
def test_corpus_spends_at_most_a_reply_in_five_on_better_cuts(document: Document) -> None:
    text = clean(document.text)
    least = -(-len(text.encode()) // 4000)
    assert predicted_replies(text, 4000) <= least + 1 + least // 5


@given(ANY_TEXT, st.integers(PART_BYTES_MIN, 200))
@settings(max_examples=300, deadline=None)
@example("```\n" + "a" * 200, 64)
@example("x" * 60 + "🇩🇪🇩🇪", 65)
def test_any_text_splits_into_parts_that_cover_it(text: str, part_bytes: int) -> None:
    found = parts(text, part_bytes)
    check_parts(text, found, part_bytes)
    assert predicted_replies(text, part_bytes) == len(found)


WITH_FENCES = st.lists(
    st.one_of(
        st.sampled_from(["prose on a line", "- item", "", "see `code`", "汉字，标点。", "~~ struck ~~", "x" * 150]),
        st.builds(
            lambda run, info, lines, shut: "\n".join([run + info, *lines, *([run] if shut else [])]),
            st.sampled_from(["```", "````", "~~~", "   ```", "     ~~~~"]),
            st.sampled_from(["", "py", " sh title", "x" * 30]),
            st.lists(st.sampled_from(["a = 1", "", "    deep", "y" * 90, "汉" * 40, "``", "if x:"]), max_size=12),
            st.booleans(),
        ),
    ),
    max_size=12,
).map("\n".join)


@given(WITH_FENCES, st.integers(100, 300))
@settings(max_examples=300, deadline=None)
def test_fences_are_balanced_in_each_part(text: str, part_bytes: int) -> None:
    found = parts(text, part_bytes)
    check_parts(text, found, part_bytes)
    if len(found) > 1:
        assert [part.text for part in found if fence_left_open(part.text)] == []


@given(ANY_TEXT, st.integers(PART_BYTES_MIN, 200))
@settings(max_examples=200, deadline=None)
def test_only_what_cannot_be_seen_is_left_out(text: str, part_bytes: int) -> None:
    if "`" in text or "~" in text:
        return
    assert letters("".join(part.text for part in parts(text, part_bytes))) == letters(text)


@given(WITH_FENCES, st.integers(HEAD_BYTES_MIN, 300))
@settings(max_examples=200, deadline=None)
def test_head_fits_its_room(text: str, room_bytes: int) -> None:
    piece = head(text, room_bytes)
    assert len(piece.text.encode()) <= room_bytes
    assert piece.start == 0
    assert text.encode()[: piece.end].decode().startswith(text[:1])
    if not is_blank(text):
        assert not is_blank(piece.text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        (" \n\u200b", 0),
        ("a", 1),
        ("a" * 4000, 1),
        ("a" * 4001, 2),
        ("汉" * 1333, 1),  # 3999 bytes
        ("汉" * 1333 + "a", 1),  # 4000 bytes
        ("汉" * 1334, 2),  # 4002 bytes, 1334 characters
        ("汉" * 4000, 4),  # 4000 characters, 1333 to a part
        ("😀" * 1000, 1),
        ("😀" * 1001, 2),
        ("a" * 4000 + "\n", 1),  # nothing to see behind the cut
        ("\n" * 5000 + "a", 1),
        (" " * 5000, 0),
    ],
)
def test_replies_are_counted_in_bytes(text: str, expected: int) -> None:
    assert predicted_replies(text, 4000) == expected


@pytest.mark.parametrize("text", ["a", "  indented\n", "```\nleft open", "a" * 4000, "汉" * 1333, "a\r\nb\n\n"])
def test_text_that_fits_is_its_own_part(text: str) -> None:
    assert parts(text, 4000) == (Part(text, 0, len(text.encode())),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * 50 + "\n\n" + "b" * 10 + "\n" + "c" * 30, ["a" * 50, "b" * 10 + "\n" + "c" * 30]),
        ("a" * 50 + "\n" + "b" * 8 + " " + "c" * 30, ["a" * 50, "b" * 8 + " " + "c" * 30]),
        ("a" * 50 + " " + "b" * 40, ["a" * 50 + " ", "b" * 40]),
        ("汉" * 15 + "，" + "字" * 20, ["汉" * 15 + "，", "字" * 20]),
        ("“" + "汉" * 19 + "。”" + "字" * 20, ["“" + "汉" * 19, "。”" + "字" * 20]),
        ("a" * 100, ["a" * 64, "a" * 36]),
        ("a" * 63 + "\n\n  b" + "c" * 30, ["a" * 63, "  b" + "c" * 30]),  # indentation stays, blank lines go
        ("a" * 64 + "\n" + "b" * 20, ["a" * 64, "b" * 20]),
        ("a" * 64 + " " + "b" * 20, ["a" * 64, "b" * 20]),
    ],
    ids=["paragraph", "line", "word", "clause", "closing", "character", "indent", "newline", "space"],
)
def test_cuts_prefer_paragraph_then_line_then_word(text: str, expected: list[str]) -> None:
    if expected[0].startswith("“"):
        assert not any(part.text[0] in "。”" for part in parts(text, 64))
    else:
        assert [part.text for part in parts(text, 64)] == expected


def test_better_cut_is_taken_when_it_spends_no_further_reply() -> None:
    text = "a" * 40 + "\n\n" + "b " * 15 + "\n\n" + "c" * 20
    assert [part.text for part in parts(text, 64)] == ["a" * 40, "b " * 15 + "\n\n" + "c" * 20]


def test_better_cut_is_not_taken_when_it_would_spend_a_reply() -> None:
    text = "a" * 40 + "\n\n" + "b" * 86
    assert predicted_replies(text, 64) == 2


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323",
        "👨\u200d👩\u200d👧\u200d👦",
        "🇩🇪",
        "👍🏽",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "\u1112\u1161\u11ab",
        "क्षि",
        "กำ",
        "🏴\U000e0067\U000e0062\U000e007f",
    ],
)
@pytest.mark.parametrize("shift", range(9))
def test_cut_does_not_tear_what_people_see_as_one(cluster: str, shift: int) -> None:
    text = "a" * shift + cluster * 60
    found = parts(text, 64)
    assert len(found) > 1
    assert all(part.text.lstrip("a") == cluster * part.text.count(cluster) for part in found)


def test_cut_does_not_tear_crlf() -> None:
    for shift in range(4):
        found = parts("a" * shift + "b\r\n" * 60, 64)
        assert not any(part.text.startswith("\n") or part.text.endswith("\r") for part in found)


def test_endless_combining_marks_are_cut_all_the_same() -> None:
    text = "a" + "\u0301" * 500
    check_parts(text, parts(text, 64), 64)


def test_fence_is_closed_and_opened_again_with_its_own_line() -> None:
    text = "Before\n\n````py title\n" + "x = 1\n" * 20 + "````\nafter"
    found = parts(text, 100)
    assert found[0].text.startswith("Before\n\n````py title\nx = 1")
    assert found[0].text.endswith("x = 1\n````")
    assert found[1].text.startswith("````py title\nx = 1")
    assert found[-1].text.endswith("````\nafter")
    assert sum(part.text.count("x = 1") for part in found) == 20


def test_fence_of_tildes_ignores_backticks_inside() -> None:
    text = "~~~\n" + "```\ncode\n```\n" * 12 + "~~~\nafter"
    for part in parts(text, 100):
        assert part.text.startswith("~~~\n")
        assert part.text.split("\n").count("~~~") == 2


def test_fence_that_ends_at_the_cut_is_not_opened_again() -> None:
    text = "```\n" + "a" * 55 + "\n```\n\n" + "b" * 40
    assert [part.text for part in parts(text, 64)] == ["```\n" + "a" * 55 + "\n```", "b" * 40]


@pytest.mark.parametrize("shift", range(40, 64))
def test_fence_that_starts_at_the_cut_moves_to_the_next_part(shift: int) -> None:
    found = parts("a" * shift + "\n```py\n\n\n" + "b" * 40 + "\n```", 64)
    assert not any(part.text.endswith("```py\n```") for part in found)
    assert not any(fence_left_open(part.text) for part in found)


def test_cut_falls_before_a_line_that_would_look_like_a_fence_when_torn() -> None:
    found = parts("a" * 50 + "\n```" + "b" * 30 + " c``` tail " + "d" * 30, 64)
    assert found[0].text == "a" * 50
    assert found[1].text.startswith("```" + "b" * 30 + " c``` tail")


def test_fence_left_open_is_closed_in_the_last_of_several_parts() -> None:
    assert [part.text for part in parts("```\n" + "a b\n" * 20, 64)][-1].endswith("a b\n```")


def test_long_opening_line_is_opened_again_bare() -> None:
    found = parts('```{"a": ' + "1" * 150 + "}\n```\nend", 64)
    assert all(part.text.startswith("```") for part in found)
    assert found[1].text.startswith("```\n1")
    assert not any(fence_left_open(part.text) for part in found)


def test_cut_inside_a_line_does_not_start_a_part_with_a_fence() -> None:
    for shift in range(50, 70):
        for run in ("```", "`````", " ~~~", "``` ```"):
            found = parts("a" * shift + run + "not a fence" + "b" * 60, 64)
            assert not any(part.text.lstrip().startswith(("```", "~~~")) for part in found)


@pytest.mark.parametrize("part_bytes", [-1, 0, 1, PART_BYTES_MIN - 1])
def test_part_that_is_too_small_is_refused(part_bytes: int) -> None:
    with pytest.raises(PartTooSmall, match="at least 64") as caught:
        parts("a", part_bytes)
    assert isinstance(caught.value, ValueError)
    assert caught.value.part_bytes == part_bytes


def test_room_that_is_too_small_is_refused() -> None:
    with pytest.raises(PartTooSmall):
        head("a", HEAD_BYTES_MIN - 1)


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(UncleanText) as caught:
        parts("a\ud800", 64)
    assert isinstance(caught.value, TextError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", Part("short", 0, 5)),
        ("a" * 100, Part("a" * 40, 0, 40)),
        ("汉" * 20, Part("汉" * 13, 0, 39)),
        ("a" * 35 + " " + "b" * 35, Part("a" * 35 + " ", 0, 36)),
        ("```\n" + "a\n" * 30, Part("```\n" + "a\n" * 16 + "```", 0, 36)),
        ("a" * 40 + "\n\n", Part("a" * 40, 0, 42)),
        (" " * 100, Part("", 0, 100)),
        ("\n" * 50 + "a" * 10, Part("a" * 10, 0, 60)),
    ],
)
def test_head_is_the_largest_first_piece(text: str, expected: Part) -> None:
    assert head(text, 40) == expected


SLOW_IF_QUADRATIC = {
    "one line": "x" * 1_000_000,
    "han": "汉" * 333_333,
    "words": "word " * 200_000,
    "spaces": "a" + " " * 999_998 + "b",
    "newlines": "a" + "\n" * 999_998 + "b",
    "backticks": "`" * 1_000_000,
    "flags": "🇩🇪" * 125_000,
    "marks": "a" + "\u0301" * 500_000,
    "zero-width": "a" + "\u200b" * 333_333,
    "code": "```py\n" + "x = 1\n" * 166_666,
    "fences": "```\n" * 250_000,
}


@pytest.mark.parametrize("name", SLOW_IF_QUADRATIC)
def test_time_is_linear(name: str) -> None:
    whole = SLOW_IF_QUADRATIC[name]
    small, large = (_seconds(whole[: len(whole) // 16]), _seconds(whole))
    assert large < 16 * 4 * max(small, 0.002)  # quadratic would be 16 * 16


def _seconds(text: str) -> float:
    started = time.process_time()
    parts(text, 4000)
    return time.process_time() - started
