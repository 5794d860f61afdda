"""Ordinary troubles of operations: each is one clear line, the right exit code, no stack, and nothing lost."""

from __future__ import annotations

import resource
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.reading.opening import LOG_FILE
from tests.e2e.gateway import Gateway
from tests.e2e.phones import ClockSource, Login, Phones
from tests.e2e.processes import Child, eventually
from tests.e2e.stage import Stage

DONE, FAILED, LOGIN_LOST, CONFIG_REFUSED = 0, 1, 77, 78
NEWER_TYPE = ("message_sung", b'{"type":"message_sung"}')
NEWER_FIELD = ("session_reset", b'{"type":"session_reset","who":"peer","melody":"la"}')
NEWER_BOT_FIELD = ("bot_stopped", b'{"type":"bot_stopped","reason":"x","melody":"la"}')


def plant(log: Path, stream: str, tag: str, data: bytes) -> int:
    """Put an event of a newer version behind a stream's last; its position."""
    connection = sqlite3.connect(log)
    (version, at) = connection.execute(
        "SELECT max(version), max(at) FROM events WHERE stream = ?", (stream,)
    ).fetchone()
    row = (stream, version + 1, tag, at, data, bytes(32))
    done = connection.execute(
        "INSERT INTO events (stream, version, type, at, epoch, cause, data, digest) VALUES (?, ?, ?, ?, 1, '', ?, ?)",
        row,
    )
    connection.commit()
    connection.close()
    return int(done.lastrowid or 0)


def peer_stream(log: Path) -> str:
    """The stream of the peer that was written to last."""
    connection = sqlite3.connect(log)
    (stream,) = connection.execute(
        "SELECT stream FROM events WHERE stream LIKE 'peer-%' ORDER BY position DESC LIMIT 1"
    ).fetchone()
    connection.close()
    return str(stream)


def epoch(log: Path) -> int:
    """The epoch that was claimed last. Only reads: a writer would move the WAL into the database as it closes."""
    connection = sqlite3.connect(f"file:{log}?mode=ro", uri=True)
    (found,) = connection.execute("SELECT epoch FROM epochs").fetchone()
    connection.close()
    return int(found)


def told(child: Child, *words: str) -> str:
    """The one line that holds all the words; there is no stack anywhere."""
    lines = [line for line in child.err.splitlines() if all(w in line for w in words)]
    assert lines, child.err
    assert 'File "' not in child.err, child.err
    assert "Traceback" not in child.err, child.err
    return lines[0]


# --- events of a newer version ------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["peer", "bot"])
def test_a_log_with_a_newer_event_type_is_refused_before_anything_is_claimed(stage: Stage, whose: str) -> None:
    stage.echo()
    stage.guest()
    log = stage.gateway.state / "log.sqlite"
    stage.gateway.child.kill()
    stream = peer_stream(log) if whose == "peer" else "bot-weixin:main"
    position = plant(log, stream, *NEWER_TYPE)
    before = epoch(log)
    child = stage.gateway.launch()

    assert child.exited() == FAILED
    assert child.out == []
    line = told(child, f"position {position}", stream, "'message_sung' is not an event of this version")
    assert "run the version that wrote it, or a newer one" in line
    assert len(child.err.splitlines()) == 1, child.err
    assert epoch(log) == before, "a start that cannot work takes nothing away from who does"


