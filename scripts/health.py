"""`replyledger health`: for people, scripts and container health checks."""

from __future__ import annotations

import msgspec
import typer

from actors.gateway.views import HealthView, ReadyView
from scripts.asking.asker import asker
from scripts.exits import ExitCode
from scripts.verbs import start, verb

app = verb()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Liveness and readiness."""

    ok: bool
    ready: bool
    reasons: tuple[str, ...]
    version: str
    instance: str


@app.command()
def health(ctx: typer.Context) -> None:
    """Say whether the gateway lives and is ready. Exit code 0: both; 1: not ready; 69: none answers."""
    given, printer = start(ctx)
    ask = asker(given)
    alive = ask.get(HealthView, "/health")
    ready = ask.get(ReadyView, "/ready")
    found = Health(
        ok=alive.ok, ready=ready.ready, reasons=ready.reasons, version=alive.version, instance=alive.instance
    )
    said = "lives" if alive.ok else "does not live"
    said += ", and is ready" if ready.ready else f", and is not ready: {'; '.join(ready.reasons)}"
    printer.row(found, f"the gateway {said}")
    if not (alive.ok and ready.ready):
        raise typer.Exit(ExitCode.FAILED)
