"""What the server writes down: what it accepted, what the phone showed, what it refused, what was wrong.

The first two differ on purpose: a silent drop is a row in `accepted` that has none in `shown`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from scripts.simulators.errors import LedgerFullError

ROWS_MAX = 200_000
"""Rows per ledger; at the limit the server answers HTTP 503 and says why."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A send that the API answered as good: the server's own count of what was spent."""

    seq: int  # order of acceptance, over all users
    at: int  # ms, arrival of the send
    bot: str
    user: str
    client_id: str
    message_id: int | None  # None: accepted by HTTP and dropped
    text: str
    bytes: int
    token: str  # fingerprint of its context token, "" without one
    window: int  # which message of the user opened the window (1, 2 ...), 0 before the first
    slot: int  # k-th charge in that window; 0: not charged (beyond the quota, or a recognised repeat)
    shown: bool
    told: bool = True  # False: the answer was lost (cut, empty), so the client knows nothing of it
    typing: bool = False  # a typing call that cost a reply


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A line on the user's phone; `by` is `user` or `bot`."""

    at: int
    bot: str
    user: str
    by: str
    text: str
    message_id: int


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A send that was refused; it cost nothing."""

    at: int
    bot: str
    user: str
    client_id: str
    code: int
    reason: str  # quota, window, token, burst, invalid, forced, login
    text: str


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a faithful client does not make."""

    at: int
    endpoint: str
    rule: str
    detail: str


Row = TypeVar("Row")


class Ledger(Generic[Row]):
    """An append-only list of at most `ROWS_MAX` rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Append `row`; `LedgerFullError` at the limit."""
        if len(self.rows) >= ROWS_MAX:
            raise LedgerFullError
        self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def fingerprint(secret: str) -> str:
    """Return twelve hex digits that stand for `secret`, "" for none."""
    return hashlib.sha256(secret.encode()).hexdigest()[:12] if secret else ""