def test_the_doctor_finds_events_that_cannot_be_read_wherever_they_are(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    stage.gateway.child.kill()
    log = stage.gateway.state / "log.sqlite"
    assert "good  log" in stage.gateway.run("doctor").out
    first = plant(log, peer_stream(log), *NEWER_TYPE)
    plant(log, "bot-weixin:main", *NEWER_BOT_FIELD)
    plant(log, "bot-weixin:main", "bot_stopped", b'{"type":"bot_stopped","reason":"ended"}')
    ended = stage.gateway.run("doctor")
    assert ended.code == FAILED
    (bad,) = [line for line in ended.out.splitlines() if line.startswith("bad")]
    assert f"position {first}" in bad
    assert "message_sung" in bad
    assert "1 more" in bad
    assert guest.id not in ended.out


@pytest.mark.parametrize("verbose", [False, True])
def test_a_newer_event_that_is_met_while_it_runs_ends_it_with_1_and_one_line(stage: Stage, verbose: bool) -> None:
    stage.echo()
    guest = stage.guest()
    stage.gateway.child.kill()
    log = stage.gateway.state / "log.sqlite"
    stream = peer_stream(log)
    position = plant(log, stream, *NEWER_FIELD)  # of a type that is known, in a stream that no start needs
    gateway = stage.gateway
    args = ["scripts", "--json", *(["-v"] if verbose else []), "run", "--config", str(gateway.config)]
    gateway.children.append(child := Child(f"newer{verbose}", args, stage.folder))
    child.announced()
    guest.says("anybody there?")

    assert child.exited() == FAILED
    if verbose:
        assert "Traceback" in child.err
        gateway.children.remove(child)  # told as was asked, and not calm
        child.end()
        return
    line = told(child, "CRITICAL", f"position {position}", stream, "session_reset", "melody")
    assert "so this process ends" in line
    assert len([x for x in child.err.splitlines() if "melody" in x]) == 2, (
        "the log's line, and the last word of the command"
    )


def test_a_newer_field_in_the_bots_own_stream_ends_the_start_with_1(stage: Stage) -> None:
    stage.gateway.child.kill()
    log = stage.gateway.state / "log.sqlite"
    position = plant(log, "bot-weixin:main", *NEWER_BOT_FIELD)
    plant(log, "bot-weixin:main", "bot_stopped", b'{"type":"bot_stopped","reason":"ended"}')
    child = stage.gateway.launch()
    assert child.exited() == FAILED
    assert child.out == []
    told(child, f"position {position}", "bot-weixin:main", "`melody`")


# --- the disk -----------------------------------------------------------------------------------------------------


def test_an_io_error_at_commit_ends_it_with_1_and_one_line_and_loses_nothing(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest()
    child, gateway = stage.gateway.child, stage.gateway
    held = gateway.offer(guest.address, "acknowledged", turn_id="io-1")
    assert gateway.receipt(held["delivery"])["state"] == "delivered"
    wal = (gateway.state / "log.sqlite-wal").stat().st_size
    # The file may grow no more: writing to it is an I/O error (EFBIG), which is neither "full" nor "busy".
    resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (wal, resource.RLIM_INFINITY))
    lost = gateway.post("/v1/turns", {"to": guest.address, "text": "x" * 100_000, "turn_id": "io-2"})

    assert lost.status == 503
    assert lost.body["error"]["code"] == "log_lost"
    assert "unknown" in lost.body["error"]["message"]
    assert child.exited() == FAILED
    told(child, "CRITICAL", "a commit failed: disk I/O error", "so this process ends")
    assert len([line for line in child.err.splitlines() if "I/O error" in line]) == 1, child.err
    gateway.start()
    again = gateway.offer(guest.address, "x" * 100_000, turn_id="io-2")
    assert again["delivery"]
    assert gateway.receipt(held["delivery"])["state"] == "delivered"
    gateway.sound()


@pytest.fixture
def unstarted(tmp_path: Path) -> Iterator[tuple[Gateway, Phones]]:
    """Everything but a gateway that runs."""
    clock = ClockSource(tmp_path)
    login = Login()
    phones = Phones(tmp_path, clock, login)
    gateway = Gateway(tmp_path, login, phones.url, clock.url)
    gateway.write()
    gateway.log_in()
    yield gateway, phones
    gateway.end()
    phones.child.end()
    clock.child.end()


def test_a_first_start_on_a_disk_that_is_full_says_so_and_goes_on_when_there_is_room(
    unstarted: tuple[Gateway, Phones],
) -> None:
    gateway, _ = unstarted
    room = gateway.folder / "room"
    room.write_text(str(-4 * 1_048_576), encoding="ascii")
    args = ["tests.e2e.scarce", str(room), "run", "--json", "--config", str(gateway.config)]
    gateway.children.append(child := Child("scarce", args, gateway.folder))
    ready = eventually(
        lambda: (a := gateway.ready()) is not None and len(a.body["reasons"]) == 2 and a, "/ready says so"
    )
    assert ready
    assert ready.status == 503
    assert "the disk of the log is full: 12 MB are free, and 16 MB must stay so" in ready.body["reasons"][0]
    assert gateway.metric("replyledger_log_busy") == 1
    assert gateway.metric("replyledger_log_busy_episodes_total") == 1
    told(child, "WARNING", "the log takes nothing right now", "12 MB are free")
    assert child.out == []
    child.signal(signal.SIGHUP)  # it hears signals although it has not come through
    eventually(lambda: "the configuration was reread" in child.err, "HUP")

    room.write_text(str(2**30), encoding="ascii")
    child.announced()
    again = gateway.ready()
    assert again is not None
    assert again.status == 200, again
    assert gateway.metric("replyledger_log_busy") == 0
    assert gateway.metric("replyledger_log_busy_episodes_total") == 1
    assert gateway.metric('replyledger_claims_total{account="weixin:main",replaced="nobody"}') == 1
    assert gateway.metric('replyledger_events_total{type="bot_started"}') == 1


def test_a_start_that_waits_for_its_disk_obeys_term(unstarted: tuple[Gateway, Phones]) -> None:
    gateway, _ = unstarted
    room = gateway.folder / "room"
    room.write_text("0", encoding="ascii")
    args = ["tests.e2e.scarce", str(room), "run", "--json", "--config", str(gateway.config)]
    gateway.children.append(child := Child("scarce", args, gateway.folder))
    eventually(lambda: "takes nothing right now" in child.err, "it waits")
    child.signal(signal.SIGTERM)
    assert child.exited(5) == DONE
    assert child.out == []


# --- signals and listeners ----------------------------------------------------------------------------------------


def test_hup_asks_for_an_exit_while_the_login_is_lost_already(stage: Stage) -> None:
    stage.phones.post("kill")
    eventually(lambda: (a := stage.gateway.ready()) is not None and a.status == 503, "/ready says so")
    stage.gateway.account["login_lost"] = "exit"
    stage.gateway.write()
    stage.gateway.child.signal(signal.SIGHUP)
    assert stage.gateway.child.exited() == LOGIN_LOST
    told(stage.gateway.child, "replyledger login")


@pytest.mark.parametrize("key", ["http", "agents"])
def test_a_port_in_use_names_the_address_and_the_setting(unstarted: tuple[Gateway, Phones], key: str) -> None:
    gateway, _ = unstarted
    port = gateway.http_port if key == "http" else gateway.agents_port
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        child = gateway.launch()
        assert child.exited() == FAILED
    told(child, "cannot listen", f"127.0.0.1:{port}", "Address already in use", f"[{key}].listen")


def test_a_state_folder_that_cannot_be_made_is_named(unstarted: tuple[Gateway, Phones]) -> None:
    gateway, _ = unstarted
    (gateway.folder / "file").write_text("no folder", encoding="ascii")
    gateway.tables["state_dir"] = "file/state"
    gateway.write()
    child = gateway.launch()
    assert child.exited() == 78
    told(child, "state_dir", "Not a directory")


def written(log: Path) -> tuple[bytes, bytes]:
    """Database and WAL, byte for byte; an empty WAL is none."""
    wal = log.with_name(f"{log.name}-wal")
    return log.read_bytes(), wal.read_bytes() if wal.exists() else b""


def refused_for_its_days(gateway: Gateway, *words: str) -> None:
    """`run`, an order offline and the doctor say it; not a byte of the log changes."""
    gateway.write()
    log = gateway.state / LOG_FILE
    claimed, before = epoch(log), written(log)
    child = gateway.launch()
    assert child.exited() == CONFIG_REFUSED
    told(child, *words)
    offline = gateway.verb("send", "--offline", "-t", "weixin:main", "hi", code=CONFIG_REFUSED)
    assert all(word in offline.err for word in words)
    found = next(row for row in gateway.verb("doctor", code=FAILED).rows if row["state"] == "bad")
    assert found["what"] == "clock"
    assert all(word in found["found"] for word in words)
    assert written(log) == before
    assert epoch(log) == claimed


def test_a_log_of_simulated_days_never_goes_on_in_real_ones(stage: Stage) -> None:
    gateway = stage.gateway
    stage.person()
    gateway.child.signal(signal.SIGTERM)
    assert gateway.child.exited() == DONE
    assert written(gateway.state / LOG_FILE)[1] == b""
    clock = gateway.tables.pop("clock")
    refused_for_its_days(gateway, "simulated days", "no `clock`", LOG_FILE)
    assert gateway.verb("events", "tail").rows, "reading goes on"
    gateway.tables = {"clock": clock, **gateway.tables}
    gateway.write()
    gateway.start()


def test_a_log_of_real_days_never_goes_on_in_simulated_ones(unstarted: tuple[Gateway, Phones]) -> None:
    gateway, _ = unstarted
    clock = gateway.tables.pop("clock")
    gateway.write()
    gateway.start()
    # A start empties the WAL once; what is written after that is in it alone.
    eventually(lambda: gateway.verb("pause", "weixin:main") and written(gateway.state / LOG_FILE)[1], "a WAL")
    gateway.child.kill()
    gateway.tables = {"clock": clock, **gateway.tables}
    refused_for_its_days(gateway, "real days", "simulated `clock`", LOG_FILE)
    del gateway.tables["clock"]
    gateway.write()
    gateway.start()
    assert not gateway.get("/v1/status")["simulated"]
