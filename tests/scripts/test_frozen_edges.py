"""What the command line makes of the machine's clock and zone at their edges: clocks put forward and back, leap days, midnights."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.api import TurnOffer
from scripts.asking import spool
from scripts.doctor import AHEAD_MAX_MS, CLOCK_MIN
from scripts.main import main
from scripts.reading.opening import LOG_FILE
from scripts.running import logs
from store.sqlite import SqliteLog
from tests.frozen import frozen, utc_ms, zone
from tests.streams_builder import DAY, HOUR, Streams

CONFIG = 'state_dir = "state"\n[agents]\nlisten = "127.0.0.1:0"\n[http]\nlisten = "127.0.0.1:0"\n[accounts.main]\nchannel = "weixin"\n'

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    (tmp_path / "replyledger.toml").write_text(CONFIG)
    (tmp_path / "state").mkdir(mode=0o700)

    def call(*args: str) -> tuple[int, str, str]:
        code = main(["--config", str(tmp_path / "replyledger.toml"), *args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


async def _write(folder: Path, streams: Streams) -> None:
    log = await SqliteLog.open(folder / "state" / LOG_FILE, at=streams.recorded[0].at, salt=b"a salt for tests")
    await streams.fill(log)
    await log.close()


def answers_at(folder: Path, *times: str) -> None:
    """A log with an answer at each of the times, r1, r2 and so on. The message that they answer comes an hour before the first."""
    streams = (
        Streams(utc_ms(times[0]) - HOUR).start("one").message("m1").begin("t0", "m1").complete("t0", origin="inbound")
    )
    for number, at in enumerate(times, 1):
        streams.now = utc_ms(at)
        streams.request(f"r{number}", "t0", kind="answer", part=number, parts=len(times)).ok(f"r{number}")
    asyncio.run(_write(folder, streams))


def audited(run: Run, *args: str) -> str:
    """Which answers `audit` lists: `1 3`."""
    code, out, err = run("audit", "--json", *args)
    assert code == 0, err
    return " ".join(json.loads(line)["request"].removeprefix("r") for line in out.splitlines())


# --- --since and --until ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--since", "2026-10-25"], "1 2 3"),
        (["--since", "2026-10-25 02:00"], "1 2 3"),  # the hour that comes twice: the first is meant,
        (["--until", "2026-10-25 02:30"], "1"),
        (["--since", "2026-10-25T02:00+01:00"], "2 3"),  # unless the offset says otherwise
        (["--since", "2026-10-25 03:00"], "3"),
        (["--since", "2h ago"], "2 3"),  # hours that passed, not hours of the wall
        (["--since", "2h", "--until", "1h"], "2"),
        (["--until", "now"], "1 2 3"),
    ],
)
def test_the_hour_that_comes_twice(run: Run, tmp_path: Path, args: list[str], expected: str) -> None:
    answers_at(tmp_path, "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z")
    with zone("Europe/Berlin"), frozen("2026-10-25T02:59:59Z"):
        assert audited(run, *args) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--since", "2026-03-29"], "2 3 4"),  # the local midnight
        (["--since", "1d"], "1 2 3 4"),  # 24 hours: of a day that had 23, an hour before its midnight
        (["--since", "23h"], "2 3 4"),
        (
            ["--since", "2026-03-29 02:30"],
            "3 4",
        ),  # no clock ever showed that: an earlier time, so that nothing is missing
        (["--since", "2026-03-29 03:00"], "4"),
        (["--until", "2026-03-29 03:00"], "1 2 3"),
    ],
)
def test_the_hour_that_never_was(run: Run, tmp_path: Path, args: list[str], expected: str) -> None:
    """Frozen at the midnight that ends the day."""
    answers_at(
        tmp_path,
        "2026-03-28T22:30:00Z",  # 23:30 on the day before
        "2026-03-28T23:00:00Z",  # 00:00
        "2026-03-29T00:59:59.999Z",  # 01:59:59.999
        "2026-03-29T01:00:00Z",  # 03:00
    )
    with zone("Europe/Berlin"), frozen("2026-03-29T22:00:00Z"):
        assert audited(run, *args) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--since", "2028-02-29", "--until", "2028-03-01"], "2 3"),
        (["--until", "2028-02-29"], "1"),
        (["--since", "24h"], "2 3"),  # frozen at the midnight after: its first instant is in
        (["--since", "1w", "--until", "1d"], "1"),
    ],
)
def test_a_leap_day(run: Run, tmp_path: Path, args: list[str], expected: str) -> None:
    answers_at(tmp_path, "2028-02-28T23:59:59.999Z", "2028-02-29T00:00:00Z", "2028-02-29T23:59:59.999Z")
    with zone("UTC"), frozen("2028-03-01"):
        assert audited(run, *args) == expected


def test_a_leap_day_of_another_year_is_refused(run: Run, tmp_path: Path) -> None:
    answers_at(tmp_path, "2027-02-28T12:00:00Z")
    with zone("UTC"), frozen("2027-03-01"):
        code, out, err = run("audit", "--since", "2027-02-29")
    assert (code, out) == (2, "")
    assert "--since: '2027-02-29' is not a time" in err


def test_what_is_shown_names_the_offset_of_its_own_hour(run: Run, tmp_path: Path) -> None:
    """Two replies an hour apart, both at half past two: not by the offset that holds now."""
    answers_at(tmp_path, "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z")
    with zone("Europe/Berlin"), frozen("2027-01-01"):
        code, out, _ = run("audit")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()] == [
        "2026-10-25 02:30:00 CEST (+02:00)",
        "2026-10-25 02:30:00 CET (+01:00)",
    ]


def test_ago_is_counted_from_the_last_event_where_the_clock_was_set_back(run: Run, tmp_path: Path) -> None:
    answers_at(tmp_path, "2026-05-01T09:00:00Z", "2026-05-01T12:00:00Z")
    with zone("UTC"), frozen("2026-04-30T12:00:00Z"):
        assert audited(run, "--since", "1h ago") == "2"


# --- the window's end ---------------------------------------------------------------------------------------------------


def replayed(run: Run) -> dict[str, Any]:
    code, out, err = run("replay", "--json")
    assert code == 0, err
    (peer,) = map(json.loads, out.splitlines())
    return dict(peer)


def test_a_window_is_open_until_its_end_and_not_at_it(run: Run, tmp_path: Path) -> None:
    """It ends on a leap day."""
    answers_at(tmp_path, "2028-02-28T13:00:00Z")
    with zone("UTC"), frozen("2028-02-28T13:00:00Z"):
        ends = replayed(run)["window_ends_at"]
    assert utc_ms("2028-02-29T11:59:00Z") < ends < utc_ms("2028-02-29T12:00:00Z")
    with zone("UTC"), frozen(ends - 1):
        assert replayed(run)["window_open"]
    with zone("UTC"), frozen(ends):
        assert not replayed(run)["window_open"]


# --- doctor -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("behind_ms", "code"), [(AHEAD_MAX_MS, 0), (AHEAD_MAX_MS + 1, 1)])
def test_doctor_takes_a_minute_of_the_future_and_no_more(run: Run, tmp_path: Path, behind_ms: int, code: int) -> None:
    at = "2026-05-01T00:00:00Z"
    answers_at(tmp_path, at)
    with frozen(utc_ms(at) - behind_ms):
        found = run("doctor")
    assert (found[0], "in the future" in found[1]) == (code, code == 1), found


@pytest.mark.parametrize(("now", "unset"), [(CLOCK_MIN - 1, True), (CLOCK_MIN, False)])
def test_doctor_finds_a_clock_that_was_never_set(run: Run, now: int, unset: bool) -> None:
    with frozen(now):
        _, out, _ = run("doctor")
    assert ("is long past" in out) == unset


# --- the spool ----------------------------------------------------------------------------------------------------------


def test_turns_keep_their_order_in_the_spool_whatever_the_clock_does(tmp_path: Path) -> None:
    """Left at a midnight, an hour earlier (the clock was set back), and in another year."""
    with frozen("2027-01-01T00:00:00Z") as clock:
        for number, step in enumerate((0, -HOUR, 0, 400 * DAY)):
            clock.step(step)
            spool.leave(tmp_path, TurnOffer(to="weixin:main", turn_id=f"t{number}", text="x"))
    assert [s.offer.turn_id for s in spool.spooled(tmp_path) if s.offer] == ["t0", "t1", "t2", "t3"]


# --- the gateway's own log ----------------------------------------------------------------------------------------------


@pytest.fixture
def root_logger() -> Iterator[None]:
    """The root logger, left as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(form: str, capsys: pytest.CaptureFixture[str]) -> str:
    logs.set_up(form, "info")
    logging.getLogger("replyledger.test").info("x")
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ("2026-10-25T00:30:00Z", "2026-10-25 02:30:00.000+02:00 INFO    replyledger.test: x"),
        ("2026-10-25T01:30:00Z", "2026-10-25 02:30:00.000+01:00 INFO    replyledger.test: x"),
        ("2028-02-29T22:59:59.999Z", "2028-02-29 23:59:59.999+01:00 INFO    replyledger.test: x"),
        ("2028-02-29T23:00:00Z", "2028-03-01 00:00:00.000+01:00 INFO    replyledger.test: x"),
    ],
)
def test_a_log_line_says_which_half_past_two(
    root_logger: None, capsys: pytest.CaptureFixture[str], at: str, line: str
) -> None:
    with zone("Europe/Berlin"), frozen(at):
        assert logged("text", capsys) == line


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-12-31T23:59:59.9996Z", "2026-12-31T23:59:59.999+00:00"),  # not rounded into the next year
        ("2026-10-25T01:30:00.057Z", "2026-10-25T01:30:00.057+00:00"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000+00:00"),
    ],
)
def test_a_log_line_for_machines_is_in_utc(
    root_logger: None, capsys: pytest.CaptureFixture[str], at: str, shown: str
) -> None:
    with zone("Europe/Berlin"), frozen(at):
        assert json.loads(logged("json", capsys))["at"] == shown
