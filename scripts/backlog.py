"""`replyledger backlog list|show|flush|drop`: what waits."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from actors.gateway.api import DropOrder, FlushOrder
from actors.gateway.views import BacklogView, Gone, WaitingShown, WaitingView
from actors.text.counts import counted
from scripts import showing
from scripts.asking.asker import Offline, asker, who
from scripts.asking.client import path_of
from scripts.printing import Printer
from scripts.verbs import actions, start

app = actions("List, show, flush or drop what waits.")


class Backlogs(msgspec.Struct):
    """The answer of /v1/backlog."""

    backlog: tuple[BacklogView, ...]


Id = Annotated[str, typer.Argument(help="Id of a delivery or of its turn, or a unique beginning of it.", metavar="ID")]
Ids = Annotated[
    list[str],
    typer.Argument(help="Ids of deliveries or of their turns, or unique beginnings of them.", metavar="ID..."),
]


@app.command("list")
def list_(
    ctx: typer.Context,
    peer: Annotated[str, typer.Option("--peer", "-p", help="Only of this peer.", metavar="ADDRESS")] = "",
) -> None:
    """List what waits, peer by peer, in the order in which it leaves; and the one fact that blocks it."""
    given, printer = start(ctx)
    found = asker(given).get(Backlogs, "/v1/backlog", peer=peer).backlog
    for one in found:
        printer.row(one, describe(printer, one))
    if not found:
        printer.talk("nothing waits")


@app.command()
def show(ctx: typer.Context, delivery: Id) -> None:
    """Show an output that waits, with its text."""
    given, printer = start(ctx)
    found = asker(given).get(WaitingShown, path_of("v1", "backlog", delivery))
    printer.row(found, f"{_line(printer, found.output)}\n\n{shown_text(found.text)}")


@app.command()
def flush(
    ctx: typer.Context,
    peer: Annotated[str, typer.Argument(help="Address of the peer.", metavar="ADDRESS")],
    offline: Offline = False,
) -> None:
    """Try now what a peer's backlog waits for, never beyond quota, share or order."""
    given, printer = start(ctx)
    order = FlushOrder(peer=peer, who=who())
    found = asker(given, offline=offline).post(BacklogView, "/v1/backlog/flush", order)
    printer.row(found, describe(printer, found))


@app.command()
def drop(ctx: typer.Context, deliveries: Ids, offline: Offline = False) -> None:
    """Drop outputs that wait. `dead retry` brings them back."""
    given, printer = start(ctx)
    order = DropOrder(deliveries=tuple(deliveries), who=who())
    found = asker(given, offline=offline).post(Gone, "/v1/backlog/drop", order)
    printer.row(found, f"dropped: {showing.named(found.deliveries, found.turn_ids)}")


def shown_text(text: str | None) -> str:
    """A text for the terminal, or that it is gone."""
    return "(its text has been erased)" if text is None else text


def describe(printer: Printer, view: BacklogView) -> str:
    """A peer's backlog in lines."""
    if not view.waiting:
        return f"{view.peer}  nothing waits"
    lines = [f"{view.peer}  {view.reason}"]
    lines.append(f"  earliest: {showing.earliest(printer, view.earliest)}")
    lines.append(f"  {showing.room(printer, view.quota, view.share)}")
    lines += [f"  {_line(printer, one)}" for one in view.waiting]
    return "\n".join(lines)


def _line(printer: Printer, view: WaitingView) -> str:
    done = f", {view.start} of them settled" if view.start else ""
    expires = "" if view.expires_at is None else f"; expires {printer.time(view.expires_at)}"
    accepted = f"accepted {printer.time(view.accepted_at)}"
    size = counted(view.bytes, "byte", "bytes")
    return f"{view.delivery}  {view.lane}, {view.state}, {view.origin} turn {view.turn_id}, {size}{done}; {accepted}{expires}"
