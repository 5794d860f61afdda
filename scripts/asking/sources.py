"""Where `send` gets its turns from: an argument, a file, standard input; a text, or the JSON stream of an agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import msgspec

from actors.gateway.api import TurnOffer, TurnOrigin
from actors.gateway.errors import BadRequest
from actors.gateway.strict import convert
from actors.runtime.clock import SystemIds
from actors.text.clean import clean, text_bytes
from actors.text.counts import counted
from scripts.exits import Failed, Misused
from scripts.printing import Printer
from store.records import TEXT_BYTES_MAX

REPLACEMENT = "\ufffd"
"""Stands for bytes that are no UTF-8."""


class Format(StrEnum):
    """What is read."""

    text = "text"
    claude = "claude"
    codex = "codex"


class Addressed(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the turns are for, and what the command line says of them; "" = not given."""

    to: str
    session: str
    turn_id: str
    origin: TurnOrigin


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line names: exactly one of `text` (`-` = standard input) and `file`."""

    text: str | None
    file: Path | None
    format: Format


def offers(source: Source, given: Addressed, printer: Printer) -> tuple[TurnOffer, ...]:
    """The turns of a source, each with an id and small enough. Raises Misused, Failed."""
    if (source.text is None) == (source.file is None):
        raise Misused("give the text as one of: an argument, `-f FILE`, or `-` for standard input")
    if source.format is Format.text:
        if bool(given.to) == bool(given.session):
            raise Misused("give exactly one of -t ADDRESS and -s SESSION")
        turn_id = given.turn_id or _fresh()
        text = clean(_text(source, printer))
        offer = TurnOffer(to=given.to, session=given.session, turn_id=turn_id, origin=given.origin, text=text)
        turns: tuple[TurnOffer, ...] = (offer,)
    else:
        turns = _stream(source, given, printer)
    for turn in turns:
        if text_bytes(turn.text) > TEXT_BYTES_MAX:
            raise Failed(f"the text has {text_bytes(turn.text)} bytes, at most {TEXT_BYTES_MAX} are taken")
        _check(turn)
    return turns


def _check(turn: TurnOffer) -> None:
    """What a gateway would refuse of it is refused before anything is left in the spool. Raises Misused."""
    try:
        convert(msgspec.to_builtins(turn), TurnOffer)
    except BadRequest as refusal:
        raise Misused(f"{refusal.message} ({refusal.path})") from None


def _fresh() -> str:
    """A turn id of ours: with it a repetition after a broken connection is the same turn."""
    return f"cli-{SystemIds().token(8)}"


def _text(source: Source, printer: Printer) -> str:
    if source.text is not None and source.text != "-":
        return source.text
    with _opened(source) as file:
        data = file.read(TEXT_BYTES_MAX * 2)
    text = data.decode("utf-8", "replace")
    broken = text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())
    if broken:
        places = counted(broken, "place in the text is", "places in the text are")
        printer.talk(f"{places} no UTF-8, and sent as {REPLACEMENT}")
    return text.removeprefix("\ufeff")


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    """The file, or standard input where `-` stands for it. Raises Failed."""
    if source.file is None or str(source.file) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = source.file.open("rb")
    except OSError as error:
        raise Failed(f"{source.file} cannot be read: {error.strerror}") from None
    with file:
        yield file


def _stream(source: Source, given: Addressed, printer: Printer) -> tuple[TurnOffer, ...]:
    """Every turn of an agent's stream, for the peer or session named, else for the stream's own session."""
    from scripts.streams.claude import read_claude
    from scripts.streams.codex import read_codex
    from scripts.streams.lines import bounded_lines

    if source.text not in (None, "-"):
        raise Misused(f"--from {source.format} reads a file or standard input, not an argument")
    if given.to and given.session:
        raise Misused("give at most one of -t ADDRESS and -s SESSION")
    with _opened(source) as file:
        found = (read_claude if source.format is Format.claude else read_codex)(bounded_lines(file))
    for problem in found.problems:
        printer.talk(f"line {problem.line_no}: {problem.what}")
    if not found.complete and found.turns:
        printer.talk("the stream ended within its last turn, which is offered as failed")
    if not found.turns:
        raise Failed(f"the stream holds no turn of {source.format}")
    if given.turn_id and len(found.turns) > 1:
        raise Misused(f"--turn-id names one turn, and the stream holds {len(found.turns)}")
    return tuple(
        TurnOffer(
            to=given.to,
            session=given.session or ("" if given.to else _session(turn.session)),
            turn_id=given.turn_id or turn.turn_id or _fresh(),
            origin=given.origin,
            status=turn.status,
            text=turn.text,
        )
        for turn in found.turns
    )


def _session(named: str) -> str:
    if not named:
        raise Misused("the stream names no session; give one of -t ADDRESS and -s SESSION")
    return named
