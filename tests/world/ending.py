"""The last days of a world: every fault heals, people write now and then, and in the end nothing may be stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from events.bot import DAY_MS, HOUR_MS, MINUTE_MS
from events.peer_state import PeerState
from tests.world.final import final, unhandled

if TYPE_CHECKING:
    from tests.world.world import World

TURNS_LEAST = 200
"""What every world has at least."""

SETTLE_MS = 40_000
ROUNDS = 12
ROUND_MS = 13 * HOUR_MS
"""How long the world waits between the messages of its last days: a share that one window spent rolls inside the next one."""

PROBED = 0.1
"""In so many worlds people write once more even if nothing waits."""

SPENT_SHARES = 0.12
"""In so many worlds somebody's share is spent at the end."""


class Ending:
    """Brings a world to rest."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.bag["rest"]

    def come_to_rest(self) -> None:
        """Heal, write until nothing waits, and look."""
        world = self._world
        world.healed = True
        self._heal()
        world.run_for(SETTLE_MS)
        world.back_to_policy()
        probe = self._dice.chance(PROBED)
        if self._dice.chance(SPENT_SHARES):
            self._spend_the_share()
            probe = True
        for _ in range(ROUNDS):
            at_rest = self._at_rest()
            if at_rest and not probe and world.scheduler.turns >= TURNS_LEAST:
                break
            for name, peer in [self._somebody()] if at_rest else self._writers():
                world.say(name, peer, world.text("last"))
            world.run_for(ROUND_MS)
            probe = False
        self._let_erased_addresses_go()
        world.checks.audit()
        final(world)

    def _let_erased_addresses_go(self) -> None:
        """The address of an erased peer goes once nothing that was spent counts any more; the login's own stays."""
        world, peers = self._world, self._world.checks.peers
        waiting = [stream for stream, state in peers.items() if state.erased_at and not state.forgotten]
        if waiting:
            world.run_for(DAY_MS + HOUR_MS)
        for stream in waiting:
            if not peers[stream].forgotten and world.checks.address_of(stream)[1] != "owner":
                world.checks.fail("G9", f"the address of {stream} was to be forgotten, and is there")

    def _heal(self) -> None:
        world = self._world
        for gateway in tuple(world.gateways):
            if gateway.machine.alive and gateway.machine.paused:
                gateway.machine.resume()
        world.back_to_policy()
        for name, server in world.servers.items():
            server.refusing = 0
            server.newest_token_only = server.replays = False
            if server.login == "":
                world.log_in(name)
        for agent in world.agents:
            agent.come_back()
        world.keep_running()

    def _people(self, name: str) -> list[str]:
        """Who has ever talked to an account, or might."""
        return sorted({*self._world.access, *(s.peer for a, s in self._world.said if a == name)})

    def _somebody(self) -> tuple[str, str]:
        name = self._dice.pick(tuple(self._world.servers))
        return name, self._dice.pick(self._people(name))

    def _writers(self) -> list[tuple[str, str]]:
        """Somebody for each account, and everybody for whom something waits."""
        checks = self._world.checks
        waiting = {checks.address_of(stream) for stream, state in checks.peers.items() if _waits(state)}
        drawn = {(name, self._dice.pick(self._people(name))) for name in self._world.servers}
        return sorted({*drawn, *(w for w in waiting if w[0])})

    def _spend_the_share(self) -> None:
        """One output a minute, one more than a share: the last one waits until the share rolls."""
        world = self._world
        name = self._dice.pick(tuple(world.servers))
        address = f"weixin:{name}:{self._dice.pick(self._people(name))}"
        for n in range(world.plan.policy.share_replies + 1):
            at = world.now + (n + 1) * MINUTE_MS
            world.scheduler.call_at(at, lambda: world.submit(address, "", "scheduled", world.text("push"), "completed"))

    def _at_rest(self) -> bool:
        world = self._world
        return not world.client.pending and not any(map(_waits, world.checks.peers.values())) and not unhandled(world)


def _waits(state: PeerState) -> bool:
    return bool(state.waiting or state.open_turns or state.request)
