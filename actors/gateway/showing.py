"""How things stand: deliveries, peers, accounts and the whole, as they are shown to whoever asks. Looks, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from actors.deciding.commands import Ask
from actors.gateway import api, receipts, views
from actors.gateway.acceptance import Acceptance
from actors.gateway.finding import Finder, Place
from actors.gateway.ledger import Instances, ledger_page
from actors.gateway.receipts import Room, held_by
from actors.life import AccountLife
from actors.runtime.scheduler import Scheduler
from actors.text.moments import show_moment
from events.base import Millis
from events.bot import paused_until
from events.history import history
from events.peer_state import PeerState, evolve
from store.log import Log

POLL_FAILURES_MAX = 3
"""Failed polls in a row after which an account is said not to be ready; single ones are weather."""


class Agents(msgspec.Struct, frozen=True):
    """How the service sees the hub of agents."""

    shown: Callable[[], tuple[views.AgentView, ...]]


class Showing:
    """The half of `actors.gateway.api.Gateway` that only looks."""

    def __init__(
        self,
        lives: Mapping[str, AccountLife],
        *,
        log: Log,
        scheduler: Scheduler,
        instance: str,
        version: str,
        agents: Agents,
        simulated: bool = False,
    ) -> None:
        self._lives, self._log, self._scheduler = lives, log, scheduler
        self._instance, self._version, self._agents, self._simulated = instance, version, agents, simulated
        self._started_at = scheduler.clock.now()
        self._finder = Finder(lives, log)
        self._acceptance = Acceptance(self._finder, log, scheduler)
        self._instances = Instances(log)
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self.stopping = False
        self.log_trouble = ""  # why the log takes nothing right now
        self.spool: Callable[[], views.SpoolView] = lambda: views.EMPTY_SPOOL  # what waits to be offered here

    def changed(self, stream: str) -> None:
        """A peer's state changed: whoever waits for one of its deliveries looks again."""
        for waiter in self._waiters.get(stream, ()):
            waiter.set()

    async def delivery(self, delivery: str, wait_ms: int = 0) -> views.Receipt:
        """A delivery's receipt; with `wait_ms` once it is final, or after that time."""
        key, place = await self._finder.delivery(delivery)
        waiter = asyncio.Event()
        self._waiters.setdefault(place.stream, set()).add(waiter)
        over = asyncio.Event()

        def time_is_up() -> None:
            over.set()
            waiter.set()

        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, time_is_up)
        try:
            while True:
                last = over.is_set() or not wait_ms
                waiter.clear()
                receipt = await self._receipt(place, key.delivery)
                if receipt.state in views.FINAL or last:
                    return receipt
                await waiter.wait()
        finally:
            timer.cancel()
            self._forget(place.stream, waiter)

    def _forget(self, stream: str, waiter: asyncio.Event) -> None:
        waiters = self._waiters[stream]
        waiters.discard(waiter)
        if not waiters:
            del self._waiters[stream]

    async def _delivery_view(self, place: Place, delivery: str, turn_id: str) -> views.DeliveryView:
        """From the live state where it knows; from the history where the state has forgotten."""
        room = await self._room(place)
        view = receipts.delivery_view(room, delivery, turn_id)
        if view.state != "delivered":
            return view
        receipt = await self._receipt(place, delivery)
        return msgspec.structs.replace(view, state=receipt.state, reason=receipt.reason)

    async def _receipt(self, place: Place, delivery: str) -> views.Receipt:
        room = await self._room(place)
        past = history(await self._log.read_since_key(place.stream, "delivery", delivery))
        story = past.outputs[delivery]
        state, reason = receipts.story_standing(story)
        earliest: Millis | None = None
        if state in ("queued", "requested"):
            state, reason, earliest = receipts.standing(room, delivery)
        requests = [past.requests[r] for r in story.requests]
        return views.Receipt(
            delivery=delivery,
            turn_id=story.turn_id,
            peer=room.address,
            state=state,
            reason=reason,
            earliest=earliest,
            message_ids=tuple(r.message_id for r in requests if r.message_id),
            origin=story.origin,
            bytes=story.total,
            delivered_bytes=story.delivered_bytes,
            accepted_at=story.accepted_at,
            settled_at=story.at if state in views.FINAL else None,
            quota=room.quota,
            share=room.share,
        )

    # --- peers --------------------------------------------------------------------------------------------------------

    async def peers(self, account: str = "") -> tuple[views.PeerView, ...]:
        """The peers of an account, or of all."""
        return tuple([await self._peer_view(p) for p in self._finder.places(account)])

    async def peer(self, address: str) -> views.PeerView:
        """One peer."""
        return await self._peer_view(self._finder.place(address))

    async def _peer_view(self, place: Place) -> views.PeerView:
        room = await self._room(place)
        state, account = room.state, place.life.account
        peer = account.peer_of(place.stream)
        reason, earliest = room.blocked()
        address, until = receipts.fate_of_address(state, room.view)
        return views.PeerView(
            peer=room.address,
            stream=place.stream,
            name="",
            access=_access(room, peer == account.owner),
            session=state.session,
            quota=room.quota,
            share=room.share,
            token=state.token is not None and state.token.generation == room.view.generation,
            waiting=state.waiting,
            dead=len(state.dead),
            open_request=state.request.request if state.request else "",
            open_turn=state.turn.turn_id if state.turn else "",
            agent=state.turn.agent if state.turn else "",
            paused_until=room.view.paused_until,
            reason=reason,
            earliest=earliest,
            last_message_at=state.window.opened_at if state.window else None,
            last_send_at=max((c.requested_at for c in state.charges), default=None),
            erased_at=state.erased_at or None,
            address=address,
            address_until=until,
        )

    async def _room(self, place: Place) -> Room:
        """A peer as it is now; as the log has it where nobody here may ask it."""
        if place.life.awake:
            state, view, now = await self._acceptance.ask(place, Ask())
        else:
            account, now = place.life.account, self._scheduler.clock.now()
            view, state = account.view_of(place.stream, now), PeerState()
            for r in await self._log.read(place.stream):
                state = evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)
        return Room(
            address=place.address,
            stream=place.stream,
            state=state,
            view=view,
            now=now,
            show=show_moment,
            held=held_by(place.life.state, place.life.spec.address),
        )

    # --- what waits and what does not ---------------------------------------------------------------------------------

    async def backlog(self, peer: str = "") -> tuple[views.BacklogView, ...]:
        """What waits, per peer."""
        places = (self._finder.place(peer),) if peer else self._waiting_places()
        shown = [receipts.backlog_view(await self._room(p)) for p in places]
        return tuple(b for b in shown if b.waiting or peer)

    def _waiting_places(self) -> tuple[Place, ...]:
        return tuple(Place(life, stream) for life in self._lives.values() for stream in sorted(life.account.waiting))

    async def dead(self, peer: str = "") -> tuple[views.DeadView, ...]:
        """Dead outputs, newest first."""
        places = (self._finder.place(peer),) if peer else self._finder.places()
        rooms = [await self._room(p) for p in places]
        found = [receipts.dead_view(room.address, d) for room in rooms for d in room.state.dead]
        return tuple(sorted(found, key=lambda d: d.at, reverse=True))

    async def ledger(self, query: api.LedgerQuery) -> views.LedgerPage:
        """A page of the ledger."""
        streams: tuple[str, ...] | None = None
        if query.peer:
            streams = self._ledger_streams(query.peer)
        return await ledger_page(self._log, self._finder, self._instances, query, streams)

    def _ledger_streams(self, name: str) -> tuple[str, ...]:
        lives = [x for x in self._lives.values() if name in (x.spec.address.bot, x.spec.address.account)]
        if lives:
            return tuple(p.stream for p in self._finder.places(lives[0].spec.address.bot))
        return (self._finder.place(name, "$.peer").stream,)

    # --- accounts and the whole ---------------------------------------------------------------------------------------

    async def accounts(self) -> tuple[views.AccountView, ...]:
        """Every configured account."""
        return tuple(self._account_view(life) for life in self._lives.values())

    def _account_view(self, life: AccountLife) -> views.AccountView:
        state, account = life.account.state, life.account
        status = life.inlet_status
        return views.AccountView(
            account=life.spec.address.bot,
            state=life.state,
            reason=life.reason,
            epoch=account.view.epoch,
            instance=self._instance,
            generation=state.generation,
            owner=account.address_of(account.known(account.owner) or "") if account.owner else "",
            credentials=state.credentials[:12],
            mode=account.view.policy.mode,
            paused_until=paused_until(state, "", self._scheduler.clock.now()),
            peers=len(account.known_peers()),
            waiting=len(account.waiting),
            last_poll_at=getattr(status, "last_poll_at", None) or None,
        )

    async def status(self) -> views.StatusView:
        """The gateway at a glance."""
        ready = await self.ready()
        places = self._finder.places()
        dead = await self.dead()
        return views.StatusView(
            version=self._version,
            instance=self._instance,
            now=self._scheduler.clock.now(),
            started_at=self._started_at,
            ready=ready.ready,
            reasons=ready.reasons,
            accounts=await self.accounts(),
            agents=self._agents.shown(),
            peers=len(places),
            waiting=sum(len(b.waiting) for b in await self.backlog()),
            dead=len(dead),
            unknown=sum(1 for d in dead if d.fate == "unknown"),
            position=await self._log.position(),
            simulated=self._simulated,
            spool=self.spool(),
        )

    async def health(self) -> views.HealthView:
        """The process lives and its loop turns."""
        return views.HealthView(ok=True, version=self._version, instance=self._instance)

    async def ready(self) -> views.ReadyView:
        """Whether every account can do its work."""
        troubles = ((life.spec.address.bot, _trouble(life)) for life in self._lives.values())
        reasons = [f"{account}: {trouble}" for account, trouble in troubles if trouble]
        if self.log_trouble:
            reasons.insert(0, f"the log takes nothing right now: {self.log_trouble}")
        if self.stopping:
            reasons.insert(0, "the gateway is stopping")
        return views.ReadyView(ready=not reasons, reasons=tuple(reasons))


def _trouble(life: AccountLife) -> str:
    """Why an account cannot do its work, "" if it can."""
    if life.state != "running":
        return f"{life.state} ({life.reason})" if life.reason else life.state
    status = life.inlet_status
    failures = getattr(status, "consecutive_failures", 0)
    if failures >= POLL_FAILURES_MAX:
        return f"{failures} polls in a row failed ({status.last_error})"
    return ""


def _access(room: Room, owner: bool) -> views.Access:
    if room.view.allowed or room.state.access:
        return "owner" if owner else "granted"
    return "pending" if room.view.pairing else "refused"
