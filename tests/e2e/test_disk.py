"""Real small disks: full while a gateway works, and read-only when one starts. What was acknowledged stays, and it goes on by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.load import offer
from tests.e2e.phones import SECOND
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage, stage_in

DISK_MB = 48
"""More than the 16 MB that the log leaves free."""


def mounted(*args: str) -> bool:
    return subprocess.run(["mount", *args], capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, where the gateway keeps its state."""
    place = tmp_path / "state"
    place.mkdir()
    if shutil.which("mount") is None or not mounted(
        "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0700", "tmpfs", str(place)
    ):
        pytest.skip("only root may mount a small disk")
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
        yield place


@pytest.fixture
def stage(disk: Path, tmp_path: Path) -> Iterator[Stage]:
    with stage_in(tmp_path) as found:
        found.echo()
        yield found
        found.check()


def fill(disk: Path) -> Path:
    """Take all the room there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"\xa5" * 65_536) == 65_536:
                pass
        except OSError:
            pass
    assert os.statvfs(disk).f_bavail < 16
    return filler


def reasons(gateway: Gateway) -> str:
    answer = gateway.ready()
    return "" if answer is None else " ".join(str(r) for r in answer.body["reasons"])


def test_a_full_disk_refuses_and_what_was_acknowledged_stays(stage: Stage, disk: Path) -> None:
    guest = stage.guest()
    kept = stage.gateway.offer(guest.address, "before", turn_id="before")
    stage.gateway.receipt(kept["delivery"])
    filler = fill(disk)

    refused = offer(stage, guest, "meanwhile", "meanwhile")
    assert refused.status == 503
    assert "full" in str(refused.body)
    eventually(lambda: "full" in reasons(stage.gateway), "/ready says why")
    assert stage.gateway.child.running

    filler.unlink()
    eventually(lambda: stage.gateway.ready().status == 200, "it goes on by itself")
    assert offer(stage, guest, "meanwhile", "meanwhile").status == 202
    stage.answered(guest, 3)
    assert guest.reads[1:] == ["before", "meanwhile"]
    stage.gateway.sound()


def test_an_outcome_that_finds_the_disk_full_is_kept_until_there_is_room(stage: Stage, disk: Path) -> None:
    guest = stage.guest()
    stage.phones.faults(where="send", kind="slow_headers", ms=2 * SECOND, user=guest.id)
    sent = stage.gateway.offer(guest.address, "on its way", turn_id="slow")
    eventually(lambda: len(guest.accepted) == 2, "the server has it")
    filler = fill(disk)
    person = stage.person()
    person.says("can you hear me?")  # cannot be taken in, and is not lost
    eventually(lambda: "full" in reasons(stage.gateway), "/ready says why")
    filler.unlink()

    assert stage.gateway.receipt(sent["delivery"])["state"] == "delivered"
    stage.answered(person, 1)
    assert person.reads == ["echo: can you hear me?"]
    assert guest.reads.count("on its way") == 1
    stage.gateway.sound()


def test_a_read_only_disk_is_said_at_the_start_and_can_be_read(stage: Stage, disk: Path) -> None:
    guest = stage.guest()
    stage.gateway.receipt(stage.gateway.offer(guest.address, "written", turn_id="written")["delivery"])
    stage.gateway.child.kill()
    assert mounted("-o", "remount,ro", str(disk))
    try:
        child = stage.gateway.launch()
        assert child.exited() == 1
        assert "cannot be written" in child.err
        assert "Traceback" not in child.err
        stage.gateway.sound()
        assert "written" in str(stage.gateway.explain("written"))
        doctor = stage.gateway.run("--json", "doctor")
        assert doctor.code == 1
        assert any(row["state"] == "bad" and "written" in row["found"] for row in doctor.rows)
    finally:
        assert mounted("-o", "remount,rw", str(disk))
    stage.gateway.start()
    assert offer(stage, guest, "again", "again").status == 202
    stage.answered(guest, 3)
