"""What a benchmark finds: a subject beside its anchor, over several rounds, and whether the goal is met. Pure.

A ratio is taken within each round, where noise hits both; the median over the rounds counts, and the spread is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

Unit = Literal["per_s", "us", "ms", "bytes"]


class Spread(msgspec.Struct, frozen=True):
    """Median and extremes over rounds."""

    median: float
    low: float
    high: float


class Goal(msgspec.Struct, frozen=True):
    """A bound on the ratio to the anchor or, where there is none, on the measured figure itself."""

    bound: float
    at_least: bool

    def met(self, value: float) -> bool:
        """Whether a value is on the right side of the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the result. `unit` is that of `measured` and `anchor`; `ratio` is measured / anchor."""

    name: str
    unit: Unit
    measured: Spread
    anchor: Spread | None = None
    ratio: Spread | None = None
    goal: Goal | None = None
    met: bool | None = None  # None without a goal
    rounds: int = 1
    note: str = ""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that could not run, and why."""

    name: str
    skipped: str


Result = Figure | Skipped


def spread(values: Sequence[float]) -> Spread:
    """Median, lowest and highest."""
    return Spread(median(values), min(values), max(values))


def figure(
    name: str,
    unit: Unit,
    measured: Sequence[float],
    anchor: Sequence[float] = (),
    *,
    goal: Goal | None = None,
    note: str = "",
) -> Figure:
    """The figure of some rounds; `anchor`, if any, has one value for each value of `measured`."""
    ratio = spread([m / a for m, a in zip(measured, anchor, strict=True)]) if anchor else None
    found = spread(measured)
    judged = (ratio or found).median
    return Figure(
        name=name,
        unit=unit,
        measured=found,
        anchor=spread(anchor) if anchor else None,
        ratio=ratio,
        goal=goal,
        met=goal.met(judged) if goal else None,
        rounds=len(measured),
        note=note,
    )


def text_of(result: Result) -> str:
    """A result on one line."""
    if isinstance(result, Skipped):
        return f"{result.name:<34} skipped: {result.skipped}"
    line = f"{result.name:<34} {show(result.measured, result.unit)}"
    if result.anchor and result.ratio:
        ratio = result.ratio
        line += f"  anchor {show(result.anchor, result.unit)}"
        line += f"  ratio {ratio.median:.2f} [{ratio.low:.2f}-{ratio.high:.2f}]"
    if result.goal:
        line += f"  goal {result.goal}: {'met' if result.met else 'MISSED'}"
    return f"{line}  ({result.note})" if result.note else line


def show(value: Spread, unit: Unit) -> str:
    """Median and spread with their unit."""
    name = {"per_s": "/s", "us": " us", "ms": " ms", "bytes": " B"}[unit]
    digits = 0 if max(value.high, 0) >= 1000 or unit in ("per_s", "bytes") else 1
    return f"{value.median:,.{digits}f}{name} [{value.low:,.{digits}f}-{value.high:,.{digits}f}]"
