"""The agents' way into the gateway: coroutines as futures, and peers of all accounts by stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from actors.agents.answers import TurnHome
from actors.gateway.api import Gateway, TurnOffer
from actors.gateway.finding import Finder
from actors.runtime.errors import ActorStopped
from actors.runtime.futures import FutureLike
from store.log import Log


class Peers:
    """Sends a command to the peer of a stream, whichever account it belongs to."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    def ask(self, key: str, message: object) -> FutureLike:
        """The future of the reply. Raises MailboxFull."""
        place = self._finder.of_stream(key)
        if place is None:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_exception(ActorStopped(key))
            return future
        return place.life.account.peers.ask(key, message)


class Desk:
    """What the hub asks of the gateway and of the log."""

    def __init__(self, log: Log, finder: Finder) -> None:
        self._log, self._finder = log, finder
        self.gateway: Gateway  # set once the service stands

    def accept(self, offer: TurnOffer, agent: str) -> FutureLike:
        """The future of a TurnAccepted."""
        return _task(self.gateway.accept_turn(offer, agent))

    def delivery(self, delivery: str) -> FutureLike:
        """The future of a Receipt."""
        return _task(self.gateway.delivery(delivery))

    def find(self, turn_id: str) -> FutureLike:
        """The future of the peer whose message started a turn, or of None."""
        return _task(self._find(turn_id))

    async def _find(self, turn_id: str) -> TurnHome | None:
        for value in (await self._log.key("turn", turn_id)).values():
            kept = json.loads(value)
            if not kept.get("inbound"):
                continue
            place = self._finder.of_stream(kept["streams"][0])
            if place is None:
                self._finder.check_recalled()
            else:
                return TurnHome(place.stream, place.address)
        return None


def _task(coroutine: Coroutine[Any, Any, object]) -> FutureLike:
    return asyncio.get_running_loop().create_task(coroutine)
