"""Errors of the deciders and the parts around them.

ActorsError
├── TextsNeeded      a decision cannot be taken without texts that are not at hand; read them and decide again
├── HeldNeeded       nor without knowing which texts the log holds of the peer
├── LoginUnreadable  what is kept as an account's login is none, or not yet
└── Refusal          a command that changes nothing, with the reason
    ├── PeerForgotten
    ├── TurnNotOpen
    ├── TurnTaken
    └── UnknownOutput
"""

from __future__ import annotations


class ActorsError(Exception):
    """Something in the actors is wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class TextsNeeded(ActorsError):
    """Raised when a decision needs texts, or their parts, that are not at hand."""

    def __init__(self, bodies: frozenset[str], splits: frozenset[str] = frozenset()) -> None:
        super().__init__(f"{len(bodies)} texts and {len(splits)} splits are needed")
        self.bodies, self.splits = bodies, splits


class HeldNeeded(ActorsError):
    """Raised when a decision needs to know which bodies the log holds of the peer."""


class Refusal(ActorsError):
    """Raised when a command is refused; nothing has changed."""


class PeerForgotten(Refusal):
    """Raised when a turn comes for a stream whose address is gone: nobody can write to it any more, and nothing leave from it."""


class TurnNotOpen(Refusal):
    """Raised when an agent speaks of a turn that is not open: it was answered, cancelled, or never handed over."""


class TurnTaken(Refusal):
    """Raised when the turn is with another agent."""


class UnknownOutput(Refusal):
    """Raised when a command names an output that does not wait and is not remembered as undelivered."""


class LoginUnreadable(ActorsError):
    """Raised when the file of a login is none, or not yet."""
