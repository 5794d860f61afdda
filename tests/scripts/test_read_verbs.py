"""The reading verbs on a log in a file, through the command line: exit codes, options, and that nothing needs a gateway or a cache."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.api import TurnOffer
from actors.runtime.clock import BootClock
from scripts.asking import spool
from scripts.doctor import REFUSED_SHOWN_MAX
from scripts.main import main
from scripts.reading.opening import LOG_FILE
from scripts.reading.proof import cache_fold
from scripts.simulators.clock import ManualClock
from scripts.simulators.clock_source import ClockSource, running
from store.caches import rebuild
from store.sqlite import SqliteLog
from tests.streams_builder import HOUR, MINUTE, NOON, Streams

CONFIG = """\
state_dir = "state"
[agents]
listen = "127.0.0.1:0"
[http]
listen = "127.0.0.1:0"
[accounts.main]
channel = "weixin"
"""

Run = Callable[..., tuple[int, str, str]]


def day() -> Streams:
    s = Streams().start("one").message("m1").begin("t1", "m1").complete("t1", origin="inbound", total=50)
    s.request("r1", "t1", kind="answer").ok("r1").wait(HOUR)
    s.complete("t2").complete("t3").request("r2", "t2", "t3", share=1).ok("r2").wait(HOUR)
    return s.complete("t4").request("r3", "t4", share=2).fail("r3")


async def _write(path: Path, streams: Streams, after: int = 0) -> None:
    log = await SqliteLog.open(path, at=NOON, salt=b"a salt for tests")
    await streams.fill(log, after)
    await rebuild(log, await cache_fold(log))
    await log.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    (tmp_path / "replyledger.toml").write_text(CONFIG)
    (tmp_path / "state").mkdir(mode=0o700)
    asyncio.run(_write(tmp_path / "state" / LOG_FILE, day()))
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str) -> tuple[int, str, str]:
        code = main(["--config", str(home / "replyledger.toml"), *args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def edit(home: Path, *statements: str) -> None:
    """Change the file behind the log's back."""
    con = sqlite3.connect(home / "state" / LOG_FILE, isolation_level=None)
    for statement in ("DROP TRIGGER events_stay", "DROP TRIGGER events_remain", *statements):
        con.execute(statement)
    con.close()


def test_audit_lists_the_charged_replies(run: Run) -> None:
    code, out, err = run("audit")
    assert (code, err) == (0, "2 charged\n")
    assert [line.split("  ")[2] for line in out.splitlines()] == ["answer", "push"]
    code, out, _ = run("audit", "--json", "--free", "--kind", "push")
    assert (code, [row["request"] for row in rows(out)]) == (0, ["r2", "r3"])
    code, out, _ = run("audit", "--csv", "--since", "2025-06-15T16:00+00:00")
    assert (code, len(out.splitlines())) == (0, 2)


def test_audit_of_a_log_in_another_file(run: Run, home: Path) -> None:
    (home / "state" / LOG_FILE).rename(home / "elsewhere.sqlite")
    assert run("audit")[0] == 1
    code, out, _ = run("audit", "--json", "--log", str(home / "elsewhere.sqlite"))
    assert (code, len(rows(out))) == (0, 2)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("audit", "--kind", "answr"), "did you mean 'answer'"),
        (("audit", "--outcome", "lost"), "write one of open, confirmed"),
        (("audit", "--since", "soon"), "--since: 'soon' is not a time"),
        (("audit", "--against", "rl1:1:00"), "--against"),
        (("audit", "--verify", "--against", "nonsense"), "is not a root"),
        (("replay", "--until", "never"), "--until"),
        (("replay", "--verify", "--step"), "leave out"),
    ],
)
def test_misuse_is_said(run: Run, args: tuple[str, ...], says: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    "args", [("explain", "nowhere"), ("audit", "--peer", "weixin:main:x"), ("events", "show", "99")]
)
def test_what_is_not_there_is_exit_1(run: Run, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, out) == (1, "")
    assert err.startswith("replyledger: ")


