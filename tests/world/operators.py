"""What operators do to a world: policy, access, pauses, bindings, what waits and what is dead, and texts that must go."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from actors.bot import Pause, Resume
from actors.deciding.commands import Bind, CancelTurn, Grant, Operate
from actors.errors import Refusal
from actors.gateway.api import EraseOrder
from actors.gateway.errors import GatewayError
from actors.runtime.errors import RuntimeRefusal
from events.bot import DAY_MS, HOUR_MS, MINUTE_MS
from events.streams import bot_stream
from scripts.running.retention import expire
from store.errors import StoreError
from tests.world.plan import Command, changed

if TYPE_CHECKING:
    from tests.world.gateway import Life
    from tests.world.world import World

EXPECTED = (Refusal, GatewayError, RuntimeRefusal, StoreError)
"""What a command may be refused with."""


class Operators:
    """Runs commands, one method each."""

    def __init__(self, world: World) -> None:
        self._world = world

    # --- who ------------------------------------------------------------------------------------------------------

    def _name(self, number: int) -> str:
        names = tuple(self._world.servers)
        return names[number % len(names)]

    def _peer(self, number: int) -> str:
        return ("owner", *(f"p{n}" for n in range(1, self._world.plan.peers + 1)))[
            number % (self._world.plan.peers + 1)
        ]

    def _life(self, command: Command) -> Life | None:
        return self._world.life(self._name(command.a))

    def _stream(self, life: Life, number: int) -> str | None:
        known = life.account.known_peers()
        return known[number % len(known)][1] if known else None

    def _ask(self, life: Life, stream: str, message: object) -> None:
        life.gateway.run(self._guarded(life.account.peers.ask(stream, message)))

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except EXPECTED:
            return

    # --- policy and access ----------------------------------------------------------------------------------------

    def _policy(self, command: Command) -> None:
        self._changes("policy changed")
        self._reconfigure(changed(self._world.policy, command.a))

    def _observe(self, command: Command) -> None:
        if self._world.policy.mode != "observe":
            self._changes("observe mode")
        self._reconfigure(changed(self._world.policy, 0, "observe"))

    def _enforce(self, command: Command) -> None:
        if self._world.policy.mode != "enforce":
            self._changes("back to enforce mode")
        self._reconfigure(changed(self._world.policy, 0, "enforce"))

    def _changes(self, what: str) -> None:
        if self._world.lives() and any(map(self._world.in_window, self._world.servers)):
            self._world.count(f"{what} in a window")

    def _access(self, command: Command) -> None:
        """Somebody may not talk to the bot any more, or may again; a stranger may wait for a yes."""
        world = self._world
        world.count("who may talk changed")
        people = ("owner", *(f"p{n}" for n in range(1, world.plan.peers + 1)))
        some = tuple(p for n, p in enumerate(people) if command.a >> n & 1)
        self._reconfigure(world.policy, (*some, "pairing") if command.b % 2 else some)

    def _grant(self, command: Command) -> None:
        life = self._life(command)
        stream = self._stream(life, command.b) if life else None
        if life and stream:
            self._ask(life, stream, Grant("world"))

    def _reconfigure(self, policy: Any, access: tuple[str, ...] | None = None) -> None:
        world = self._world
        world.policy = policy
        world.access = world.access if access is None else access
        for life in world.lives():
            life.reconfigure(world.specs()[life.spec.address.account])

    def back_to_policy(self) -> None:
        """The plan's own policy, everybody may talk again, and nothing paused."""
        world = self._world
        if world.policy.mode == "observe":
            self._changes("back to enforce mode")
        if (world.policy, world.access) != (world.plan.policy, world.everybody):
            self._reconfigure(world.plan.policy, world.everybody)
        for life in world.lives():
            for scope, _ in life.account.state.paused:
                self._ask(life, bot_stream(life.spec.address), Resume(scope=scope, who="world"))

    def _pause(self, command: Command) -> None:
        life = self._life(command)
        if life:
            self._world.count("paused by an operator")
            until = life.machine.clock.now() + command.b * 1_000 if command.c % 2 else None
            scope = (self._stream(life, command.b) or "") if command.c % 3 else ""
            self._ask(life, bot_stream(life.spec.address), Pause(scope=scope, until=until, who="world"))

    def _resume(self, command: Command) -> None:
        life = self._life(command)
        for scope, _ in life.account.state.paused if life else ():
            assert life is not None
            self._ask(life, bot_stream(life.spec.address), Resume(scope=scope, who="world"))

    # --- bindings, outputs, turns ---------------------------------------------------------------------------------

    def _bind(self, command: Command) -> None:
        life = self._life(command)
        stream = self._stream(life, command.b) if life else None
        if life and stream:
            session = ("s-ann", "s-ann", "")[command.c % 3]
            self._ask(life, stream, Bind(session=session, who="operator"))

    def _rebind(self, command: Command) -> None:
        """A turn of a session, another peer bound to it, and the same turn once more: its deliveries stay the first ones."""
        world, life = self._world, self._life(command)
        first, other = (self._stream(life, command.b + n) if life else None for n in (0, 1))
        if not life or not first or not other:
            return
        self._ask(life, first, Bind(session="s-moved", who="operator"))
        turn_id, text = world.new_turn(), world.text("push")
        offer = partial(world.submit, "", "s-moved", "api", text, "completed", turn_id=turn_id)
        if first != other:
            world.count("turn again after rebinding")
        steps = (offer, partial(self._move, life, first, other), offer)
        at = world.now
        for n, step in enumerate(steps):
            at += 1 + (command.c * (n + 7)) % 3_000
            world.scheduler.call_at(at, step)

    def _move(self, life: Life, first: str, other: str) -> None:
        if life.machine.alive:
            self._ask(life, first, Bind(session="", who="operator"))
            if other != first:
                self._ask(life, other, Bind(session="s-moved", who="operator"))

    def _operate(self, command: Command) -> None:
        life = self._life(command)
        stream = self._stream(life, command.b) if life else None
        if life and stream:
            what = ("drop", "retry", "retry", "retry", "discard", "flush")[command.c % 6]
            self._ask(life, stream, msgspec.convert({"what": what, "who": "world"}, Operate))

    def _cancel(self, command: Command) -> None:
        life = self._life(command)
        stream = self._stream(life, command.b) if life else None
        if life and stream:
            self._ask(life, stream, CancelTurn(who="world"))

    # --- texts ----------------------------------------------------------------------------------------------------

    def _expire(self, command: Command) -> None:
        """Bodies of a certain age go."""
        life = self._life(command)
        if life:
            before = life.machine.clock.now() - (0, MINUTE_MS, HOUR_MS, DAY_MS)[command.b % 4]
            some: Any = life
            log: Any = life.log
            self._run(life, expire(some, log, before))

    def _erase(self, command: Command) -> None:
        """Somebody wants everything of a peer, or of one delivery, forgotten."""
        life = self._life(command)
        if life:
            deliveries = tuple(self._world.checks.deliveries.values())
            if command.c % 3 and deliveries:
                self._run(life, life.gateway.erasing.delivery(deliveries[command.b % len(deliveries)]))
            else:
                order = EraseOrder(peer=f"{life.spec.address}:{self._peer(command.b)}")
                self._run(life, life.gateway.erasing.peer(order))

    def _run(self, life: Life, work: Coroutine[Any, Any, Any]) -> None:
        life.gateway.run(self._guarded(work))
