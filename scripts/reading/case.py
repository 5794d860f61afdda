"""What a telling knows: one peer's events and its bot's, and how to ask them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from actors.deciding.facts import Blocking, fact_of, gate, lane_of
from events.base import Millis, Recorded
from events.bot import BotStarted
from events.history import history
from events.stories import History
from scripts.reading.waiting import Spell, Watch

NAMED_MAX = 5
"""How many ids one sentence lists."""


class Case:
    """What a telling knows: one peer's events and its bot's, in commit order, up to `now`."""

    def __init__(
        self,
        stream: str,
        peer: str,
        bot: str,
        events: tuple[Recorded, ...],
        *,
        now: Millis,
        show: Callable[[Millis], str],
        blocking: Blocking = gate,
    ) -> None:
        self.stream, self.peer, self.bot = stream, peer, bot
        self.events, self.now, self.show, self._blocking = events, now, show, blocking

    @cached_property
    def told(self) -> History:
        """The peer's history."""
        return history(r for r in self.events if r.stream == self.stream)

    @cached_property
    def starts(self) -> Mapping[int, Recorded]:
        """Epoch to the start of its instance."""
        return {r.epoch: r for r in self.events if isinstance(r.event, BotStarted)}

    def instance(self, epoch: int) -> str:
        """`instance one (epoch 1)`."""
        start = self.starts.get(epoch)
        name = start.event.instance if start and isinstance(start.event, BotStarted) else "?"
        return f"instance {name} (epoch {epoch})"

    def watch(self, output: str) -> tuple[Watch, tuple[Spell, ...]]:
        """The output's spells of waiting."""
        watch = Watch(self.stream, output, self.bot, show=self.show, blocking=self._blocking)
        return watch, watch.follow(self.events)

    def block_now(self, output: str, watch: Watch) -> tuple[str, Millis | None, str]:
        """(reason, until, sentence) of what keeps an output that waits."""
        state, view = watch.state, watch.view(self.now)
        lane = lane_of(state, output)
        if lane is None or view is None:
            return "", None, "It waits."
        block = self._blocking(state, view, lane, self.now)
        if block is None:
            return (
                "",
                None,
                "It waits, and nothing blocks it: it leaves as soon as the gateway runs and its lane's turn comes.",
            )
        fact = fact_of(block, state, view, self.now, self.show)
        return block.reason, block.until, f"It waits: {fact.what}. That ends when {fact.ends}."


def listed(names: list[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
