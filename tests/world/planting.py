"""How defects are planted: a function or method is replaced where it is looked up, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from events import peer_state

Mutant = Callable[[], AbstractContextManager[None]]


@contextmanager
def patched(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """(owner, name, what stands there meanwhile)."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def folded(event: Any, fold: Any) -> AbstractContextManager[None]:
    """Another fold of an event of a peer."""
    return patched((peer_state, "FOLDS", {**peer_state.FOLDS, event: fold}))
