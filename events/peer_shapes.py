"""A peer as the log tells it: the shapes of its state. The state is bounded, whatever the stream's length."""

from __future__ import annotations

from events.backlog import Dead, Output
from events.base import Carried, Kind, Millis, Part
from events.quota import Charge, Window


class Token(Part, frozen=True, kw_only=True):
    """The newest context token."""

    body: str
    message: str
    generation: int


class Message(Part, frozen=True, kw_only=True):
    """A message of the peer that is not yet a turn."""

    message: str
    body: str
    at: Millis
    sent_at: Millis
    total: int = 0  # bytes of its text
    contents: tuple[str, ...] = ("text",)
    media: tuple[str, ...] = ()
    quote: str = ""


FORMER_KEPT = 16
"""How many agents that had an open turn before are remembered."""


class OpenTurn(Part, frozen=True, kw_only=True):
    """The turn that an agent must still answer."""

    turn_id: str
    message: Message
    session: str
    started_at: Millis
    agent: str = ""  # who has it, "" = nobody just now
    former: tuple[str, ...] = ()  # who had it before, the latest last
    noticed: bool = False  # its sender was told that it waits

    def held_by(self, agent: str) -> bool:
        """Whether an agent has the turn, or had it."""
        return agent in (self.agent, *self.former)


class OpenRequest(Part, frozen=True, kw_only=True):
    """A request without an outcome."""

    request: str
    kind: Kind
    epoch: int
    login: int
    requested_at: Millis
    window: int  # number of the window in which it was decided
    body: str
    token: str = ""
    carried: tuple[Carried, ...] = ()
    left_out: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1
    remainder: bool = False
    quote: str = ""


class Unknown(Part, frozen=True):
    """A request of which nobody can say whether it arrived. Its outcome may still come, late."""

    request: str
    settled_at: Millis


class PeerState(Part, frozen=True, kw_only=True):
    """What the log says of a peer."""

    version: int = 0
    at: Millis = 0
    session: str = ""
    resets: int = 0
    access: bool = False  # granted by an operator, beside what the configuration grants
    token: Token | None = None
    window: Window | None = None
    charges: tuple[Charge, ...] = ()
    inbox: tuple[Message, ...] = ()
    turn: OpenTurn | None = None
    queue: tuple[Output, ...] = ()  # the backlog, oldest first
    answers: tuple[Output, ...] = ()  # answers and remainders, oldest first
    request: OpenRequest | None = None
    retry_at: Millis = 0  # after a send that provably never left
    retries: int = 0
    dead: tuple[Dead, ...] = ()
    unknowns: tuple[Unknown, ...] = ()  # whose outcome may still come
    erased_at: Millis = 0  # when everything was erased; 0 = never, or the peer has written since
    forgotten: bool = False  # its address is gone

    @property
    def window_number(self) -> int:
        """The current window's number, 0 without one."""
        return self.window.number if self.window else 0

    @property
    def open_turns(self) -> int:
        """Turns that will want a reply: the open one and the messages behind it."""
        return len(self.inbox) + (1 if self.turn else 0)

    @property
    def carried(self) -> frozenset[str]:
        """Outputs that the open request carries."""
        return frozenset(c.output for c in self.request.carried) if self.request else frozenset()

    @property
    def remainders(self) -> tuple[Output, ...]:
        """Answers that an earlier window could not finish."""
        return tuple(a for a in self.answers if a.window < self.window_number)

    @property
    def waiting(self) -> int:
        """How many outputs wait."""
        return len(self.queue) + len(self.answers)
