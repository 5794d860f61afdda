"""When a failed actor comes back: backoff with jitter, reset by health, given up at a limit. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from actors.runtime.clock import Ids


@dataclass(frozen=True, slots=True)
class Backoff:
    """The n-th failure in a row waits `min(cap_ms, base_ms * 2**(n-1))`, less up to half of it by jitter."""

    base_ms: int = 100
    cap_ms: int = 30_000
    give_up_after: int = 8  # failures in a row; the last of them is not restarted
    healthy_ms: int = 60_000  # a successor that lived this long starts a new row

    def wait_ms(self, failures: int, ids: Ids) -> int:
        """Return how long the restart after the `failures`-th failure in a row waits, in ms."""
        doublings = min(failures - 1, 32)  # beyond any cap; keeps the number small
        full = min(self.cap_ms, self.base_ms * 2**doublings)
        return int(full * ids.jitter(0.5, 1.0))


class FailureRow:
    """The failures of one key in a row."""

    __slots__ = ("failures", "restarted_ms")

    def __init__(self) -> None:
        self.failures = 0
        self.restarted_ms: int | None = None  # monotonic; None while no successor runs

    def count(self, now_ms: int, policy: Backoff) -> int:
        """Add a failure at monotonic `now_ms` and return how many in a row there are."""
        if self.restarted_ms is not None and now_ms - self.restarted_ms >= policy.healthy_ms:
            self.failures = 0
        self.restarted_ms = None
        self.failures += 1
        return self.failures
