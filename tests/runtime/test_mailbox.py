from __future__ import annotations

import asyncio
import gc
import random
import weakref
from typing import Any

import pytest

from actors.runtime.actor import Actor
from actors.runtime.errors import ActorFailed, ActorStopped, MailboxFull
from actors.runtime.limits import TURN_BUDGET
from actors.runtime.scheduler import LoopScheduler, SimScheduler


class Recorder(Actor):
    mailbox_limit = 10

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []
        self.ended = ""

    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message()
        self.seen.append(message)
        return message

    def on_stop(self) -> None:
        self.ended += "stopped"

    def on_failure(self, *exc_info: Any) -> None:
        self.ended += "failed"


def test_a_full_mailbox_refuses_in_the_sender_and_still_obeys_stop() -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)
    refused = 0
    for value in range(100):
        try:
            ref.tell(value)
        except MailboxFull:
            refused += 1
    assert refused == 90
    with pytest.raises(MailboxFull):
        ref.ask("one more", block=False)
    ref.stop(block=False)
    scheduler.run_until_idle()
    assert actor.seen == list(range(10))
    assert actor.ended == "stopped"


def test_lanes_exist_only_while_something_waits() -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)
    ref.tell(1)
    assert len(actor.actor_inbox) == 1
    scheduler.run_until_idle()
    assert actor.actor_inbox.rest is None
    assert actor.actor_inbox.first is None
    assert len(actor.actor_inbox) == 0
    assert actor.actor_inbox.empty()
    with pytest.raises(LookupError):
        actor.actor_inbox.get()


def test_the_mailbox_keeps_its_actor_alive_and_lets_go_at_the_end() -> None:
    scheduler = SimScheduler(1)
    ref = Recorder().begin(scheduler)
    gc.collect()
    assert ref.ask("there", block=False)
    scheduler.run_until_idle()
    watched = weakref.ref(ref.actor_inbox.actor)  # type: ignore[attr-defined] # our mailbox
    assert watched() is not None
    ref.stop(block=False)
    scheduler.run_until_idle()
    gc.collect()
    assert watched() is None


def test_a_failed_tell_ends_a_lone_actor_and_answers_who_waits() -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)

    def fail() -> None:
        raise ValueError("text of a message")

    ref.tell(fail)
    waiting = ref.ask("waiting", block=False)
    scheduler.run_until_idle()
    with pytest.raises(ActorFailed) as caught:
        waiting.get()
    assert isinstance(caught.value.__cause__, ValueError)
    assert actor.ended == "failed"
    assert not ref.is_alive()


def test_failures_are_logged_without_their_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scheduler = SimScheduler(1)

    def fail() -> None:
        raise ValueError("text of a message")

    Recorder().begin(scheduler, key="peer-1").tell(fail)
    scheduler.run_until_idle()
    assert "peer-1, ValueError" in caplog.text
    assert "test_mailbox.py" in caplog.text
    assert "text of a message" not in caplog.text.replace('raise ValueError("text of a message")', "")


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("suspended", [False, True])
def test_a_base_exception_answers_the_asker_and_leaves_the_turn(fatal: type[BaseException], suspended: bool) -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)
    future = scheduler.future()

    def plain() -> None:
        raise fatal

    def waiting() -> Any:
        yield future
        raise fatal

    asked = ref.ask(waiting if suspended else plain, block=False)
    behind = ref.ask("behind", block=False)
    future.set_result(None)
    with pytest.raises(fatal):
        scheduler.run_until_idle()
    with pytest.raises(ActorFailed, match=fatal.__name__):
        asked.get()
    with pytest.raises(ActorFailed):
        behind.get()
    assert not ref.is_alive()


def test_stop_iteration_of_a_handler_reaches_the_asker() -> None:
    scheduler = SimScheduler(1)
    ref = Recorder().begin(scheduler)

    def stop() -> None:
        raise StopIteration

    asked = ref.ask(stop, block=False)
    scheduler.run_until_idle()
    with pytest.raises(ActorFailed, match="StopIteration"):
        asked.get()


def test_an_asker_that_has_left_does_not_harm() -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)
    future = scheduler.future()

    def waiting() -> Any:
        yield future
        return "late"

    left = ref.ask(waiting, block=False)
    scheduler.run_until_idle()
    left.slot.cancel()  # type: ignore[attr-defined] # RefReply
    future.set_result(None)
    ref.tell("next")
    scheduler.run_until_idle()
    assert actor.seen == ["next"]


