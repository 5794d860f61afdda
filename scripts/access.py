"""`replyledger access grant|refuse ADDRESS`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from actors.gateway.api import AccessOrder
from actors.gateway.views import PeerView
from scripts.asking.asker import Offline, asker, who
from scripts.verbs import actions, start

app = actions("Grant or refuse a peer access to the bot.")

Address = Annotated[str, typer.Argument(help="Address of the peer; `peers` lists who asks.", metavar="ADDRESS")]


@app.command()
def grant(ctx: typer.Context, address: Address, offline: Offline = False) -> None:
    """Let a peer talk to the bot."""
    _act(ctx, address, "grant", offline)


@app.command()
def refuse(ctx: typer.Context, address: Address, offline: Offline = False) -> None:
    """Let a peer talk to the bot no more."""
    _act(ctx, address, "refuse", offline)


def _act(ctx: typer.Context, address: str, action: Literal["grant", "refuse"], offline: bool) -> None:
    given, printer = start(ctx)
    order = AccessOrder(peer=address, action=action, who=who())
    found = asker(given, offline=offline).post(PeerView, "/v1/access", order)
    printer.row(found, f"{found.peer}  access {found.access}")
