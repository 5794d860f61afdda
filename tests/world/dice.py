"""Chance by name: each fault and each part of a world draws from a sequence of its own, so that taking one fault away leaves the
others as they were (which is what shrinking needs)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


FRACTION = 2.0**-64


class Dice:
    """One sequence: the hashes of a counter, for a world has two dozen of them and draws few numbers of most, and a generator of
    Python's takes 10 us to seed."""

    __slots__ = ("_blocks", "_left", "_seed")

    def __init__(self, seed: str) -> None:
        self._seed, self._blocks = seed.encode(), 0
        self._left: list[int] = []

    def _draw(self) -> float:
        left = self._left
        if not left:
            block = hashlib.blake2b(self._seed, salt=self._blocks.to_bytes(8, "big")).digest()
            self._blocks += 1
            left.extend(struct.unpack("8Q", block))
        return left.pop() * FRACTION

    def below(self, limit: int) -> int:
        return int(self._draw() * limit)

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + int(self._draw() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        return self._draw() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._draw() * len(choices))]


class Bag:
    """The sequences of a seed, by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._dice: dict[str, Dice] = {}

    def __getitem__(self, name: str) -> Dice:
        if name not in self._dice:
            self._dice[name] = Dice(f"{self._seed}/{name}")
        return self._dice[name]
