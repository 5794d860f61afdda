"""The table of everything that eats bytes from outside: name -> what is done with them, and valid messages to begin with.

A target returns None; whatever it raises is a fault. Which errors a parser may raise, and what holds of what it reads, is written there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import files, texts, wires

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Target:
    """`check` fails on whatever must not be; `slow` ones are tried less often."""

    check: Callable[[bytes], None]
    slow: bool = False


TARGETS: dict[str, Target] = {
    "ilink_updates": Target(wires.updates),
    "ilink_send": Target(wires.send),
    "ilink_replies": Target(wires.replies),
    "ilink_login": Target(wires.qr),
    "hosts": Target(wires.hosts),
    "agent_frame": Target(wires.agent_frame),
    "agent_request": Target(wires.agent_request),
    "http_request": Target(wires.http_request),
    "client_answer": Target(wires.client_answer),
    "configuration": Target(files.configuration),
    "spool": Target(files.spooled),
    "logins": Target(files.logins),
    "claude_stream": Target(texts.claude_stream),
    "codex_stream": Target(texts.codex_stream),
    "splitter": Target(texts.splitter),
    "directives": Target(texts.directives),
    "small_values": Target(texts.small_values),
    "event": Target(files.event),
    "log_row": Target(files.row),
    "log_file": Target(files.log_file, slow=True),
}


def corpus(name: str) -> dict[str, bytes]:
    """The inputs that are kept for a target, by their file's name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / name).iterdir())}
