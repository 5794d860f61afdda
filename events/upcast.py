"""Old events in today's words.

History is never edited. A field that gets a default needs nothing here; a renamed, split or removed one needs a step that rewrites the
decoded object of its type; a changed meaning is a new event with a new tag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the JSON object of an old event and returns the JSON object of the next newer form."""

STEPS: Mapping[str, tuple[Step, ...]] = {}
"""For each stored tag the steps that lead from its oldest form to today's, each leaving alone what is newer already."""


def upcast(tag: str, raw: dict[str, Any], steps: Mapping[str, tuple[Step, ...]] = STEPS) -> dict[str, Any]:
    """The object in today's form."""
    for step in steps.get(tag, ()):
        raw = step(raw)
    return raw
