"""The last days of a world: every fault heals, people write now and then, and in the end nothing may be stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from events.bot import HOUR_MS, MINUTE_MS
from events.peer_state import PeerState
from tests.world.final import final

if TYPE_CHECKING:
    from tests.world.world import World

SETTLE_MS = 40_000
ROUNDS = 12
ROUND_MS = 13 * HOUR_MS
"""How long the world waits between the messages of its last days: a share that one window spent rolls inside the next one."""

SPENT_SHARES = 0.15
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
        if self._dice.chance(SPENT_SHARES):
            self._spend_the_share()
        for _ in range(ROUNDS):
            for name, peer in self._writers():
                world.say(name, peer, world.text("last"))
            world.run_for(ROUND_MS)
            if self._at_rest():
                break
        world.checks.audit()
        final(world)

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
        return not any(map(_waits, self._world.checks.peers.values())) and not self._world.client.pending


def _waits(state: PeerState) -> bool:
    return bool(state.waiting or state.open_turns or state.request)
