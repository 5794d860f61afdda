from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.directives import Directives, parse


@pytest.mark.parametrize(
    ("text", "reply_to", "seen"),
    [
        ("", None, ""),
        ("plain", None, "plain"),
        ("[[reply_to:om_1]]\nhello", "om_1", "hello"),
        ("[[reply_to:om_1]]\r\nhello\r\nmore", "om_1", "hello\r\nmore"),
        ("[[reply_to:om_1]]", "om_1", ""),
        ("[[reply_to:om_1]]\n", "om_1", ""),
        ("[[reply_to:om_1]]   \nhello", "om_1", "hello"),
        ("  [[ reply_to : om_1 ]]\t\nhello", "om_1", "hello"),
        ("\u00a0[[reply_to:om_1]]\nhello", "om_1", "hello"),
        # what stands behind the directive ends the header
        ("[[reply_to:om_1]]  hello  \n  more ", "om_1", "hello\n  more "),
        ("[[reply_to:a]] x\n[[reply_to:b]]\ny", "a", "x\n[[reply_to:b]]\ny"),
        ("[[reply_to:a]] [[reply_to:b]]\ny", "a", "[[reply_to:b]]\ny"),
        # the first ]] closes, the first colon separates
        ("[[reply_to:a]]]\nx", "a", "]\nx"),
        ("[[reply_to:a:b]]\nx", None, "x"),
        ("[[]]a:b]]\nx", None, "[[]]a:b]]\nx"),
        # values that are no ids are ignored, their lines stripped all the same
        ("[[reply_to:]]\nx", None, "x"),
        ("[[reply_to:a b]]\nx", None, "x"),
        ("[[reply_to:汉]]\nx", None, "x"),
        ("[[reply_to:٣]]\nx", None, "x"),
        ("[[reply_to:" + "a" * 64 + "]]\nx", "a" * 64, "x"),
        ("[[reply_to:" + "a" * 65 + "]]\nx", None, "x"),
        ("[[reply_to:A-z_0.9]]\nx", "A-z_0.9", "x"),
        # the last valid one wins
        ("[[reply_to:a]]\n[[reply_to:b]]\nx", "b", "x"),
        ("[[reply_to:a]]\n[[reply_to:no good]]\nx", "a", "x"),
        # unknown keys are stripped and ignored; keys are case-sensitive
        ("[[Note: mind this]]\nx", None, "x"),
        ("[[Reply_To:a]]\nx", None, "x"),
        ("[[handoff:123]]\n[[reply_to:a]]\nx", "a", "x"),
        ("[[:a]]\nx", None, "x"),
        # what ends the header, or never lets it begin
        ("\n[[reply_to:a]]\nx", None, "\n[[reply_to:a]]\nx"),
        ("\ufeff[[reply_to:a]]\nx", None, "\ufeff[[reply_to:a]]\nx"),
        ("\u200b[[reply_to:a]]\nx", None, "\u200b[[reply_to:a]]\nx"),
        ("\x1f[[reply_to:a]]\nx", None, "\x1f[[reply_to:a]]\nx"),
        ("```\n[[reply_to:a]]\n```", None, "```\n[[reply_to:a]]\n```"),
        ("prose\n[[reply_to:a]]", None, "prose\n[[reply_to:a]]"),
        ("[[reply_to]]\nx", None, "[[reply_to]]\nx"),
        ("[[reply_to:a]\nx", None, "[[reply_to:a]\nx"),
        ("[[reply_to:a\n]]x", None, "[[reply_to:a\n]]x"),
        ("[reply_to:a]]\nx", None, "[reply_to:a]]\nx"),
        ("\\[\\[reply_to:a\\]\\]\nx", None, "\\[\\[reply_to:a\\]\\]\nx"),
        ("[[reply_to:a]]\n\nx", "a", "\nx"),
        ("[[reply_to:a]]\n\n[[reply_to:b]]\nx", "a", "\n[[reply_to:b]]\nx"),
        ("[[reply_to:a]]\nx  \n", "a", "x  \n"),
    ],
)
def test_parse(text: str, reply_to: str | None, seen: str) -> None:
    assert parse(text) == Directives(reply_to, seen)


@given(st.text(st.sampled_from("[]:\n ar"), max_size=40))
def test_what_is_seen_holds_no_directive_at_its_head_unless_it_stood_behind_one(text: str) -> None:
    seen = parse(text).text
    assert seen == "" or seen in text or seen.splitlines()[0] in text
    assert len(seen) <= len(text)


def test_long_header_takes_linear_time() -> None:
    assert parse("[[a:b]]\n" * 100_000 + "x") == Directives(None, "x")
    assert parse("[[" * 300_000).reply_to is None
