"""What operators do by hand: flush, drop, retry, discard, and an account's start and stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from actors.deciding.commands import Operate
from actors.errors import LoginUnreadable
from actors.gateway import api, receipts, views
from actors.gateway.acceptance import Acceptance
from actors.gateway.errors import Busy, UnknownDelivery, WrongState
from actors.gateway.finding import DeliveryKey, Finder, Place
from actors.gateway.receipts import Room
from actors.life import AccountLife
from events.backlog import Dead
from store.errors import LogBusy
from store.log import Log

RoomOf = Callable[[Place], Awaitable[Room]]
Found = tuple[Place, DeliveryKey]
"""A delivery and whose it is."""


class Chores:
    """The writing verbs of operators."""

    def __init__(self, finder: Finder, acceptance: Acceptance, log: Log) -> None:
        self._finder, self._acceptance, self._log = finder, acceptance, log

    async def flush(self, place: Place, who: str) -> None:
        """Try now."""
        await self._acceptance.ask(place, Operate(what="flush", who=who))

    async def waiting(self, delivery: str, room_of: RoomOf) -> views.WaitingShown:
        """A waiting output with its text, also while it is on its way."""
        place, key = await self._waiting(delivery, room_of)
        room = await room_of(place)
        output = next(o for o in (*room.state.answers, *room.state.queue) if o.output == key.delivery)
        shown = next(w for w in receipts.waiting_views(room) if w.delivery == key.delivery)
        return views.WaitingShown(output=shown, text=await self._text(output.body))

    async def dead(self, delivery: str, room_of: RoomOf) -> views.DeadShown:
        """A dead output with its text."""
        place, _, dead = await self._dead(delivery, room_of)
        text = await self._text(dead.output.body)
        view = receipts.dead_view(place.address, dead)
        return views.DeadShown(output=msgspec.structs.replace(view, retrievable=text is not None), text=text)

    async def drop(self, deliveries: tuple[str, ...], who: str, room_of: RoomOf) -> views.Gone:
        """Drop waiting outputs, all or none."""
        found = [await self._waiting(d, room_of) for d in deliveries]
        for place, key in found:
            if key.delivery in (await room_of(place)).state.carried:
                raise WrongState(f"{key} is on its way; its outcome is not known yet")
        await self._operate("drop", found, who)
        return _gone(found)

    async def retry(self, deliveries: tuple[str, ...], who: str, room_of: RoomOf) -> list[Found]:
        """Queue dead outputs again, all or none."""
        found = []
        for delivery in deliveries:
            place, key, dead = await self._dead(delivery, room_of)
            if await self._text(dead.output.body) is None:
                raise WrongState(f"the text of {key} has expired or was erased")
            found.append((place, key))
        await self._operate("retry", found, who)
        return found

    async def discard(self, deliveries: tuple[str, ...], who: str, room_of: RoomOf) -> views.Gone:
        """Take dead outputs off the list, all or none."""
        found = [(place, key) for place, key, _ in [await self._dead(d, room_of) for d in deliveries]]
        await self._operate("discard", found, who)
        return _gone(found)

    async def account(self, life: AccountLife, order: api.AccountOrder) -> None:
        """Start, stop, restart or log out an account. Raises WrongState."""
        at_rest = life.state in ("stopped", "fenced")
        if order.action == "start" and not (at_rest or life.state == "failed"):
            raise WrongState(f"{life.spec.address} is {life.state}")
        if not at_rest:
            await life.stop(f"{order.action} by {order.who}")
        if order.action == "logout":
            life.forget_login()
        if order.action != "stop":
            await self._start(life)

    @staticmethod
    async def _start(life: AccountLife) -> None:
        try:
            await life.start()
        except LoginUnreadable as error:
            raise WrongState(str(error)) from error
        except LogBusy as error:
            raise Busy(str(error)) from error

    async def _operate(self, what: Literal["drop", "retry", "discard"], found: list[Found], who: str) -> None:
        for place in dict.fromkeys(place for place, _ in found):
            names = tuple(key.delivery for p, key in found if p == place)
            await self._acceptance.ask(place, Operate(what=what, who=who, outputs=names))

    async def _waiting(self, delivery: str, room_of: RoomOf) -> Found:
        key, place = await self._finder.delivery(delivery)
        room = await room_of(place)
        if not any(o.output == key.delivery for o in (*room.state.answers, *room.state.queue)):
            raise WrongState(f"{key} does not wait")
        return place, key

    async def _dead(self, delivery: str, room_of: RoomOf) -> tuple[Place, DeliveryKey, Dead]:
        """A dead output: from the peer's state, or, longer ago, from its history."""
        key, place = await self._finder.delivery(delivery)
        room = await room_of(place)
        dead = next((d for d in room.state.dead if d.output.output == key.delivery), None)
        if dead is not None:
            return place, key, dead
        if any(o.output == key.delivery for o in (*room.state.answers, *room.state.queue)):
            raise WrongState(f"{key} still waits")
        raise UnknownDelivery(f"{key} is not among the undelivered outputs that {place.address} remembers")

    async def _text(self, body: str) -> str | None:
        return (await self._log.bodies((body,))).get(body) if body else None


def _gone(found: list[Found]) -> views.Gone:
    return views.Gone(deliveries=tuple(key.delivery for _, key in found), turn_ids=tuple(key.turn for _, key in found))
