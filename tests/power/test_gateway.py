"""Power loss at any instant of a gateway's life: no acknowledged turn is lost, and no byte left without a request that outlives it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from events.peer import SendRequested, TurnCompleted
from store.reader import SqliteReader
from store.verify import verify
from tests.e2e.load import Load
from tests.e2e.phones import MINUTE
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage, stage_in
from tests.power import journal
from tests.power.disk import Disk
from tests.power.journal import Entry

LOSSES = int(os.environ.get("REPLYLEDGER_POWER_LOSSES", "150"))
STARTS = 3
"""So many of the losses are followed by a real start."""

SEED = 20261130
SENT = re.compile(rb'"client_id":"(replyledger-[0-9a-f]+)"')
ACCEPTED = re.compile(rb'"turn_id":"([^"]+-load-[0-9]+)"')

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="a compiler builds what keeps the journal of writes"),
]


class Promises:
    """What the gateway has said so far, from the bytes that left it."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.accepted: set[str] = set()

    def hear(self, message: bytes) -> None:
        self.sent.update(found.decode() for found in SENT.findall(message))
        if b'"deliveries":[' in message:
            self.accepted.update(found.decode() for found in ACCEPTED.findall(message))


async def broken(path: Path, said: Promises) -> list[str]:
    """Which promises a log after a loss does not keep."""
    if not path.exists():
        return ["there is no log"] if said.sent or said.accepted else []
    log = await SqliteReader.open(path)
    try:
        events = [r.event async for page in log.page() for r in page]
        sound = (await verify(log)).sound
    finally:
        await log.close()
    unasked = said.sent - {e.client_id for e in events if isinstance(e, SendRequested)}
    lost = said.accepted - {e.turn_id for e in events if isinstance(e, TurnCompleted)}
    return (
        [f"{len(unasked)} sends without a request"] * bool(unasked)
        + [f"{len(lost)} acknowledged turns are lost"] * bool(lost)
        + ["the chain is broken"] * (not sound)
    )


def losses(entries: list[Entry], folder: Path, chance: Random) -> Iterator[tuple[Path, list[str]]]:
    """Lose the power at many instants after the log was made: (the folder with what is left, broken promises)."""
    first = next(n for n, entry in enumerate(entries) if entry.op == "M" and SENT.search(entry.data))
    instants = set(chance.sample(range(first, len(entries)), LOSSES))
    disk, said = Disk(), Promises()
    for number, entry in enumerate(entries):
        disk.take(entry)
        if entry.op == "M":
            said.hear(entry.data)
        if number in instants:
            place = folder / f"loss{number}"
            place.mkdir(parents=True)
            disk.lose_power(place, chance)
            yield place, asyncio.run(broken(place / "log.sqlite", said))
    assert len(said.sent) > 10
    assert len(said.accepted) > 10


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Stage, list[Entry]]]:
    """A stage whose gateway was busy and was killed, and its journal."""
    library = journal.build(tmp_path)
    kept = tmp_path / "journal"
    with stage_in(tmp_path, **journal.preloaded(library, kept, tmp_path / "state" / "log.sqlite")) as stage:
        stage.echo()
        load = Load(stage, [stage.guest(f"hello {n}") for n in range(4)])
        with load.running():
            for _ in range(8):
                load.goes_on()
            stage.gateway.child.kill()
        yield stage, list(journal.read(kept))


def test_the_log_keeps_every_promise(busy: tuple[Stage, list[Entry]], tmp_path: Path) -> None:
    stage, entries = busy
    chance = Random(SEED)
    starts = set(chance.sample(range(LOSSES), min(STARTS, LOSSES)))
    for number, (place, wrong) in enumerate(losses(entries, tmp_path / "losses", chance)):
        assert not wrong, f"{place.name}: {wrong}"
        if number in starts:
            starts_on(stage, place)
        shutil.rmtree(place)


def starts_on(stage: Stage, place: Path) -> None:
    """The gateway starts on what is left, closes what was open, and proves its log."""
    state = stage.gateway.state
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    stage.gateway.log_in()
    for file in place.iterdir():
        shutil.copy(file, state / file.name)
    stage.gateway.start()
    stage.later(MINUTE)
    eventually(lambda: all(row["outcome"] != "open" for row in stage.gateway.ledger(free=True)), "no request is open")
    stage.gateway.child.kill()
    stage.gateway.sound()
