"""The way through a stream that all agents have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from scripts.streams.lines import Entry, LineError, entries, records
from scripts.streams.turns import AgentTurn, Named, Problems, StreamResult


class Reader(Protocol):
    """What knows the lines of one agent, and what is wrong with the ids in them."""

    names: Named

    def take(self, entry: Entry) -> AgentTurn | None:
        """Take in one line; return the turn that it ends."""
        ...

    def cut_off(self) -> AgentTurn | None:
        """Return the turn that was running when the stream ended, as failed."""
        ...


def read_stream(lines: Iterable[bytes], reader: Reader) -> StreamResult:
    """Read `lines` to their end through `reader`; a line that cannot be read is a problem and stops nothing."""
    turns: list[AgentTurn] = []
    problems = Problems()
    for number, line in records(lines):
        try:
            found = entries(line)
        except LineError as error:
            problems.add(number, str(error))
            continue
        turns.extend(_taken(found, reader, number, problems))
    last = reader.cut_off()
    if last is not None:
        turns.append(last)
    return StreamResult(tuple(turns), problems.found(), complete=last is None)


def _taken(found: Iterable[Entry], reader: Reader, number: int, problems: Problems) -> Iterator[AgentTurn]:
    """The turns that these entries end. What is JSON may still hold a number that nobody can count, or nest too deeply."""
    for entry in found:
        try:
            turn = reader.take(entry)
        except (msgspec.DecodeError, RecursionError):
            problems.add(number, "a value in it cannot be read")
            continue
        for what in reader.names.told():
            problems.add(number, what)
        if turn is not None:
            yield turn
