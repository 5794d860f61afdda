"""Errors of the simulators.

SimulatorError
    ClockWentBackError
    NotLoopbackError
    LedgerFullError
    ControlRefusedError
        UnknownNameError
        UnknownAccountError
        UnknownUserError
        UnknownMessageError
        UnknownCodeError
        BadScriptError
"""

from __future__ import annotations


class SimulatorError(Exception):
    """A simulator could not go on."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ClockWentBackError(SimulatorError):
    """A simulated clock never goes back."""


class NotLoopbackError(SimulatorError):
    """A simulator listens on loopback only."""


class LedgerFullError(SimulatorError):
    """A ledger of the simulator has reached its limit of rows."""


class ControlRefusedError(SimulatorError):
    """The control request asks for something that is not there."""


class UnknownNameError(ControlRefusedError):
    """There is no knob or fault of that name."""


class UnknownAccountError(ControlRefusedError):
    """There is no such account."""


class UnknownUserError(ControlRefusedError):
    """There is no such user."""


class UnknownMessageError(ControlRefusedError):
    """There is no such message."""


class UnknownCodeError(ControlRefusedError):
    """There is no such QR code."""


class BadScriptError(ControlRefusedError):
    """A QR script holds a status word that the server does not use."""
