"""`replyledger send`: offer a text, or the turns of an agent's stream, and say what became of it.

Exit codes: 0 everything was confirmed; 75 accepted and waiting (also when left in the spool); 1 anything failed, was dropped or skipped,
or is unknown, or nobody has logged in to the account yet, so that nothing was accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from actors.gateway.api import WAIT_MS_MAX, TurnOffer, TurnOrigin
from actors.gateway.views import FINAL, DeliveryView, DryRun, Forecast, Receipt, State, TurnAccepted
from actors.runtime.clock import BootClock
from scripts import showing
from scripts.asking import sources, spool, spoolable
from scripts.asking.asker import Offline, asker
from scripts.asking.client import Asker, path_of
from scripts.asking.sources import Addressed, Format, Source
from scripts.configuration import config
from scripts.exits import ExitCode, LoginNeeded, NotRunning, Stop
from scripts.options import Options
from scripts.printing import Printer
from scripts.verbs import start, verb

SHORT_WAIT_MS = 10_000
"""How long `send` without --wait stays for what can leave at once."""

app = verb()


class Origin(StrEnum):
    """Where a turn comes from."""

    scheduled = "scheduled"
    desktop = "desktop"
    api = "api"
    inbound = "inbound"


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was left in the spool."""

    turn_id: str
    spooled: str


class Sent(Receipt, frozen=True, kw_only=True):
    """A receipt, and what the answer to the offer said besides."""

    not_taken: str


To = Annotated[
    str,
    typer.Option("--to", "-t", help="Address of a peer; weixin:main is the person who logged in.", metavar="ADDRESS"),
]
Session = Annotated[str, typer.Option("--session", "-s", help="Each peer bound to this session.", metavar="SESSION")]
Text = Annotated[
    str | None, typer.Argument(help="The text; `-` reads standard input.", metavar="[TEXT]", show_default=False)
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Read the text, or the stream, from a file.")]
TurnId = Annotated[
    str | None, typer.Option("--turn-id", help="The same id is the same delivery, however often it is sent.")
]
From = Annotated[Format, typer.Option("--from", help="What is read: a text, or the JSON stream of an agent's turns.")]
Wait = Annotated[
    float | None, typer.Option("--wait", min=0, max=WAIT_MS_MAX / 1000, help="Seconds to wait for the outcome.")
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Only say what would become of it.")]
Spool = Annotated[bool, typer.Option("--spool", help="If no gateway can take it, leave it for one that can.")]


@app.command()
def send(
    ctx: typer.Context,
    *,
    text: Text = None,
    to: To = "",
    session: Session = "",
    file: File = None,
    turn_id: TurnId = None,
    origin: Annotated[Origin, typer.Option("--origin", help="Where the turn comes from.")] = Origin.api,
    from_: From = Format.text,
    wait: Wait = None,
    dry_run: DryRunFlag = False,
    spool_it: Spool = False,
    offline: Offline = False,
) -> None:
    """Deliver a text to a peer or to a session's peers.

    Exit code 0: confirmed by the channel. 75: accepted, and waiting. 1: failed, dropped, skipped or unknown, or not accepted.
    """
    given, printer = start(ctx)
    source = Source(text=text, file=file, format=from_)
    addressed = Addressed(
        to=to, session=session, turn_id=turn_id or "", origin=msgspec.convert(origin.value, TurnOrigin)
    )
    offers = sources.offers(source, addressed, printer)
    spool_it = spool_it and not dry_run
    if spool_it:
        spoolable.check(config.load(given.config), offers)
    ask = _asker(given, offline, spool_it, offers, printer)
    if dry_run:
        raise typer.Exit(_forecast(ask, offers, printer))
    try:
        accepted = [ask.post(TurnAccepted, "/v1/turns", offer) for offer in offers]
    except (NotRunning, LoginNeeded) as why:
        if not spool_it:
            raise
        _leave(given, offers, printer, why)
    raise typer.Exit(_outcome(ask, accepted, None if wait is None else int(wait * 1000), printer))


def _asker(given: Options, offline: bool, spool_it: bool, offers: Iterable[TurnOffer], printer: Printer) -> Asker:
    """A gateway that has left no port does not run either."""
    try:
        return asker(given, offline=offline)
    except NotRunning as why:
        if not spool_it:
            raise
        _leave(given, offers, printer, why)


def _leave(given: Options, offers: Iterable[TurnOffer], printer: Printer, why: Stop) -> NoReturn:
    loaded = config.load(given.config)
    for offer in offers:
        path = spool.leave(loaded.state_dir, offer)
        printer.row(Left(turn_id=offer.turn_id, spooled=str(path)), f"{offer.turn_id}  left in {path}")
    if isinstance(why, NotRunning):
        printer.talk("no gateway takes it now; the next start does")
    else:
        printer.talk("the gateway that runs takes it in as soon as somebody has logged in")
    for command in spoolable.logins_needed(loaded, offers):
        printer.talk(f"it waits there for a login; run `{command}`")
    raise typer.Exit(ExitCode.WAITING)


def _forecast(ask: Asker, offers: Iterable[TurnOffer], printer: Printer) -> ExitCode:
    found: list[Forecast] = []
    for offer in offers:
        found += ask.post(DryRun, "/v1/turns/dry-run", offer).forecasts
    for one in found:
        printer.row(one, showing.forecast(printer, one))
    if any(one.would in ("skip", "refuse") for one in found):
        return ExitCode.FAILED
    return ExitCode.WAITING if any(one.would == "wait" for one in found) else ExitCode.DONE


def _outcome(ask: Asker, accepted: list[TurnAccepted], wait_ms: int | None, printer: Printer) -> ExitCode:
    """Wait for each delivery within one common time, print its receipt."""
    clock = BootClock()
    states: list[State] = []
    for turn in accepted:
        for delivery in turn.deliveries:
            most = _short(delivery, turn.now) if wait_ms is None else wait_ms
            left = max(0, most - clock.monotonic())
            path = path_of("v1", "deliveries", delivery.delivery)
            receipt = ask.get(Receipt, path, wait_ms=0 if delivery.state in FINAL else left)
            sent = Sent(**msgspec.structs.asdict(receipt), not_taken=delivery.not_taken)
            printer.row(sent, showing.delivery(printer, receipt))
            if delivery.not_taken:
                printer.talk(f"{delivery.delivery}: {delivery.not_taken}")
            states.append(receipt.state)
    return exit_code(states)


def _short(delivery: DeliveryView, now: int) -> int:
    """Without --wait only what can leave at once is waited for."""
    soon = delivery.earliest is not None and delivery.earliest <= now + SHORT_WAIT_MS
    return SHORT_WAIT_MS if soon or delivery.state == "requested" else 0


def exit_code(states: Iterable[State]) -> ExitCode:
    """The worst of several deliveries: anything that failed, else anything that waits."""
    found = set(states)
    if found - {"delivered", "queued", "requested"}:
        return ExitCode.FAILED
    return ExitCode.WAITING if found & {"queued", "requested"} else ExitCode.DONE
