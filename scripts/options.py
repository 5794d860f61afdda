"""The options that every verb has, before or after it: --config FILE, --json, -q, -v."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from scripts.exits import Misused

HELP = """\
  --config FILE   configuration (default: replyledger.toml here, then the user's configuration folder)
  --json          data as JSON, lists one object per line
  -q, --quiet     no talk on standard error, only data and errors
  -v, --verbose   more talk; twice for even more
  -h, --help      help of the program or of a verb
Global options may stand before or after the verb. `--` ends the options. NO_COLOR is respected."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The global options of one call."""

    config: Path | None = None
    json: bool = False
    quiet: bool = False
    verbose: int = 0

    @property
    def terminal(self) -> bool:
        """Whether somebody looks at standard output."""
        return not self.json and sys.stdout.isatty()

    @property
    def color(self) -> bool:
        """Whether standard output takes colours: it is a terminal, and NO_COLOR is not set."""
        return self.terminal and not os.environ.get("NO_COLOR")


def of(ctx: Any) -> Options:
    """The global options of a verb's context (`typer.Context`)."""
    found = ctx.obj
    return found if isinstance(found, Options) else Options()


def split(args: list[str]) -> tuple[Options, list[str]]:
    """Take the global options out of the arguments, wherever they stand before a `--`. Raises Misused."""
    config: Path | None = None
    json = quiet = False
    verbose = 0
    rest: list[str] = []
    left = iter(args)
    for arg in left:
        if arg == "--":
            rest += [arg, *left]
        elif arg == "--config" or arg.startswith("--config="):
            config = Path(_value(arg, left))
        elif arg == "--json":
            json = True
        elif arg in ("-q", "--quiet"):
            quiet = True
        elif arg in ("-v", "-vv", "-vvv", "--verbose"):
            verbose += max(1, arg.count("v") if arg[1] != "-" else 1)
        else:
            rest.append(arg)
    return Options(config=config, json=json, quiet=quiet, verbose=verbose), rest


def _value(arg: str, left: Any) -> str:
    _, equals, value = arg.partition("=")
    value = value if equals else next(left, "")
    if not value:
        raise Misused("--config takes a file")
    return str(value)
