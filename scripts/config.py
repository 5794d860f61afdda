"""`replyledger config check|show|example|schema`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import typer

from scripts.configuration import config, values
from scripts.configuration.config import Config
from scripts.configuration.example import EXAMPLE
from scripts.configuration.schema import json_schema
from scripts.configuration.toml_text import toml
from scripts.exits import ConfigRefused
from scripts.verbs import actions, start

app = actions("Check, show or begin a configuration.")


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was accepted."""

    ok: bool
    file: str
    accounts: tuple[str, ...]
    state_dir: str


@app.command()
def check(ctx: typer.Context) -> None:
    """Read the configuration, and the secrets it names; exit 78 with every fault if it is refused."""
    given, printer = start(ctx)
    found = config.load(given.config)
    _read_secrets(found)
    accounts = tuple(a.address for a in found.accounts)
    row = Checked(ok=True, file=str(found.path), accounts=accounts, state_dir=str(found.state_dir))
    printer.row(row, f"{found.path} is good: {', '.join(accounts)}; state in {found.state_dir}")


@app.command()
def show(ctx: typer.Context) -> None:
    """Print the configuration as it takes effect, defaults included. Secrets are named, never shown."""
    given, printer = start(ctx)
    found = config.load(given.config)
    table: dict[str, Any] = msgspec.to_builtins(found.file, enc_hook=values.encode)
    printer.talk(f"from {found.path}")
    printer.row({"file": str(found.path), **table}, toml(table).rstrip())


@app.command()
def example(ctx: typer.Context) -> None:
    """Print a complete configuration with comments, to begin with."""
    _, printer = start(ctx)
    printer.raw(EXAMPLE)


@app.command()
def schema(ctx: typer.Context) -> None:
    """Print the JSON schema of the configuration, for editors."""
    _, printer = start(ctx)
    printer.raw(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")


def _read_secrets(found: Config) -> None:
    """All missing secrets at once. Raises ConfigRefused."""
    missing = []
    for listener in (found.agents, found.http):
        try:
            found.token(listener)
        except ConfigRefused as error:
            missing.append(str(error))
    if missing:
        raise ConfigRefused("\n".join(missing))
