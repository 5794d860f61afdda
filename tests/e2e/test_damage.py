"""Damaged files: a clear message, an exit, nothing made worse; `doctor` finds it, and a backup gets everything back."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.e2e.gateway import disk_bytes
from tests.e2e.load import offer
from tests.e2e.phones import Person
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage, stage_in

LOG, WAL = "log.sqlite", "log.sqlite-wal"
GARBAGE = b"\xa5"
BEFORE = "before the backup " * 20


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway that was killed: its state as it was left, the same without a WAL, and an older backup."""

    stage: Stage
    guest: Person
    left: Path
    flat: Path
    backup: Path

    @property
    def state(self) -> Path:
        return self.stage.gateway.state

    def put(self, kept: Path) -> None:
        """Begin anew with a copy of a state."""
        self.stage.gateway.child.kill()
        shutil.rmtree(self.state)
        shutil.copytree(kept, self.state)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    with stage_in(folder) as stage:
        stage.echo()
        guest = stage.guest()
        for number in range(30):
            stage.gateway.offer(guest.address, BEFORE, turn_id=f"before-{number}")
        stage.settled(guest)
        backup = folder / "backup.sqlite"
        stage.gateway.verb("backup", str(backup))
        for number in range(30):
            stage.gateway.offer(guest.address, "after the backup " * 20, turn_id=f"after-{number}")
        stage.settled(guest)
        stage.gateway.child.kill()
        left, flat = folder / "left", folder / "flat"
        shutil.copytree(stage.gateway.state, left)
        shutil.copytree(stage.gateway.state, flat)
        with closing(sqlite3.connect(flat / LOG)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (left / WAL).stat().st_size > 0
        yield Scene(stage=stage, guest=guest, left=left, flat=flat, backup=backup)


def spoil(file: Path, offset: int, length: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(GARBAGE * length)


def root_page(file: Path, name: str) -> tuple[int, int]:
    """(page size, the number of the first page) of a table or index."""
    with closing(sqlite3.connect(file)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return size, page


def spoil_page(file: Path, name: str) -> None:
    size, page = root_page(file, name)
    spoil(file, (page - 1) * size, size)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "events": lambda state: spoil_page(state / LOG, "events"),
    "events_index": lambda state: spoil_page(state / LOG, "sqlite_autoindex_events_1"),
    "agenda": lambda state: spoil_page(state / LOG, "agenda"),
    "streams": lambda state: spoil_page(state / LOG, "streams"),
    "schema": lambda state: spoil(state / LOG, 100, 1_000),
    "header": lambda state: spoil(state / LOG, 16, 84),
    "truncated": lambda state: os.truncate(state / LOG, (state / LOG).stat().st_size // 8192 * 4096),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_said_left_alone_and_restored(scene: Scene, damage: str) -> None:
    scene.put(scene.flat)
    DAMAGES[damage](scene.state)
    before = (scene.state / LOG).read_bytes()
    gateway = scene.stage.gateway

    child = gateway.launch()
    assert child.exited() == 1
    assert "damaged" in child.err
    assert "backup" in child.err
    assert "Traceback" not in child.err
    if damage != "agenda":  # which is first read when the account is claimed, and that is in the log then
        assert (scene.state / LOG).read_bytes() == before

    doctor = gateway.run("--json", "doctor")
    assert doctor.code == 1
    assert any(row["what"] == "log" and row["state"] == "bad" for row in doctor.rows), doctor
    restore(scene)


def restore(scene: Scene) -> None:
    """As the README says: stop, take the log and its companions away, put the backup in their place, start."""
    for file in scene.state.glob(f"{LOG}*"):
        file.unlink()
    shutil.copy(scene.backup, scene.state / LOG)
    gateway = scene.stage.gateway
    gateway.start()
    again = offer(scene.stage, scene.guest, BEFORE, "before-3")
    assert again.body.get("repeated") is True, again
    gateway.child.kill()
    gateway.sound()


def test_an_emptied_log_does_not_cost_its_wal(scene: Scene) -> None:
    """SQLite deletes the WAL of an empty database; it may hold all there is."""
    scene.put(scene.left)
    os.truncate(scene.state / LOG, 0)
    wal = (scene.state / WAL).read_bytes()
    gateway = scene.stage.gateway

    child = gateway.launch()
    assert child.exited() == 1
    assert "empty" in child.err
    assert (scene.state / WAL).read_bytes() == wal
    for verb in (("audit",), ("doctor",)):
        assert gateway.run(*verb).code == 1
    assert (scene.state / WAL).read_bytes() == wal


def test_a_backup_beside_an_old_wal_is_not_mixed_with_it(scene: Scene) -> None:
    scene.put(scene.left)
    shutil.copy(scene.backup, scene.state / LOG)
    before = disk_bytes(scene.state)
    gateway = scene.stage.gateway

    child = gateway.launch()
    assert child.exited() == 1
    assert WAL in child.err
    assert gateway.run("audit", "--verify").code == 1
    assert disk_bytes(scene.state) == before
    restore(scene)


def test_a_cut_wal_is_an_older_log_which_a_published_root_tells(scene: Scene) -> None:
    """Nothing in the files shows what a cut took. A root that was kept elsewhere does."""
    scene.put(scene.left)
    gateway = scene.stage.gateway
    root = gateway.verb("audit", "--head").row["root"]
    os.truncate(scene.state / WAL, (scene.state / WAL).stat().st_size // 2)

    gateway.start()
    assert offer(scene.stage, scene.guest, "goes on", "after-cut").status == 202
    gateway.child.kill()
    gateway.sound()
    told = gateway.run("--json", "audit", "--verify", "--against", root)
    assert told.code == 1


def test_a_page_that_goes_bad_under_a_running_gateway_ends_it_with_a_word(scene: Scene) -> None:
    scene.put(scene.flat)
    gateway = scene.stage.gateway
    gateway.start()
    with closing(sqlite3.connect(scene.state / LOG)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (scene.state / LOG).stat().st_size
    spoil(scene.state / LOG, 4_096, size - 4_096)
    scene.stage.person().says("is there anybody?")

    eventually(lambda: not gateway.child.running, "it ends")
    assert gateway.child.exited() == 1
    assert "damaged" in gateway.child.err
    assert "Traceback" not in gateway.child.err
