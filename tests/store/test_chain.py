from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.chain import GENESIS, Root, link, parse_root, root

ROW = (5, "peer-a", 2, "tag", 100, 1, "cause", b"{}")


@pytest.mark.parametrize("column", range(len(ROW)))
def test_every_column_counts(column: int) -> None:
    old = ROW[column]
    new = old + 1 if isinstance(old, int) else old + old[:1]  # type: ignore[operator]
    changed = (*ROW[:column], new, *ROW[column + 1 :])
    assert link(GENESIS, changed) != link(GENESIS, ROW)  # type: ignore[arg-type]
    assert link(b"x" * 32, ROW) != link(GENESIS, ROW)


@given(st.lists(st.text(max_size=3), min_size=3, max_size=3), st.lists(st.text(max_size=3), min_size=3, max_size=3))
def test_text_cannot_move_between_columns(first: list[str], second: list[str]) -> None:
    def digest(texts: list[str]) -> bytes:
        stream, tag, cause = texts
        return link(GENESIS, (1, stream, 1, tag, 1, 1, cause, b"data"))

    assert (digest(first) == digest(second)) == (first == second)


def test_bytes_cannot_move_from_data_to_cause() -> None:
    assert link(GENESIS, (1, "s", 1, "t", 1, 1, "ab", b"c")) != link(GENESIS, (1, "s", 1, "t", 1, 1, "a", b"bc"))


def test_root_covers_position_names_versions_and_digests() -> None:
    heads = {"b": (2, b"y" * 32), "a": (1, b"x" * 32)}
    whole = root(3, heads)
    assert whole == root(3, dict(reversed(heads.items())))
    for other in (
        root(4, heads),
        root(3, {"a": (1, b"x" * 32)}),
        root(3, {**heads, "a": (2, b"x" * 32)}),
        root(3, {**heads, "a": (1, b"z" * 32)}),
        root(3, {"b": (2, b"y" * 32), "c": (1, b"x" * 32)}),
    ):
        assert other != whole


def test_a_root_as_text_and_back() -> None:
    whole = root(12, {"a": (1, b"x" * 32)})
    assert str(whole).startswith("rl1:12:")
    assert parse_root(f" {whole}\n") == whole
    assert isinstance(whole, Root)


@pytest.mark.parametrize(
    "text", ["", "12", "rl1:x:" + "0" * 64, "rl2:1:" + "0" * 64, "rl1:1:" + "0" * 63, "rl1:1:" + "z" * 64, "rl1:-1:00"]
)
def test_what_is_no_root(text: str) -> None:
    with pytest.raises(ValueError, match=r"root|hex"):
        parse_root(text)
