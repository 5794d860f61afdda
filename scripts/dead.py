"""`replyledger dead list|show|retry|discard`: what waits no more and did not wholly arrive."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from actors.gateway.api import DiscardOrder, RetryOrder
from actors.gateway.views import DeadShown, DeadView, DeliveryView, Gone
from scripts import showing
from scripts.asking.asker import Offline, asker, who
from scripts.asking.client import path_of
from scripts.backlog import Id, Ids, shown_text
from scripts.printing import Printer
from scripts.verbs import actions, start

app = actions("List, show, retry or discard what did not arrive.")


class DeadOnes(msgspec.Struct):
    """The answer of /v1/dead."""

    dead: tuple[DeadView, ...]


class Retried(msgspec.Struct):
    """The answer of /v1/dead/retry."""

    deliveries: tuple[DeliveryView, ...]


HEAD = ("DELIVERY", "PEER", "FATE", "REASON", "AT", "TURN", "ORIGIN", "BYTES", "TEXT")


@app.command("list")
def list_(
    ctx: typer.Context,
    peer: Annotated[str, typer.Option("--peer", "-p", help="Only of this peer.", metavar="ADDRESS")] = "",
) -> None:
    """List outputs that were skipped, dropped or cut, or of which nobody knows whether they arrived; newest first."""
    given, printer = start(ctx)
    found = asker(given).get(DeadOnes, "/v1/dead", peer=peer).dead
    showing.table(given, printer, HEAD, [(one, _cells(printer, one)) for one in found])


@app.command()
def show(ctx: typer.Context, delivery: Id) -> None:
    """Show a dead output, with its text."""
    given, printer = start(ctx)
    found = asker(given).get(DeadShown, path_of("v1", "dead", delivery))
    view = found.output
    head = f"{view.delivery}  {view.peer}  {view.fate}: {view.reason}, {printer.time(view.at)}, turn {view.turn_id}"
    printer.row(found, f"{head}\n\n{shown_text(found.text)}")


@app.command()
def retry(ctx: typer.Context, deliveries: Ids, offline: Offline = False) -> None:
    """Put dead outputs into the backlog again."""
    given, printer = start(ctx)
    order = RetryOrder(deliveries=tuple(deliveries), who=who())
    for one in asker(given, offline=offline).post(Retried, "/v1/dead/retry", order).deliveries:
        printer.row(one, showing.delivery(printer, one))


@app.command()
def discard(ctx: typer.Context, deliveries: Ids, offline: Offline = False) -> None:
    """Take dead outputs off the list for good."""
    given, printer = start(ctx)
    order = DiscardOrder(deliveries=tuple(deliveries), who=who())
    found = asker(given, offline=offline).post(Gone, "/v1/dead/discard", order)
    printer.row(found, f"discarded: {showing.named(found.deliveries, found.turn_ids)}")


def _cells(printer: Printer, view: DeadView) -> tuple[str, ...]:
    size = f"{view.start} of {view.bytes}" if view.start else str(view.bytes)
    text = "kept" if view.retrievable else "erased" if view.bytes else "none"
    return (
        view.delivery,
        view.peer,
        view.fate,
        view.reason,
        printer.time(view.at),
        view.turn_id,
        view.origin,
        size,
        text,
    )
