"""Generator turns on pykka's own ThreadingActor, so that one test suite runs the same actors on every runtime.

A thread waits by blocking, which amounts to the same: the actor takes nothing else meanwhile. No supervision, no
bounds, no passivation, no overtaking; futures must be done from other threads (`concurrent.futures.Future`).
"""

from __future__ import annotations

import threading
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import pykka

from actors.runtime.answers import outcome

if TYPE_CHECKING:
    Base = pykka.ThreadingActor
else:
    Base = object


def drive(turn: GeneratorType[Any, Any, Any]) -> Any:
    """Run a generator turn to its end, blocking for what it waits for; return its reply."""
    step, value = turn.send, None
    while True:
        try:
            awaited = step(value)
        except StopIteration as end:
            return end.value
        if not hasattr(awaited, "add_done_callback"):
            step, value = turn.throw, TypeError(f"a turn yields futures, not {type(awaited).__name__}")
            continue
        done = threading.Event()
        awaited.add_done_callback(lambda _, done=done: done.set())
        done.wait()
        step, value = outcome(turn, awaited)


class GeneratorTurns(Base):
    """Put before `pykka.ThreadingActor`: `on_receive` and `on_hydrate` may be generators."""

    def on_start(self) -> None:
        """Hydrate before the first message; a failure ends the actor, pykka tells nobody."""
        response = self.on_hydrate()
        if isinstance(response, GeneratorType):
            drive(response)

    def on_hydrate(self) -> Any:
        """Run before any other message."""

    def _handle_receive(self, message: Any) -> Any:
        response = super()._handle_receive(message)
        return drive(response) if isinstance(response, GeneratorType) else response
