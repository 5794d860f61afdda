"""Errors of the text package.

TextError (ValueError)
    PartTooSmall
    UncleanText
"""

from __future__ import annotations


class TextError(ValueError):
    """A text cannot be handled as asked."""


class PartTooSmall(TextError):
    """A part must have room for a character and for the fences around it."""

    def __init__(self, part_bytes: int, least_bytes: int) -> None:
        super().__init__(f"a part of {part_bytes} bytes is too small, it takes at least {least_bytes}")
        self.part_bytes = part_bytes
        self.least_bytes = least_bytes


class UncleanText(TextError):
    """The text holds lone surrogates and has no UTF-8 form; pass it through `clean` first."""
