"""`replyledger peers [ADDRESS]`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from actors.gateway.views import PeerView
from scripts import showing
from scripts.asking.asker import asker
from scripts.asking.client import path_of
from scripts.printing import Printer
from scripts.verbs import start, verb

app = verb()


class Peers(msgspec.Struct):
    """The answer of /v1/peers."""

    peers: tuple[PeerView, ...]


HEAD = (
    "PEER",
    "NAME",
    "ACCESS",
    "SESSION",
    "QUOTA LEFT",
    "WINDOW ENDS",
    "SHARE USED",
    "WAITING",
    "DEAD",
    "WHY IT WAITS",
)


@app.command()
def peers(
    ctx: typer.Context,
    address: Annotated[str, typer.Argument(help="One peer, with everything known of it.", metavar="[ADDRESS]")] = "",
    account: Annotated[str, typer.Option("--account", "-a", help="Only those of an account.")] = "",
) -> None:
    """Show the peers with quota, share and what waits."""
    given, printer = start(ctx)
    if address:
        one = asker(given).get(PeerView, path_of("v1", "peers", address))
        printer.row(one, _whole(printer, one))
        return
    found = asker(given).get(Peers, "/v1/peers", account=account).peers
    showing.table(given, printer, HEAD, [(p, _cells(printer, p)) for p in found])


def _cells(printer: Printer, view: PeerView) -> tuple[str, ...]:
    ends = showing.when(printer, view.quota.ends_at)
    room = (showing.quota(view.quota), ends, showing.share(view.share))
    return view.peer, view.name, view.access, view.session, *room, str(view.waiting), str(view.dead), view.reason


def _whole(printer: Printer, view: PeerView) -> str:
    lines = [
        f"{view.peer}  {view.name}",
        f"access {view.access}; {f'bound to {view.session}' if view.session else 'bound to no session'}",
        showing.room(printer, view.quota, view.share),
        f"last message {showing.when(printer, view.last_message_at)}; last send {showing.when(printer, view.last_send_at)}",
        f"{view.waiting} outputs wait, {view.dead} are dead; a reply token is {'there' if view.token else 'not there'}",
    ]
    if view.open_turn:
        lines.append(f"an agent works on turn {view.open_turn}")
    if view.open_request:
        lines.append(f"request {view.open_request} is on its way")
    if view.paused_until != 0:
        lines.append(showing.paused(printer, view.paused_until))
    if view.reason:
        lines.append(
            f"{view.reason}; earliest: {showing.when(printer, view.earliest, 'open, until something happens')}"
        )
    return "\n".join(lines)
