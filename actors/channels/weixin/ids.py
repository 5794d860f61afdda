"""What an id of this channel looks like. Pure."""

from __future__ import annotations

PERSON = "@im.wechat"
"""How the id of a person ends, case and all. Notes 1.3."""


def is_person(text: str) -> bool:
    """Whether a text may be the id of a person, and is not a mistyped word."""
    return text.endswith(PERSON) and text != PERSON
