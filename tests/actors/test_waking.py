"""A start: what it claims, recalls and closes, and the time that it goes on from."""

from __future__ import annotations

from typing import Any

import pytest

from actors import waking
from actors.account import Account
from actors.deciding.view import BotView
from actors.ports import Accepted, LoginGone
from actors.runtime.directory import Directory
from events.bot import DAY_MS, BotStarted, Policy
from events.streams import fingerprint
from tests.actors.stage import BOT, LOGIN, Stage
from tests.world.dice import Dice
from tests.world.disk import SALT, SimLog
from tests.world.machine import Machine


def test_a_start_knows_the_peers_and_what_waits() -> None:
    first = Stage()
    first.poll(first.message())
    later = Stage(first.disk)
    assert later.account.known("ann") == first.ann
    assert first.ann in later.account.waiting


def test_a_start_behind_the_logs_time_goes_on_from_it_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    first = Stage()
    first.scheduler.run_for(3_600_000)
    first.poll(first.message())
    last = first.disk.committed[-1].at
    first.machine.wall.offset_ms = -7_200_000
    log: object = first.log
    first.wait(waking.claim(first.account, log, instance="i-2"))  # type: ignore[arg-type] # slots are awaitable
    assert first.machine.clock.now() >= last
    assert "the log's last event is 1 h 59 min in the future" in caplog.text


def test_beginning_with_and_without_a_login() -> None:
    stage = Stage(login=None)
    policy = Policy(share_replies=1)
    assert stage.wait(waking.begin(stage.account, policy, None)) == "login_needed"
    assert stage.wait(waking.begin(stage.account, policy, LOGIN)) == "ready"
    assert (stage.account.state.generation, stage.account.view.policy) == (1, policy)
    waking.lose(stage.account, LoginGone(code=-14, where="poll"))
    stage.scheduler.run_for(100)
    assert stage.types(BOT)[-1] == "login_lost"
    assert stage.wait(waking.begin(stage.account, policy, LOGIN)) == "login_lost", "only another login cures it"


def test_nobody_sends_after_a_lost_login_even_before_it_is_durable() -> None:
    stage = Stage()
    waking.lose(stage.account, LoginGone(code=-14, where="send"))
    assert stage.account.view.login_lost


def test_a_late_report_finds_a_peer_that_was_put_away() -> None:
    stage = Stage()
    stage.poll(stage.message())
    waking.report(stage.account, stage.ann, "r-unknown", Accepted(message_id="1"))
    stage.scheduler.run_for(100)
    assert "send_succeeded" not in stage.types(stage.ann)


def restarted(first: Stage, *, passed_ms: int, set_ms: int, boot: str = "", instance: str = "i-2") -> Machine:
    """Another process on the same machine and log after a time, with the wall clock set meanwhile; its clock."""
    first.scheduler.run_for(passed_ms)
    machine = Machine(first.scheduler, "two", first.machine.wall.offset_ms + set_ms)
    machine.wall.boot_id = boot or machine.wall.boot_id
    log: Any = SimLog(machine, first.disk, first.trouble, Dice("stage"), first.failures.append)
    account = Account(
        first.account.address,
        scheduler=machine,
        log=log,
        hub=first.hub,
        view=BotView(account=BOT.removeprefix("bot-"), epoch=0, policy=first.policy, locale="en"),
        access=(),
    )
    account.peers = Directory(machine, lambda key: waking.actor_of(key, account))
    first.wait(waking.claim(account, log, instance=instance))  # type: ignore[arg-type] # slots are awaitable
    return machine


@pytest.mark.parametrize(
    ("set_ms", "kept_ms"),
    [(60_000, 60_000), (60_001, 0), (3 * DAY_MS, 0), (-1_000, -1_000), (-59_000, -59_000)],
)
def test_a_clock_set_forward_between_two_lives_of_a_boot_moves_no_time(set_ms: int, kept_ms: int) -> None:
    """A minute is drift, as for a life that runs. A clock set back is caught up with the log's last time, as ever."""
    first = Stage()
    machine = restarted(first, passed_ms=3_600_000, set_ms=set_ms)
    assert machine.clock.now() - first.scheduler.clock.now() == kept_ms
    (last,) = [r for r in first.disk.committed if isinstance(r.event, BotStarted)][-1:]
    assert abs(last.at - machine.clock.now()) <= 10


def test_so_it_goes_over_many_lives_of_a_boot() -> None:
    first = Stage()
    for number in range(3):
        machine = restarted(first, passed_ms=60_000, set_ms=(number + 1) * DAY_MS, instance=f"i-{number + 2}")
        assert abs(machine.clock.now() - first.scheduler.clock.now()) <= 10


def test_after_a_reboot_the_wall_clock_counts() -> None:
    """Nobody knows how long the machine was off."""
    first = Stage()
    machine = restarted(first, passed_ms=60_000, set_ms=DAY_MS, boot="another")
    assert machine.clock.now() - first.scheduler.clock.now() == DAY_MS
    again = restarted(first, passed_ms=60_000, set_ms=2 * DAY_MS, boot="another", instance="i-3")
    assert again.clock.now() - first.scheduler.clock.now() == pytest.approx(DAY_MS, abs=10)


def test_where_nothing_names_a_boot_the_wall_clock_counts() -> None:
    first = Stage()
    first.machine.wall.boot_id = ""
    first.wait(waking.claim(first.account, first.log, instance="i-0"))  # type: ignore[arg-type] # slots are awaitable
    machine = restarted(first, passed_ms=60_000, set_ms=DAY_MS)
    assert machine.clock.now() - first.scheduler.clock.now() == DAY_MS


def test_a_process_that_has_told_the_time_does_not_take_it_back() -> None:
    """Its other accounts run by it."""
    first = Stage()
    machine = restarted(first, passed_ms=60_000, set_ms=DAY_MS, instance="i-1")
    assert machine.clock.now() - first.scheduler.clock.now() == DAY_MS


def test_the_boot_is_in_the_log_as_a_fingerprint(caplog: pytest.LogCaptureFixture) -> None:
    first = Stage()
    restarted(first, passed_ms=60_000, set_ms=DAY_MS)
    starts = [r.event for r in first.disk.committed if isinstance(r.event, BotStarted)]
    assert starts[0].boot == starts[1].boot == fingerprint(SALT, first.machine.wall.boot_id)
    assert 60_000 <= starts[1].boot_ms - starts[0].boot_ms <= 60_100
    assert "set forward by 24 h" in caplog.text
