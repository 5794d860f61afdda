"""The bot's actor: what commands come to, polls, a busy log, a newer instance."""

from __future__ import annotations

from typing import Any

import pytest

from actors.account import FULL_RETRY_MS
from actors.bot import CURSOR_IDLE_MS, Begin, BotCommand, End, Lose, NoteStep, Pause, Resume, decide
from actors.inbox import LATENCY_MS_MAX
from actors.ports import LoginGone
from actors.runtime.errors import MailboxFull
from actors.runtime.mailbox import Mailbox
from events import quota
from events.bot import DAY_MS, BotState, Policy, SendingPaused
from store.errors import Fenced
from tests.actors.stage import BOT, Stage

POLICY = Policy(share_replies=2)
KNOWN = BotState(policy_id="p-1", credentials="c-1", generation=4, login_lost=-14, paused=(("", None),))


@pytest.mark.parametrize(
    ("command", "types"),
    [
        (Begin(policy=POLICY, policy_id="p-1", credentials="c-1"), []),
        (Begin(policy=POLICY, policy_id="p-2", credentials="c-1"), ["PolicyChanged"]),
        (Begin(policy=POLICY, policy_id="p-1", credentials="c-2"), ["LoginCompleted"]),
        (Begin(policy=POLICY, policy_id="p-2", credentials="c-2"), ["PolicyChanged", "LoginCompleted"]),
        (Begin(policy=POLICY, policy_id="p-1", credentials=""), []),
        (Lose(LoginGone(code=-14, where="poll")), []),
        (Pause(scope="", until=None, who="me"), ["SendingPaused"]),
        (Resume(scope="", who="me"), ["SendingResumed"]),
        (Resume(scope="peer-1", who="me"), []),
        (NoteStep(90_000), ["ClockStepped"]),
        (End("stopped"), ["BotStopped"]),
    ],
)
def test_what_commands_come_to(command: BotCommand, types: list[str]) -> None:
    assert [type(e).__name__ for e in decide(KNOWN, command)] == types


def test_a_new_login_is_the_next_generation() -> None:
    (event,) = decide(KNOWN, Begin(policy=POLICY, policy_id="p-1", credentials="c-2", owner="peer-1"))
    assert (event.generation, event.owner) == (5, "peer-1")  # type: ignore[union-attr] # a LoginCompleted


def test_a_poll_is_durable_as_a_whole_before_its_reply() -> None:
    stage = Stage()
    stage.poll(stage.message(), stage.message("ho", "owner"))
    assert stage.types(BOT)[-1] == "cursor_advanced"
    assert stage.types(stage.ann)[:3] == ["message_received", "context_token_seen", "turn_started"]
    assert {r.position for r in stage.events() if r.type == "cursor_advanced"} == {8}, "one append, the cursor last"
    assert len({o.turn.turn_id for o in stage.hub.offers}) == 2


def test_idle_polls_keep_the_cursor_at_most_hourly() -> None:
    stage = Stage()
    stage.poll(stage.message())
    for _ in range(3):
        stage.poll()
    assert stage.types(BOT).count("cursor_advanced") == 1
    stage.scheduler.run_for(CURSOR_IDLE_MS)
    stage.poll()
    assert stage.types(BOT).count("cursor_advanced") == 2
    assert stage.account.state.poll_ended_at >= stage.machine.clock.now() - 50, "yet what the others proved is known"


def test_a_message_delivered_again_is_handled_once() -> None:
    stage = Stage()
    message = stage.message()
    stage.poll(message)
    stage.poll(message)
    assert stage.types(stage.ann).count("message_received") == 1
    assert stage.types(stage.ann)[-1] == "duplicate_suppressed"


def test_a_busy_log_is_waited_for() -> None:
    stage = Stage()
    stage.trouble.faults.add("busy_log")
    for _ in range(60):
        stage.poll(stage.message())
    assert stage.types(stage.ann).count("message_received") == 60


def test_a_newer_instance_fences_the_account() -> None:
    stage = Stage()
    stage.disk.claim("weixin:main", "i-2", stage.machine.clock.now())
    with pytest.raises(Fenced):
        stage.poll(stage.message())
    assert (stage.fenced, stage.account.fenced) == (1, True)
    stage.account.peers.tell(BOT, Lose(LoginGone(code=-14, where="poll")))
    stage.scheduler.run_for(5_000)
    assert stage.account.peers.live().count(BOT) == 1, "told, it does not fail"


def test_pauses_reach_the_peers() -> None:
    stage = Stage()
    stage.ask(BOT, Pause(scope="", until=None, who="me"))
    assert isinstance(stage.events(BOT)[-1].event, SendingPaused)
    assert stage.account.view_of(stage.ann, stage.machine.clock.now()).paused_until is None


def test_a_full_mailbox_of_a_peer_stops_neither_polls_nor_the_agenda(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.poll(stage.message())
    put = Mailbox.put

    def full(self: Mailbox, envelope: Any) -> None:
        if self.key == stage.ann:
            raise MailboxFull(str(self.key))
        put(self, envelope)

    monkeypatch.setattr(Mailbox, "put", full)
    stage.poll(stage.message("again"))
    assert len(stage.account.peers.actor(stage.ann).state.inbox) == 1  # type: ignore[union-attr] # a Peer: it has heard
    now = stage.machine.clock.now()
    stage.account.agenda.set(stage.ann, now)
    stage.scheduler.run_for(1)
    assert stage.account.agenda.due(stage.ann) == now + FULL_RETRY_MS


def test_a_log_that_was_once_written_in_the_far_future_still_answers() -> None:
    """Its time goes on from there, so that creation times lie years back; what polls prove counts."""
    stage = Stage()
    stage.poll()
    stage.scheduler.run_for(60_000)
    stage.poll()
    stage.poll(stage.message(sent_at=stage.machine.clock.now() - 10 * 365 * DAY_MS))
    actor: Any = stage.account.peers.actor(stage.ann)
    now = stage.machine.clock.now()
    assert quota.window_open(actor.state.window, 1, stage.policy, now)
    assert now - actor.state.window.opened_at <= LATENCY_MS_MAX + 100
