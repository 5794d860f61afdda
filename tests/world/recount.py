"""A naive count of quota and share, from raw rows alone: it keeps every request for ever and counts anew each time. It shares nothing
with events/quota.py; the two must agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from events.base import Recorded
from events.bot import Policy
from events.peer import MessageReceived, SendFailed, SendRequested, SendSucceeded, SendUnknown, UnknownResolved

FOREVER = 1 << 60


@dataclass
class Counted:
    """One request, as the naive count sees it."""

    kind: str
    at: int
    window: int
    remainder: bool
    free: bool = False
    carried: bool = False  # into a later window
    settled: int = FOREVER


@dataclass
class Recount:
    """One peer."""

    windows: int = 0
    opened_at: int = 0
    generation: int = -1
    requests: dict[str, Counted] = field(default_factory=dict)

    def apply(self, row: Recorded) -> None:
        """Take in the next event of the stream."""
        match row.event:
            case MessageReceived() as event:
                self.windows += 1
                self.opened_at = sorted((event.not_before, event.sent_at, row.at))[1] if event.sent_at else row.at
                self.generation = event.generation
                for request in self.requests.values():
                    if not request.free and request.settled >= event.not_before:
                        request.window, request.carried = self.windows, True
            case SendRequested() as event:
                self.requests[event.request] = Counted(event.kind, row.at, self.windows, event.remainder)
            case SendSucceeded() as event:
                self.requests[event.request].settled = row.at
            case SendUnknown() as event:
                self.requests[event.request].settled = event.settled_at
            case SendFailed() as event:
                self.requests[event.request].free = not event.charged
                self.requests[event.request].settled = row.at
            case UnknownResolved() as event:
                self.requests[event.request].free = not event.delivered
            case _:
                pass

    def spent(self) -> int:
        """Replies spent of the current window."""
        return len(self._current())

    def _current(self) -> list[Counted]:
        return [r for r in self.requests.values() if not r.free and r.window == self.windows]

    def carried(self) -> int:
        """Replies that were charged to a later window than theirs."""
        return sum(1 for r in self.requests.values() if r.carried and not r.free)

    def remainders(self) -> int:
        """Those asked for in it that carried the rest of an earlier answer."""
        return sum(1 for r in self._current() if r.remainder and not r.carried)

    def half(self, policy: Policy) -> int:
        """What remainders may use of the current window: half of what was not carried into it, and no less than one."""
        fresh = policy.quota_replies - sum(1 for r in self._current() if r.carried)
        return max(1, fresh // 2)

    def shared(self, policy: Policy, now: int) -> int:
        """Pushes whose charge still runs."""
        return sum(
            1
            for r in self.requests.values()
            if r.kind == "push" and not r.free and r.settled + policy.share_window_ms > now
        )

    def open(self, generation: int, policy: Policy, now: int) -> bool:
        """Whether the peer's last message still allows replies."""
        ends = self.opened_at + policy.quota_window_ms - policy.client_timeout_ms - 5_000
        return self.windows > 0 and self.generation == generation and now < ends