def test_abort_ends_a_suspended_turn_and_answers_it() -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)
    future, closed = scheduler.future(), []

    def waiting() -> Any:
        try:
            yield future
        finally:
            closed.append(True)

    asked, behind = ref.ask(waiting, block=False), ref.ask("behind", block=False)
    ref.tell("dropped")
    scheduler.run_until_idle()
    assert actor.actor_inbox.abort(ActorStopped()) == 1
    assert closed == [True]
    for reply in (asked, behind):
        with pytest.raises(ActorStopped):
            reply.get()
    future.set_result(None)  # comes too late for anyone
    assert scheduler.run_until_idle() == 0


def test_an_actor_can_be_aborted_from_inside_its_turn() -> None:
    scheduler = SimScheduler(1)
    actor = Recorder()
    ref = actor.begin(scheduler)
    closed: list[bool] = []
    kept: list[Any] = []  # else the garbage collector would close the turn

    def begin() -> Any:
        kept.append(suicidal())
        return kept[0]

    def suicidal() -> Any:
        actor.actor_inbox.abort(ActorStopped())
        try:
            yield scheduler.future()
        finally:
            closed.append(True)

    asked = ref.ask(begin, block=False)
    scheduler.run_until_idle()
    assert closed == [True]
    with pytest.raises(ActorStopped):
        asked.get()


@pytest.mark.parametrize("seed", range(200))
def test_no_ask_is_lost_when_it_races_with_stop(seed: int) -> None:
    scheduler = SimScheduler(seed)
    draw = random.Random(seed)
    actor = Recorder()
    ref = actor.begin(scheduler)
    replies: list[Any] = []
    future = scheduler.future()

    def waiting() -> Any:
        return (yield future)

    for _ in range(7):
        scheduler.call_soon(lambda: replies.append(ref.ask(draw.choice(["x", waiting]), block=False)))
    scheduler.call_soon(lambda: future.set_result("y"))
    scheduler.call_soon(lambda: ref.stop(block=False))
    scheduler.run_until_idle()
    assert len(replies) == 7
    assert all(reply.done() for reply in replies)


@pytest.mark.parametrize("budget", [1, 5, 16])
async def test_a_busy_actor_leaves_the_others_their_turn(budget: int) -> None:
    scheduler = LoopScheduler(turn_budget=budget)
    order: list[str] = []

    class Named(Recorder):
        mailbox_limit = 1000

        def on_receive(self, message: Any) -> Any:
            order.append(message)

    busy, other = Named().begin(scheduler), Named().begin(scheduler)
    for _ in range(200):
        busy.tell("busy")
    for _ in range(2):
        other.tell("other")
    while len(order) < 202:
        await asyncio.sleep(0)
    # the hydration is a piece of work, too
    assert order.index("other") == (budget - 1 if budget > 1 else 1)
    assert LoopScheduler().turn_budget == TURN_BUDGET == 16


async def test_a_busy_actor_leaves_the_loop_its_turn() -> None:
    scheduler = LoopScheduler()
    handled, ticks = [0], [0]
    done = asyncio.Event()

    class Endless(Actor):
        def on_receive(self, message: Any) -> None:
            handled[0] += 1
            if done.is_set():
                return
            self.actor_ref.tell(message)

    def tick() -> None:
        ticks[0] += 1
        if ticks[0] == 20:
            done.set()
        else:
            asyncio.get_running_loop().call_soon(tick)

    Endless().begin(scheduler).tell("again")
    tick()
    await asyncio.wait_for(done.wait(), 5)
    assert handled[0] >= 20


async def test_resuming_on_the_loop_needs_no_turn_of_the_pump() -> None:
    scheduler = LoopScheduler()
    ref = Recorder().begin(scheduler)
    future = scheduler.future()

    def waiting() -> Any:
        return (yield future)

    asked = ref.ask(waiting, block=False)
    while ref.actor_inbox.awaited is None:  # type: ignore[attr-defined] # our mailbox
        await asyncio.sleep(0)
    future.set_result("soon")
    await asyncio.sleep(0)
    assert asked.get() == "soon"
