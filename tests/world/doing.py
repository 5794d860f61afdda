"""What each command of a plan does to its world."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from actors.bot import Pause, Resume
from actors.deciding.commands import Bind, CancelTurn, Operate
from actors.errors import Refusal
from actors.gateway.errors import GatewayError
from actors.runtime.errors import RuntimeRefusal
from events.bot import DAY_MS, HOUR_MS, MINUTE_MS
from events.streams import bot_stream
from scripts.running.retention import expire
from store.errors import StoreError
from tests.world.plan import Command, changed

if TYPE_CHECKING:
    from tests.world.gateway import Gateway, Life
    from tests.world.world import World

EXPECTED = (Refusal, GatewayError, RuntimeRefusal, StoreError)
"""What a command may be refused with."""


class Doing:
    """Runs commands, one method each."""

    def __init__(self, world: World) -> None:
        self._world = world

    def command(self, command: Command) -> None:
        """Let it happen."""
        self._world.scheduler.note(f"{self._world.now} DO {command.what} {command.a} {command.b} {command.c}")
        getattr(self, f"_{command.what}")(command)

    # --- who ------------------------------------------------------------------------------------------------------

    def _name(self, number: int) -> str:
        names = tuple(self._world.servers)
        return names[number % len(names)]

    def _peer(self, number: int) -> str:
        return ("owner", *(f"p{n}" for n in range(1, self._world.plan.peers + 1)))[
            number % (self._world.plan.peers + 1)
        ]

    def _life(self, command: Command) -> Life | None:
        gateway = self._world.serving()
        return gateway.lives[self._name(command.a)] if gateway else None

    def _ask(self, life: Life, stream: str, message: object) -> None:
        async def ask() -> None:
            try:
                await life.account.peers.ask(stream, message)
            except EXPECTED:
                return

        life.gateway.run(ask())

    def _stream(self, life: Life, number: int) -> str | None:
        known = life.account.known_peers()
        return known[number % len(known)][1] if known else None

    # --- people and agents ----------------------------------------------------------------------------------------

    def _message(self, command: Command) -> None:
        honest_repeat = command.c % 5 == 0
        text = "ok" if honest_repeat else self._world.text("hi")
        self._world.say(self._name(command.a), self._peer(command.b), text)

    def _burst(self, command: Command) -> None:
        for n in range(2 + command.c % 3):
            self._world.say(self._name(command.a), self._peer(command.b), f"burst {n} {self._world.text('of')}")

    def _word(self, command: Command) -> None:
        word = ("/more", "/reset", "/cancel")[command.c % 3]
        self._world.say(self._name(command.a), self._peer(command.b), word)

    def _stranger(self, command: Command) -> None:
        self._world.say(self._name(command.a), "stranger", self._world.text("who are you"))

    def _again(self, command: Command) -> None:
        """The channel delivers an old message again: same id, a new one, or none."""
        heard = self._world.servers[self._name(command.a)].inbox
        if heard:
            said = heard[command.b % len(heard)]
            server = self._world.servers[self._name(command.a)]
            ids = (said.message_id, server.new_id(), "")
            server.repeat(type(said)(said.number, said.peer, said.text, said.sent_at, said.token, ids[command.c % 3]))
            self._world.network.stir(server)

    def _turn(self, command: Command) -> None:
        """An agent finishes a turn that nobody asked for."""
        world = self._world
        address = f"weixin:{self._name(command.a)}:{self._peer(command.b)}"
        origin = ("scheduled", "desktop", "api")[command.c % 3]
        kind = command.c % 23
        if kind < 4:
            world.agents[0].own_turn(address, world.text("own"), origin)
            return
        session = "s-ann" if kind == 4 else ""
        status = {5: "degraded", 6: "failed"}.get(kind, "completed")
        text = "  " if kind == 7 else world.text("push")
        world.submit("" if session else address, session, origin, text, status)

    def _bind(self, command: Command) -> None:
        life = self._life(command)
        stream = self._stream(life, command.b) if life else None
        if life and stream:
            session = ("s-ann", "s-ann", "")[command.c % 3]
            self._ask(life, stream, Bind(session=session, who="operator"))

    def _disconnect(self, command: Command) -> None:
        world = self._world
        agent = world.agents[command.a % len(world.agents)]
        if command.b % 2:
            agent.leave(command.c % (3 * MINUTE_MS), polite=command.a % 3 == 0)
        else:
            for connection in tuple(agent.connections.values()):
                connection.cut()

    # --- the channel ----------------------------------------------------------------------------------------------

    def _penalty(self, command: Command) -> None:
        server = self._world.servers[self._name(command.a)]
        server.refusing = -2

        def over() -> None:
            server.refusing = 0

        self._world.scheduler.call_at(self._world.now + command.b * 100, over)

    def _lose_login(self, command: Command) -> None:
        self._world.lose_login(self._name(command.a))

    def _log_in(self, command: Command) -> None:
        self._world.log_in(self._name(command.a))

    # --- processes ------------------------------------------------------------------------------------------------

    def _crash(self, command: Command) -> None:
        self._world.fuse(command.a % 60, self._kill_serving)

    def _kill_serving(self) -> None:
        gateway = next((g for g in reversed(self._world.gateways) if g.machine.alive), None)
        if gateway is not None:
            self._world.kill(gateway, "crash")

    def _restart(self, command: Command) -> None:
        gateway = self._world.serving()
        if gateway is not None:
            gateway.stop(lambda: self._world.kill(gateway, "stopped"))

    def _lose_caches(self, command: Command) -> None:
        self._world.fuse(command.a % 60, self._kill_and_lose)

    def _kill_and_lose(self) -> None:
        world = self._world
        for gateway in tuple(world.gateways):
            world.kill(gateway, "crash")
        world.checks.turn()
        found = [(f"weixin:{name}", world.checks.rebuilt(f"weixin:{name}")) for name in world.servers]
        for account, _ in found:
            world.checks.caches(account)
        world.disk.forget_caches()
        for account, (rows, bindings) in found:
            world.disk.put_caches(account, [r for r in rows if r != type(r)(stream=r.stream)], bindings)

    def _second(self, command: Command) -> None:
        """Another instance starts; the first one runs on, sleeps through it, or wakes up later."""
        world = self._world
        first = world.serving()
        how = command.b % 3
        if first is not None and how and not first.machine.paused:
            first.machine.pause()
            wait = command.c % (4_000 if how == 1 else 2 * HOUR_MS)
            world.scheduler.call_at(world.now + wait, partial(self._resume_machine, first))
        for n in range(command.a % 4):  # and just then there is something to send
            world.submit(f"weixin:{self._name(n)}:{self._peer(n)}", "", "api", world.text("push"), "completed")
        world.scheduler.call_at(world.now + command.a % 50, partial(world.start, 0))

    def _sleep(self, command: Command) -> None:
        """The machine sleeps, or somebody stops the process, for a moment or for hours; the channel goes on."""
        self._message(command)  # just then somebody writes, and there is something to send
        for n in range(command.a % 3):
            self._world.submit(
                f"weixin:{self._name(n)}:{self._peer(n)}", "", "api", self._world.text("push"), "completed"
            )
        for_ms = (command.b % 500, command.b % 20_000, command.b * 100)[command.c % 3]
        self._world.fuse(command.a % 60, partial(self._pause_serving, for_ms))

    def _pause_serving(self, for_ms: int) -> None:
        world = self._world
        gateway = world.serving()
        if gateway is not None and not gateway.machine.paused:
            gateway.machine.pause()
            world.scheduler.call_at(world.now + for_ms, partial(self._resume_machine, gateway))

    def _resume_machine(self, gateway: Gateway) -> None:
        if gateway.machine.alive and gateway.machine.paused:
            gateway.machine.resume()

    def _step_clock(self, command: Command) -> None:
        gateway = self._world.serving()
        if gateway is not None:
            step = (command.a - (1 << 15)) * 3_000  # about a day, both ways
            for life in gateway.lives.values():
                life.note_step(step)

    def _passivate(self, command: Command) -> None:
        gateway = self._world.serving()
        for life in gateway.lives.values() if gateway else ():
            for stream in life.account.peers.live():
                life.account.peers.passivate(stream)

    # --- operators ------------------------------------------------------------------------------------------------

    def _policy(self, command: Command) -> None:
        self._reconfigure(changed(self._world.policy, command.a))

    def _observe(self, command: Command) -> None:
        self._reconfigure(changed(self._world.policy, 0, "observe"))

    def _enforce(self, command: Command) -> None:
        self._reconfigure(changed(self._world.policy, 0, "enforce"))

    def _reconfigure(self, policy: Any) -> None:
        world = self._world
        world.policy = policy
        gateway = world.serving()
        for name, life in gateway.lives.items() if gateway else ():
            life.reconfigure(world.specs()[name])

    def back_to_policy(self) -> None:
        """The plan's own policy, and nothing paused."""
        world = self._world
        if world.policy != world.plan.policy:
            self._reconfigure(world.plan.policy)
        gateway = world.serving()
        for life in gateway.lives.values() if gateway else ():
            for scope, _ in life.account.state.paused:
                self._ask(life, bot_stream(life.spec.address), Resume(scope=scope, who="world"))

    def _pause(self, command: Command) -> None:
        life = self._life(command)
        if life:
            until = life.machine.clock.now() + command.b * 1_000 if command.c % 2 else None
            scope = (self._stream(life, command.b) or "") if command.c % 3 else ""
            self._ask(life, bot_stream(life.spec.address), Pause(scope=scope, until=until, who="world"))

    def _resume(self, command: Command) -> None:
        life = self._life(command)
        for scope, _ in life.account.state.paused if life else ():
            assert life is not None
            self._ask(life, bot_stream(life.spec.address), Resume(scope=scope, who="world"))

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

    def _expire(self, command: Command) -> None:
        """Bodies of a certain age go."""
        life = self._life(command)
        if life:
            before = life.machine.clock.now() - (0, MINUTE_MS, HOUR_MS, DAY_MS)[command.b % 4]
            some: Any = life
            log: Any = life.log
            life.gateway.run(self._guarded(expire(some, log, before)))

    async def _guarded(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except EXPECTED:
            return
