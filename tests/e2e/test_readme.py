"""The commands of README.md, executed in a fresh clone and a fresh environment, in its order, against real processes on loopback.

Stand-ins are only for what cannot be had: the channel and the phone (the simulator), `claude` and `codex` (they print a recorded
stream). A command that is not in COMMANDS fails, before anything is installed.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.e2e.asking import Answer, ask
from tests.e2e.processes import Child, eventually, free_port
from tests.e2e.reader import INSTALL_S, LINE_S, README, Reader, block_commands, blocks, named_commands

PERSON = "weixin:main"


class Trial:
    """The reader, the simulated channel, and what has happened so far."""

    def __init__(self, folder: Path) -> None:
        self.reader = Reader(folder)
        self.weixin = Child("weixin", ["scripts.simulators.weixin"], folder)
        self.server = str(self.weixin.announced()["base_url"])
        self.http = ""
        self.running: subprocess.Popen[str] | None = None
        self.going: list[subprocess.Popen[str]] = []  # of the trial without a phone
        self.trial_port = 0

    def good(self, line: str, code: int = 0, wait_s: float = LINE_S) -> str:
        """Run a line; what it printed."""
        said = self.reader.run(line, wait_s)
        assert said.code == code, f"{line}\n{said.out}\n{said.err}"
        assert "Traceback" not in said.err
        return said.out

    def phone(self) -> list[str]:
        """What the bot wrote to the person."""
        shown = ask(self.server, "GET", "/control/ledger/shown").body["shown"]
        return [row["text"] for row in shown if row["by"] == "bot"]

    # --- See it -------------------------------------------------------------------------------------------------------

    def demo(self, line: str) -> None:
        out = self.good(line, wait_s=INSTALL_S)
        assert "Phone and ledger agree" in out
        assert (self.reader.clone / "demo-log" / "state" / "log.sqlite").is_file()

    def tests(self, line: str) -> None:
        """All of them would run this one; a part shows that the command finds and runs them."""
        out = self.good(f"{line} -q tests/events/test_quota.py tests/tidy/test_rules.py", wait_s=INSTALL_S)
        assert " passed" in out

    def covered(self, line: str) -> None:
        out = self.good(f"{line} -q tests/events/test_quota.py", wait_s=INSTALL_S)
        assert re.search(r"\d % +[1-9]\d* of +\d+  events/quota.py", out)

    def mutants(self, line: str) -> None:
        """Which two it meets changes with the module; that tests notice enough of them is for tests/mutation to say."""
        said = self.reader.run(f"{line} --sample 2 events/quota.py", INSTALL_S)
        assert re.search(r"^[0-2] of 2 mutants killed", said.out, re.MULTILINE), said

    # --- Use it -------------------------------------------------------------------------------------------------------

    def install(self, line: str) -> None:
        self.reader.environment_of_the_lock()
        self.good(line, wait_s=INSTALL_S)
        place = self.good("cd / && python -c 'import scripts.main; print(scripts.main.__file__)'")
        assert place.startswith(str(self.reader.venv)), "the wheel is what runs, not the clone"

    def example(self, line: str) -> None:
        self.good(line)
        self.http = self.reader.move_to_loopback(self.server)

    def login(self, line: str) -> None:
        process = self.reader.begin(line)
        self._until_confirmed()
        log = self.reader.log_of(line)
        assert process.wait(LINE_S) == 0, log.read_text()
        assert "weixin:main logged in" in log.read_text()
        kept = self.reader.clone / "state" / "accounts" / "main.json"
        assert kept.stat().st_mode & 0o777 == 0o600

    def _until_confirmed(self) -> None:
        """The code is scanned and confirmed, once it is there."""
        eventually(lambda: ask(self.server, "POST", "/control/qr/confirm", {}).status == 200, "the code is there")

    def start(self, line: str) -> None:
        self.running = self.reader.begin(line)
        log = self.reader.log_of(line)
        eventually(lambda: (a := self._ready()) is not None and a.status == 200, f"ready: {log.read_text()}", 30)

    def _ready(self) -> Answer | None:
        try:
            return ask(self.http, "GET", "/ready")
        except (OSError, HTTPException):
            return None

    # --- from a job or a hook -----------------------------------------------------------------------------------------

    def waits(self, line: str) -> None:
        """Nobody has written to the bot yet: accepted, and it waits."""
        self.good(line, code=75)
        assert self.phone() == []

    def last_report(self, line: str) -> None:
        """The person writes; what waited leaves then, as one message."""
        self.waits(line)
        assert ask(self.server, "POST", "/control/say", {"text": "hello"}).status == 200
        (merged,) = eventually(self.phone, "what waited has left")
        assert "all jobs are green" in merged
        assert "3 branches" in merged

    def confirmed(self, line: str) -> None:
        """The next push is confirmed at once, and then the exit code is 0."""
        self.good(line)
        assert eventually(lambda: self.phone()[1:], "it was sent") == ["deployed"]

    def status(self, line: str) -> None:
        out = self.good(line)
        assert "weixin:main" in out
        assert "running" in out

    def explain(self, line: str) -> None:
        for name in self._turn_and_delivery():
            out = self.good(line.replace("TURN_OR_DELIVERY", name))
            assert "confirmed" in out

    def _turn_and_delivery(self) -> Iterator[str]:
        rows = [json.loads(row) for row in self.good("replyledger --json audit").splitlines()]
        yield str(rows[-1]["turn_ids"][0])
        sent = json.loads(self.good("replyledger --json send -t weixin:main 'once more' --wait 10"))
        yield str(sent["delivery"])

    def audit(self, line: str) -> None:
        rows = [row for row in self.good(line).splitlines() if "push" in row]
        assert len(rows) == 3, "one row for each reply that was spent"

    # --- Without a phone ----------------------------------------------------------------------------------------------

    def on_free_port(self, line: str) -> str:
        """The line with a port that nobody has in the place of the README's."""
        self.trial_port = self.trial_port or free_port()
        return line.replace("9099", str(self.trial_port))

    def simulate(self, line: str) -> None:
        self.going.append(self.reader.begin(self.on_free_port(line)))
        url = f"http://127.0.0.1:{self.trial_port}/control/counters"
        eventually(lambda: self.good(f"curl -s {url} || true"), "the simulator answers")

    def trial_config(self, line: str) -> None:
        self.good(self.on_free_port(line))
        file = self.reader.clone / "trial.toml"
        text = file.read_text(encoding="utf-8")
        for port in ("8080", "8081"):  # a reader of a fresh machine has both
            assert text.count(f"127.0.0.1:{port}") == 1
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
        file.write_text(text, encoding="utf-8")

    def trial_login(self, line: str) -> None:
        self.going.append(self.reader.begin(line))

    def trial_scan(self, line: str) -> None:
        code = f"{self.on_free_port(line)} -s -o /dev/null -w '%{{http_code}}'"
        eventually(lambda: self.good(code) == "200", "the code is there, and confirmed")
        assert self.going.pop().wait(LINE_S) == 0
        assert (self.reader.clone / "trial" / "accounts" / "main.json").is_file()

    def trial_run(self, line: str) -> None:
        self.going.append(self.reader.begin(line))
        log = self.reader.log_of(line)
        eventually(lambda: "weixin:main: running" in log.read_text(), f"it runs: {log.read_text()}", 30)

    def trial_waits(self, line: str) -> None:
        self.good(line, code=75)

    def trial_says(self, line: str) -> None:
        self.good(self.on_free_port(line))

    def trial_phone(self, line: str) -> None:
        """What waited has reached the phone, which also shows what the person wrote."""
        shown = eventually(lambda: (s := self.good(self.on_free_port(line))).count("deployed") and s, "it arrived")
        assert "hello" in shown

    # --- in its sentences ---------------------------------------------------------------------------------------------

    def bind(self, line: str) -> None:
        self.good(line.replace("SESSION", "phone"))
        peer = json.loads(self.good(f"replyledger --json peers {PERSON}"))
        assert peer["session"] == "phone"

    def bench(self, line: str) -> None:
        """Whole it takes minutes; one group of it, at its smaller sizes, is the same command."""
        out = self.good(f"{line} --quick --only turns", wait_s=INSTALL_S)
        assert "turns" in out

    def other_python(self, line: str) -> None:
        """`PYTHON` picks the interpreter of a new environment; one that is there stays."""
        assert line == "PYTHON=python3.12 ./scripts/demo"
        setup = (self.reader.clone / "scripts" / "setup").read_text(encoding="utf-8")
        assert '"$python" -m venv "$venv"' in setup
        refused = self.reader.run("rm -rf .venv/replyledger-lock && PYTHON=/bin/false ./scripts/demo")
        assert refused.code != 0

    def checks(self, line: str) -> None:
        """Whoever runs this test runs it by this command or by a part of it; here it is at least sound and executable."""
        self.good(f"bash -n {line} && test -x {line}")

    def end(self) -> None:
        """TERM stops the gateway in good order, as the README says; nothing is left running."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.weixin.end)
            for process in self.going:
                stack.callback(process.wait, 30)
                stack.callback(process.terminate)
            if self.running is not None:
                stack.callback(self.running.wait)
                stack.callback(self.running.kill)
                self.running.send_signal(signal.SIGTERM)
                assert self.running.wait(30) == 0, self.reader.log_of("replyledger run").read_text()


COMMANDS: dict[str, Callable[[Trial, str], None]] = {
    "./scripts/demo": Trial.demo,
    "./scripts/test": Trial.tests,
    "pip install .": Trial.install,
    "replyledger config example > replyledger.toml": Trial.example,
    "replyledger config check": Trial.good,  # type: ignore[dict-item] # what it prints is not used
    "replyledger login weixin --account main": Trial.login,
    "replyledger run": Trial.start,
    'claude -p "nightly report" --output-format stream-json --verbose'
    " | replyledger send -t weixin:main --origin scheduled --from claude -": Trial.waits,
    'codex exec --json "nightly report"'
    " | replyledger send -t weixin:main --origin scheduled --from codex -": Trial.last_report,
    'replyledger send -t weixin:main "deployed"': Trial.confirmed,
    "replyledger status": Trial.status,
    "replyledger explain TURN_OR_DELIVERY": Trial.explain,
    "replyledger audit": Trial.audit,
    "replyledger simulate weixin --port 9099": Trial.simulate,
    "replyledger config example | sed 's|https://ilinkai.weixin.qq.com|http://127.0.0.1:9099|;"
    """ s|^state_dir = "state"|state_dir = "trial"|' > trial.toml""": Trial.trial_config,
    "replyledger login weixin --account main --config trial.toml": Trial.trial_login,
    "curl -d '{}' http://127.0.0.1:9099/control/qr/confirm": Trial.trial_scan,
    "replyledger run --config trial.toml": Trial.trial_run,
    'replyledger send -t weixin:main "deployed" --config trial.toml': Trial.trial_waits,
    """curl -d '{"text": "hello"}' http://127.0.0.1:9099/control/say""": Trial.trial_says,
    "curl http://127.0.0.1:9099/control/ledger/shown": Trial.trial_phone,
    # within sentences
    "./scripts/test --fast": Trial.tests,
    "./scripts/test --cover": Trial.covered,
    "./scripts/test --mutants": Trial.mutants,
    "replyledger bind weixin:main SESSION": Trial.bind,
    "replyledger bench": Trial.bench,
    "PYTHON=python3.12 ./scripts/demo": Trial.other_python,
    ".ci/run": Trial.checks,
}


def _lines(text: str) -> list[str]:
    """Every command, in blocks first; each once."""
    return list(dict.fromkeys([*block_commands(text), *named_commands(text)]))


def test_every_command_of_the_readme_is_executed_here() -> None:
    lines = _lines(README.read_text(encoding="utf-8"))
    assert not set(lines) - set(COMMANDS), "commands of the README that nobody executes; add them to COMMANDS"
    assert not set(COMMANDS) - set(lines), "commands that the README has no more"


def test_every_block_says_what_it_is() -> None:
    """`sh` is executed, `text` is not."""
    assert {language for language, _ in blocks(README.read_text(encoding="utf-8"))} == {"sh", "text"}


def test_an_unknown_command_is_found() -> None:
    text = "see `replyledger fly` or `audit`\n```sh\nreplyledger soar  # far\nmake   | tee x\n```\n```text\nreplyledger not\n```\n"
    assert _lines(text) == ["replyledger soar", "make | tee x", "replyledger fly"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_readme_works_line_by_line(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    try:
        for line in _lines(trial.reader.readme):
            COMMANDS[line](trial, line)
    finally:
        trial.end()
