from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.runtime.errors import ActorGaveUp, ActorStopped, MailboxFull
from actors.runtime.limits import MAILBOX_LIMIT, PASSIVATION_SCAN
from actors.runtime.scheduler import LoopScheduler, SimScheduler
from actors.runtime.supervision import Backoff

HEALTHY = Backoff(base_ms=100, cap_ms=1_000, give_up_after=3, healthy_ms=60_000)


class World:
    """What outlives the actors of a test."""

    def __init__(self, seed: int = 1, **options: Any) -> None:
        self.scheduler = SimScheduler(seed, start_ms=1_000_000)
        self.seen: list[tuple[str, object]] = []
        self.created: list[str] = []
        self.ended: list[str] = []
        self.gave_up: list[tuple[str, str]] = []
        self.broken: Callable[[str], object] = lambda key: None  # called by the constructor
        self.stream: Callable[[str], object] = lambda key: None  # called by the hydration
        self.busy: set[str] = set()
        self.directory = Directory(
            self.scheduler,
            lambda key: Worker(self, key),
            on_give_up=lambda key, error: self.gave_up.append((key, type(error).__name__)),
            **({"supervision": HEALTHY} | options),
        )

    def run(self) -> None:
        self.scheduler.run_until_idle()


class Worker(Actor):
    def __init__(self, world: World, key: str) -> None:
        super().__init__()
        self.world, self.key = world, key
        world.created.append(key)
        world.broken(key)

    def on_hydrate(self) -> Any:
        return self.world.stream(self.key)

    def on_receive(self, message: Any) -> Any:
        if message == "die":
            raise ValueError("died")
        if callable(message):
            return message()
        self.world.seen.append((self.key, message))
        return message

    def idle(self) -> bool:
        return self.key not in self.world.busy

    def on_stop(self) -> None:
        self.world.ended.append(self.key)


def raise_os_error(_key: str) -> None:
    raise OSError


def test_actors_are_created_on_demand() -> None:
    world = World()
    world.directory.tell("a", 1)
    reply = world.directory.ask("b", 2)
    world.directory.tell("a", 3)
    world.run()
    assert sorted(world.created) == ["a", "b"]
    assert reply.result() == 2
    assert world.directory.live() == ("b", "a")
    assert [message for key, message in world.seen if key == "a"] == [1, 3]


def test_mailbox_full_is_the_senders_to_know() -> None:
    world = World()
    for value in range(MAILBOX_LIMIT):
        world.directory.tell("a", value)
    with pytest.raises(MailboxFull):
        world.directory.tell("a", "too much")
    with pytest.raises(MailboxFull):
        world.directory.ask("a", "too much")
    world.directory.complete("a", "outcome")
    assert world.directory.queued() == MAILBOX_LIMIT + 1
    world.run()
    assert world.directory.queued() == 0
    assert [message for _, message in world.seen] == ["outcome", *range(MAILBOX_LIMIT)]


# --- supervision ---


def test_messages_survive_a_death() -> None:
    world = World()
    for message in (1, "die", 2, 3):
        world.directory.tell("a", message)
    reply = world.directory.ask("a", 4)
    world.run()
    assert world.seen == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert reply.result() == 4
    assert world.created == ["a", "a"]
    assert world.gave_up == []


