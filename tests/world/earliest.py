"""G1, where it begins: what the log takes for the earliest instant at which the server can have had a message was no later than that.

The server's clock is the world's, a life's may be wrong. Nothing settles while a process is paused, nor between two lives.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from events.peer import MessageReceived

if TYPE_CHECKING:
    from tests.world.machine import Machine
    from tests.world.world import World


class Reign(NamedTuple):
    """An epoch of an account."""

    began: int  # by the world's clock
    machine: Machine
    offset_ms: int  # how wrong its clock was then


class Earliest:
    """The clocks of all lives, and what was decided by them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.forgotten: set[tuple[int, str]] = (
            set()
        )  # whose fingerprints went with an address: they come again as if they were new
        self.heard: dict[str, list[tuple[str, int, str]]] = defaultdict(list)  # stream -> (account, sent_at, text)
        self._reigns: dict[str, list[Reign]] = defaultdict(list)

    def claimed(self, account: str, instance: str) -> None:
        """A life begins."""
        machine = next(g.machine for g in self._world.gateways if g.machine.name == instance)
        self._reigns[account].append(Reign(self._world.now, machine, machine.wall.offset_ms))

    def forget(self, stream: str) -> list[tuple[str, int, str]]:
        """Nobody is behind a stream any more; what was heard of it."""
        names = self.heard.pop(stream, [])
        self.forgotten |= {name[1:] for name in names}
        return names

    def early_ms(self, account: str, stream: str, event: MessageReceived) -> int:
        """How long before its earliest instant the server had a message; 0 if it did not."""
        server = self._world.servers[account.rpartition(":")[2]]
        said = (event.sent_at, self._world.disk.bodies[event.body])
        self.heard[stream].append((account, *said))
        if said in self.forgotten:
            return 0
        heard_at = server.heard_at[said]
        return max(0, event.not_before - self._log_time(account, heard_at))

    def _log_time(self, account: str, at: int) -> int:
        """The least time under which anything can be in the log that happened after `at`, of the world."""
        reigns = self._reigns[account]
        now = bisect_right(reigns, at, key=lambda reign: reign.began)
        times = [r.machine.runs_at(at) + r.offset_ms for r in reigns[max(0, now - 1) : now]]
        times += [r.began + r.offset_ms for r in reigns[now : now + 1]]
        return min(times)
