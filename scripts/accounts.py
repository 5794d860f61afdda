"""`replyledger accounts list|start|stop|restart|logout`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from actors.gateway.api import AccountOrder
from actors.gateway.views import AccountView
from scripts import showing
from scripts.asking.asker import Offline, asker, who
from scripts.status import ACCOUNT_HEAD, account_cells
from scripts.verbs import actions, start

app = actions("List, start, stop, restart or log out accounts.")


class Accounts(msgspec.Struct):
    """The answer of /v1/accounts."""

    accounts: tuple[AccountView, ...]


Account = Annotated[str, typer.Argument(help="Its name, or CHANNEL:ACCOUNT.", metavar="ACCOUNT")]


@app.command("list")
def list_(ctx: typer.Context) -> None:
    """List the configured accounts and how they are."""
    given, printer = start(ctx)
    found = asker(given).get(Accounts, "/v1/accounts").accounts
    showing.table(given, printer, ACCOUNT_HEAD, [(a, account_cells(printer, a)) for a in found])


@app.command("start")
def start_(ctx: typer.Context, account: Account) -> None:
    """Start an account's bot."""
    _act(ctx, account, "start")


@app.command()
def stop(ctx: typer.Context, account: Account) -> None:
    """Stop an account's bot. What waits, waits on."""
    _act(ctx, account, "stop")


@app.command()
def restart(ctx: typer.Context, account: Account) -> None:
    """Stop an account's bot and start it again, with the login that is there now."""
    _act(ctx, account, "restart")


@app.command()
def logout(ctx: typer.Context, account: Account, offline: Offline = False) -> None:
    """Stop an account's bot and forget its login."""
    _act(ctx, account, "logout", offline=offline)


def _act(
    ctx: typer.Context, account: str, action: Literal["start", "stop", "restart", "logout"], *, offline: bool = False
) -> None:
    given, printer = start(ctx)
    order = AccountOrder(account=account, action=action, who=who())
    found = asker(given, offline=offline).post(AccountView, "/v1/accounts", order)
    showing.table(given, printer, ACCOUNT_HEAD, [(found, account_cells(printer, found))])