def test_verify_of_a_good_log_and_against_its_root(run: Run, home: Path) -> None:
    code, head, _ = run("audit", "--head")
    assert code == 0
    streams = day()
    before = len(streams.recorded)
    streams.wait(MINUTE).complete("t5")
    asyncio.run(_write(home / "state" / LOG_FILE, streams, before))
    code, out, _ = run("audit", "--verify", "--against", head.strip(), "--json")
    assert (code, rows(out)[-1]["sound"], rows(out)[-1]["extends"]) == (0, True, True)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET at = at + 1 WHERE position = 7",
        "UPDATE events SET epoch = 9 WHERE position = 7",
        "UPDATE events SET cause = 'x' WHERE position = 7",
        "UPDATE events SET type = 'turn_failed' WHERE position = 7",
        "UPDATE events SET data = replace(data, 'inbound', 'desktop') WHERE position = 8",
        "UPDATE events SET digest = zeroblob(32) WHERE position = 7",
        "DELETE FROM events WHERE position = 7",
    ],
)
def test_verify_finds_an_edit(run: Run, home: Path, statement: str) -> None:
    edit(home, statement)
    code, out, err = run("audit", "--verify")
    assert code == 1
    assert "position" in out
    assert "not as it was written" in err


def test_a_cut_tail_is_found_against_a_root(run: Run, home: Path) -> None:
    head = run("audit", "--head")[1].strip()
    edit(home, "DELETE FROM events WHERE position = (SELECT max(position) FROM events)")
    code, out, _ = run("audit", "--verify", "--against", head)
    assert code == 1
    assert "does NOT extend" in out


def test_replay_and_its_caches(run: Run, home: Path) -> None:
    code, out, _ = run("replay", "--json", "--until", "2025-06-15T16:30+00:00")
    assert (code, rows(out)[0]["share_spent"], rows(out)[0]["now"]) == (0, 1, 1_750_005_000_000)
    code, _, err = run("replay", "--verify")
    assert code == 0
    assert err.endswith("the caches say what the events say\n")
    edit(home, "DELETE FROM agenda")
    code, out, err = run("replay", "--verify", "--json")
    assert (code, rows(out)[-1]["cache"]) == (1, "agenda")
    assert "differ from the events in 1 place\n" in err


OPEN_TURN = Streams().start().message("m1").begin("t1", "m1")
PUSH_MAY_LEAVE = Streams().start().message("m1").complete("t1")


@pytest.mark.parametrize(
    ("streams", "due_at", "code"),
    [
        (OPEN_TURN, "NULL", 0),  # an agent was connected, so nobody has to be told that none is
        (OPEN_TURN, f"{NOON + 30_000}", 0),
        (PUSH_MAY_LEAVE, "NULL", 1),  # it would never leave
        (PUSH_MAY_LEAVE, f"{NOON}", 0),
        (PUSH_MAY_LEAVE, f"{NOON + 1_000}", 1),  # a pace only delays the wake-up, not what is due
        (PUSH_MAY_LEAVE, f"{NOON + 2 * HOUR}", 1),
    ],
)
def test_replay_calls_wrong_only_what_wakes_too_late(
    run: Run, tmp_path: Path, streams: Streams, due_at: str, code: int
) -> None:
    asyncio.run(_write(tmp_path / "other.sqlite", streams))
    con = sqlite3.connect(tmp_path / "other.sqlite", isolation_level=None)
    con.execute(f"UPDATE agenda SET due_at = {due_at}")
    con.close()
    assert run("replay", "--verify", "--log", str(tmp_path / "other.sqlite"))[0] == code


def test_replay_with_every_cache_dropped(run: Run, home: Path) -> None:
    whole = run("replay", "--until", "2025-06-15T18:00+00:00")
    edit(home, "DELETE FROM agenda", "DELETE FROM bindings", "DELETE FROM snapshots")
    assert run("replay", "--until", "2025-06-15T18:00+00:00") == whole


def test_replay_up_to_a_position_counts_at_its_time(run: Run) -> None:
    assert rows(run("replay", "--json", "--until", "13")[1])[0]["now"] == NOON + HOUR