def test_a_restart_waits_for_its_backoff() -> None:
    world = World()
    world.directory.tell("a", "die")
    world.scheduler.run_ready()
    assert world.directory.live() == ()
    world.directory.tell("a", "meanwhile")
    world.scheduler.run_for(HEALTHY.base_ms // 2 - 1)
    assert world.created == ["a"]
    world.scheduler.run_for(HEALTHY.base_ms // 2 + 1)
    assert world.created == ["a", "a"]
    assert world.seen == [("a", "meanwhile")]


def test_a_key_that_keeps_failing_is_given_up() -> None:
    world = World()
    for message in ("die", "die", "die", 1):
        world.directory.tell("a", message)
    waiting = world.directory.ask("a", 2)
    world.run()
    assert world.gave_up == [("a", "ValueError")]
    assert world.seen == []
    assert world.directory.dropped == 1
    with pytest.raises(ActorGaveUp):
        waiting.result()
    world.directory.tell("a", 3)  # never raises
    assert world.directory.dropped == 2
    later = world.directory.ask("a", 4)
    with pytest.raises(ActorGaveUp, match="ValueError"):
        later.result()
    assert world.directory.gave_up() == ("a",)
    world.directory.forgive("a")
    world.directory.tell("a", 5)
    world.run()
    assert world.seen == [("a", 5)]


def test_a_healthy_period_starts_a_new_row() -> None:
    world = World()
    for _ in range(10):
        world.directory.tell("a", "die")
        world.run()
        world.scheduler.run_for(HEALTHY.healthy_ms)
    assert world.gave_up == []
    assert world.created == ["a"] * 11


def test_a_failing_constructor_is_supervised() -> None:
    world = World()
    world.broken = raise_os_error
    world.directory.tell("a", 1)
    world.scheduler.run_ready()
    world.broken = lambda key: None
    world.directory.tell("a", 2)
    world.run()
    assert world.seen == [("a", 1), ("a", 2)]


def test_a_constructor_that_keeps_failing_is_given_up() -> None:
    world = World()
    world.broken = raise_os_error
    reply = world.directory.ask("a", 1)
    world.run()
    assert world.created == ["a"] * HEALTHY.give_up_after
    assert world.gave_up == [("a", "OSError")]
    with pytest.raises(ActorGaveUp):
        reply.result()


def test_a_failing_hydration_is_supervised_and_keeps_the_messages() -> None:
    world = World()
    reads = [world.scheduler.future(), world.scheduler.future()]
    reads[0].set_exception(OSError())
    left = iter(reads)

    def read(_key: str) -> Any:
        yield next(left)

    world.stream = read
    reply = world.directory.ask("a", 1)
    world.run()
    assert world.created == ["a", "a"]
    assert not reply.done()  # the second read is still out
    reads[1].set_result(None)
    world.run()
    assert reply.result() == 1


def test_a_base_exception_is_supervised_too() -> None:
    world = World()

    def leave() -> None:
        raise SystemExit

    world.directory.tell("a", leave)
    world.directory.tell("a", 1)
    with pytest.raises(SystemExit):
        world.run()
    world.run()
    assert world.seen == [("a", 1)]


def test_a_pipe_reaches_the_successor() -> None:
    world = World()
    future = world.scheduler.future()

    def send() -> None:
        actor = world.directory.actor("a")
        assert actor is not None
        actor.pipe(future, lambda done: done.result())

    for message in (send, "die"):
        world.directory.tell("a", message)
    world.run()
    future.set_result("outcome")
    world.run()
    assert world.seen == [("a", "outcome")]


# --- passivation ---


def test_the_least_recently_used_idle_actors_make_room() -> None:
    world = World(live_max=3)
    for key in "abc":
        world.directory.tell(key, 0)
    world.run()
    world.directory.tell("a", 1)  # now b is the oldest
    world.run()
    world.directory.tell("d", 0)
    world.run()
    assert world.directory.live() == ("c", "a", "d")
    assert world.ended == ["b"]
    world.directory.tell("b", 2)  # comes back
    world.run()
    assert sorted(world.created) == sorted("abcdb")
    assert ("b", 2) in world.seen


def test_busy_actors_are_passed_over() -> None:
    world = World(live_max=2)
    world.busy = {"a"}
    waiting = world.scheduler.future()

    def wait() -> Any:
        yield waiting

    world.directory.tell("a", 0)
    world.directory.tell("b", wait)
    world.run()
    for key in "cd":
        world.directory.tell(key, 0)
        world.run()
    assert {"a", "b"} <= set(world.directory.live()) <= {"a", "b", "d"}
    assert not world.directory.passivate("a")
    assert not world.directory.passivate("b")
    assert not world.directory.passivate("nobody")
    waiting.set_result(None)
    world.run()
    assert world.directory.passivate("b")


def test_a_crowd_of_busy_actors_does_not_shield_the_idle_for_ever() -> None:
    crowd = [f"busy-{number}" for number in range(2 * PASSIVATION_SCAN)]
    world = World(live_max=len(crowd))
    world.busy = set(crowd)
    for key in crowd:
        world.directory.tell(key, 0)
    for key in ("idle", "x", "y", "z"):
        world.directory.tell(key, 0)
        world.run()
    assert "idle" not in world.directory.live()
    assert set(crowd) <= set(world.directory.live())


def test_an_actor_with_a_completion_to_come_is_not_passivated() -> None:
    world = World()
    future = world.scheduler.future()
    world.directory.tell("a", 0)
    world.run()
    actor = world.directory.actor("a")
    assert actor is not None
    actor.pipe(future, lambda done: done.result())
    assert not world.directory.passivate("a")
    future.set_result("outcome")
    assert not world.directory.passivate("a")  # it has arrived and waits
    world.run()
    assert world.directory.passivate("a")
    assert world.seen[-1] == ("a", "outcome")


@pytest.mark.parametrize("seed", range(100))
def test_no_message_is_lost_when_it_races_with_passivation(seed: int) -> None:
    world = World(seed, live_max=2)
    draw = random.Random(seed)
    sent: dict[str, list[int]] = {key: [] for key in "abcd"}
    replies: list[Any] = []

    def send(value: int) -> None:
        key = draw.choice("abcd")
        sent[key].append(value)
        replies.append(world.directory.ask(key, value))

    for value in range(60):
        world.scheduler.call_at(1_000_000 + draw.randrange(40), lambda value=value: send(value))
        world.scheduler.call_at(1_000_000 + draw.randrange(40), lambda: world.directory.passivate(draw.choice("abcd")))
    world.run()
    assert all(reply.done() for reply in replies)
    for key, values in sent.items():
        assert [message for to, message in world.seen if to == key] == values
    assert len(world.created) > 6  # some were put away and came back


@pytest.mark.parametrize("seed", range(100))
def test_no_ask_is_lost_and_no_order_broken_when_actors_die_stop_and_wait(seed: int) -> None:
    world = World(seed, live_max=2, supervision=Backoff(base_ms=5, cap_ms=20, give_up_after=1_000))
    draw = random.Random(seed)
    sent: dict[str, list[int]] = {key: [] for key in "abc"}
    replies: list[Any] = []

    def wait() -> Any:
        future = world.scheduler.future()
        world.scheduler.call_at(world.scheduler.clock.now() + draw.randrange(10), lambda: future.set_result(None))
        yield future

    def act(value: int) -> None:
        key = draw.choice("abc")
        kind = draw.randrange(6)
        if kind == 0:
            world.directory.tell(key, "die")
        elif kind == 1:
            replies.append(world.directory.stop(key))
        elif kind == 2:
            replies.append(world.directory.ask(key, wait))
        else:
            sent[key].append(value)
            replies.append(world.directory.ask(key, value))

    for value in range(60):
        world.scheduler.call_at(1_000_000 + draw.randrange(50), lambda value=value: act(value))
    world.run()
    assert all(reply.done() for reply in replies)
    for key, values in sent.items():
        seen = [message for to, message in world.seen if to == key]
        assert sorted(seen) == sorted(values)
        assert seen == values


# --- ending ---


def test_stop_all_lets_everyone_finish_and_refuses_the_late() -> None:
    world = World()
    future = world.scheduler.future()

    def wait() -> Any:
        return (yield future)

    waiting, behind = world.directory.ask("a", wait), world.directory.ask("a", 1)
    world.directory.tell("b", 2)
    world.run()
    stopping = world.directory.stop_all()
    assert world.directory.stop_all() is stopping
    late, nobody = world.directory.ask("a", "late"), world.directory.ask("new", "late")
    world.run()
    assert not stopping.done()
    future.set_result("finished")
    world.run()
    assert stopping.done()
    assert waiting.result() == "finished"
    assert behind.result() == 1
    assert sorted(world.ended) == ["a", "b"]
    assert world.directory.live() == ()
    for refused in (late, nobody):
        with pytest.raises(ActorStopped):
            refused.result()
    world.directory.tell("b", "late")
    assert world.directory.dropped == 1


def test_stop_all_ends_what_waits_for_its_restart() -> None:
    world = World()
    world.directory.tell("a", "die")
    waiting = world.directory.ask("a", 1)
    world.scheduler.run_ready()
    assert world.directory.stop_all().done()
    with pytest.raises(ActorStopped):
        waiting.result()
    world.run()
    assert world.created == ["a"]


def test_an_actor_that_fails_during_stop_all_is_not_restarted() -> None:
    world = World()
    world.directory.tell("a", "die")
    stopping = world.directory.stop_all()
    world.run()
    assert stopping.done()
    assert world.created == ["a"]


def test_abort_all_drops_everything_where_it_stands() -> None:
    world = World()
    future = world.scheduler.future()

    def wait() -> Any:
        yield future

    replies = [world.directory.ask("a", wait), world.directory.ask("a", 1), world.directory.ask("b", 2)]
    world.directory.tell("c", "die")
    while world.directory.actor("c") is not None:
        assert world.scheduler.step()
    world.directory.abort_all()
    world.run()
    future.set_result(None)
    assert all(reply.done() for reply in replies)
    assert world.ended == []
    assert world.directory.stop_all().done()
    assert len(world.directory) == 0


def test_stop_is_done_at_once_when_nobody_is_there() -> None:
    assert World().directory.stop("nobody").done()


def test_messages_behind_a_stop_go_to_a_new_actor() -> None:
    world = World()
    world.directory.tell("a", 1)
    stopping = world.directory.stop("a")
    world.directory.tell("a", 2)
    world.run()
    assert stopping.done()
    assert world.created == ["a", "a"]
    assert world.seen == [("a", 1), ("a", 2)]


def test_a_stop_during_the_backoff_is_answered() -> None:
    world = World()
    world.directory.tell("a", "die")
    world.directory.tell("a", 1)
    world.scheduler.run_ready()
    stopping = world.directory.stop("a")
    world.run()
    assert stopping.done()
    assert world.seen == [("a", 1)]
    assert len(world.directory) == 0


async def test_asks_and_stop_all_are_awaited_in_production() -> None:
    scheduler = LoopScheduler()

    class Doubler(Actor):
        def on_receive(self, message: Any) -> Any:
            yield asyncio.ensure_future(asyncio.sleep(0))
            return message * 2

    directory = Directory(scheduler, lambda key: Doubler())
    replies = await asyncio.gather(*(directory.ask(f"k{n % 7}", n) for n in range(100)))
    assert replies == [2 * n for n in range(100)]
    await directory.stop_all()
    with pytest.raises(ActorStopped):
        await directory.ask("k1", 1)


async def test_an_asker_may_lose_patience() -> None:
    scheduler = LoopScheduler()
    future = scheduler.future()

    class Waiter(Actor):
        def on_receive(self, message: Any) -> Any:
            return (yield future)

    directory = Directory(scheduler, lambda key: Waiter())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(directory.ask("a", 1), 0.01)
    second = directory.ask("a", 2)
    future.set_result("late")
    assert await second == "late"


# --- what is told elsewhere ---


class Told(Exception):
    """An error that whoever brought it about tells of."""


@pytest.mark.parametrize(("quiet", "lines"), [((), 1), ((Told,), 0)])
def test_an_error_that_is_told_elsewhere_is_not_reported_and_supervised_all_the_same(
    quiet: tuple[type[BaseException], ...], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world = World(quiet=quiet)

    def fail() -> None:
        raise Told("somebody else said it")

    world.directory.tell("a", fail)
    world.directory.tell("a", "after")
    world.run()
    assert len(caplog.records) == lines
    assert world.created == ["a", "a"]
    assert world.seen == [("a", "after")]


def test_an_asker_who_has_left_makes_no_noise_either(caplog: pytest.LogCaptureFixture) -> None:
    """An ask whose future was cancelled: the error finds nobody, as when a poll is cancelled while its append is fenced."""
    caplog.set_level("INFO")
    world = World(quiet=(Told,))
    slow = world.scheduler.future()

    def wait() -> Any:
        yield slow
        raise Told("fenced")

    asked = world.directory.ask("a", wait)
    world.run()
    asked.cancel()
    slow.set_result(None)
    world.run()
    assert caplog.records == []


def test_giving_up_is_said(caplog: pytest.LogCaptureFixture) -> None:
    world = World(quiet=(ValueError,))
    for _ in range(HEALTHY.give_up_after):
        world.directory.tell("a", "die")
    world.run()
    assert [r.getMessage() for r in caplog.records if "gave up" in r.getMessage()] == [
        "gave up actor a: it failed 3 times in a row"
    ]
