"""What the verbs have in common: how their command line is built, and where their output goes."""

from __future__ import annotations

import sys
from typing import Any

import typer

from scripts import options
from scripts.options import Options
from scripts.printing import Printer


def verb(about: str = "") -> typer.Typer:
    """The command line of a verb, or of a verb with actions such as `backlog list`."""
    settings = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(help=about, add_completion=False, pretty_exceptions_enable=False, context_settings=settings)


def actions(about: str) -> typer.Typer:
    """The command line of a verb that always takes an action, even when it has only one."""
    app = verb(about)
    app.callback()(lambda: None)
    return app


def printer_of(given: Options) -> Printer:
    """Where a verb prints."""
    return Printer(sys.stdout, sys.stderr, json=given.json, quiet=given.quiet)


def start(ctx: Any) -> tuple[Options, Printer]:
    """The global options of a verb, and where it prints."""
    given = options.of(ctx)
    return given, printer_of(given)
