"""Directive lines at the head of an agent's output: `[[reply_to:ID]]` (OpenAB gateway protocol notes 2).

They are read from the first byte of the text on, line by line. The first line that is no directive ends them: prose, an
empty line, a fence, a BOM, `[[X]]` without a colon, a missing `]]`. What stands behind a directive on its own line is
the first line of what a person sees.
"""

from __future__ import annotations

import re

import msgspec

REPLY_TO = "reply_to"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Unicode's White_Space. `str.strip()` without arguments would also strip U+001C to U+001F.
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class Directives(msgspec.Struct, frozen=True):
    """What the head of an output asks for, and the text that a person sees."""

    reply_to: str | None  # the message to quote
    text: str


class _Line(msgspec.Struct, frozen=True):
    key: str
    value: str
    content: str  # what stands behind the directive, trimmed


def parse(text: str) -> Directives:
    """Return the directives of `text` and the text without them.

    An unknown directive, and a `reply_to` whose value is no id (1 to 64 of A-Z a-z 0-9 . _ -), is stripped and ignored.
    The last valid `reply_to` counts.
    """
    reply_to: str | None = None
    position = 0
    while position < len(text):
        newline = text.find("\n", position)
        end = len(text) if newline < 0 else newline
        line = _directive(text[position:end])
        if line is None:
            break
        if line.key == REPLY_TO and _ID.fullmatch(line.value):
            reply_to = line.value
        if line.content:
            return Directives(reply_to, line.content + text[end:])
        position = end + 1
    return Directives(reply_to, text[position:])


def _directive(line: str) -> _Line | None:
    inside, closing, content = line.strip(_WHITE).partition("]]")
    key, colon, value = inside[2:].partition(":")
    if not (inside.startswith("[[") and closing and colon):
        return None
    return _Line(key.strip(_WHITE), value.strip(_WHITE), content.strip(_WHITE))
