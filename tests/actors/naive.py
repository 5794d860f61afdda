"""A naive server and a naive bookkeeper: what G1, G2 and G5 ask, counted from scratch and from raw events only.

They know nothing of windows, charges or lanes as the program keeps them. The server resets its count when it receives a message,
and counts a send when it arrives, at a moment between the request and the last at which its bytes could arrive.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.ports import LISTEN_MS
from events.base import Recorded
from events.bot import Policy
from events.peer import (
    BodyErased,
    ContextTokenDropped,
    ContextTokenSeen,
    OperatorActed,
    OutputDropped,
    OutputSkipped,
    PeerErased,
    SendFailed,
    SendRequested,
    SendSucceeded,
    SendUnknown,
    TurnCompleted,
    UnknownResolved,
)
from events.quota import SEND_WITHIN_MS


class Receipt(NamedTuple):
    """A message that the server has."""

    at: int
    text: str
    sent_at: int


class Arrival(NamedTuple):
    """A send that the server accepted."""

    at: int
    request: str


class Asked(NamedTuple):
    """A request with the policy it was decided under."""

    number: int
    at: int
    event: SendRequested
    policy: Policy


class Server:
    """Counts replies as the channel does."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self.unread: list[Receipt] = []
        self.arrivals: list[Arrival] = []
        self.asked: dict[str, Asked] = {}

    def receives(self, receipt: Receipt) -> None:
        """A message reaches the server; a poll may bring it later."""
        self.receipts.append(receipt)
        self.unread.append(receipt)

    def answers_poll(self, at: int) -> list[Receipt]:
        """The messages that a poll answered at `at` brings."""
        found = [r for r in self.unread if r.at <= at]
        self.unread = [r for r in self.unread if r.at > at]
        return found

    def last_arrival(self, request: str) -> int:
        """The last moment at which the bytes of a request can arrive."""
        asked = self.asked[request]
        return asked.at + SEND_WITHIN_MS + asked.policy.client_timeout_ms + LISTEN_MS

    def arrived(self, request: str) -> bool:
        """Whether the server accepted it."""
        return any(a.request == request for a in self.arrivals)

    def check(self) -> None:
        """G1: every accepted send that was decided in enforce mode found room by this count."""
        for arrival in self.arrivals:
            asked = self.asked[arrival.request]
            if asked.policy.mode == "enforce":
                self._check_quota(arrival, asked)
                self._check_share(arrival, asked)

    def _check_quota(self, arrival: Arrival, asked: Asked) -> None:
        opening = next((r for r in reversed(self.receipts) if r.at <= arrival.at), None)
        assert opening is not None, "a reply before any message"
        before = sum(1 for a in self.arrivals if opening.at <= a.at and self._not_after(a, arrival))
        assert before <= asked.policy.quota_replies, f"reply {before} of {asked.policy.quota_replies}"
        if (
            opening.sent_at
        ):  # without a creation time its age is not known; a real server refuses what is late, for free
            assert asked.at < opening.at + asked.policy.quota_window_ms

    def _check_share(self, arrival: Arrival, asked: Asked) -> None:
        if asked.event.kind != "push":
            return
        since = arrival.at - asked.policy.share_window_ms
        pushes = [a for a in self.arrivals if self.asked[a.request].event.kind == "push"]
        count = sum(1 for a in pushes if since < a.at and self._not_after(a, arrival))
        assert count <= asked.policy.share_replies, f"push {count} of {asked.policy.share_replies}"

    def _not_after(self, one: Arrival, other: Arrival) -> bool:
        """By the order of requests: a later one must not be blamed on an earlier."""
        return self.asked[one.request].number <= self.asked[other.request].number


class Books:
    """Follows outputs and tokens through raw events."""

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.waiting: dict[str, int] = {}  # output -> where its next byte is
        self.ends: dict[str, str] = {}  # output -> how it last ended
        self.bodies: dict[str, str] = {}  # output -> body
        self.troubled: set[str] = set()  # outputs whose order something disturbed
        self.token: tuple[str, int] | None = None
        self.open: SendRequested | None = None
        self.unknown: set[str] = set()
        self.requests: list[SendRequested] = []

    def read(self, recorded: Recorded) -> None:
        """The next event of the stream."""
        match recorded.event:
            case TurnCompleted() as event:
                self.accepted.append(event.output)
                self.waiting[event.output] = 0
                self.bodies[event.output] = event.body
            case OutputSkipped(output=output) | OutputDropped(output=output):
                self._end(output.output, recorded.type)
            case OperatorActed(what="retry" | "more") as event:
                for output in event.outputs:
                    self.waiting[output.output] = output.start
                    self.bodies[output.output] = output.body
                    self.troubled.add(output.output)
            case BodyErased(bodies=bodies):
                for output in [o for o in self.waiting if self.bodies[o] in bodies]:
                    self._end(output, "erased")
            case PeerErased():
                for output in tuple(self.waiting):
                    self._end(output, "erased")
                self.token = None
            case ContextTokenSeen(body=body, generation=generation):
                self.token = (body, generation)
            case ContextTokenDropped(body=body):
                self.token = None if self.token and self.token[0] == body else self.token
            case SendRequested() as event:
                self._requested(event)
            case SendSucceeded() | SendFailed() | SendUnknown() as event:
                self._settled(event)
            case UnknownResolved(request=request):
                assert request in self.unknown, "resolved once, and only what was unknown"
                self.unknown.discard(request)
            case _:
                pass

    def _requested(self, event: SendRequested) -> None:
        assert self.open is None, "two open requests"
        assert self.token == (event.token, event.login), "the newest token, of this login, never a dropped one"
        for one in event.carried:
            assert self.waiting.get(one.output) == one.start, "no byte twice, none left out"
            assert one.start < one.end <= one.total
        self.open = event
        self.requests.append(event)

    def _settled(self, event: SendSucceeded | SendFailed | SendUnknown) -> None:
        assert self.open is not None
        assert self.open.request == event.request
        carried, self.open = self.open, None
        if isinstance(event, SendUnknown):
            self.unknown.add(event.request)
        for one in carried.carried:
            if not isinstance(event, SendSucceeded):
                self.troubled.add(one.output)
            if isinstance(event, SendFailed) or self.ends.get(one.output) == "erased":
                continue
            self.waiting[one.output] = one.end
            if one.whole or carried.kind == "push":
                self._end(one.output, "sent")

    def _end(self, output: str, how: str) -> None:
        self.waiting.pop(output, None)
        self.ends[output] = how

    def check(self, waiting: set[str]) -> None:
        """G2: an accepted output waits, in the program's eyes and in these, or has ended."""
        assert waiting == set(self.waiting)
        for output in self.accepted:
            assert (output in self.waiting) or output in self.ends
