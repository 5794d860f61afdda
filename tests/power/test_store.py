"""Power loss at any instant of a log's life: what was acknowledged is there, and the chain holds."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from store.errors import StoreError
from store.sqlite import SqliteLog
from store.verify import verify
from tests.power import journal
from tests.power.disk import Disk
from tests.power.journal import Entry
from tests.store.conftest import BOT, batch, write

CHILD = Path(__file__).parents[1] / "store" / "appending.py"
LOSSES = int(os.environ.get("REPLYLEDGER_POWER_LOSSES", "150"))
"""At how many instants the power goes, in each journal."""

SEED = 20261130

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="a compiler builds what keeps the journal of writes"),
]


def appended(folder: Path, library: Path, *options: str) -> list[Entry]:
    """The journal of a process that made a log and appended to it."""
    kept, path = folder / "journal", folder / "state" / "log.db"
    done = subprocess.run(
        [sys.executable, str(CHILD), str(path), "8", "400", *options],
        env=journal.preloaded(library, kept, path),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(journal.read(kept))


def losses(entries: list[Entry], folder: Path, chance: Random) -> list[str]:
    """Lose the power at many instants; what went wrong at each that went wrong."""
    instants = set(chance.sample(range(len(entries)), min(LOSSES, len(entries))))
    disk, acknowledged, wrong = Disk(), set[int](), []
    for number, entry in enumerate(entries):
        disk.take(entry)
        if entry.op == "M" and entry.data.strip().isdigit():  # asyncio wakes itself by other messages
            acknowledged.add(int(entry.data))
        if number in instants:
            place = folder / f"loss{number}"
            place.mkdir(parents=True)
            disk.lose_power(place, chance)
            wrong += [f"at entry {number}: {what}" for what in asyncio.run(examine(place / "log.db", acknowledged))]
            shutil.rmtree(place)
    return wrong


async def examine(path: Path, acknowledged: set[int]) -> list[str]:
    """What is wrong with a log after a loss."""
    try:
        log = await SqliteLog.open(path, salt=b"0123456789abcdef")
    except StoreError as error:
        return [f"it does not open: {error}"]
    try:
        return [wrong async for wrong in found_wrong(log, acknowledged)]
    except StoreError as error:
        return [f"it is damaged: {error}"]
    finally:
        await log.close()


async def found_wrong(log: SqliteLog, acknowledged: set[int]) -> AsyncIterator[str]:
    there = {r.position async for page in log.page() for r in page}
    if acknowledged - there:
        yield f"{len(acknowledged - there)} acknowledged events are lost"
    if not (await verify(log)).sound:
        yield "the chain is broken"
    claim = await log.claim(BOT, "afterwards", 5)
    await log.append(batch(write(), epoch=claim.epoch))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return journal.build(tmp_path_factory.mktemp("library"))


def test_nothing_acknowledged_is_lost(tmp_path: Path, library: Path) -> None:
    entries = appended(tmp_path, library)
    assert sum(e.op == "S" for e in entries) > 100
    assert sum(e.op == "M" for e in entries) > 100
    (log,) = {e.file for e in entries if e.op == "O" and e.data.endswith(b"log.db")}
    assert sum(e.op == "W" and e.file == log for e in entries) > 10, "a checkpoint is among them"
    assert losses(entries, tmp_path / "losses", Random(SEED)) == []


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_a_log_that_does_not_sync_loses_what_it_acknowledged(tmp_path: Path, library: Path, synchronous: str) -> None:
    """So that the test above can fail."""
    entries = appended(tmp_path, library, "0", synchronous)
    assert any("acknowledged" in wrong for wrong in losses(entries, tmp_path / "losses", Random(SEED)))
