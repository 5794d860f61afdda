from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.clean import clean, encoded, is_blank, text_bytes
from actors.text.errors import UncleanText

WILD = st.text(st.one_of(st.characters(), st.sampled_from("\x00\r\n\ud83d\ude00\ufeff")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\r\r\nb", "a\n\nb"),
        ("a\x00b", "ab"),
        ("a\r\x00\nb", "a\nb"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00a", "\ufffda"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83da\ude00", "\ufffda\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ud83d\x00\ude00", "😀"),
        ("\ufeffbom \x1b[31m\u200b ", "\ufeffbom \x1b[31m\u200b "),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(WILD)
def test_clean_text_is_encodable_and_stays_as_it_is(text: str) -> None:
    once = clean(text)
    assert once.encode().decode() == once
    assert clean(once) == once
    assert "\r" not in once
    assert "\x00" not in once


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\t\r", "\u3000\u00a0", "\u200b\u200c\u200d\ufeff", "\x00\x07\x1b", "\u2060\u00ad", "\u3164", "\ufe0f"],
)
def test_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " . ", "。", "\u200b😀", "\u0301", "\ufffd", "-", "\u0600"])
def test_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("a", 1), ("é", 2), ("汉", 3), ("😀", 4), ("a\n汉", 5)])
def test_text_bytes(text: str, expected: int) -> None:
    assert text_bytes(text) == expected
    assert len(encoded(text)) == expected


def test_unclean_text_has_no_length() -> None:
    with pytest.raises(UncleanText, match="character 1"):
        text_bytes("a\udfff")
