"""How the command line ends: the exit codes, and the errors that carry them.

ScriptError (scripts.errors)
└── Stop
    ├── Failed            1
    │   └── LoginNeeded   1
    ├── Misused           2
    ├── NotRunning       69
    ├── Waiting          75
    ├── LoginGone        77
    ├── ConfigRefused    78
    └── Replaced         79
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from scripts import errors
from scripts.errors import ScriptError


class ExitCode(IntEnum):
    """Every exit code, and what it says to whoever started us."""

    DONE = 0  # `send`: confirmed
    FAILED = 1  # failed, unknown or dropped, with the state printed; also a port in use
    USAGE = 2
    NOT_RUNNING = 69  # no gateway answers
    WAITING = 75  # accepted, and waits
    LOGIN_LOST = 77  # only where the configuration asks for an exit
    CONFIG_REFUSED = 78
    REPLACED = 79  # a newer instance took over: a supervisor must not restart this one


class Stop(ScriptError):
    """Ends the program with a code after its message was printed on standard error."""

    code: ClassVar[ExitCode] = ExitCode.FAILED


class Failed(Stop):
    """It did not work."""


class LoginNeeded(Failed):
    """Nobody has logged in to the account yet; nothing was accepted."""


class Misused(Stop):
    """The command line cannot be understood."""

    code = ExitCode.USAGE


class NotRunning(Stop):
    """No gateway answers."""

    code = ExitCode.NOT_RUNNING


class Waiting(Stop):
    """It was accepted, and waits."""

    code = ExitCode.WAITING


class LoginGone(Stop):
    """The login is lost; log in again."""

    code = ExitCode.LOGIN_LOST


class ConfigRefused(Stop):
    """The configuration is refused."""

    code = ExitCode.CONFIG_REFUSED


class Replaced(Stop):
    """A newer instance took over the last account."""

    code = ExitCode.REPLACED


def code_of(error: ScriptError) -> ExitCode:
    """The exit code of an error of the command line."""
    if isinstance(error, Stop):
        return error.code
    return ExitCode.USAGE if isinstance(error, errors.Misused) else ExitCode.FAILED
