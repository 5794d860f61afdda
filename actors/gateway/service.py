"""The gateway itself: what the listeners ask, answered by the accounts of this process. `Showing` looks, this half carries out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec

from actors.bot import Pause, Resume
from actors.deciding.commands import Bind, Grant
from actors.gateway import api, receipts, views
from actors.gateway.acceptance import NOT_TAKEN
from actors.gateway.chores import Chores
from actors.gateway.erasing import Erasing
from actors.gateway.errors import OF_LOG, BadRequest, GatewayError, Partly, UnknownPeer
from actors.gateway.finding import Place
from actors.gateway.forecast import forecast
from actors.gateway.showing import Showing
from actors.life import AccountLife
from events.bot import paused_until
from events.streams import bot_stream


class Service(Showing):
    """Implements `actors.gateway.api.Gateway`."""

    @cached_property
    def _chores(self) -> Chores:
        return Chores(self._finder, self._acceptance, self._log)

    @cached_property
    def _erasing(self) -> Erasing:
        return Erasing(self._finder, self._acceptance, self._log)

    async def accept_turn(self, offer: api.TurnOffer, agent: str = "") -> views.TurnAccepted:
        """Accept a turn's output for its peers. What fails after that is told as a turn that was accepted."""
        accepted = await self._acceptance.accept(offer, agent)
        try:
            deliveries = [
                msgspec.structs.replace(
                    await self._delivery_view(place, delivery, accepted.turn_id),
                    not_taken=NOT_TAKEN if delivery in accepted.not_taken else "",
                )
                for place, delivery in accepted.deliveries
            ]
        except (GatewayError, *OF_LOG) as error:
            done = [delivery for _, delivery in accepted.deliveries]
            raise Partly(accepted.turn_id, done, of=len(done), why=str(error)) from error
        return views.TurnAccepted(
            turn_id=accepted.turn_id,
            deliveries=tuple(deliveries),
            now=self._scheduler.clock.now(),
            repeated=accepted.repeated,
        )

    async def dry_run(self, offer: api.TurnOffer) -> views.DryRun:
        """What would become of the turn now."""
        decided = await self._acceptance.rehearse(offer)
        rooms = [await self._room(place) for place, _ in decided]
        return views.DryRun(
            forecasts=tuple(forecast(room, decision) for room, (_, decision) in zip(rooms, decided, strict=True))
        )

    # --- peers --------------------------------------------------------------------------------------------------------

    async def bind(self, order: api.BindOrder) -> views.Bound:
        """Bind a peer to a session."""
        return await self._bind(order.peer, order.session, order.who)

    async def unbind(self, order: api.UnbindOrder) -> views.Bound:
        """Unbind a peer."""
        return await self._bind(order.peer, "", order.who)

    async def _bind(self, address: str, session: str, who: str) -> views.Bound:
        place = self._finder.place(address, "$.peer")
        was = (await self._room(place)).state.session
        await self._acceptance.ask(place, Bind(session=session, who=who))
        return views.Bound(peer=place.address, session=session, was=was)

    async def access(self, order: api.AccessOrder) -> views.PeerView:
        """Grant access. What the configuration grants, it alone takes away."""
        place = self._finder.place(order.peer, "$.peer")
        if order.action == "refuse":
            raise BadRequest("access is taken away in the configuration (`access`)", path="$.action")
        await self._acceptance.ask(place, Grant(order.who))
        return await self._peer_view(place)

    # --- what waits and what does not ---------------------------------------------------------------------------------

    async def waiting(self, delivery: str) -> views.WaitingShown:
        """A waiting output with its text."""
        return await self._chores.waiting(delivery, self._room)

    async def flush(self, order: api.FlushOrder) -> views.BacklogView:
        """Try a peer's backlog now."""
        place = self._finder.place(order.peer, "$.peer")
        await self._chores.flush(place, order.who)
        return receipts.backlog_view(await self._room(place))

    async def drop(self, order: api.DropOrder) -> views.Gone:
        """Drop waiting outputs."""
        return await self._chores.drop(order.deliveries, order.who, self._room)

    async def dead_one(self, delivery: str) -> views.DeadShown:
        """A dead output with its text."""
        return await self._chores.dead(delivery, self._room)

    async def retry(self, order: api.RetryOrder) -> tuple[views.DeliveryView, ...]:
        """Queue dead outputs again."""
        found = await self._chores.retry(order.deliveries, order.who, self._room)
        return tuple([await self._delivery_view(place, key.delivery, key.turn) for place, key in found])

    async def discard(self, order: api.DiscardOrder) -> views.Gone:
        """Take dead outputs off the list."""
        return await self._chores.discard(order.deliveries, order.who, self._room)

    async def erase(self, order: api.EraseOrder) -> views.Erased:
        """Erase; what was spent stays."""
        return await (self._erasing.delivery(order.delivery) if order.delivery else self._erasing.peer(order))

    # --- accounts -----------------------------------------------------------------------------------------------------

    async def pause(self, order: api.PauseOrder) -> views.Paused:
        """Pause an account or a peer."""
        until = None if order.for_ms is None else self._scheduler.clock.now() + order.for_ms
        return await self._set_pause(order.scope, lambda scope: Pause(scope=scope, until=until, who=order.who))

    async def resume(self, order: api.ResumeOrder) -> views.Paused:
        """Resume an account or a peer."""
        return await self._set_pause(order.scope, lambda scope: Resume(scope=scope, who=order.who))

    async def _set_pause(self, name: str, command: Callable[[str], Pause | Resume]) -> views.Paused:
        life, stream = self._scope(name)
        await self._acceptance.ask(Place(life, bot_stream(life.spec.address)), command(stream))
        now = self._scheduler.clock.now()
        return views.Paused(scope=name, until=paused_until(life.account.state, stream, now))

    def _scope(self, name: str) -> tuple[AccountLife, str]:
        """(account, "" or a peer's stream): the short address of an account is the account itself."""
        for life in self._lives.values():
            if name in (life.spec.address.bot, life.spec.address.account):
                return life, ""
        try:
            place = self._finder.place(name, "$.scope")
        except BadRequest as error:
            raise UnknownPeer(f"{name!r} is neither an account nor a peer", path="$.scope") from error
        return place.life, place.stream

    async def account(self, order: api.AccountOrder) -> views.AccountView:
        """Start, stop, restart or log out."""
        life = self._finder.life(order.account, "$.account")
        await self._chores.account(life, order)
        return self._account_view(life)
