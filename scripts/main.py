"""The command line: finds the verb, imports its module, and only then the rest of the program.

A verb is one line of VERBS: `MODULE` (whose `app`, a `typer.Typer`, is the verb) or `MODULE:NAME`, and what it does in a few words.
Its commands find the global options by `scripts.options.of(ctx)`, and end by returning, or by raising `scripts.exits.Stop`.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from scripts import options
from scripts.errors import ScriptError
from scripts.exits import ExitCode, Misused, code_of
from scripts.options import Options

VERBS: dict[str, tuple[str, str]] = {
    "demo": ("scripts.demonstration.verb", "play a scripted day on this machine, and compare phone and ledger"),
    "run": ("scripts.run", "run the gateway in the foreground"),
    "login": ("scripts.login", "log an account in: `login weixin --account A`"),
    "accounts": ("scripts.accounts", "list, start, stop, restart or log out accounts"),
    "access": ("scripts.access", "grant or refuse a peer access to the bot"),
    "send": ("scripts.send", "deliver a text to a peer or a session"),
    "bind": ("scripts.bind:bind", "tie a peer to a session"),
    "unbind": ("scripts.bind:unbind", "let a peer leave its session"),
    "pause": ("scripts.pause:pause", "stop sending for an account or a peer"),
    "resume": ("scripts.pause:resume", "let sending go on"),
    "status": ("scripts.status", "accounts, agents and what waits, at a glance"),
    "health": ("scripts.health", "whether the gateway lives and is ready"),
    "peers": ("scripts.peers", "the peers with quota, share and what waits"),
    "backlog": ("scripts.backlog", "list, show, flush or drop what waits"),
    "dead": ("scripts.dead", "list, show, retry or discard what did not arrive"),
    "audit": ("scripts.audit", "what each spent reply bought; --verify proves the log"),
    "explain": ("scripts.explain", "why something left or waits, in plain sentences"),
    "replay": ("scripts.replay", "quota and backlog rebuilt from the events alone"),
    "events": ("scripts.events", "tail, show or export the log"),
    "simulate": ("scripts.simulate", "a Weixin server, or a clock, for trials on this machine"),
    "bench": ("scripts.bench.verb", "measure speed and memory beside anchors, in one run"),
    "doctor": ("scripts.doctor", "check configuration, files, clock, log and ports"),
    "backup": ("scripts.backup", "copy the log into one file"),
    "erase": ("scripts.erase", "erase the texts of a peer or of a delivery"),
    "config": ("scripts.config", "check, show, example or schema of the configuration"),
    "version": ("scripts.version", "the version of the program"),
}

USAGE = "usage: replyledger [OPTIONS] VERB [ARGUMENTS]"


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns (or exits with) a code of `scripts.exits`."""
    try:
        _speak_any_language()
        given, rest = options.split(list(sys.argv[1:] if args is None else args))
        code = _run(given, rest)
        sys.stdout.flush()
    except ScriptError as error:
        _complain(str(error))
        return int(code_of(error))
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.FAILED)
    except KeyboardInterrupt:
        return 130  # as a shell reports SIGINT
    return code


def _speak_any_language() -> None:
    """What a terminal's encoding cannot show is escaped, and never the end of the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(given: Options, rest: list[str]) -> int:
    if not rest or rest[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return int(ExitCode.DONE if rest else ExitCode.USAGE)
    verb = "version" if rest[0] == "--version" else rest[0]
    if verb not in VERBS:
        raise Misused(_unknown(verb))
    return _call(_app(VERBS[verb][0]), verb, rest[1:], given)


def _call(app: Any, verb: str, rest: list[str], given: Options) -> int:
    """Typer ends every command by SystemExit."""
    try:
        app(rest, prog_name=f"replyledger {verb}", obj=given)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.DONE if end.code is None else ExitCode.FAILED)
    return int(ExitCode.DONE)


def _app(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name or "app")


def overview() -> str:
    """The help of the program."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {what}" for verb, (_, what) in VERBS.items())
    return f"{USAGE}\n\n{options.HELP}\n\nVerbs (`replyledger VERB --help` tells more):\n{verbs}\n"


def _unknown(verb: str) -> str:
    if verb.startswith("-"):
        return f"unknown option {verb}\n{USAGE}"
    near = get_close_matches(verb, VERBS, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"unknown verb {verb!r}{hint}\n{USAGE}; `replyledger --help` lists the verbs"


def _complain(message: str) -> None:
    from scripts.printing import plain

    sys.stderr.write(f"replyledger: {plain(message)}\n")  # it may repeat what strangers wrote


if __name__ == "__main__":
    sys.exit(main())
