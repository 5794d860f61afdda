"""The arithmetic of replies: windows that a peer's messages open, charges that sends leave, the share of pushes.

Everything errs to the side on which the server's own count can only be lower than ours: it sees a send later than we ask for it,
and a message earlier than we read it.
"""

from __future__ import annotations

import msgspec

from events.base import Kind, Millis, Part
from events.bot import SHARE_WINDOW_MS_MAX, Policy

SEND_WITHIN_MS = 5_000
"""Bytes leave within this time of their request's commit, by the boot clock, or not at all."""


class Charge(Part, frozen=True, kw_only=True):
    """One reply spent, or reserved by an open request."""

    request: str
    kind: Kind
    requested_at: Millis
    settled_at: Millis | None = None  # None while open; an unknown settles when its bytes can no longer arrive
    window: int = 0  # number of the window it counts against
    remainder: bool = False  # it carried the rest of an answer to an earlier message
    carried: bool = False  # it was asked for in an earlier window than the one it counts against


class Window(Part, frozen=True, kw_only=True):
    """The quota that a peer's message opened."""

    number: int  # 1 for the peer's first message
    message: str
    opened_at: Millis  # the earlier of sent and received, as far as sent can be true
    generation: int  # the login it belongs to


def opened(  # noqa: PLR0917 (a message's own times and number)
    window: Window | None, message: str, sent_at: Millis, received_at: Millis, generation: int, not_before: Millis = 0
) -> Window:
    """The window after a message. A message without a creation time (`sent_at` 0) opens it when received. A creation time before
    `not_before`, the earliest instant at which the server can have received it, is that of a clock which is far behind ours."""
    opened_at = min(max(sent_at, not_before), received_at) if sent_at > 0 else received_at
    number = window.number + 1 if window else 1
    return Window(number=number, message=message, opened_at=opened_at, generation=generation)


def carry(charges: tuple[Charge, ...], window: int, not_before: Millis) -> tuple[Charge, ...]:
    """Move to a new window what its server may count there: requests still open, or settled at or after `not_before`,
    the earliest instant at which the server can have received the message."""
    return tuple(
        [
            msgspec.structs.replace(c, window=window, carried=True)
            if c.settled_at is None or c.settled_at >= not_before
            else c
            for c in charges
        ]
    )


def settle(charges: tuple[Charge, ...], request: str, at: Millis) -> tuple[Charge, ...]:
    """The charge of a request runs out from `at` on."""
    if not charges or charges[-1].request != request:  # an outcome is nearly always that of the newest charge
        return tuple([msgspec.structs.replace(c, settled_at=at) if c.request == request else c for c in charges])
    return (*charges[:-1], msgspec.structs.replace(charges[-1], settled_at=at))


def release(charges: tuple[Charge, ...], request: str) -> tuple[Charge, ...]:
    """Without the charge of a request that proved free."""
    return tuple([c for c in charges if c.request != request])


def prune(charges: tuple[Charge, ...], window: int, at: Millis) -> tuple[Charge, ...]:
    """Without the charges that no window and no share can count any more."""
    oldest = at - SHARE_WINDOW_MS_MAX
    return tuple(
        [
            c
            for c in charges
            if c.window == window or c.settled_at is None or (c.kind == "push" and c.settled_at >= oldest)
        ]
    )


def prune_within(charges: tuple[Charge, ...], window: int, at: Millis) -> tuple[Charge, ...]:
    """The same as `prune` while no message has come since the last one: then only age can have ended a charge, and none that
    was requested later than the oldest outcome that counts. Charges are in the order of their requests."""
    return prune(charges, window, at) if charges and charges[0].requested_at < at - SHARE_WINDOW_MS_MAX else charges


def spent(charges: tuple[Charge, ...], window: int) -> int:
    """Replies that count against a window."""
    return sum(1 for c in charges if c.window == window)


def carried(charges: tuple[Charge, ...], window: int) -> int:
    """How many of the replies that count against a window were asked for before the message that opened it."""
    return sum(1 for c in charges if c.window == window and c.carried)


def fresh(charges: tuple[Charge, ...], window: int, policy: Policy) -> int:
    """Replies that a window had when it opened: its quota without what was carried into it."""
    return max(0, policy.quota_replies - carried(charges, window))


def quota_left(charges: tuple[Charge, ...], window: Window | None, policy: Policy) -> int:
    """Replies that the current window still allows; 0 without one. Does not look at the window's end."""
    return max(0, policy.quota_replies - spent(charges, window.number)) if window else 0


def window_ends_at(window: Window, policy: Policy) -> Millis:
    """When to stop asking within a window: before the server closes it by as long as a request may take until it is there, which
    is until its bytes leave and one client timeout more."""
    return window.opened_at + policy.quota_window_ms - policy.client_timeout_ms - SEND_WITHIN_MS


def window_open(window: Window | None, generation: int, policy: Policy, now: Millis) -> bool:
    """Whether a window of this login is open at `now`."""
    return window is not None and window.generation == generation and now < window_ends_at(window, policy)


def share_used(charges: tuple[Charge, ...], policy: Policy, now: Millis) -> int:
    """Push replies whose charge still runs at `now`: from the request to `share_window_ms` after its outcome."""
    return len(_running(charges, policy, now))


def share_free_at(charges: tuple[Charge, ...], policy: Policy, now: Millis) -> Millis | None:
    """When the share next allows one push: `now` if it does, None while only an outcome can tell (or it never will)."""
    running = _running(charges, policy, now)
    over = len(running) - policy.share_replies
    if over < 0:
        return now
    if policy.share_replies == 0:
        return None
    rolls = sorted(c.settled_at + policy.share_window_ms for c in running if c.settled_at is not None)
    return rolls[over] if over < len(rolls) else None


def runs_out_at(charges: tuple[Charge, ...], window: Window | None, policy: Policy) -> Millis | None:
    """When none of it counts for anything any more: the window is closed, and every charge is older than window and share are
    long. None while a request is open; 0 if there is nothing."""
    if any(c.settled_at is None for c in charges):
        return None
    longest_ms = max(policy.quota_window_ms, policy.share_window_ms)
    ends = [c.settled_at + longest_ms for c in charges if c.settled_at is not None]
    if window is not None:
        ends.append(window.opened_at + policy.quota_window_ms)
    return max(ends, default=0)


def _running(charges: tuple[Charge, ...], policy: Policy, now: Millis) -> list[Charge]:
    return [
        c for c in charges if c.kind == "push" and (c.settled_at is None or c.settled_at + policy.share_window_ms > now)
    ]
