"""The same actors on asyncio, on the seeded scheduler, and on pykka's ThreadingActor."""

from __future__ import annotations

from typing import Any

import pykka
import pytest

from actors.runtime.actor import Actor
from actors.runtime.errors import ActorStopped, CompletionCancelled, WouldBlock
from actors.runtime.futures import RefReply
from actors.runtime.scheduler import SimScheduler


class Writer:
    """Appends to a store that answers when the test says so."""

    bed: Any

    def __init__(self) -> None:
        super().__init__()
        self.log: list[object] = []

    def on_receive(self, message: Any) -> Any:
        match message:
            case ("add", value):
                self.log.append(value)
                return len(self.log)
            case ("append", future, value):
                return self.append(future, value)
            case ("try", future):
                return self.attempt(future)
            case ("sum", *futures):
                return self.total(futures)
            case "log":
                return tuple(self.log)
            case "fail":
                raise ValueError("no")
            case "bad yield":
                return self.bad()
        return None

    def append(self, future: Any, value: object) -> Any:
        answer = yield future
        self.log.append((value, answer))
        return answer

    def attempt(self, future: Any) -> Any:
        try:
            yield future
        except (OSError, CompletionCancelled) as error:
            return type(error).__name__
        return "no error"

    def total(self, futures: list[Any]) -> Any:
        total = 0
        for future in futures:
            total += yield future
        return total

    def bad(self) -> Any:
        yield "not a future"


def test_plain_return_is_the_reply(bed: Any) -> None:
    bed.use(Writer)
    bed.tell("a", ("add", 1))
    assert bed.get(bed.ask("a", ("add", 2))) == 2
    assert bed.get(bed.ask("a", "log")) == (1, 2)


def test_messages_of_a_sender_keep_their_order(bed: Any) -> None:
    bed.use(Writer)
    for value in range(100):
        bed.tell("a", ("add", value))
        bed.tell("b", ("add", -value))
    assert bed.get(bed.ask("a", "log")) == tuple(range(100))
    assert bed.get(bed.ask("b", "log")) == tuple(-value for value in range(100))


def test_a_suspended_turn_takes_only_its_completion(bed: Any) -> None:
    bed.use(Writer)
    future = bed.future()
    first = bed.ask("a", ("append", future, "x"))
    bed.tell("a", ("add", "after"))
    later = bed.ask("a", "log")
    assert bed.get(bed.ask("b", "log")) == ()  # others go on
    bed.resolve(future, 7)
    assert bed.get(first) == 7
    assert bed.get(later) == (("x", 7), "after")


def test_a_done_future_resumes_at_once(bed: Any) -> None:
    bed.use(Writer)
    future = bed.future()
    bed.resolve(future, 1)
    assert bed.get(bed.ask("a", ("sum", future, future, future))) == 3


def test_several_waits_in_one_turn(bed: Any) -> None:
    bed.use(Writer)
    futures = [bed.future() for _ in range(3)]
    reply = bed.ask("a", ("sum", *futures))
    for value, future in enumerate(reversed(futures)):
        bed.resolve(future, value)
    assert bed.get(reply) == 3


def test_the_error_of_a_wait_is_raised_in_the_turn(bed: Any) -> None:
    bed.use(Writer)
    future = bed.future()
    reply = bed.ask("a", ("try", future))
    future.set_exception(OSError())
    assert bed.get(reply) == "OSError"


def test_a_cancelled_wait_is_an_ordinary_error(bed: Any) -> None:
    bed.use(Writer)
    future = bed.future()
    reply = bed.ask("a", ("try", future))
    future.cancel()
    assert bed.get(reply) == "CompletionCancelled"


def test_an_error_in_an_ask_goes_to_the_asker_and_the_actor_lives(bed: Any) -> None:
    bed.use(Writer)
    bed.tell("a", ("add", 1))
    failing, future = bed.ask("a", "fail"), bed.future()
    waiting = bed.ask("a", ("append", future, "lost"))
    with pytest.raises(ValueError, match="no"):
        bed.get(failing)
    future.set_exception(OSError())
    with pytest.raises(OSError):
        bed.get(waiting)
    assert bed.get(bed.ask("a", "log")) == (1,)


def test_yielding_no_future_is_an_error_at_the_yield(bed: Any) -> None:
    bed.use(Writer)
    with pytest.raises(TypeError, match="futures, not str"):
        bed.get(bed.ask("a", "bad yield"))


class Hydrated:
    """Reads its stream before anything else."""

    bed: Any

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def on_hydrate(self) -> Any:
        self.seen.append((yield self.bed.stream))

    def on_receive(self, message: object) -> object:
        self.seen.append(message)
        return tuple(self.seen)


def test_hydration_comes_before_the_first_message(bed: Any) -> None:
    bed.use(Hydrated)
    bed.stream = bed.future()
    bed.tell("a", 1)
    reply = bed.ask("a", 2)
    bed.resolve(bed.stream, "replayed")
    assert bed.get(reply) == ("replayed", 1, 2)


class Echo(Actor):
    def on_receive(self, message: Any) -> Any:
        return message


def test_pykkas_own_start_is_refused() -> None:
    with pytest.raises(TypeError, match="Directory"):
        Echo.start()
    assert pykka.ActorRegistry.get_all() == []


def test_pykkas_ref_works_but_never_blocks() -> None:
    scheduler = SimScheduler(1)
    ref = Echo().begin(scheduler)
    reply = ref.ask("hello", block=False)
    assert isinstance(reply, RefReply)
    with pytest.raises(WouldBlock):
        reply.get()
    scheduler.run_until_idle()
    assert reply.get() == "hello"
    stopping = ref.stop(block=False)
    late = ref.ask("late", block=False)
    scheduler.run_until_idle()
    assert stopping.get() is True
    with pytest.raises(ActorStopped):
        late.get()
    assert not ref.is_alive()
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("dead")
    with pytest.raises(pykka.ActorDeadError):
        ref.ask("dead", block=False).get()


class Piper(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, tuple):
            self.pipe(message[1], lambda done: ("got", done.result()) and done.result())
        else:
            self.seen.append(message)
        return None


def test_a_completion_overtakes_and_passes_the_limit() -> None:
    scheduler = SimScheduler(1)
    actor = Piper()
    actor.actor_inbox.limit = 3
    ref = actor.begin(scheduler)
    future = scheduler.future()
    ref.tell(("pipe", future))
    scheduler.run_until_idle()
    assert not actor.actor_inbox.quiet()  # a completion is to come
    for value in (1, 2, 3):
        ref.tell(value)
    future.set_result("outcome")
    scheduler.run_until_idle()
    assert actor.seen == ["outcome", 1, 2, 3]
    assert actor.actor_inbox.quiet()


def test_a_completion_after_the_end_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = SimScheduler(1)
    ref = Piper().begin(scheduler)
    future = scheduler.future()
    ref.tell(("pipe", future))
    ref.stop(block=False)
    scheduler.run_until_idle()
    future.set_result("secret text")
    assert "got a completion after its end" in caplog.text
    assert "secret" not in caplog.text
