"""Errors of the command line.

ScriptError
├── NotFound
├── Ambiguous
└── Misused
"""

from __future__ import annotations


class ScriptError(Exception):
    """Something about what was asked on the command line is wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class NotFound(ScriptError):
    """Raised when the log has nothing under a name or id."""


class Ambiguous(ScriptError):
    """Raised when the beginning of a name or id fits several."""


class Misused(ScriptError):
    """Raised when options exclude each other, or a value cannot be read."""
