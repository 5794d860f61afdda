"""A mapping that forgets what was used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `limit` entries; one more lets the one go that was neither set nor read for the longest time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """What is kept under a key, None if nothing is (any more)."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def set(self, key: K, value: V) -> None:
        """Keep a value."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def drop(self, key: K) -> None:
        """Forget a key."""
        self._kept.pop(key, None)
