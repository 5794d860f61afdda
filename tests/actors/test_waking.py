"""A start: what it claims, recalls and closes, and the time that it goes on from."""

from __future__ import annotations

from actors import waking
from actors.ports import Accepted, LoginGone
from events.bot import Policy
from tests.actors.stage import BOT, LOGIN, Stage


def test_a_start_knows_the_peers_and_what_waits() -> None:
    first = Stage()
    first.poll(first.message())
    later = Stage(first.disk)
    assert later.account.known("ann") == first.ann
    assert first.ann in later.account.waiting


def test_a_start_behind_the_logs_time_goes_on_from_it() -> None:
    first = Stage()
    first.scheduler.run_for(3_600_000)
    first.poll(first.message())
    last = first.disk.committed[-1].at
    first.machine.wall.offset_ms = -7_200_000
    log: object = first.log
    first.wait(waking.claim(first.account, log, instance="i-2"))  # type: ignore[arg-type] # slots are awaitable
    assert first.machine.clock.now() >= last


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
