"""How a verb reaches the gateway, and who it says that asks."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from actors.text.names import fault_of
from scripts.asking.client import Asker, client_of
from scripts.configuration import config
from scripts.options import Options
from scripts.verbs import printer_of

Offline = Annotated[
    bool, typer.Option("--offline", help="Claim the account for a moment, which stops a gateway elsewhere.")
]


def asker(given: Options, *, offline: bool = False) -> Asker:
    """Whoever answers for the configuration: the running gateway, or with `offline` one in this process that claims the accounts
    and sends nothing. Raises NotRunning, ConfigRefused."""
    loaded = config.load(given.config)
    if not offline:
        return client_of(loaded)
    from scripts.running.offline import OfflineAsker

    printer_of(given).talk("offline: the accounts are claimed for this command; a gateway that runs elsewhere ends now")
    return OfflineAsker(loaded)


def who() -> str:
    """Who asks, for the log."""
    try:
        name = f"cli:{getpass.getuser()}"[:128]
    except (OSError, KeyError, ImportError):  # no such user, and no variable that names one
        return "cli"
    return "cli" if fault_of(name) else name
