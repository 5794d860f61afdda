"""Erasing on somebody's word: a peer, or one delivery; and what can be said of it afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from actors.deciding import view
from actors.deciding.commands import Ask, EraseOutput, ErasePeer
from actors.gateway import api, receipts, views
from actors.gateway.acceptance import Acceptance
from actors.gateway.finding import Finder, Place
from events.base import Recorded
from events.history import history
from events.peer import SendFailed
from store.log import Log

TEXTS = ("inbound", "output", "rendered")
"""The kinds of bodies that hold what somebody said."""


class Erasing:
    """Takes texts out of the log and out of its files."""

    def __init__(self, finder: Finder, acceptance: Acceptance, log: Log) -> None:
        self._finder, self._acceptance, self._log = finder, acceptance, log

    async def peer(self, order: api.EraseOrder) -> views.Erased:
        """Erase everything of a peer but what was spent. Raises UnknownPeer."""
        place = self._finder.place(order.peer, "$.peer")
        names = _addresses(place)
        done: view.Erased = await self._acceptance.ask(place, ErasePeer(who=order.who))
        while done.more:
            step: view.Erased = await self._acceptance.ask(place, ErasePeer(who=order.who))
            done = _joined(done, step)
        state, seen, _now = await self._acceptance.ask(place, Ask())
        address, until = receipts.fate_of_address(state, seen)
        told = await self._told(place, names, done)
        return msgspec.structs.replace(told, address=address, address_until=until)

    async def delivery(self, prefix: str) -> views.Erased:
        """Erase one delivery: its text, what was sent of it (merged with others or not), what the channel said of that.
        Raises UnknownDelivery, AmbiguousId."""
        key, place = await self._finder.delivery(prefix)
        events = await self._log.read(place.stream)
        held = await self._held(place)
        bodies = tuple(b for b in _telling_of(events, key.delivery) if b in held)
        done: view.Erased = await self._acceptance.ask(place, EraseOutput(output=key.delivery, bodies=bodies))
        done = msgspec.structs.replace(done, kinds=tuple(held[b] for b in bodies))
        told = await self._told(place, _addresses(place), done)
        return msgspec.structs.replace(told, turn_id=key.turn)

    async def _held(self, place: Place) -> dict[str, str]:
        """The bodies of a peer, and the kind of each."""
        account = place.life.spec.address.bot
        return dict(await self._log.held(account, place.stream, ALL))

    async def _told(self, place: Place, names: tuple[str, ...], done: view.Erased) -> views.Erased:
        kinds = Counter(done.kinds)
        bound = [b for _, b in await self._log.bindings() if b.session == done.session]
        return views.Erased(
            peer=names[0],
            stream=place.stream,
            addresses=names,
            turn_id="",
            deliveries=done.outputs,
            texts=sum(kinds[kind] for kind in TEXTS),
            tokens=kinds["token"],
            media=kinds["media"],
            errors=kinds["error"],
            messages=done.messages,
            turn=done.turn,
            session=done.session,
            session_alone=bool(done.session) and not bound,
            in_flight=done.in_flight,
            requests=len(history(await self._log.read(place.stream)).requests),
            address="kept",
            address_until=None,
            files_clean=await self._log.checkpoint(),
        )


ALL = 2**31
"""More bodies than any peer has."""


def _addresses(place: Place) -> tuple[str, ...]:
    """The ways to write a peer's address: whole, and for the person who logged in by the account alone."""
    account = place.life.account
    owner = account.owner != "" and account.peer_of(place.stream) == account.owner
    return (place.address, place.life.spec.address.bot) if owner else (place.address,)


def _joined(first: view.Erased, second: view.Erased) -> view.Erased:
    """Two steps as one: what each took away; what is left as the second left it."""
    return msgspec.structs.replace(
        first,
        kinds=first.kinds + second.kinds,
        outputs=first.outputs + second.outputs,
        in_flight=second.in_flight,
        more=second.more,
    )


def _telling_of(events: Iterable[Recorded], output: str) -> list[str]:
    """The bodies that tell of an output: its own, those of the requests that carried it, and what the channel said of these."""
    events = tuple(events)
    told = history(events)
    requests = told.outputs[output].requests
    errors = (r.event.error for r in events if isinstance(r.event, SendFailed) and r.event.request in requests)
    found = (told.outputs[output].body, *(told.requests[name].body for name in requests), *errors)
    return list(dict.fromkeys(body for body in found if body))
