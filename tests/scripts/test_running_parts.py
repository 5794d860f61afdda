"""Small parts of a running gateway: its supervisor, its own log, its logins."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.errors import LoginUnreadable
from actors.ports import Credentials
from scripts.exits import ConfigRefused
from scripts.running import logs
from scripts.running.credentials import FILE_BYTES_MAX, LoginFile
from scripts.running.notify import notify, watchdog_ms

GIVEN = Credentials(token="secret", base_url="http://127.0.0.1:1", user_id="ann@im.wechat")


# --- notify -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A supervisor's end of the protocol."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def test_a_supervisor_hears_us(supervisor: socket.socket) -> None:
    assert notify("READY=1", "STATUS=weixin:main running — ja")
    assert supervisor.recv(4096).decode() == "READY=1\nSTATUS=weixin:main running — ja"


@pytest.mark.skipif(not os.path.exists("/proc/net/unix"), reason="abstract sockets are Linux's")
def test_an_abstract_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"replyledger-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        assert notify("WATCHDOG=1")
        assert listening.recv(4096) == b"WATCHDOG=1"


def test_a_supervisor_that_does_not_read_does_not_hold_us_up(supervisor: socket.socket) -> None:
    """Its queue is full: what we say is lost, and the gateway goes on."""
    for _ in range(10_000):
        if not notify("STATUS=" + "x" * 2_000):
            return
    raise AssertionError("the queue has no end")


def test_without_a_supervisor_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [
        ("10000000", None, 5_000),
        ("10000000", "own", 5_000),
        ("10000000", "1", 0),
        ("", None, 0),
        ("soon", None, 0),
        ("-1", None, 0),
        ("0", None, 0),
    ],
)
def test_how_often_the_supervisor_wants_to_hear(
    usec: str, pid: str | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    if pid is None:
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
    else:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert watchdog_ms() == expected


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, left as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


def test_json_logs(root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    named = logging.getLogger("replyledger.test")
    named.debug("not shown")
    named.info("你好 %s\nand more", "you")
    try:
        int("no")
    except ValueError:
        named.exception("it broke")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert {k: v for k, v in first.items() if k != "at"} == {
        "level": "info",
        "logger": "replyledger.test",
        "message": "你好 you\nand more",
    }
    assert first["at"].endswith("+00:00")
    assert second["error"].endswith("with base 10: 'no'")


def test_text_logs(root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("text", "warning")
    logging.getLogger("replyledger.test").info("not shown")
    logging.getLogger("replyledger.test").warning("shown")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING replyledger.test: shown")


# --- logins -----------------------------------------------------------------------------------------------------------


def test_a_login_is_kept_privately_and_forgotten(tmp_path: Path) -> None:
    file = LoginFile(tmp_path / "state", "main")
    assert file.read() is None
    file.write(GIVEN)
    assert file.read() == GIVEN
    assert file.path == tmp_path / "state" / "accounts" / "main.json"
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    file.forget()
    file.forget()
    assert file.read() is None


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"token":1}', b"\xff", b'{"token":"' + b"x" * FILE_BYTES_MAX + b'"}']
)
def test_a_file_that_is_no_login(tmp_path: Path, data: bytes) -> None:
    file = LoginFile(tmp_path, "main")
    file.write(GIVEN)
    file.path.write_bytes(data)
    with pytest.raises(ConfigRefused, match="is no login"):
        file.read()
    with pytest.raises(LoginUnreadable):
        file.read()


def test_a_login_that_cannot_be_read(tmp_path: Path) -> None:
    file = LoginFile(tmp_path, "main")
    file.path.mkdir(parents=True)
    with pytest.raises(ConfigRefused, match="cannot be read"):
        file.read()
