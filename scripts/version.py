"""`replyledger version`."""

from __future__ import annotations

import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version

import msgspec
import typer

from scripts.verbs import start, verb

app = verb()


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What runs here."""

    version: str
    python: str
    sqlite: str
    system: str


def program_version() -> str:
    """The version of the program; `0` where it runs from a folder that was never installed."""
    try:
        return version("replyledger")
    except PackageNotFoundError:
        return "0"


@app.command()
def show(ctx: typer.Context) -> None:
    """Print the version of the program."""
    given, printer = start(ctx)
    found = Versions(
        version=program_version(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        system=platform.platform(),
    )
    printer.row(found, f"replyledger {found.version}")
    if given.verbose:
        printer.line(f"Python {found.python}, SQLite {found.sqlite}, {found.system}")
