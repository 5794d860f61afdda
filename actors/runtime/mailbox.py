"""The mailbox: holds its actor, and runs its turns on the scheduler's one thread.

A turn may be a generator: while it waits for a future, the actor takes nothing else, and what arrives waits in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from pykka._envelope import Envelope  # what pykka's own seam hands to an inbox
from pykka.messages import _ActorStop

from actors.runtime.answers import answer, answer_error, because, outcome
from actors.runtime.errors import ActorFailed, ActorStopped
from actors.runtime.futures import FutureLike
from actors.runtime.lanes import Lanes
from actors.runtime.report import report

if TYPE_CHECKING:
    from actors.runtime.actor import Actor
    from actors.runtime.scheduler import Scheduler

HYDRATE: Envelope[Any] = Envelope(None)
"""Stands for the hydration while it is the current turn; nobody asked for it."""


class Keeper(Protocol):
    """Who is told when an actor ends: the directory, or `Alone`."""

    @property
    def quiet(self) -> tuple[type[BaseException], ...]:
        """Errors that are told elsewhere, and not reported here."""

    def failed(self, mailbox: Mailbox, error: BaseException) -> None:
        """Take over a mailbox whose actor failed; its messages are still in it."""

    def stopped(self, mailbox: Mailbox) -> None:
        """Take over a mailbox whose actor stopped; messages behind the stop are still in it."""

    def complete(self, key: Hashable, message: object) -> None:
        """Deliver a completion to the actor that has the key now."""


class Mailbox(Lanes):
    """The inbox of one actor, and its turns."""

    __slots__ = ("actor", "awaited", "current", "fresh", "keeper", "pipes", "scheduled", "scheduler", "turn")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.actor: Actor | None = None  # held strongly: nothing else keeps an actor alive
        self.keeper: Keeper | None = None
        self.scheduler: Scheduler | None = None
        self.current: Envelope[Any] | None = None  # whose turn is open
        self.turn: GeneratorType[Any, Any, Any] | None = None  # the open turn, if it is a generator
        self.awaited: FutureLike | None = None  # what the open turn waits for
        self.scheduled = False  # `run` is with the scheduler, or running
        self.fresh = True  # not hydrated yet
        self.pipes = 0  # completions to come

    def open(self, actor: Actor) -> None:
        """Let the turns of `actor` begin, with its hydration."""
        self.actor = actor
        self._arrived()

    def quiet(self) -> bool:
        """Tell whether the actor is at rest: hydrated, nothing queued, no turn open, no completion to come."""
        return not (self.fresh or self.first or self.rest or self.current or self.pipes)

    def describe(self) -> str:
        """Return what the next turn will do, by type, for traces."""
        if self.turn is not None:
            return f"{self.key} resume"
        if self.fresh:
            return f"{self.key} hydrate"
        lane = self.first or self.rest
        return f"{self.key} {type(lane[0].message).__name__}" if lane else f"{self.key} -"

    def pipe(self, future: FutureLike, to_message: Callable[[Any], object]) -> None:
        """Deliver `to_message(future)` as a completion when it is done, to whoever has the key then."""
        self.pipes += 1

        def arrived(done: Any) -> None:
            self.pipes -= 1
            assert self.keeper is not None
            self.keeper.complete(self.key, to_message(done))

        future.add_done_callback(arrived)

    # --- turns ---

    def run(self) -> None:
        """Take up to the scheduler's budget of messages; then let the others have their turn."""
        assert self.scheduler is not None
        try:
            for _ in range(self.scheduler.turn_budget):
                if self.actor is None or not self._take_turn(self.actor):
                    break
        finally:
            self.scheduled = False
            self._arrived()

    def _arrived(self) -> None:
        """Ask for a turn, if there is something to do and none was asked for."""
        if self.scheduled or self.actor is None or self.scheduler is None:
            return
        if self.awaited.done() if self.awaited is not None else self.fresh or self.first or self.rest:
            self.scheduled = True
            self.scheduler.call_soon(self.run)

    def _take_turn(self, actor: Actor) -> bool:
        """Do the next piece of work; False if there is none, or if the turn now waits."""
        try:
            if self.turn is not None:
                self._resume(self.turn)
            elif self.fresh:
                self.fresh = False
                self._hydrate(actor)
            elif (envelope := self._take()) is None:
                return False
            elif isinstance(envelope.message, _ActorStop):
                self._stop(envelope, actor)
            else:
                self.current = envelope
                self._begin(actor.on_receive(envelope.message))
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise  # SystemExit and the like belong to the process
        return self.awaited is None

    def _hydrate(self, actor: Actor) -> None:
        self.current = HYDRATE
        actor.on_start()
        self._begin(actor.on_hydrate())

    def _begin(self, response: Any) -> None:
        """Go on with what a handler returned: the reply, or the turn that will return it."""
        if type(response) is GeneratorType:
            self.turn = response
            self._advance(response, response.send, None)
        else:
            self._finish(response)

    def _resume(self, turn: GeneratorType[Any, Any, Any]) -> None:
        """Go on with the suspended turn, if what it waits for is done."""
        awaited = self.awaited
        assert awaited is not None
        if awaited.done():
            self.awaited = None
            self._advance(turn, *outcome(turn, awaited))

    def _advance(self, turn: GeneratorType[Any, Any, Any], step: Callable[[Any], Any], value: Any) -> None:
        """Run the turn until it waits for something that is not done, or ends."""
        while True:
            try:
                awaited = step(value)
            except StopIteration as end:
                self._finish(end.value)
                return
            if self.turn is not turn:  # aborted from inside
                turn.close()
                return
            if not hasattr(awaited, "add_done_callback"):
                step, value = turn.throw, TypeError(f"a turn yields futures, not {type(awaited).__name__}")
            elif awaited.done():
                step, value = outcome(turn, awaited)
            else:
                self.awaited = awaited
                awaited.add_done_callback(self._completed)
                return

    def _completed(self, future: object) -> None:
        """Go on, as the awaited future is done. Called for a turn that has ended otherwise, there is nothing to do.

        asyncio calls this from the bare loop, so the turn resumes here; anyone else may be inside another actor's turn.
        """
        if self.scheduled:
            return
        if isinstance(future, asyncio.Future):
            self.scheduled = True
            self.run()
        else:
            self._arrived()

    def _finish(self, response: Any) -> None:
        envelope = self.current
        self.current = self.turn = None
        if envelope is not None and envelope.reply_to is not None:
            answer(envelope, response)

    # --- ends ---

    def _fail(self, error: BaseException) -> None:
        """Give the error to the asker, who handles it, or end the actor; never leave an asker without an answer."""
        envelope, actor = self.current, self.actor
        self.current = self.turn = self.awaited = None
        asked = envelope is not None and envelope.reply_to is not None
        heard = envelope is not None and answer_error(envelope, error)
        assert self.keeper is not None
        if not heard:
            report("failed", self.key, error, self.keeper.quiet)
        if asked and isinstance(error, Exception):
            return
        self._release()
        if actor is not None:
            self._hook("on_failure", lambda: actor.on_failure(type(error), error, error.__traceback__))
        self.keeper.failed(self, error)

    def _stop(self, envelope: Envelope[Any], actor: Actor) -> None:
        self.end(actor)
        answer(envelope, None)
        assert self.keeper is not None
        self.keeper.stopped(self)

    def end(self, actor: Actor) -> None:
        """End the actor between turns, with its `on_stop`."""
        self._release()
        self._hook("on_stop", actor.on_stop)

    def abort(self, refusal: Exception) -> int:
        """End the actor now, mid-turn if need be; answer every ask with `refusal`, return how many tells were dropped."""
        turn, current = self.turn, self.current
        self._release()
        if turn is not None and not turn.gi_running:
            self._hook("its open turn", turn.close)
        if current is not None:
            answer_error(current, refusal)
        return self.close(refusal)

    def _hook(self, name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 (reported; the actor is at its end anyway)
            report(f"failed in {name}", self.key, error)

    def _release(self) -> None:
        """Let go of the actor; the messages stay for its keeper."""
        if self.actor is not None:
            self.actor.actor_stopped.set()
        self.actor = self.turn = self.awaited = self.current = None


class Alone:
    """The keeper of an actor without a directory: it ends with its actor, and what waits is refused."""

    quiet: tuple[type[BaseException], ...] = ()

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def failed(self, mailbox: Mailbox, error: BaseException) -> None:
        """Refuse what waits."""
        mailbox.close(because(ActorFailed(str(mailbox.key)), error))

    def stopped(self, mailbox: Mailbox) -> None:
        """Refuse what waits."""
        mailbox.close(ActorStopped(str(mailbox.key)))

    def complete(self, key: Hashable, message: object) -> None:
        """Deliver to the same actor; dropped, visibly, when it has ended."""
        try:
            self._mailbox.put_first(Envelope(message))
        except ActorStopped as gone:
            report("got a completion after its end", key, gone)
