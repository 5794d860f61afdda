"""What the verbs have in common: how their command line is built, and where their output goes."""

from __future__ import annotations

import sys
from typing import Any

import typer

from actors.text.names import fault_of
from scripts import options
from scripts.exits import Misused
from scripts.options import Options
from scripts.printing import Printer

TEXTS = frozenset({"text"})
"""Parameters that are no names: what `send` sends."""


def verb(about: str = "") -> typer.Typer:
    """The command line of a verb, or of a verb with actions such as `backlog list`."""
    settings = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(help=about, add_completion=False, pretty_exceptions_enable=False, context_settings=settings)


def actions(about: str) -> typer.Typer:
    """The command line of a verb that always takes an action, even when it has only one."""
    app = verb(about)
    app.callback()(lambda: None)
    return app


def _check_names(ctx: Any) -> None:
    """Whatever is a string on a command line is a name (an address, an id, a time, ...), besides what is sent. Paths are no strings."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name)
        if parameter.name in TEXTS or source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[parameter.name]
        for name in value if isinstance(value, list | tuple) else (value,):
            _check_name(parameter, name)


def _check_name(parameter: Any, name: object) -> None:
    if not isinstance(name, str):
        return
    what = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name
    if not name:
        raise Misused(f"{what} is empty; is a variable unset?")
    fault = fault_of(name)
    if fault:
        raise Misused(f"{what} {fault}")


def printer_of(given: Options) -> Printer:
    """Where a verb prints."""
    return Printer(sys.stdout, sys.stderr, json=given.json, quiet=given.quiet)


def start(ctx: Any) -> tuple[Options, Printer]:
    """The global options of a verb, and where it prints. Raises Misused where an argument or option is a name that cannot be one."""
    _check_names(ctx)
    given = options.of(ctx)
    return given, printer_of(given)
