"""`replyledger peers [ADDRESS]`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from actors.deciding.facts import carried
from actors.gateway.views import PeerView
from actors.text.counts import counted
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
    "IN LOGS",
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
    address: Annotated[
        str,
        typer.Argument(
            help="One peer, by address or as the log names it (peer-…), with all that is known.", metavar="[ADDRESS]"
        ),
    ] = "",
    account: Annotated[str, typer.Option("--account", "-a", help="Only those of an account.")] = "",
) -> None:
    """Show the peers with quota, share and what waits."""
    given, printer = start(ctx)
    if address:
        one = asker(given).get(PeerView, path_of("v1", "peers", address))
        printer.row(one, whole(printer, one))
        return
    found = asker(given).get(Peers, "/v1/peers", account=account).peers
    showing.table(given, printer, HEAD, [(p, cells(printer, p)) for p in found])


def cells(printer: Printer, view: PeerView) -> tuple[str, ...]:
    """A peer as a row."""
    ends = showing.when(printer, view.quota.ends_at)
    room = (showing.quota(view.quota) + carried(view.quota.carried), ends, showing.share(view.share))
    why = view.reason or _turn(view)
    return view.peer, view.stream, view.access, view.session, *room, str(view.waiting), str(view.dead), why


def _turn(view: PeerView) -> str:
    """Who has the open turn, "" without one."""
    if not view.open_turn:
        return ""
    return f"turn {view.open_turn} is open: " + (
        f"agent {view.agent} has it" if view.agent else "it waits for an agent"
    )


def whole(printer: Printer, view: PeerView) -> str:
    """A peer in lines."""
    lines = [
        f"{view.peer}  {view.name}".rstrip(),
        f"named {view.stream} in logs",
        f"access {view.access}; {f'bound to {view.session}' if view.session else 'bound to no session'}",
        showing.room(printer, view.quota, view.share),
        f"last message {showing.when(printer, view.last_message_at)}; last send {showing.when(printer, view.last_send_at)}",
        (
            f"{counted(view.waiting, 'output waits', 'outputs wait')}, {counted(view.dead, 'is', 'are')} dead;"
            f" {'a' if view.token else 'no'} context token is there"
        ),
    ]
    if view.erased_at is not None:
        lines.append(f"everything of before was erased {printer.time(view.erased_at)}; {_address(printer, view)}")
    if view.open_turn:
        lines.append(_turn(view))
    if view.open_request:
        lines.append(f"request {view.open_request} is on its way")
    if view.paused_until != 0:
        lines.append(showing.paused(printer, view.paused_until))
    if view.reason:
        lines += [view.reason, f"earliest: {showing.earliest(printer, view.earliest)}"]
    return "\n".join(lines)


def _address(printer: Printer, view: PeerView) -> str:
    """What becomes of the address of an erased peer."""
    match view.address:
        case "login":
            return "its address goes after `accounts logout`"
        case "until":
            return f"its address goes {showing.when(printer, view.address_until)}"
        case _:
            return "its address goes once the outcome of what is on its way counts no more"
