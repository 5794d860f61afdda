"""What is acknowledged stays: through SIGKILL, through a disk that refuses, and because it was synced before."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from store.sqlite import SqliteLog
from store.verify import verify
from tests.store.conftest import BOT, batch, write

CHILD = Path(__file__).with_name("appending.py")


@pytest.mark.parametrize("acknowledged_min", [1, 50, 400])
async def test_kill_9_loses_nothing_acknowledged(path: Path, acknowledged_min: int) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), str(path), "16", "100000", stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    lines = [await child.stdout.readline() for _ in range(acknowledged_min)]
    child.kill()
    rest, _ = await child.communicate()
    told = b"".join(lines) + rest
    acknowledged = {int(line) for line in told[: told.rfind(b"\n")].split()}
    assert len(acknowledged) >= acknowledged_min
    log = await SqliteLog.open(path)
    positions = {r.position async for page in log.page() for r in page}
    assert acknowledged <= positions
    assert (await verify(log)).sound
    claim = await log.claim(BOT, "parent", 5)
    await log.append(batch(write(), epoch=claim.epoch))
    await log.close()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts the syncs")
def test_every_acknowledged_group_was_synced(tmp_path: Path, path: Path) -> None:
    """SIGKILL does not test durability: the kernel keeps what was written. So count the syncs."""
    table = tmp_path / "syncs"
    command = ["strace", "-f", "-c", "-e", "trace=fdatasync,fsync", "-o", str(table)]
    done = subprocess.run(
        [*command, sys.executable, str(CHILD), str(path), "4", "25"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if "ptrace" in done.stderr.lower():
        pytest.skip("this system does not let strace trace")
    assert done.returncode == 0, done.stderr
    groups = int(re.search(r"groups (\d+)", done.stderr)[1])  # type: ignore[index]
    syncs = sum(int(line.split()[3]) for line in table.read_text().splitlines() if line.endswith("sync"))
    assert len(done.stdout.split()) == 100
    assert 25 <= groups <= 100
    assert syncs >= groups


def test_a_disk_that_refuses_a_commit_fails_the_log(path: Path) -> None:
    """A limit on file size makes writes to the WAL fail with EFBIG, at COMMIT."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(path), "8", "100000", str(400_000)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "failed ['LogFailed']" in done.stderr
    acknowledged = {int(line) for line in done.stdout.split()}
    assert acknowledged
    asyncio.run(contains(path, acknowledged))


async def contains(path: Path, acknowledged: set[int]) -> None:
    log = await SqliteLog.open(path)
    assert acknowledged <= {r.position async for page in log.page() for r in page}
    assert (await verify(log)).sound
    await log.close()
