"""`replyledger bind ADDRESS SESSION` and `replyledger unbind ADDRESS`."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.gateway.api import BindOrder, UnbindOrder
from actors.gateway.views import Bound
from scripts.asking.asker import Offline, asker, who
from scripts.printing import Printer
from scripts.verbs import start, verb

bind = verb()
unbind = verb()

Address = Annotated[
    str, typer.Argument(help="Address of a peer, such as weixin:main or weixin:main:PEER.", metavar="ADDRESS")
]
Session = Annotated[str, typer.Argument(help="The agent's conversation.", metavar="SESSION")]


@bind.command()
def bind_peer(ctx: typer.Context, address: Address, session: Session, offline: Offline = False) -> None:
    """Tie a peer to a session: its messages go there, and the session's turns to the peer."""
    given, printer = start(ctx)
    order = BindOrder(peer=address, session=session, who=who())
    _print(printer, asker(given, offline=offline).post(Bound, "/v1/bind", order))


@unbind.command()
def unbind_peer(ctx: typer.Context, address: Address, offline: Offline = False) -> None:
    """Let a peer leave its session. Nothing that is queued is dropped."""
    given, printer = start(ctx)
    _print(printer, asker(given, offline=offline).post(Bound, "/v1/unbind", UnbindOrder(peer=address, who=who())))


def _print(printer: Printer, bound: Bound) -> None:
    now = f"bound to {bound.session}" if bound.session else "bound to no session"
    was = f" (before: {bound.was or 'none'})" if bound.was != bound.session else " (as before)"
    printer.row(bound, f"{bound.peer}  {now}{was}")
