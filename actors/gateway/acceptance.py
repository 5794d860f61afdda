"""Accepting turns: the same turn id is the same deliveries, whatever happens in between.

The set of peers is settled by the first acceptance and kept under the turn's key; a crash between two peers is made good by the
repetition of the same turn.
"""

from __future__ import annotations

import json
from typing import Any

from actors.deciding.commands import AcceptTurn, FinishTurn, Rehearse
from actors.deciding.view import Decision
from actors.errors import TurnNotOpen
from actors.gateway.api import TurnOffer
from actors.gateway.errors import BadRequest, Busy, Stopping, TooLarge, TurnConflict, Unavailable
from actors.gateway.finding import Finder, Place, delivery_key
from actors.runtime.errors import ActorGaveUp, ActorStopped, MailboxFull
from actors.runtime.scheduler import Scheduler
from events.streams import delivery_id, fingerprint
from store.errors import DuplicateKey, Fenced, LogBusy, LogClosed, TextTooLarge
from store.log import Log


class Accepted:
    """What an acceptance came to: (place, delivery) of each peer, and whether all of them were there before."""

    def __init__(self, turn_id: str, deliveries: tuple[tuple[Place, str], ...], *, repeated: bool) -> None:
        self.turn_id, self.deliveries, self.repeated = turn_id, deliveries, repeated


class Acceptance:
    """Takes turns in for all accounts of the process."""

    def __init__(self, finder: Finder, log: Log, scheduler: Scheduler) -> None:
        self._finder, self._log, self._scheduler = finder, log, scheduler

    async def accept(self, offer: TurnOffer) -> Accepted:
        """Accept a turn, durably. Raises the refusals of `Gateway.accept_turn`."""
        turn_id = offer.turn_id or f"api-{self._scheduler.ids.token(8)}"
        while True:
            known = await self._log.key("turn", turn_id)
            try:
                if known:
                    return await self._again(turn_id, offer, known)
                return await self._first(turn_id, offer)
            except DuplicateKey:
                continue  # somebody offered the same turn at the same moment: look what became of it

    async def rehearse(self, offer: TurnOffer) -> tuple[tuple[Place, Decision], ...]:
        """The decision that each peer would take now. Nothing is accepted."""
        turn_id = offer.turn_id or "rehearsal"
        places = await self._targets(offer)
        decisions = [await self.ask(p, Rehearse(_command(turn_id, offer))) for p in places]
        return tuple(zip(places, decisions, strict=True))

    async def ask(self, place: Place, command: object) -> Any:
        """Ask a peer, with the failures of the machinery as refusals that a caller can act on."""
        if place.life.state in ("starting", "stopped", "fenced", "failed"):
            raise Unavailable(f"{place.life.spec.address} is {place.life.state}; nothing was accepted")
        try:
            return await place.life.account.peers.ask(place.stream, command)
        except (MailboxFull, LogBusy) as error:
            raise Busy(str(error)) from error
        except (ActorStopped, ActorGaveUp, Fenced, LogClosed) as error:
            raise Stopping(f"{place.life.spec.address}: {error}") from error
        except TextTooLarge as error:
            raise TooLarge(str(error), path="$.text") from error

    async def _first(self, turn_id: str, offer: TurnOffer) -> Accepted:
        if offer.origin == "inbound":
            raise BadRequest(
                "only turns that this gateway handed over are inbound, and this id is not one of them; say scheduled, desktop or api",
                path="$.origin",
            )
        places = await self._targets(offer)
        value = json.dumps({"streams": [p.stream for p in places]}, separators=(",", ":"))
        done: list[tuple[Place, str]] = []
        keyed: set[str] = set()
        for place in places:
            account = place.life.spec.address.bot
            command = _command(turn_id, offer, "" if account in keyed else value)
            done.append((place, str(await self.ask(place, command))))
            keyed.add(account)
        return Accepted(turn_id, tuple(done), repeated=False)

    async def _again(self, turn_id: str, offer: TurnOffer, known: object) -> Accepted:
        """A turn whose id is in the log: the rest of it, an answer that is still open, or what was accepted then."""
        assert isinstance(known, dict)
        kept = json.loads(next(iter(known.values())))
        done: list[tuple[Place, str]] = []
        fresh = False
        for stream in kept["streams"]:
            place = self._finder.of_stream(stream)
            if place is None:
                self._finder.check_recalled()
                continue  # its account is configured no more
            delivery = delivery_id(stream, turn_id)
            if not await self._same(delivery, offer):
                await self._complete(place, turn_id, offer, inbound=bool(kept.get("inbound")), known=known)
                fresh = True
            done.append((place, delivery))
        return Accepted(turn_id, tuple(done), repeated=not fresh)

    async def _complete(
        self, place: Place, turn_id: str, offer: TurnOffer, *, inbound: bool, known: dict[str, str]
    ) -> None:
        if not inbound:
            value = "" if place.life.spec.address.bot in known else next(iter(known.values()))
            await self.ask(place, _command(turn_id, offer, value))
            return
        try:
            await self.ask(place, FinishTurn(turn_id=turn_id, status=offer.status, text=offer.text))
        except TurnNotOpen as error:
            raise TurnConflict(f"turn {turn_id} was a message's, and ended without a text") from error

    async def _same(self, delivery: str, offer: TurnOffer) -> bool:
        """Whether the delivery exists. Raises TurnConflict when it does with another text."""
        rows = await self._log.key("delivery", delivery)
        if not rows:
            return False
        kept = delivery_key(delivery, next(iter(rows.values())))
        if kept.text != fingerprint(self._log.salt, offer.text):
            raise TurnConflict
        return True

    async def _targets(self, offer: TurnOffer) -> tuple[Place, ...]:
        if offer.to:
            return (self._finder.place(offer.to, "$.to"),)
        return await self._finder.bound(offer.session, "$.session")


def _command(turn_id: str, offer: TurnOffer, keys_value: str = "") -> AcceptTurn:
    return AcceptTurn(
        turn_id=turn_id,
        origin=offer.origin,
        status=offer.status,
        text=offer.text,
        session=offer.session,
        keys_value=keys_value,
    )
