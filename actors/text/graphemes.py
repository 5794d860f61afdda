"""Where a text may be cut without breaking what people see as one character.

A cheap approximation of Unicode's UAX #29, from the standard library alone: combining marks, emoji joined by ZWJ, skin
tones, variation selectors, flags (pairs of regional indicators), tag sequences, CR LF, conjoining Hangul, and the
conjuncts of Indic scripts. It also keeps closing punctuation off the start of a part.
"""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"
_VIRAMA = 9  # canonical combining class of the sign that joins two Indic consonants
_EXTENDING = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")  # not marks by category, but part of what precedes
_NO_START = frozenset("。，、！？；：）」』”’》】〉〕…—·～,.!?;:)]}%")


def may_cut(text: str, at: int) -> bool:
    """Say whether `text` may be cut before index `at`, 0 < at < len(text)."""
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    if before == _ZWJ or _extends(after) or unicodedata.combining(before) == _VIRAMA:
        return False
    return not (_is_flag_half(before) and _is_flag_half(after) and _flag_halves_before(text, at) % 2)


def may_start(character: str) -> bool:
    """Say whether a part may begin with `character`: not with closing punctuation."""
    return character not in _NO_START


def _extends(character: str) -> bool:
    return (
        character in _EXTENDING
        or unicodedata.category(character) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\u1160" <= character <= "\u11ff"  # conjoining vowels and finals
        or "\U000e0020" <= character <= "\U000e007f"  # tags
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, at: int) -> int:
    count = 0
    while count < at and _is_flag_half(text[at - 1 - count]):
        count += 1
    return count
