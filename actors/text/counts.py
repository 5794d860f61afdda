"""Numbers with their nouns, as people read them. Pure."""

from __future__ import annotations


def counted(number: int, one: str, many: str) -> str:
    """`1 reply`, `3 replies`."""
    return f"{number} {one if number == 1 else many}"
