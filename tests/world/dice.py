"""Chance by name: each fault and each part of a world draws from a sequence of its own, so that taking one fault away leaves the
others as they were (which is what shrinking needs)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """One sequence."""

    __slots__ = ("_draw",)

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed).random

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
