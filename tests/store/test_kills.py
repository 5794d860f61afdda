"""SIGKILL of a process that appends, hundreds of times on one log: all it acknowledged is there, and the chain holds."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from store.sqlite import SqliteLog
from store.verify import verify

CHILD = Path(__file__).with_name("appending.py")
KILLS = 150


def acknowledged_until_killed(path: Path, chance: random.Random) -> set[int]:
    """Let a process append until it has acknowledged a drawn number of events, and kill it at once."""
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(path), str(chance.choice((1, 4, 16))), "100000"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randint(0, 120))]
        child.kill()
        told = b"".join(lines) + child.stdout.read()
    return {int(line) for line in told[: told.rfind(b"\n") + 1].split()}


async def positions(path: Path) -> set[int]:
    log = await SqliteLog.open(path, salt=b"0123456789abcdef")
    try:
        assert (await verify(log)).sound
        return {r.position async for page in log.page() for r in page}
    finally:
        await log.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hundreds_of_kills_lose_nothing_acknowledged(path: Path) -> None:
    chance = random.Random(20261130)
    acknowledged = set[int]()
    for number in range(KILLS):
        fresh = acknowledged_until_killed(path, chance)
        assert not fresh & acknowledged, "a position was given twice"
        acknowledged |= fresh
        if number % 10 == 9:
            assert acknowledged <= asyncio.run(positions(path))
