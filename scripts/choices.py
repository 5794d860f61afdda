"""Words that options take, checked: each refusal lists what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, cast, get_args

from actors.text.moments import parse_moment, parse_until
from events.base import Kind, Millis
from events.stories import RESULTS, Result
from scripts.errors import Misused

KINDS: tuple[str, ...] = get_args(Kind)


def kinds_of(given: Iterable[str]) -> tuple[Kind, ...]:
    """Kinds of sends. Raises Misused."""
    return cast("tuple[Kind, ...]", _checked(given, KINDS, "kind"))


def results_of(given: Iterable[str]) -> tuple[Result, ...]:
    """Outcomes of requests. Raises Misused."""
    return cast("tuple[Result, ...]", _checked(given, RESULTS, "outcome"))


def _checked(given: Iterable[str], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    words = tuple(word for one in given for word in one.split(","))
    for word in words:
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Misused(f"{word!r} is not a {what}; write one of {', '.join(known)}{hint}")
    return words


def moment(given: str, now: Millis, option: str, zone: Any = None) -> Millis | None:
    """A time, None where nothing was given. Raises Misused."""
    try:
        return parse_moment(given, now, zone) if given else None
    except ValueError as error:
        raise Misused(f"{option}: {error}") from None


def until(given: str, now: Millis, zone: Any = None) -> tuple[int, Millis | None]:
    """A position or a time; (0, None) where nothing was given. Raises Misused."""
    try:
        return parse_until(given, now, zone) if given else (0, None)
    except ValueError as error:
        raise Misused(f"--until: {error}") from None
