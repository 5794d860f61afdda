"""What a text must be before anything else looks at it, and how long it is.

`clean` guarantees that encoding to UTF-8 cannot fail, that lines end in LF alone, and that no NUL is left.
It is idempotent and touches nothing else: spaces, BOM and other invisible characters stay where they are.
"""

from __future__ import annotations

import re

from actors.text.errors import UncleanText

# Characters that leave nothing to see. Variation selectors and tags modify a visible character or nothing.
_INVISIBLE = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_VISIBLE = re.compile(f"[^{_INVISIBLE}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Return `text` without NUL, with CRLF and lone CR as LF, and with each lone surrogate as U+FFFD.

    Two surrogates that form a pair become the character they stand for.
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def is_blank(text: str) -> bool:
    """Say whether a person would see nothing: only whitespace, zero-width and control characters, or no text."""
    return _VISIBLE.search(text) is None


def encoded(text: str) -> bytes:
    """Return the UTF-8 form of a clean text; raise `UncleanText` where there is none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UncleanText(f"no UTF-8 form at character {error.start}") from None


def text_bytes(text: str) -> int:
    """Return the length of a clean text in UTF-8 bytes; raise `UncleanText` where it has none."""
    return len(text) if text.isascii() else len(encoded(text))
