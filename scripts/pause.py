"""`replyledger pause SCOPE [--for 2h]` and `replyledger resume SCOPE`."""

from __future__ import annotations

from typing import Annotated

import typer

from actors.gateway.api import PAUSE_MS_MAX, PauseOrder, ResumeOrder
from actors.gateway.views import Paused
from scripts import showing
from scripts.asking.asker import Offline, asker, who
from scripts.configuration.values import Duration, parse_duration
from scripts.exits import Misused
from scripts.printing import Printer
from scripts.verbs import start, verb

pause = verb()
resume = verb()

Scope = Annotated[str, typer.Argument(help="An account (weixin:main) or the whole address of a peer.", metavar="SCOPE")]
For = Annotated[str, typer.Option("--for", help="How long, such as 2h; otherwise until resumed.", metavar="DURATION")]


@pause.command()
def pause_sending(ctx: typer.Context, scope: Scope, for_: For = "", offline: Offline = False) -> None:
    """Stop sending for an account or a peer. Messages still come in, outputs still queue up."""
    given, printer = start(ctx)
    order = PauseOrder(scope=scope, for_ms=_ms(for_) if for_ else None, who=who())
    _print(printer, asker(given, offline=offline).post(Paused, "/v1/pause", order))


@resume.command()
def resume_sending(ctx: typer.Context, scope: Scope, offline: Offline = False) -> None:
    """Let sending go on for an account or a peer."""
    given, printer = start(ctx)
    _print(printer, asker(given, offline=offline).post(Paused, "/v1/resume", ResumeOrder(scope=scope, who=who())))


def _ms(text: str) -> int:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise Misused(f"--for: {error}") from None
    if not 1 <= found <= PAUSE_MS_MAX:
        raise Misused(f"--for: {found} is not between 1ms and {Duration(PAUSE_MS_MAX)}")
    return int(found)


def _print(printer: Printer, paused: Paused) -> None:
    printer.row(paused, f"{paused.scope}  {showing.paused(printer, paused.until) or 'sends'}")
