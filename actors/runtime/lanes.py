"""The two lanes of a mailbox: completions first, beyond any limit; messages behind them, bounded.

A closed one refuses, and every ask in it has been answered: none is ever lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

from pykka._envelope import Envelope  # what pykka's own seam hands to an inbox
from pykka.messages import _ActorStop

from actors.runtime.answers import answer, answer_error
from actors.runtime.errors import ActorStopped, MailboxFull

Lane = deque[Envelope[Any]]


class Lanes:
    """What waits for one actor. The lanes exist only while something is in them (an empty deque takes 768 bytes)."""

    __slots__ = ("closed", "first", "key", "limit", "rest")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.key: Hashable = None
        self.first: Lane | None = None
        self.rest: Lane | None = None
        self.closed = False

    def put(self, envelope: Envelope[Any], /) -> None:
        """Queue a message; MailboxFull at the limit, ActorStopped when closed (an ask gets it as its answer)."""
        rest = self.rest
        if rest is None:
            if self.closed:
                self._refuse(envelope)
                return
            rest = self.rest = deque()
        elif len(rest) >= self.limit and not isinstance(envelope.message, _ActorStop):
            raise MailboxFull(f"{self.key}: {self.limit} messages")
        rest.append(envelope)
        self._arrived()

    def put_first(self, envelope: Envelope[Any]) -> None:
        """Queue a completion: before the other messages, beyond the limit."""
        if self.closed:
            self._refuse(envelope)
            return
        if self.first is None:
            self.first = deque()
        self.first.append(envelope)
        self._arrived()

    def get(self) -> Envelope[Any]:
        """Return the next message (pykka's protocol); LookupError when there is none."""
        envelope = self._take()
        if envelope is None:
            raise LookupError("the mailbox is empty")
        return envelope

    def empty(self) -> bool:
        """Tell whether no message waits."""
        return not self.first and not self.rest

    def __len__(self) -> int:
        return len(self.first or ()) + len(self.rest or ())

    def __bool__(self) -> bool:
        return True  # a mailbox is there even when nothing is in it

    def inherit(self, other: Lanes) -> None:
        """Take over the messages of a predecessor, which closes."""
        self.first, self.rest = other.first, other.rest
        other.first = other.rest = None
        other.closed = True

    def close(self, refusal: Exception) -> int:
        """Refuse from now on, answer the waiting asks with `refusal`, return how many tells were dropped."""
        self.closed = True
        dropped = 0
        while (envelope := self._take()) is not None:
            if isinstance(envelope.message, _ActorStop):
                answer(envelope, None)
            elif envelope.reply_to is None:
                dropped += 1
            else:
                answer_error(envelope, refusal)
        return dropped

    def _arrived(self) -> None:
        """Note that something waits."""

    def _take(self) -> Envelope[Any] | None:
        if self.first:
            envelope = self.first.popleft()
            if not self.first:
                self.first = None
            return envelope
        if self.rest:
            envelope = self.rest.popleft()
            if not self.rest:
                self.rest = None
            return envelope
        return None

    def _refuse(self, envelope: Envelope[Any]) -> None:
        if isinstance(envelope.message, _ActorStop):
            answer(envelope, None)
        elif envelope.reply_to is None:
            raise ActorStopped(str(self.key))
        else:
            answer_error(envelope, ActorStopped(str(self.key)))
