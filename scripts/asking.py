"""How a verb reaches the gateway, and who it says that asks."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from scripts import config
from scripts.client import Asker, client_of
from scripts.exits import Misused
from scripts.options import Options

Offline = Annotated[
    bool, typer.Option("--offline", help="Claim the account for a moment, which stops a gateway elsewhere.")
]


def asker(given: Options, *, offline: bool = False) -> Asker:
    """Whoever answers for the configuration: the running gateway. Raises NotRunning, ConfigRefused."""
    if offline:
        raise Misused("--offline is not possible here: start the gateway with `replyledger run`")
    return client_of(config.load(given.config))


def who() -> str:
    """Who asks, for the log."""
    try:
        return f"cli:{getpass.getuser()}"[:128]
    except (OSError, KeyError, ImportError):  # no such user, and no variable that names one
        return "cli"
