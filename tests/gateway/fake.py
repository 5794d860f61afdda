"""A gateway without a log: remembers what it was asked, answers from a few peers, refuses as the real one would."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from actors.gateway import api, views
from actors.gateway.errors import (
    AmbiguousId,
    TurnConflict,
    UnknownAccount,
    UnknownDelivery,
    UnknownPeer,
    UnknownSession,
    WrongState,
    nearest,
)

NOW = 1_750_000_000_000
QUOTA = views.QuotaView(left=7, of=10, ends_at=NOW + 3_600_000)
SHARE = views.ShareView(used=1, of=3, rolls_at=NOW + 60_000)
REASON = "waits for the peer's next message: its reply token is spent"


class FakeGateway:
    """One account `weixin:main` with two peers; deliveries stay queued until `settle`."""

    def __init__(self) -> None:
        self.known = {"weixin:main:alice@im.wechat": "s1", "weixin:main:bob@im.wechat": ""}
        self.turns: dict[str, api.TurnOffer] = {}
        self.offered_by: dict[str, str] = {}  # by turn: the agent, "" = over HTTP
        self.receipts: dict[str, views.Receipt] = {}
        self.dead_texts: dict[str, tuple[views.DeadView, str | None]] = {}
        self.orders: list[api.Request] = []
        self.waits: list[int] = []
        self.state: views.State = "queued"
        self.earliest: int | None = None
        self.failure: Exception | None = None
        self.erased: dict[str, Any] = {}  # what an erasure comes to, other than by default
        self.not_taken = ""  # what every delivery says of a text
        self.is_ready = True
        self.spool = views.EMPTY_SPOOL
        self.is_well = True
        self.hold = asyncio.Event()
        self.hold.set()
        self.moved = asyncio.Condition()
        self.port = 0  # where a listener answers for it

    async def settle(self, delivery: str, state: views.State, reason: str = "the channel confirmed it") -> None:
        """A delivery reaches a state."""
        changed = msgspec.structs.replace(self.receipts[delivery], state=state, reason=reason, settled_at=NOW + 5)
        async with self.moved:
            self.receipts[delivery] = changed
            self.moved.notify_all()

    async def accept_turn(self, offer: api.TurnOffer, agent: str = "") -> views.TurnAccepted:
        await self.hold.wait()
        if self.failure:
            raise self.failure
        peers = self._targets(offer)
        turn_id = offer.turn_id or f"given-{len(self.turns)}"
        before = self.turns.get(turn_id)
        if before and before.text != offer.text:
            raise TurnConflict
        self.turns[turn_id], self.offered_by[turn_id] = offer, agent
        deliveries = tuple(self._deliver(peer, turn_id, offer) for peer in peers)
        return views.TurnAccepted(turn_id=turn_id, deliveries=deliveries, now=NOW, repeated=before is not None)

    def _targets(self, offer: api.TurnOffer) -> list[str]:
        if offer.to:
            return [self._address(offer.to)]
        bound = [peer for peer, session in self.known.items() if session == offer.session]
        if not bound:
            raise UnknownSession(near=nearest(offer.session, filter(None, self.known.values())))
        return bound

    def _address(self, address: str) -> str:
        if address == "weixin:main":
            return "weixin:main:alice@im.wechat"
        if address not in self.known:
            raise UnknownPeer(f"no peer has the address {address}", near=nearest(address, self.known))
        return address

    def _deliver(self, peer: str, turn_id: str, offer: api.TurnOffer) -> views.DeliveryView:
        delivery = f"d-{len(self.turns):04x}-{turn_id}-{peer.split(':')[2][:1]}"
        size = len(offer.text.encode())
        receipt = views.Receipt(
            delivery=delivery,
            turn_id=turn_id,
            peer=peer,
            state=self.state,
            reason=REASON,
            earliest=self.earliest,
            message_ids=(),
            origin=offer.origin,
            bytes=size,
            delivered_bytes=0,
            accepted_at=NOW,
            settled_at=None,
            quota=QUOTA,
            share=SHARE,
        )
        self.receipts[delivery] = receipt
        return self._view(receipt)

    def _view(self, receipt: views.Receipt) -> views.DeliveryView:
        return views.DeliveryView(
            delivery=receipt.delivery,
            turn_id=receipt.turn_id,
            peer=receipt.peer,
            state=receipt.state,
            reason=receipt.reason,
            earliest=receipt.earliest,
            quota=QUOTA,
            share=SHARE,
            not_taken=self.not_taken,
        )

    async def dry_run(self, offer: api.TurnOffer) -> views.DryRun:
        would: Any = "wait" if self.earliest is None else "send"
        forecasts = tuple(
            views.Forecast(
                peer=peer,
                would=would,
                reason=REASON,
                earliest=self.earliest,
                replies=1,
                quota_before=QUOTA,
                quota_after=msgspec.structs.replace(QUOTA, left=6),
                share_before=SHARE,
                share_after=msgspec.structs.replace(SHARE, used=2),
            )
            for peer in self._targets(offer)
        )
        return views.DryRun(forecasts=forecasts)

    def _find(self, prefix: str) -> str:
        found = [d for d in self.receipts if d.startswith(prefix)]
        if not found:
            raise UnknownDelivery(near=nearest(prefix, self.receipts))
        if len(found) > 1 and prefix not in found:
            raise AmbiguousId(near=found[:3])
        return found[0]

    async def delivery(self, delivery: str, wait_ms: int = 0) -> views.Receipt:
        self.waits.append(wait_ms)
        found = self._find(delivery)
        try:
            async with asyncio.timeout(wait_ms / 1000), self.moved:
                await self.moved.wait_for(lambda: self.receipts[found].state in views.FINAL)
        except TimeoutError:
            pass
        return self.receipts[found]

    def _peer(self, address: str) -> views.PeerView:
        return views.PeerView(
            peer=address,
            stream=f"peer-{len(address):032x}",
            name="[bold]Alice[/bold]\x1b[31m",
            access="owner",
            session=self.known[address],
            quota=QUOTA,
            share=SHARE,
            token=False,
            waiting=len(self.receipts),
            dead=len(self.dead_texts),
            open_request="",
            open_turn="",
            agent="",
            paused_until=0,
            reason=REASON,
            earliest=None,
            last_message_at=NOW - 1000,
            last_send_at=None,
        )

    async def peers(self, account: str = "") -> tuple[views.PeerView, ...]:
        if account not in ("", "main", "weixin:main"):
            raise UnknownAccount(near=nearest(account, ["main"]))
        return tuple(map(self._peer, self.known))

    async def peer(self, address: str) -> views.PeerView:
        return self._peer(self._address(address))

    def _waiting(self, receipt: views.Receipt) -> views.WaitingView:
        return views.WaitingView(
            delivery=receipt.delivery,
            peer=receipt.peer,
            lane="push",
            state="queued",
            turn_id=receipt.turn_id,
            origin=receipt.origin,
            bytes=receipt.bytes,
            start=0,
            accepted_at=receipt.accepted_at,
            expires_at=None,
            reason=receipt.reason,
            earliest=receipt.earliest,
        )

    def _backlog(self, peer: str) -> views.BacklogView:
        waiting = tuple(self._waiting(r) for r in self.receipts.values() if r.peer == peer)
        return views.BacklogView(peer=peer, reason=REASON, earliest=None, quota=QUOTA, share=SHARE, waiting=waiting)

    async def backlog(self, peer: str = "") -> tuple[views.BacklogView, ...]:
        peers = [self._address(peer)] if peer else list(self.known)
        return tuple(b for b in map(self._backlog, peers) if b.waiting)

    async def waiting(self, delivery: str) -> views.WaitingShown:
        receipt = self.receipts[self._find(delivery)]
        if receipt.state != "queued":
            raise WrongState(f"{receipt.delivery} waits no more: it is {receipt.state}")
        return views.WaitingShown(output=self._waiting(receipt), text=self.turns[receipt.turn_id].text)

    async def flush(self, order: api.FlushOrder) -> views.BacklogView:
        self.orders.append(order)
        return self._backlog(self._address(order.peer))

    async def drop(self, order: api.DropOrder) -> views.Gone:
        self.orders.append(order)
        gone = tuple(map(self._find, order.deliveries))
        for delivery in gone:
            receipt = self.receipts[delivery]
            output = views.DeadView(
                delivery=delivery,
                peer=receipt.peer,
                fate="dropped",
                reason="operator",
                at=NOW,
                turn_id=receipt.turn_id,
                origin=receipt.origin,
                bytes=receipt.bytes,
                start=0,
                request="",
                retrievable=True,
            )
            self.dead_texts[delivery] = (output, self.turns[receipt.turn_id].text)
            await self.settle(delivery, "dropped", "an operator dropped it")
        return self._gone(gone)

    def _gone(self, deliveries: tuple[str, ...]) -> views.Gone:
        return views.Gone(deliveries=deliveries, turn_ids=tuple(self.receipts[d].turn_id for d in deliveries))

    async def dead(self, peer: str = "") -> tuple[views.DeadView, ...]:
        return tuple(view for view, _ in self.dead_texts.values() if not peer or view.peer == self._address(peer))

    async def dead_one(self, delivery: str) -> views.DeadShown:
        view, text = self.dead_texts[self._find(delivery)]
        return views.DeadShown(output=view, text=text)

    async def retry(self, order: api.RetryOrder) -> tuple[views.DeliveryView, ...]:
        self.orders.append(order)
        found = tuple(map(self._find, order.deliveries))
        for delivery in found:
            del self.dead_texts[delivery]
            await self.settle(delivery, "queued", REASON)
        return tuple(self._view(self.receipts[d]) for d in found)

    async def discard(self, order: api.DiscardOrder) -> views.Gone:
        self.orders.append(order)
        found = tuple(map(self._find, order.deliveries))
        for delivery in found:
            del self.dead_texts[delivery]
        return self._gone(found)

    async def ledger(self, query: api.LedgerQuery) -> views.LedgerPage:
        self.orders.append(query)
        return views.LedgerPage(rows=(), next=None)

    async def bind(self, order: api.BindOrder) -> views.Bound:
        self.orders.append(order)
        peer = self._address(order.peer)
        was, self.known[peer] = self.known[peer], order.session
        return views.Bound(peer=peer, session=order.session, was=was)

    async def unbind(self, order: api.UnbindOrder) -> views.Bound:
        self.orders.append(order)
        peer = self._address(order.peer)
        was, self.known[peer] = self.known[peer], ""
        return views.Bound(peer=peer, session="", was=was)

    async def pause(self, order: api.PauseOrder) -> views.Paused:
        self.orders.append(order)
        return views.Paused(scope=order.scope, until=None if order.for_ms is None else NOW + order.for_ms)

    async def resume(self, order: api.ResumeOrder) -> views.Paused:
        self.orders.append(order)
        return views.Paused(scope=order.scope, until=0)

    def _account(self, state: views.AccountState = "running") -> views.AccountView:
        return views.AccountView(
            account="weixin:main",
            state=state,
            reason="",
            epoch=3,
            instance="i-1",
            generation=1,
            owner="weixin:main:alice@im.wechat",
            credentials="ab12",
            mode="enforce",
            paused_until=0,
            peers=2,
            waiting=len(self.receipts),
            last_poll_at=NOW,
        )

    async def accounts(self) -> tuple[views.AccountView, ...]:
        return (self._account(),)

    async def account(self, order: api.AccountOrder) -> views.AccountView:
        self.orders.append(order)
        if order.account not in ("main", "weixin:main"):
            raise UnknownAccount(near=nearest(order.account, ["main"]))
        return self._account("stopped" if order.action == "stop" else "running")

    async def access(self, order: api.AccessOrder) -> views.PeerView:
        self.orders.append(order)
        return self._peer(self._address(order.peer))

    async def erase(self, order: api.EraseOrder) -> views.Erased:
        self.orders.append(order)
        found = views.Erased(
            peer=order.peer or "weixin:main:alice@im.wechat",
            stream="peer-0123",
            addresses=(order.peer or "weixin:main:alice@im.wechat",),
            turn_id="t-1" if order.delivery else "",
            deliveries=() if order.delivery else ("d-1", "d-2"),
            texts=12,
            tokens=1,
            media=0,
            errors=0,
            messages=0,
            turn="",
            session="" if order.delivery else "s1",
            session_alone=not order.delivery,
            in_flight="",
            requests=7,
            address="kept" if order.delivery else "until",
            address_until=None if order.delivery else NOW + 86_400_000,
            files_clean=True,
        )
        return msgspec.structs.replace(found, **self.erased)

    async def status(self) -> views.StatusView:
        return views.StatusView(
            version="0.1.0",
            instance="i-1",
            now=NOW,
            started_at=NOW - 60_000,
            ready=self.is_ready,
            reasons=() if self.is_ready else ("weixin:main needs a login",),
            accounts=(self._account(),),
            agents=(views.AgentView(agent="a-1", protocol="openab", connected_at=NOW, open_turns=0),),
            peers=2,
            waiting=len(self.receipts),
            dead=0,
            unknown=0,
            position=17,
            simulated=False,
            spool=self.spool,
        )

    async def health(self) -> views.HealthView:
        return views.HealthView(ok=self.is_well, version="0.1.0", instance="i-1")

    async def ready(self) -> views.ReadyView:
        return views.ReadyView(ready=self.is_ready, reasons=() if self.is_ready else ("weixin:main needs a login",))


def _is_a_gateway(fake: FakeGateway) -> api.Gateway:
    """The type checker proves that the fake has the whole port."""
    return fake
