"""The demo as people run it, and as it fails: a planted difference, a swallowed message, an interruption."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scripts.configuration import config
from scripts.demonstration.errors import DemoFailed, Disagreement
from scripts.demonstration.folder import Folder
from scripts.demonstration.stage import Phone
from scripts.demonstration.verb import judge, play
from scripts.simulators.weixin.knobs import Fault

ROOT = Path(__file__).parents[2]
LIMIT_S = 60
DEMO = [sys.executable, "-m", "scripts", "demo"]
KEY_LINES = (
    "answered once: reply 1 of 10",
    "A scheduled turn finishes and is pushed: share 1 of 3",
    "A desktop turn finishes and is pushed: share 2 of 3",
    "all three as ONE message: share 3 of 3",
    "waits: the share of 3 is spent",
    "the share rolls, in the window of the evening message",
    "the token is stale. The refused send cost nothing",
    "the refused content goes out with the new token",
    "a second instance starts",
    "It can no longer push: it ends by itself, exit 79",
    "THE PHONE",
    "3 turns in one",
    "Phone and ledger agree: 10 replies were spent",
)


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "NO_COLOR", "XDG_CONFIG_HOME")}
    return kept | {"PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "TZ": "Asia/Shanghai"}


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        args, check=False, cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT_S
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the demo was run, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    ended = run(folder, *DEMO)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return folder, ended.stdout


def test_the_day_goes_as_it_must(played: tuple[Path, str]) -> None:
    _, said = played
    missing = [line for line in KEY_LINES if line not in said]
    assert not missing, said
    assert "DIFFERS" not in said


@pytest.mark.slow
def test_it_leaves_a_log_that_says_it_was_simulated_and_commands_that_work(played: tuple[Path, str]) -> None:
    folder, said = played
    assert (folder / "demo-log" / "state" / "log.sqlite").is_file()
    commands = [
        line.partition("#")[0].split() for line in said.splitlines() if line.startswith("  ") and " --config " in line
    ]
    verbs = {c[c.index("--config") + 2] for c in commands}
    assert verbs == {"audit", "replay", "explain", "events"}
    for command in commands:
        arguments = shlex.split(" ".join(command[command.index("--config") :]))
        ended = run(folder, sys.executable, "-m", "scripts", *arguments)
        assert (ended.returncode, bool(ended.stdout)) == (0, True), f"{command}: {ended.stderr}"
    ended = run(
        folder, sys.executable, "-m", "scripts", "--json", "--config", "demo-log/replyledger.toml", "events", "export"
    )
    started = [row for row in ended.stdout.splitlines() if "bot_started" in row]
    assert len(started) == 3  # the first instance, its new login, the second instance
    assert all('"simulated":true' in row.replace(" ", "").replace("\\", "") for row in started)


@pytest.mark.slow
def test_its_day_cannot_be_continued(played: tuple[Path, str]) -> None:
    folder, _ = played
    ended = run(folder, sys.executable, "-m", "scripts", "run", "--config", "demo-log/replyledger.toml")
    assert ended.returncode == 1
    assert "no simulated clock answers" in ended.stderr


def test_a_folder_that_no_demo_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    ended = run(tmp_path, *DEMO, "--keep", ".")
    assert ended.returncode == 1
    assert "was not made by a demo" in ended.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


async def test_a_planted_difference_fails_loudly(tmp_path: Path) -> None:
    """The phone shows a message less than the server took."""

    def less(phone: Phone) -> Phone:
        return msgspec.structs.replace(phone, shown=phone.shown[:-1])

    verdict, _ = await play(Folder(tmp_path / "log"), lambda _: None, meddle=less)
    with pytest.raises(Disagreement, match="the server took the message and the phone shows nothing"):
        judge(verdict)


@pytest.mark.slow
async def test_a_swallowed_message_fails_loudly(tmp_path: Path) -> None:
    """The server takes the second send without an id, and the phone shows nothing."""
    said: list[str] = []
    tails: list[str] = []
    fault = Fault(where="send", kind="omit_message_id", skip=1)
    with pytest.raises(DemoFailed, match="is delivered, but it is unconfirmed"):
        await play(Folder(tmp_path / "log"), said.append, told=tails.append, faults=[fault])
    assert "answered once" in said[-1]
    assert "--- gateway" in tails[0]
    assert await _silent(tmp_path / "log")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
async def test_a_signal_ends_it_with_all_its_processes(tmp_path: Path, number: signal.Signals, status: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *DEMO,
        cwd=tmp_path,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job inherits it ignored
    )
    assert process.stdout is not None
    assert b"run, on one simulated clock" in await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
    process.send_signal(number)
    _, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert process.returncode == status
    assert b"Traceback" not in err
    assert await _silent(tmp_path / "demo-log")


async def _silent(folder: Path) -> bool:
    """Whether nobody listens any more where the processes of this demo did."""
    found = config.load(folder / "replyledger.toml")
    urls = [str(found.clock), found.accounts[0].base_url]
    ports = [int(url.rpartition(":")[2]) for url in urls] + [found.http.listen.port, found.agents.listen.port]
    return all([await _refused(port) for port in ports])


async def _refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return True
    writer.close()
    await writer.wait_closed()
    return False
