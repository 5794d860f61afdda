"""Errors of the channels. What a channel answers is not here: outcomes, lost logins and troubles of the network are values.

ChannelError
├── BadBaseUrl
├── BadCredentials
├── LoginFailed
├── BodyTooLarge
├── TooLate
└── OrderHeld
"""

from __future__ import annotations


class ChannelError(Exception):
    """Something about a channel is wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class BadBaseUrl(ChannelError):
    """Raised when a server address is malformed, or names a host that the account may not talk to."""


class BadCredentials(ChannelError):
    """Raised when a file of credentials cannot be used."""


class LoginFailed(ChannelError):
    """Raised when a login ended without credentials; the message says what to do."""


class BodyTooLarge(ChannelError):
    """Raised when a server's answer is longer than this client reads."""


class TooLate(ChannelError):
    """Raised when the bytes of a send may not leave any more."""


class OrderHeld(ChannelError):
    """Raised when a request is handed to an outlet that has it already."""