def test_replay_by_step_ends_with_its_input(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("\n\n")
    with (tmp_path / "keys").open() as keys:
        monkeypatch.setattr("sys.stdin", keys)
        code, out, err = run("replay", "--step", "--json")
    assert (code, len(rows(out))) == (0, 3)
    assert err.count("q: quit") == 3


def test_explain_and_events(run: Run) -> None:
    code, out, _ = run("explain", "t4")
    assert code == 0
    assert "The channel refused it" in out
    code, out, _ = run("--json", "explain", "m-r2")
    assert (code, rows(out)[0]["id"]) == (0, "r2")
    assert len(run("events", "tail", "-n", "2")[1].splitlines()) == 2
    assert rows(run("events", "show", "4", "--json", "--texts")[1])[0]["texts"] == {"b-m1": "text of m1"}
    code, out, err = run("events", "export")
    assert (code, len(rows(out)), err) == (0, len(day().recorded), f"{len(day().recorded)} events\n")


def test_backup_is_a_log_of_its_own_and_replaces_nothing(run: Run, home: Path) -> None:
    code, out, _ = run("backup", str(home / "copy.sqlite"), "--json")
    assert code == 0
    assert rows(out)[0]["root"] == run("audit", "--head")[1].strip()
    assert (home / "copy.sqlite").stat().st_mode & 0o777 == 0o600
    assert run("audit", "--verify", "--log", str(home / "copy.sqlite"))[0] == 0
    code, _, err = run("backup", str(home / "copy.sqlite"))
    assert code == 1
    assert "exists" in err


def test_no_log_and_no_log_of_ours(run: Run, home: Path) -> None:
    (home / "state" / LOG_FILE).write_text("something else altogether")
    for args in (("audit",), ("replay",), ("explain", "x"), ("events", "tail"), ("backup", str(home / "b"))):
        code, out, err = run(*args)
        assert (code, out) == (1, "")
        assert LOG_FILE in err


def test_doctor_of_a_good_home(run: Run, home: Path) -> None:
    code, out, _ = run("doctor", "--json")
    states = {row["what"]: row["state"] for row in rows(out)}
    assert code == 0
    assert (states["configuration"], states["log"], states["login of main"]) == ("good", "good", "note")
    assert (states["agents.listen"], states["http.listen"], states["clock"]) == ("good", "good", "good")


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
def test_doctor_finds_what_others_can_read(run: Run, home: Path) -> None:
    logins = home / "state" / "accounts"
    logins.mkdir(mode=0o700)
    (logins / "main.json").write_text('{"token": "very secret", "base_url": "x", "user_id": "y"}')
    (logins / "main.json").chmod(0o644)
    (home / "state").chmod(0o755)
    code, out, err = run("doctor")
    assert code == 1
    assert f"chmod 0600 {logins / 'main.json'}" in out
    assert f"chmod 0700 {home / 'state'}" in out
    assert "very secret" not in out + err
    (logins / "main.json").chmod(0o600)
    (home / "state").chmod(0o700)
    assert run("doctor")[0] == 0


def test_doctor_finds_a_port_in_use_and_a_log_from_the_future(run: Run, home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (home / "replyledger.toml").write_text(CONFIG.replace("127.0.0.1:0", f"127.0.0.1:{port}", 1))
        streams = day()
        before = len(streams.recorded)
        streams.now = BootClock().now() + HOUR
        streams.complete("t9")
        asyncio.run(_write(home / "state" / LOG_FILE, streams, before))
        code, out, _ = run("doctor")
    assert code == 1
    assert f"127.0.0.1:{port} is in use" in out
    assert "in the future: either the clock is behind now, or it was ahead when that was written" in out
    assert "a new state_dir with a login of its own begins with the right time" in out


def test_doctor_tells_what_waits_in_the_spool_and_what_was_refused(run: Run, home: Path) -> None:
    state = home / "state"
    for number, to in enumerate(("weixin:main", "weixin:main", "weixin:other", "")):
        session = "" if to else "desk"
        spool.leave(state, TurnOffer(to=to, session=session, turn_id=f"t{number}", text="very secret"))
    (strange := spool.folder_of(state) / "zz.json").mkdir()
    for number in range(REFUSED_SHOWN_MAX + 2):
        path = spool.leave(state, TurnOffer(to="weixin:main:zoe", turn_id=f"r{number}", text="very secret"))
        spool.set_aside(spool.read(path), "no peer has that address")
    code, out, err = run("doctor", "--json")
    told = [(row["state"], row["found"], row["right"]) for row in rows(out) if row["what"] == "spool"]
    assert code == 0
    assert "very secret" not in out + err
    assert [(found.partition("; the first")[0], right) for _, found, right in told[:4]] == [
        ("2 turns wait, for weixin:main: nobody has logged in yet", "replyledger login weixin --account main"),
        ("1 turn waits, for weixin:other: the configuration has no such account", "its name in the configuration"),
        ("1 turn waits, for desk", "`replyledger run` takes in what waits"),
        (
            "1 turn waits, that cannot be offered: it cannot be read: Is a directory",
            "a file that `send --spool` wrote, and that this user can read",
        ),
    ]
    assert len(told) == 4 + REFUSED_SHOWN_MAX + 1
    assert f"turn r{REFUSED_SHOWN_MAX + 1} for weixin:main:zoe was refused: no peer has that address" in told[-2][1]
    assert told[-1][1] == "2 older ones were refused, too"
    assert strange.name in told[3][1]


def test_doctor_does_not_take_a_spool_that_it_cannot_read_for_an_empty_one(run: Run, home: Path) -> None:
    (home / "state" / "spool").write_text("a file")
    code, out, _ = run("doctor", "--json")
    (found,) = [row for row in rows(out) if row["what"] == "spool"]
    assert (code, found["state"]) == (1, "bad")
    assert "cannot be read: Not a directory; nothing of it is taken in" in found["found"]


def test_doctor_stops_at_a_configuration_that_is_refused(run: Run, home: Path) -> None:
    (home / "replyledger.toml").write_text(CONFIG + "chanel = 1\n")
    code, out, _ = run("doctor", "--json")
    assert (code, [row["state"] for row in rows(out)]) == (1, ["bad"])
    assert "chanel" in rows(out)[0]["found"]


def test_a_sent_text_that_was_changed_or_taken_away_is_found(run: Run, home: Path) -> None:
    assert run("audit", "--verify")[0] == 0
    con = sqlite3.connect(home / "state" / LOG_FILE, isolation_level=None)
    con.execute("UPDATE bodies SET text = 'forged' WHERE id = (SELECT min(id) FROM bodies WHERE kind = 'rendered')")
    code, out, _ = run("audit", "--verify")
    assert code == 1
    assert "was changed" in out
    con.execute("DELETE FROM bodies WHERE kind = 'rendered'")
    con.close()
    code, out, _ = run("audit", "--verify")
    assert code == 1
    assert "is gone" in out


# --- the present of a simulated log -------------------------------------------------------------------------------------


@contextmanager
def clock_at(now: int) -> Iterator[str]:
    """A simulated clock that answers while the body runs; its URL."""
    loop = asyncio.new_event_loop()
    serving = running(ClockSource(ManualClock(now)))
    url = loop.run_until_complete(serving.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(serving.__aexit__(None, None, None))
        loop.close()


def present_of(run: Run, *more: str) -> int:
    """For which instant `replay` counts."""
    code, out, err = run("replay", "--json", *more)
    assert code == 0, err
    return int(rows(out)[0]["now"])


def test_a_simulated_log_is_read_at_the_time_of_its_clock_while_that_answers(run: Run, home: Path) -> None:
    edit(home, "UPDATE meta SET value = '1' WHERE name = 'simulated'")
    last = NOON + 2 * HOUR
    config = home / "replyledger.toml"
    with clock_at(last + HOUR) as url:
        config.write_text(
            f'clock = "{url}"\n' + CONFIG.replace('"weixin"', '"weixin"\nbase_url = "http://127.0.0.1:9"')
        )
        assert present_of(run) == last + HOUR
        assert present_of(run, "--log", str(home / "state" / LOG_FILE)) == last, (
            "a copy is not of the day that the clock is in"
        )
    assert present_of(run) == last, "nobody answers: its last event"
    with clock_at(NOON) as url:
        config.write_text(config.read_text().replace(config.read_text().splitlines()[0], f'clock = "{url}"'))
        assert present_of(run) == last, "a clock of another day"
