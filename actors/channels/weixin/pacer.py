"""When an account may send next: a token bucket with places that streams keep in the order in which they asked. Pure.

It guarantees that in any time t at most `pace_burst + t / pace_ms` places are taken, and that nobody overtakes. The numbers are read
from the policy at each call, so they may change while it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from events.base import Millis
from events.bot import Policy

LAPSE_MS = 5_000
"""A place that is not taken within this time of its turn is given up."""

PLACES_MAX = 4_096
"""Streams that can keep a place; further ones are told a time, but keep none."""


class Pacer:
    """The places of one account."""

    __slots__ = ("_full_at", "_now", "_places", "_policy")

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy
        self._now: Millis = 0
        self._full_at: Millis = 0  # when the bucket will be full again
        self._places: dict[str, Millis] = {}  # stream -> the time it was told, in the order of asking

    def earliest(self, stream: str, now: Millis, *, keep: bool = True) -> Millis:
        """When a stream may take the next place, `now` if at once. The place is kept until `LAPSE_MS` after that time; without
        `keep` nothing changes for anybody."""
        self._advance(now)
        at = self._turn(stream)
        if keep and (at > self._now or stream not in self._places):
            self._keep(stream, at)
        return max(at, now) if at > self._now else now

    def take(self, stream: str, now: Millis) -> Millis:
        """Take the place of a stream and return `now`; if it is not its turn yet, take nothing and return when it is."""
        at = self.earliest(stream, now)
        if at > now:
            return at
        self._places.pop(stream, None)
        self._full_at = max(self._full_at, self._now) + self._policy().pace_ms
        return now

    def _keep(self, stream: str, at: Millis) -> None:
        if stream in self._places or len(self._places) < PLACES_MAX:
            self._places[stream] = at

    def _advance(self, now: Millis) -> None:
        self._now = max(self._now, now)
        policy = self._policy()
        self._full_at = min(self._full_at, self._now + policy.pace_ms * max(1, policy.pace_burst))  # after a change
        lapsed = [stream for stream, at in self._places.items() if at + LAPSE_MS < self._now]
        for stream in lapsed:
            del self._places[stream]

    def _turn(self, stream: str) -> Millis:
        """The turn of a stream if all before it take theirs as soon as they can."""
        policy = self._policy()
        reserve_ms = policy.pace_ms * (max(1, policy.pace_burst) - 1)
        full_at, at = self._full_at, self._now
        for ahead in (*self._places, stream):
            at = max(self._now, full_at - reserve_ms)
            full_at = max(full_at, at) + policy.pace_ms
            if ahead == stream:
                break
        return at
