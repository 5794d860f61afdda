"""How far a channel's clock is ahead of ours, as the dates of its answers tell. Pure.

An answer says what time it was at the channel, to the second, at some moment between our asking and our reading it:

    date - read_at  <=  channel's clock - our clock  <  date + 1 s - asked_at

An answer that came at once bounds the difference closely, one to a long poll hardly; the best of the last half hour to hour count, so
that a drift of either clock cannot make an old bound untrue.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from events.base import Millis

DATE_STEP_MS = 1_000
"""A date is whole seconds: it was up to so much later than the date says."""

BUCKET_MS = 30 * 60_000
"""Answers are kept by half hours of our clock: this one and the one before."""

SLACK_MS = 2_000
"""Two answers may contradict each other by so much: machines behind one address, and drift. More means that a clock was set."""


class _Span(msgspec.Struct, frozen=True):
    """The difference lies between the two (ms)."""

    least: int
    most: int

    def contradicts(self, other: _Span) -> bool:
        return max(self.least, other.least) > min(self.most, other.most) + SLACK_MS

    def narrowed(self, other: _Span) -> _Span:
        return _Span(max(self.least, other.least), min(self.most, other.most))


class Ahead:
    """What is known of the difference between a channel's clock and ours."""

    def __init__(self) -> None:
        self._spans: dict[int, _Span] = {}  # half hour of our clock -> what its answers say

    def heard(self, dated: Millis, asked_at: Millis, read_at: Millis) -> None:
        """Take in the date of an answer; the other two by our clock.

        Answers that contradict each other prove that a clock was set, or that a date is wrong, and not which: all are forgotten.
        """
        told = _Span(dated - read_at, dated + DATE_STEP_MS - asked_at)
        self._forget_old(read_at)
        if any(span.contradicts(told) for span in self._spans.values()):
            self._spans.clear()
            return
        bucket = read_at // BUCKET_MS
        self._spans[bucket] = self._spans.get(bucket, told).narrowed(told)

    def most_ms(self, now: Millis) -> int | None:
        """The channel's clock is ahead of ours by less than this (negative: it is behind); None while nothing tells."""
        self._forget_old(now)
        return min((span.most for span in self._spans.values()), default=None)

    def read_at(self, dated: Millis | None, asked_at: Millis, read_at: Millis, travels_ms: int) -> Millis:
        """When an answer of that date would have been read, had nobody been stopped, and it had travelled `travels_ms` at most: `read_at`,
        but for one that lay about while our process was stopped. Our clock, and never later than is proven: SLACK_MS early, for the
        machine that dated it may be ahead of the one that bounds the difference; `asked_at` if nothing tells."""
        most = self.most_ms(read_at)
        if dated is None or most is None:
            return asked_at
        return max(asked_at, min(read_at, dated - most - SLACK_MS + travels_ms))

    def _forget_old(self, now: Millis) -> None:
        oldest = now // BUCKET_MS - 1
        self._spans = {bucket: span for bucket, span in self._spans.items() if bucket >= oldest}


def dated_ms(header: str) -> Millis | None:
    """The time (ms) that a `Date` header of HTTP says, None if it makes no sense."""
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return round(at.timestamp() * 1_000) if at.tzinfo is UTC else None
