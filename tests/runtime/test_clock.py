from __future__ import annotations

import time
from pathlib import Path

import pytest

from actors.runtime.clock import BootClock, ManualClock, SeededIds, SystemIds, boot_id, boot_ns, stopwatch_ns
from tests.frozen import frozen, utc_ms

MS = 1_000_000


class Hardware:
    """Two clocks of a machine, in ns."""

    def __init__(self) -> None:
        self.wall_ns = 1_000 * MS
        self.boot_ns = 77 * MS

    def pass_ms(self, ms: int) -> None:
        self.wall_ns += ms * MS
        self.boot_ns += ms * MS

    def clock(self) -> BootClock:
        return BootClock(lambda: self.wall_ns, lambda: self.boot_ns)


def test_now_is_wall_time_at_start_plus_boot_clock() -> None:
    machine = Hardware()
    clock = machine.clock()
    assert (clock.now(), clock.monotonic()) == (1_000, 0)
    machine.pass_ms(250)
    assert (clock.now(), clock.monotonic(), clock.step_ms()) == (1_250, 250, 0)


@pytest.mark.parametrize(("step_ms", "adopted"), [(90_000_000, 90_000_000), (-3_600_000, 0)])
def test_a_step_of_the_wall_clock_moves_nothing_until_adopted(step_ms: int, adopted: int) -> None:
    machine = Hardware()
    clock = machine.clock()
    machine.wall_ns += step_ms * MS
    machine.pass_ms(10)
    assert (clock.now(), clock.step_ms()) == (1_010, step_ms)
    assert clock.adopt() == adopted
    assert (clock.now(), clock.monotonic(), clock.step_ms()) == (1_010 + adopted, 10, step_ms - adopted)


def test_the_real_clock_runs() -> None:
    clock = BootClock()
    assert abs(clock.now() - time.time_ns() // MS) < 60_000
    assert abs(clock.step_ms()) < 60_000
    assert boot_ns() <= boot_ns()
    assert stopwatch_ns() <= stopwatch_ns()


def test_a_system_without_boot_clock_uses_the_monotonic_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    before = time.monotonic_ns()
    assert before <= boot_ns() <= time.monotonic_ns()


def test_the_manual_clock_moves_when_told() -> None:
    clock = ManualClock(5_000)
    clock.advance(100)
    clock.step_wall(-30)
    assert (clock.now(), clock.monotonic(), clock.step_ms(), clock.adopt()) == (5_100, 100, -30, 0)
    clock.step_wall(130)
    assert (clock.adopt(), clock.now(), clock.monotonic(), clock.step_ms()) == (100, 5_200, 100, 0)
    with pytest.raises(ValueError, match="-1 ms"):
        clock.advance(-1)


@pytest.mark.parametrize("ids", [SystemIds(), SeededIds(1)])
def test_ids_have_their_shapes(ids: SystemIds | SeededIds) -> None:
    tokens = {ids.token(8) for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == 16 and int(token, 16) >= 0 for token in tokens)
    assert all(0 <= ids.uint32() < 2**32 for _ in range(100))
    assert all(0.5 <= ids.jitter(0.5, 1.0) <= 1.0 for _ in range(100))


def test_seeded_ids_repeat() -> None:
    def draw(seed: int | str) -> tuple[str, int, float, int]:
        ids = SeededIds(seed)
        return ids.token(4), ids.uint32(), ids.jitter(0, 1), ids.below(1_000_000)

    assert draw(1) == draw(1)
    assert draw("a") == draw("a")
    assert draw(1) != draw(2)


def test_a_clock_can_go_on_from_a_known_time_before_anybody_was_told_another() -> None:
    machine = Hardware()
    clock = machine.clock()
    assert clock.go_on(400) == -600
    machine.pass_ms(50)
    assert (clock.now(), clock.monotonic(), clock.step_ms()) == (450, 50, 600)


def test_the_boot_clock_counts_from_the_boot_which_has_a_name() -> None:
    machine = Hardware()
    clock = BootClock(lambda: machine.wall_ns, lambda: machine.boot_ns, lambda: "b-1")
    machine.pass_ms(3)
    assert (clock.boot_ms(), clock.boot_id) == (80, "b-1")


def test_a_boot_keeps_its_name_and_where_there_is_none_it_is_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    assert boot_id() == boot_id()
    assert "\n" not in boot_id()

    def nowhere(*_args: object, **_kwargs: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", nowhere)
    assert boot_id() == ""


# --- the machine's own wall clock, held still ---------------------------------------------------------------------------


def test_a_process_begins_at_the_wall_clock() -> None:
    with frozen("2028-02-29T23:59:59.999Z"):
        clock = BootClock(boot=lambda: 5 * MS)
        assert (clock.now(), clock.monotonic(), clock.step_ms()) == (utc_ms("2028-02-29T23:59:59.999Z"), 0, 0)


@pytest.mark.parametrize("step_ms", [86_400_000, -86_400_000, 1_000, -1_000])
def test_setting_the_wall_clock_moves_no_time_of_ours(step_ms: int) -> None:
    """Over a midnight and a leap day, and by a second: only `step_ms` sees it."""
    boots = [7 * MS]
    with frozen("2028-02-29T00:00:00Z") as wall:
        clock = BootClock(boot=lambda: boots[0])
        begun = clock.now()
        wall.step(step_ms)
        assert (clock.now(), clock.monotonic(), clock.step_ms()) == (begun, 0, step_ms)
        boots[0] += 250 * MS
        assert (clock.now(), clock.monotonic(), clock.step_ms()) == (begun + 250, 250, step_ms - 250)


def test_the_real_boot_clock_runs_on_while_the_wall_clock_is_set_back() -> None:
    """Neither `now` nor an interval goes back, whatever the wall clock does meanwhile."""
    with frozen("2026-10-25T01:00:00Z") as wall:
        clock = BootClock(boot=lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))
        seen = [(clock.now(), clock.monotonic())]
        for step_ms in (-3_600_000, 7_200_000, -86_400_000):
            wall.step(step_ms)
            seen.append((clock.now(), clock.monotonic()))
    assert seen == sorted(seen)
    assert seen[-1][0] - seen[0][0] < 60_000


def test_two_processes_of_which_one_began_before_the_step_differ_by_it() -> None:
    with frozen("2026-05-01T00:00:00Z") as wall:
        old = BootClock(boot=lambda: 0)
        wall.step(-3_600_000)
        new = BootClock(boot=lambda: 0)
        assert new.now() - old.now() == -3_600_000
        assert new.catch_up(old.now()) == 3_600_000, "what the log's last event makes of it"
        assert (new.now(), new.step_ms()) == (old.now(), -3_600_000)
