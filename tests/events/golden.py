"""The golden logs: for each released version what its programs wrote, one event a line, and the states that it comes to.

A log is never edited. The states are written anew, and read by eyes, when a fold changes on purpose:
`python -m tests.events.golden`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from events import bot, codec, peer_state
from events.base import Event
from events.streams import category

FOLDER = Path(__file__).parent / "golden"
VERSIONS = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))

State = bot.BotState | peer_state.PeerState


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """An event as its version stored it."""

    stream: str
    version: int
    type: str
    at: int
    epoch: int
    data: msgspec.Raw


def lines(version: str) -> list[Line]:
    """The log of a version."""
    return msgspec.json.decode(b"[%s]" % b",".join(_file(version, "jsonl").read_bytes().splitlines()), type=list[Line])


def folded(version: str) -> Iterator[tuple[Line, Event, State]]:
    """Each line, its event, and the state of its stream after it."""
    states: dict[str, State] = {}
    for line in lines(version):
        event = codec.decode(line.type, bytes(line.data))
        states[line.stream] = _evolve(states.get(line.stream), line, event)
        yield line, event, states[line.stream]


def expected(version: str) -> list[State]:
    """The state after each line, as it was when the version was released."""
    rows = _file(version, "states").read_bytes().splitlines()
    shapes = {"bot": bot.BotState, "peer": peer_state.PeerState}
    return [
        msgspec.json.decode(row, type=shapes[category(line.stream)])
        for line, row in zip(lines(version), rows, strict=True)
    ]


def _evolve(state: State | None, line: Line, event: Event) -> State:
    if category(line.stream) == "bot":
        before = state or bot.BotState()
        return bot.evolve(before, event, version=line.version, at=line.at, epoch=line.epoch)  # type: ignore[arg-type]  # told apart by the stream
    before = state or peer_state.PeerState()
    return peer_state.evolve(before, event, version=line.version, at=line.at, epoch=line.epoch)  # type: ignore[arg-type]  # told apart by the stream


def _file(version: str, suffix: str) -> Path:
    return FOLDER / f"{version}.{suffix}"


if __name__ == "__main__":
    for name in VERSIONS:
        states = [msgspec.json.encode(state) for _, _, state in folded(name)]
        _file(name, "states").write_bytes(b"\n".join(states) + b"\n")
