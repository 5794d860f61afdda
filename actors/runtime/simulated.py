"""The simulated scheduler: turns in an order drawn by a seed, in virtual time. What runs on it is production code."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from actors.runtime.clock import ManualClock, SeededIds
from actors.runtime.errors import NotIdle
from actors.runtime.futures import FutureLike, Slot
from actors.runtime.limits import SIMULATED_TURNS, TRACE_TURNS
from actors.runtime.timers import TimerHandle, TimerQueue

NOTED_LINES = 256
"""So many lines of a trace are hashed at once."""


class SimScheduler:
    """Turns in an order drawn by a seed, in virtual time that jumps to the next timer when nothing is ready.

    One message is one turn. `digest()` identifies the run: equal seeds and code give equal digests. `on_turn` is called
    after each turn and `before_jump` with the ms that are about to pass, for invariants; an error there, or a BaseException
    in a turn, leaves `step`.
    """

    def __init__(self, seed: int, start_ms: int = 0) -> None:
        self.seed = seed
        self.clock = ManualClock(start_ms)
        self.ids = SeededIds(seed)
        self.turn_budget = 1
        self.turns = 0
        self.on_turn: Callable[[], object] | None = None
        self.before_jump: Callable[[int], object] | None = None
        self.trace: deque[str] = deque(maxlen=TRACE_TURNS)
        self._draw = SeededIds(
            f"{seed}/order"
        )  # apart from `ids`, so that asking for an id does not change the order of turns
        self._ready: list[Callable[[], object]] = []
        self._timers = TimerQueue()
        self._digest = hashlib.blake2b(digest_size=16)
        self._noted: list[str] = []  # lines that are not in the digest yet

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Make `fn` one of the turns to draw from."""
        self._ready.append(fn)

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Make `fn` a turn to draw from when virtual time reaches `due_ms`."""
        return self._timers.push(due_ms, fn)

    def future(self) -> Slot:
        """Return a new reply slot."""
        return Slot()

    def offload(self, fn: Callable[[], Any]) -> Slot:
        """Run `fn` as a turn of its own."""
        return _offload(self.call_soon, fn)

    def step(self, until_ms: int | None = None) -> bool:
        """Run one turn, jumping to the next timer (not beyond `until_ms`) if none is ready; False if there is none."""
        return self._take_turns(1, until_ms) == 1

    def _take_turns(self, most: int, until_ms: int | None) -> int:
        """Run turns until there is none, or `most` of them; how many it were."""
        ready, draw = self._ready, self._draw.below
        for taken in range(most):
            if not ready and not self._jump(until_ms):
                return taken
            if len(ready) > 1:
                index = draw(len(ready))
                ready[index], ready[-1] = ready[-1], ready[index]
            fn = ready.pop()
            self.turns += 1
            self._record(fn)
            fn()
            if self.on_turn is not None:
                self.on_turn()
        return most

    def _jump(self, until_ms: int | None) -> bool:
        due = self._timers.next_due()
        if due is None or (until_ms is not None and due > until_ms):
            return False
        gap = due - self.clock.now()
        if gap > 0:
            if self.before_jump is not None:
                self.before_jump(gap)
            self.clock.advance(gap)
        self._ready.extend([handle.fire for handle in self._timers.pop_due(self.clock.now())])
        return True

    def _record(self, fn: Callable[[], object]) -> None:
        self.note(f"{self.clock.now()} {_describe(fn)}")

    def note(self, line: str) -> None:
        """Add a line to the trace and the digest; no message texts."""
        self.trace.append(line)
        self._noted.append(line)
        if len(self._noted) >= NOTED_LINES:
            self._fold()

    def digest(self) -> str:
        """Return the fingerprint of the run so far."""
        self._fold()
        return self._digest.hexdigest()

    def _fold(self) -> None:
        self._noted.append("")
        self._digest.update("\n".join(self._noted).encode())
        self._noted.clear()

    def run_until_idle(self, max_turns: int = SIMULATED_TURNS) -> int:
        """Run until nothing is ready and no timer is set; return the turns taken, NotIdle beyond `max_turns`."""
        return self._run(max_turns, None)

    def run_ready(self, max_turns: int = SIMULATED_TURNS) -> int:
        """Run what is ready without letting time pass; return the turns taken."""
        return self._run(max_turns, self.clock.now())

    def run_for(self, ms: int, max_turns: int = SIMULATED_TURNS) -> int:
        """Let `ms` of virtual time pass with everything due in it; return the turns taken."""
        until = self.clock.now() + ms
        turns = self._run(max_turns, until)
        self.clock.advance(until - self.clock.now())
        return turns

    def run_until(self, future: FutureLike, max_turns: int = SIMULATED_TURNS) -> Any:
        """Run until `future` is done and return its result; NotIdle if it never is."""
        for _ in range(max_turns):
            if future.done() or not self.step():
                break
        if not future.done():
            raise NotIdle(f"seed {self.seed}: still waiting after {self.turns} turns")
        return future.result()

    def _run(self, max_turns: int, until_ms: int | None) -> int:
        taken = self._take_turns(max_turns, until_ms)
        if taken == max_turns and (self._ready or self._jump(until_ms)):
            raise NotIdle(f"seed {self.seed}: {max_turns} turns")
        return taken


class SimProcess:
    """A scheduler for one simulated process: it shares the world's seed and time, and can be paused or killed.

    Kill it to simulate a crash: nothing it planned runs any more, while the servers of the world go on. Start the
    successor on a new SimProcess. Paused (SIGSTOP), it catches up in a drawn order when it resumes.
    """

    def __init__(self, world: SimScheduler, name: str) -> None:
        self.name = name
        self.clock = world.clock
        self.ids = world.ids
        self.turn_budget = world.turn_budget
        self.alive = True
        self._world = world
        self._held: list[Callable[[], object]] | None = None  # what became ready during a pause

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Make `fn` one of the world's turns, for as long as the process lives."""
        self._world.call_soon(partial(self.take, fn))

    def call_at(self, due_ms: int, fn: Callable[[], object]) -> TimerHandle:
        """Make `fn` a turn when virtual time reaches `due_ms`, if the process still lives."""
        return self._world.call_at(due_ms, partial(self.take, fn))

    def future(self) -> Slot:
        """Return a new reply slot."""
        return Slot()

    def offload(self, fn: Callable[[], Any]) -> Slot:
        """Run `fn` as a turn of its own."""
        return _offload(self.call_soon, fn)

    def kill(self) -> None:
        """Let nothing run any more that this process planned."""
        self.alive = False
        self._held = None

    def pause(self) -> None:
        """Hold back what becomes ready, until `resume`."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Run what was held back, and go on."""
        held, self._held = self._held, None
        for fn in held or ():
            self.call_soon(fn)

    def take(self, fn: Callable[[], object]) -> None:
        """Run, hold or forget what was planned."""
        if not self.alive:
            return
        if self._held is not None:
            self._held.append(fn)
        else:
            fn()


def _describe(fn: Callable[..., object]) -> str:
    """Say what a turn does, for traces."""
    if isinstance(fn, partial):
        process = getattr(fn.func, "__self__", None)
        return f"{process.name}: {_describe(fn.args[0])}" if isinstance(process, SimProcess) else _describe(fn.func)
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, TimerHandle) and owner.fn is not None:
        return f"timer {_describe(owner.fn)}"
    describe = getattr(owner, "describe", None)
    return str(describe() if describe is not None else getattr(fn, "__qualname__", type(fn).__name__))


def _offload(call_soon: Callable[[Callable[[], object]], None], fn: Callable[[], Any]) -> Slot:
    slot = Slot()

    def work() -> None:
        try:
            result = fn()
        except Exception as error:  # noqa: BLE001 (whoever waits gets it)
            slot.set_exception(error)
        else:
            slot.set_result(result)

    call_soon(work)
    return slot
