"""`replyledger erase --peer ADDRESS | --delivery ID`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from actors.gateway.api import EraseOrder
from actors.gateway.views import Gone
from actors.text.counts import counted
from scripts.asking.asker import Offline, asker, who
from scripts.exits import Misused
from scripts.verbs import start, verb

app = verb()


@app.command()
def erase(
    ctx: typer.Context,
    *,
    peer: Annotated[str, typer.Option("--peer", "-p", help="Everything of this peer.", metavar="ADDRESS")] = "",
    delivery: Annotated[str, typer.Option("--delivery", "-d", help="The text of this delivery.", metavar="ID")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    offline: Offline = False,
) -> None:
    """Erase texts, names and tokens for good. When something was sent, and what it cost, stays in the log."""
    given, printer = start(ctx)
    if bool(peer) == bool(delivery):
        raise Misused("give exactly one of --peer ADDRESS and --delivery ID")
    if not yes:
        _confirm(peer or delivery)
    order = EraseOrder(peer=peer, delivery=delivery, who=who())
    found = asker(given, offline=offline).post(Gone, "/v1/erase", order)
    printer.row(found, f"erased {counted(found.bodies, 'text', 'texts')}")


def _confirm(what: str) -> None:
    if not sys.stdin.isatty():
        raise Misused("what is erased does not come back; confirm it with --yes")
    typer.confirm(f"Erase the texts of {what} for good?", abort=True, err=True)
