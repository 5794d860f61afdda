from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.text.clean import clean, is_blank
from actors.text.errors import PartTooSmall
from actors.text.merge import MARKER, SEPARATOR, Carried, Merged, merge
from actors.text.split import parts, predicted_replies
from tests.corpus import documents

PART = 4000
BETWEEN = len(SEPARATOR.encode())


def whole(output_id: str, text: str) -> Carried:
    return Carried(output_id, 0, len(text.encode()), len(text.encode()))


def test_nothing_to_merge() -> None:
    assert merge([], PART) == Merged("", (), ())


def test_only_blank_outputs() -> None:
    assert merge([("o1", ""), ("o2", " \n\u200b")], PART) == Merged("", (), ("o1", "o2"))


def test_one_output_is_sent_as_it_is() -> None:
    text = "\n  indented\n```\nleft open\n\n"
    assert merge([("o1", text)], PART) == Merged(text, (whole("o1", text),), ())


def test_outputs_are_separated_in_time_order_and_blank_ones_left_out() -> None:
    merged = merge([("o1", "first\n"), ("o2", " \u200b"), ("o3", "\n\nsecond")], PART)
    assert merged.text == f"first{SEPARATOR}second"
    assert merged.carried == (whole("o1", "first\n"), whole("o3", "\n\nsecond"))
    assert merged.left_out == ("o2",)


@pytest.mark.parametrize("letter", ["a", "汉"])
def test_single_output_at_the_cap(letter: str) -> None:
    fits = letter * (PART // len(letter.encode())) + "." * (PART % len(letter.encode()))
    assert merge([("o1", fits)], PART) == Merged(fits, (whole("o1", fits),), ())


def test_single_output_one_byte_over() -> None:
    merged = merge([("o1", "a" * 4001)], PART)
    assert merged.text.endswith("a" + MARKER)
    assert len(merged.text.encode()) <= PART
    assert merged.carried == (Carried("o1", 0, merged.text.count("a"), 4001),)
    assert merged.carried[0].end >= PART - 4


def test_separator_counts_to_the_byte() -> None:
    newest = "n" * 100
    fitting = "o" * (PART - 100 - BETWEEN)
    merged = merge([("o1", fitting), ("o2", newest)], PART)
    assert len(merged.text.encode()) == PART
    assert merged.left_out == ()
    merged = merge([("o1", fitting + "o"), ("o2", newest)], PART)
    assert merged == Merged(newest, (whole("o2", newest),), ("o1",))


def test_oldest_are_left_out_first_and_without_a_gap() -> None:
    texts = [("o1", "tiny"), ("o2", "b" * 3500), ("o3", "c" * 600), ("o4", "d" * 600)]
    merged = merge(texts, PART)
    assert [one.output_id for one in merged.carried] == ["o3", "o4"]
    assert merged.left_out == ("o1", "o2")


def test_newest_too_long_goes_alone_cut_on_a_character() -> None:
    text = "汉" * 2000
    merged = merge([("o1", "tiny"), ("o2", text)], PART)
    (carried,) = merged.carried
    assert carried == Carried("o2", 0, carried.end, 6000)
    assert merged.text == text.encode()[: carried.end].decode() + MARKER
    assert merged.left_out == ("o1",)


def test_newest_that_is_too_long_only_by_what_cannot_be_seen_is_carried_whole() -> None:
    text = "a" * 3999 + "\n" * 20
    merged = merge([("o1", text)], PART)
    assert merged == Merged("a" * 3999, (whole("o1", text),), ())


def test_marker_stands_below_a_closing_fence() -> None:
    merged = merge([("o1", "```py\n" + "x = 1\n" * 1000)], PART)
    assert merged.text.endswith(f"\nx = 1\n```\n{MARKER}")
    assert len(merged.text.encode()) <= PART


def test_fence_left_open_does_not_swallow_what_follows() -> None:
    merged = merge([("o1", "~~~~sh\nls\n"), ("o2", "next")], PART)
    assert merged.text == f"~~~~sh\nls\n~~~~{SEPARATOR}next"


def test_closing_fence_counts() -> None:
    newest = "```\n" + "a" * 3990
    assert merge([("o1", "b"), ("o2", newest)], PART).carried == (whole("o2", newest),)
    newest = "```\n" + "a" * (PART - 4 - 4 - BETWEEN - 1)
    assert len(merge([("o1", "b"), ("o2", newest)], PART).text.encode()) == PART
    assert merge([("o1", "bb"), ("o2", newest)], PART).left_out == ("o1",)


def test_part_that_is_too_small_is_refused() -> None:
    with pytest.raises(PartTooSmall):
        merge([("o1", "a")], 63)


def test_corpus_merges_into_one_part() -> None:
    waiting: list[tuple[str, str]] = []
    for document in documents():
        waiting = [*waiting, (document.name, clean(document.text))][-20:]
        check(waiting, PART)


OUTPUT = st.one_of(
    st.text(max_size=60).map(clean),
    st.sampled_from(
        ["", " ", "```\nopen", "~~~\nx\n~~~", "汉字" * 30, "word " * 40, "```" + "i" * 40 + "\n" + "c\n" * 50]
    ),
)


@given(st.lists(OUTPUT, max_size=8), st.integers(64, 200))
@settings(max_examples=300, deadline=None)
def test_any_backlog_merges_into_one_part(outputs: list[str], part_bytes: int) -> None:
    check([(f"o{number}", text) for number, text in enumerate(outputs)], part_bytes)


def check(waiting: list[tuple[str, str]], part_bytes: int) -> None:
    merged = merge(waiting, part_bytes)
    visible = [output_id for output_id, text in waiting if not is_blank(text)]
    carried = [one.output_id for one in merged.carried]
    assert len(merged.text.encode()) <= part_bytes
    assert carried == visible[len(visible) - len(carried) :]
    assert bool(carried) == bool(visible)
    assert sorted([*carried, *merged.left_out]) == sorted(output_id for output_id, _ in waiting)
    assert predicted_replies(merged.text, part_bytes) == bool(visible)
    assert merged.text == "".join(part.text for part in parts(merged.text, part_bytes))
    lengths = {output_id: len(text.encode()) for output_id, text in waiting}
    assert all(one.total_bytes == lengths[one.output_id] and one.start == 0 for one in merged.carried)
    assert len(carried) <= 1 or all(one.end == one.total_bytes for one in merged.carried)
