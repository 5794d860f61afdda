"""`replyledger status`."""

from __future__ import annotations

import typer

from actors.gateway.views import AccountView, SpoolView, StatusView
from actors.text.counts import counted
from actors.text.moments import show_span
from scripts import showing
from scripts.asking.asker import asker
from scripts.options import Options
from scripts.printing import Printer
from scripts.verbs import start, verb

app = verb()


@app.command()
def status(ctx: typer.Context) -> None:
    """Show accounts, agents and what waits, at a glance."""
    given, printer = start(ctx)
    found = asker(given).get(StatusView, "/v1/status")
    printer.row(found, _summary(printer, found))
    if given.json:
        return
    printer.line()
    showing.table(given, printer, ACCOUNT_HEAD, [(a, account_cells(printer, a)) for a in found.accounts])
    _agents(given, printer, found)
    _spool(given, printer, found.spool)


ACCOUNT_HEAD = ("ACCOUNT", "STATE", "EPOCH", "MODE", "PEERS", "PEERS WAITING", "LAST POLL", "")


def account_cells(printer: Printer, view: AccountView) -> tuple[str, ...]:
    """An account as a row."""
    said = ", ".join(filter(None, (view.reason, showing.paused(printer, view.paused_until))))
    polled = showing.when(printer, view.last_poll_at)
    return view.account, view.state, str(view.epoch), view.mode, str(view.peers), str(view.waiting), polled, said


def _summary(printer: Printer, view: StatusView) -> str:
    ready = "ready" if view.ready else f"not ready: {'; '.join(view.reasons)}"
    lines = [
        f"replyledger {view.version}, instance {view.instance}, {ready}",
        f"up {show_span(view.now - view.started_at)}, since {printer.time(view.started_at)}; log at position {view.position}",
        f"{counted(view.peers, 'peer', 'peers')}; {_outputs(view)}",
    ]
    if view.ready and view.reasons:
        lines.append("note: " + "; ".join(view.reasons))
    if view.simulated:
        lines.append(f"its clock is simulated: {printer.time(view.now)}")
    return "\n".join(lines)


def _spool(given: Options, printer: Printer, view: SpoolView) -> None:
    """What `send --spool` left and no log has; nothing where there is nothing."""
    if not view.files:
        return
    wait = counted(view.waiting, "turn waits", "turns wait")
    printer.line(f"\nin the spool {wait}, {counted(view.refused, 'was', 'were')} refused")
    rows = [(f, (f.state, f.to, f.turn_id, f.file, f.reason)) for f in view.files]
    showing.table(given, printer, ("SPOOL", "TO", "TURN", "FILE", "WHY"), rows)
    if view.refused:
        printer.line("rename NAME.refused to NAME.json, and it is offered again")


def _outputs(view: StatusView) -> str:
    unknown = f" ({view.unknown} of unknown outcome)" if view.unknown else ""
    return f"{counted(view.waiting, 'output waits', 'outputs wait')}, {counted(view.dead, 'is', 'are')} dead{unknown}"


def _agents(given: Options, printer: Printer, view: StatusView) -> None:
    if not view.agents:
        printer.line("\nno agent is connected")
        return
    printer.line()
    rows = [(a, (a.agent, a.protocol, printer.time(a.connected_at), str(a.open_turns))) for a in view.agents]
    showing.table(given, printer, ("AGENT", "PROTOCOL", "CONNECTED", "OPEN TURNS"), rows)
