"""What each command of a plan does to its world."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from events.bot import HOUR_MS, MINUTE_MS
from tests.world.operators import Operators
from tests.world.plan import Command

if TYPE_CHECKING:
    from tests.world.gateway import Gateway


PASSIVATED = 0.15
"""After so many commands peers are put away."""


class Doing(Operators):
    """Runs commands, one method each; those of operators are inherited."""

    def command(self, command: Command) -> None:
        """Let it happen."""
        self._world.scheduler.note(f"{self._world.now} DO {command.what} {command.a} {command.b} {command.c}")
        getattr(self, f"_{command.what}")(command)
        if self._world.bag["passivate"].chance(PASSIVATED):
            self._passivate(command)

    # --- people and agents ----------------------------------------------------------------------------------------

    def _message(self, command: Command) -> None:
        peer = self._peer(command.b)
        honest_repeat = command.c % 5 == 0
        self._world.say(self._name(command.a), peer, f"ok from {peer}" if honest_repeat else self._world.text("hi"))

    def _burst(self, command: Command) -> None:
        for n in range(2 + command.c % 3):
            self._world.say(self._name(command.a), self._peer(command.b), f"burst {n} {self._world.text('of')}")

    def _word(self, command: Command) -> None:
        word = ("/more", "/reset", "/cancel")[command.c % 3]
        self._world.say(self._name(command.a), self._peer(command.b), word)

    def _stranger(self, command: Command) -> None:
        self._world.count("stranger wrote")
        self._world.say(self._name(command.a), "stranger", self._world.text("who are you"))

    def _again(self, command: Command) -> None:
        """The channel delivers an old message again: same id, a new one, or none."""
        heard = self._world.servers[self._name(command.a)].inbox
        if heard:
            said = heard[command.b % len(heard)]
            server = self._world.servers[self._name(command.a)]
            ids = (said.message_id, server.new_id(), "")
            again = type(said)(said.number, said.peer, said.text, said.sent_at, said.token, ids[command.c % 3])
            self._world.repeated(said, again)
            server.repeat(again)
            self._world.network.stir(server)

    def _again_late(self, command: Command) -> None:
        """The same of a message that is more than a day old: the plan let the time pass."""
        self._again(command)

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

    def _disconnect(self, command: Command) -> None:
        world = self._world
        agent = world.agents[command.a % len(world.agents)]
        if agent.connections:
            world.count("agent away")
        if command.b % 2:
            agent.leave(command.c % (3 * MINUTE_MS), polite=command.a % 3 == 0)
        else:
            for connection in tuple(agent.connections.values()):
                connection.cut()

    # --- the channel ----------------------------------------------------------------------------------------------

    def _penalty(self, command: Command) -> None:
        server = self._world.servers[self._name(command.a)]
        server.refusing = -2
        self._world.count("penalty begun")

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
            self._world.count("stopped in good order")
            gateway.stop(lambda: self._world.kill(gateway, "stopped"))

    def _lose_caches(self, command: Command) -> None:
        self._world.fuse(command.a % 60, self._kill_and_lose)

    def _kill_and_lose(self) -> None:
        for gateway in tuple(self._world.gateways):
            self._world.kill(gateway, "crash")
        self._world.lose_caches()

    def _second(self, command: Command) -> None:
        """Another instance starts; the first one runs on, sleeps through it, or wakes up later."""
        world = self._world
        first = world.serving()
        how = command.b % 3
        if first is not None:
            world.count(f"second instance beside a {'paused' if how else 'running'} one")
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
            world.count("process stopped for a while")
            gateway.machine.pause()
            world.scheduler.call_at(world.now + for_ms, partial(self._resume_machine, gateway))

    def _resume_machine(self, gateway: Gateway) -> None:
        if gateway.machine.alive and gateway.machine.paused:
            if gateway.replaced:
                self._world.count("replaced while paused, and resumed")
            gateway.machine.resume()

    def _half(self, command: Command) -> None:
        """Another instance takes one of the accounts over; the first one goes on with the other."""
        self._world.submit(
            f"weixin:{self._name(command.b)}:{self._peer(command.c)}", "", "api", self._world.text("push"), "completed"
        )
        self._world.start(0, (self._name(command.a),))

    def _step_clock(self, command: Command) -> None:
        step = (command.a - (1 << 15)) * 3_000  # about a day, both ways
        if any(map(self._world.in_window, self._world.servers)):
            self._world.count(f"clock {'forward' if step > 0 else 'back'} in a window")
        for life in self._world.lives():
            life.note_step(step)

    def _passivate(self, command: Command) -> None:
        for life in self._world.lives():
            for stream in life.account.peers.live():
                if life.account.peers.passivate(stream):
                    self._world.count("passivated")
