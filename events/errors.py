"""Errors of the vocabulary.

EventError
├── CodecError
│   ├── UnknownEventType
│   └── NewerEvent
├── TextNotEncodable
├── BadStreamName
├── BadAddress
└── FoldError
"""

from __future__ import annotations


class EventError(Exception):
    """Something about an event, a stream or an address is wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class CodecError(EventError):
    """Raised when bytes of the log cannot be read as an event."""


class UnknownEventType(CodecError):
    """Raised when the type of a stored event is not in this version's vocabulary."""


class NewerEvent(CodecError):
    """Raised when a stored event has fields that this version does not know: the log is newer than the program."""


class TextNotEncodable(EventError):
    """Raised when an event holds text that UTF-8 cannot carry (a lone surrogate); clean text at the edge."""


class BadStreamName(EventError):
    """Raised when a stream name is not `bot-CHANNEL:ACCOUNT` or `peer-PSEUDONYM`."""


class BadAddress(EventError):
    """Raised when an address is not `CHANNEL:ACCOUNT` or `CHANNEL:ACCOUNT:PEER`."""


class FoldError(EventError):
    """Raised when an event cannot follow the state before it: the log is damaged or was folded out of order."""
