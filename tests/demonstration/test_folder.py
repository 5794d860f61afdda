from __future__ import annotations

import stat
from pathlib import Path

import pytest

from scripts.configuration import config
from scripts.demonstration.errors import DemoFailed
from scripts.demonstration.folder import Folder
from scripts.demonstration.stage import free_ports, login
from scripts.running.credentials import LoginFile


def made(path: Path) -> Folder:
    folder = Folder(path)
    folder.make()
    folder.configure(
        clock="http://127.0.0.1:5", weixin="http://127.0.0.1:6", ports=free_ports(), second_ports=free_ports()
    )
    return folder


def test_a_folder_of_a_demo_is_replaced(tmp_path: Path) -> None:
    folder = made(tmp_path / "demo-log")
    (folder.path / "old").touch()
    assert made(tmp_path / "demo-log").path == folder.path
    assert not (folder.path / "old").exists()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert made(tmp_path / "empty").config.is_file()


@pytest.mark.parametrize("name", ["precious.txt", "replyledger.toml"])
def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(DemoFailed, match="not made by a demo"):
        Folder(tmp_path).make()
    assert (tmp_path / name).read_text() == "precious"


def test_a_file_in_its_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(DemoFailed, match="not a folder"):
        Folder(tmp_path / "file").make()


def test_the_configurations_are_good_and_share_one_log(tmp_path: Path) -> None:
    folder = made(tmp_path / "demo-log")
    first, second = config.load(folder.config), config.load(folder.second_config)
    assert first.state_dir == second.state_dir == folder.state
    assert (
        len({first.http.listen.port, first.agents.listen.port, second.http.listen.port, second.agents.listen.port}) >= 3
    )
    assert first.clock == "http://127.0.0.1:5"
    assert [a.base_url for a in first.accounts] == ["http://127.0.0.1:6"]
    assert first.account("main").policy == type(first.account("main").policy)()  # the default numbers, but for origins


def test_logins_differ_and_belong_to_one_person(tmp_path: Path) -> None:
    one, two = login(1), login(2)
    assert one.token != two.token
    assert one.bot_id != two.bot_id
    assert one.user_id == two.user_id
    assert LoginFile(tmp_path, "main").read() is None
