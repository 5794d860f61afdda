"""Names are resolved against what the log knows: while an account is about to start, nobody is said to be unknown."""

from __future__ import annotations

from typing import Any

import pytest

from actors.deciding.view import Over
from actors.gateway.acceptance import Acceptance
from actors.gateway.api import TurnOffer
from actors.gateway.errors import BadRequest, Unavailable, UnknownDelivery, UnknownPeer, UnknownSession
from actors.gateway.finding import Finder
from actors.life import AccountLife, AccountSpec, Process
from actors.runtime.clock import ManualClock
from actors.runtime.scheduler import LoopScheduler
from events.bot import Policy
from events.peer import SessionBound
from events.streams import Address, delivery_id
from store.memory import MemoryLog
from store.records import AddressRow, Batch, Binding, Key, Write

BOT, STREAM, ADDRESS = "weixin:main", "peer-0123456789abcdef0123456789abcdef", "weixin:main:ann@im.wechat"
DELIVERY = delivery_id(STREAM, "turn-1")


class NoAgents:
    agents = 0

    def offer(self, offer: Any) -> None: ...

    def withdraw(self, turn_id: str, reason: Over) -> None: ...

    def reset(self, stream: str, session: str, resets: int) -> None: ...


class NoLogin:
    def read(self) -> None:
        return None

    def forget(self) -> None: ...


async def log_of_ann(scheduler: LoopScheduler) -> MemoryLog:
    """A log that knows one peer, bound to a session, and one delivery."""
    log = MemoryLog()
    claim = await log.claim(BOT, "i-old", 1)
    batch = Batch(
        account=BOT,
        epoch=claim.epoch,
        at=1,
        writes=(Write(STREAM, 0, (SessionBound(session="desk", who="test"),)),),
        addresses=(AddressRow(stream=STREAM, peer="ann@im.wechat"),),
        bindings=(Binding(stream=STREAM, session="desk"),),
        keys=(
            Key(source="turn", key="turn-1", value=f'{{"streams":["{STREAM}"]}}'),
            Key(source="delivery", key=DELIVERY, value=f'{{"stream":"{STREAM}","turn":"turn-1","text":""}}'),
        ),
    )
    await log.append(batch)
    return log


async def test_while_an_account_is_about_to_start_its_peers_are_not_unknown() -> None:
    scheduler = LoopScheduler(clock=ManualClock(1_000))
    log = await log_of_ann(scheduler)
    process = Process(log=log, scheduler=scheduler, hub=NoAgents(), instance="i-new")
    spec = AccountSpec(address=Address("weixin", "main"), policy=Policy())
    nothing: Any = lambda *_: None  # noqa: E731
    life = AccountLife(spec, process, open_link=nothing, logins=NoLogin(), on_state=nothing, on_change=nothing)
    finder = Finder({"main": life}, log)
    acceptance = Acceptance(finder, log, scheduler)
    try:
        with pytest.raises(Unavailable, match="weixin:main is starting"):
            finder.place(ADDRESS)
        with pytest.raises(Unavailable):
            await finder.bound("desk")
        with pytest.raises(Unavailable):
            await finder.delivery(DELIVERY)
        with pytest.raises(Unavailable):
            await acceptance.accept(TurnOffer(to=ADDRESS, turn_id="turn-1", text="again"))
        with pytest.raises(UnknownPeer):
            finder.place("weixin:other:ann@im.wechat")

        await life.start()

        assert finder.place(ADDRESS).stream == STREAM
        assert finder.place(STREAM).address == ADDRESS, "as the gateway's log lines name it"
        assert [p.stream for p in await finder.bound("desk")] == [STREAM]
        assert (await finder.delivery(DELIVERY))[1].stream == STREAM
        with pytest.raises(UnknownPeer):
            finder.place("weixin:main:bob@im.wechat")
        with pytest.raises(BadRequest):
            finder.place(STREAM[:-1])
        with pytest.raises(UnknownSession):
            await finder.bound("attic")
        with pytest.raises(UnknownDelivery):
            await finder.delivery("d-nothing")
    finally:
        await life.stop("test")
        scheduler.close()


async def test_a_mistyped_account_finds_the_right_one_near() -> None:
    scheduler = LoopScheduler(clock=ManualClock(1_000))
    log = MemoryLog()
    process = Process(log=log, scheduler=scheduler, hub=NoAgents(), instance="i-new")
    spec = AccountSpec(address=Address("weixin", "main"), policy=Policy())
    nothing: Any = lambda *_: None  # noqa: E731
    life = AccountLife(spec, process, open_link=nothing, logins=NoLogin(), on_state=nothing, on_change=nothing)
    try:
        with pytest.raises(UnknownPeer) as refused:
            Finder({"main": life}, log).place("weixin:mian")
        assert "weixin:main" in refused.value.near
    finally:
        await log.close()
        scheduler.close()
