"""Erasing a peer, or one delivery, through the service: what goes, what stays, and what every question says of it afterwards."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from actors.gateway.api import (
    AccountOrder,
    BindOrder,
    EraseOrder,
    LedgerQuery,
    PauseOrder,
    ResumeOrder,
    RetryOrder,
    TurnOffer,
)
from actors.gateway.errors import TurnConflict, UnknownDelivery, UnknownPeer, WrongState
from actors.ports import Accepted, Refused
from events.bot import DAY_MS, HOUR_MS, Policy
from events.peer import AddressForgotten, BodyErased, MessageReceived, PeerErased, SendFailed, SendRequested
from store.log import Log
from store.sqlite import SqliteLog
from tests.gateway.stage import ANN, BEN, Line, Stage

ANN_AT, BEN_AT = f"weixin:main:{ANN}", f"weixin:main:{BEN}"


@pytest.fixture
async def sqlite_log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = await SqliteLog.open(tmp_path / "log" / "log.sqlite", salt=b"a salt for tests", at=1)
    yield log
    await log.close()


async def texts(stage: Stage, stream: str) -> list[str]:
    """What the log holds of a stream."""
    held = await stage.log.held("weixin:main", stream, 1_000)
    return sorted((await stage.log.bodies(b for b, _ in held)).values())


def stream_of(stage: Stage, peer: str = BEN) -> str:
    stream = stage.lives["main"].account.known(peer)
    assert stream is not None
    return stream


async def busy(stage: Stage, peer: str = BEN) -> str:
    """A peer with everything: an answered message, a push that was sent, one that waits, a message at an agent."""
    line = await stage.account(access=("all",))
    await line.hear("my secret", peer)
    await stage.offer("your secret", f"weixin:main:{peer}", turn_id=stage.hub.turns[-1])
    await stage.final(await stage.send("news", f"weixin:main:{peer}"))
    await stage.service.bind(BindOrder(peer=f"weixin:main:{peer}", session="desk"))
    await line.hear("and now?", peer)
    await stage.service.pause(PauseOrder(scope="main"))
    return await stage.send("waits", f"weixin:main:{peer}")


async def test_everything_of_a_peer_goes_and_what_was_spent_stays(log: Log, stages: Callable[..., Stage]) -> None:
    stage = stages(log)
    waiting = await busy(stage)
    stream = stream_of(stage)
    before = await stage.service.ledger(LedgerQuery())
    done = await stage.service.erase(EraseOrder(peer=BEN_AT, who="ops"))
    assert (done.peer, done.stream, done.addresses) == (BEN_AT, stream, (BEN_AT,))
    assert done.deliveries == (waiting,)
    assert (done.texts, done.tokens, done.errors) == (5, 2, 0), "two messages, three outputs; two reply handles"
    assert done.turn == stage.hub.turns[-1]
    assert stage.hub.withdrawn[-1] == (done.turn, "cancelled")
    assert (done.session, done.session_alone, done.in_flight) == ("desk", True, "")
    assert (done.requests, done.files_clean) == (2, True)
    assert (done.address, done.address_until) == ("until", stage.clock.now() + DAY_MS)
    assert await texts(stage, stream) == []
    assert await stage.service.ledger(LedgerQuery()) == before, "and the address is not gone yet"
    assert [e.who for e in await stage.events(PeerErased)] == ["ops"]

    receipt = await stage.service.delivery(waiting)
    assert (receipt.state, receipt.reason) == ("erased", "its text was erased")
    assert await stage.service.backlog() == ()
    assert await stage.service.dead() == ()
    (ben,) = [p for p in await stage.service.peers() if p.peer == BEN_AT]
    assert (ben.waiting, ben.dead, ben.token, ben.session, ben.open_turn) == (0, 0, False, "", "")
    assert (ben.erased_at, ben.address, ben.address_until) == (stage.clock.now(), "until", done.address_until)
    with pytest.raises(WrongState):
        await stage.service.waiting(waiting)
    with pytest.raises(UnknownDelivery):
        await stage.service.retry(RetryOrder(deliveries=(waiting,)))


async def talk(stage: Stage, line: Line, peer: str, number: int) -> None:
    """A message, an answer that the channel refuses with a word of its own, and a push that waits; longer from peer to peer."""
    await line.hear(f"SECRET of {peer} " + "x" * 97 * number, peer, token=f"HANDLE of {peer}", name=f"NAME of {peer}")
    line.manual = True
    await stage.offer(f"SECRET to {peer} " + "y" * 61 * number, f"weixin:main:{peer}", turn_id=stage.hub.turns[-1])
    await stage.until(lambda: line.orders and line.orders[-1].peer == peer)
    line.answer(Refused(failure="bad_request", code=-1, error=f"SECRET again of {peer}"))
    line.manual = False
    await stage.send(f"SECRET news for {peer}", f"weixin:main:{peer}")


async def test_no_byte_of_it_is_left_in_the_files(sqlite_log: SqliteLog, stages: Callable[..., Stage]) -> None:
    """Texts long and short, reply handles, what the channel said, and in the end the address; of peers beside others that stay."""
    stage = stages(sqlite_log)
    line = await stage.account(access=("all",), policy=Policy(notice_after_ms=0, pace_ms=0))
    people = [f"person-{n:03d}@im.wechat" for n in range(40)]
    for number, peer in enumerate(people):
        await talk(stage, line, peer, number)
    gone = people[::2]
    for peer in gone:
        done = await stage.service.erase(EraseOrder(peer=f"weixin:main:{peer}"))
        assert done.errors == 1
    left = b"".join(path.read_bytes() for path in sqlite_log.path.parent.iterdir())
    for peer in people:
        kept = [
            word
            for word in ("SECRET of", "SECRET to", "SECRET again", "SECRET news for", "HANDLE of", "NAME of")
            if re.search(rf"{word}( of)? {peer}".encode(), left)
        ]
        assert kept == ([] if peer in gone else kept), peer
        assert (len(kept) == 6) == (peer not in gone), "what nobody erased is there: the search can find it"
    stage.advance(3 * DAY_MS)
    await stage.until(lambda: not any(stage.lives["main"].account.known(peer) for peer in gone))
    await stage.log.checkpoint()
    left = b"".join(path.read_bytes() for path in sqlite_log.path.parent.iterdir())
    assert [peer for peer in people if peer.encode() in left] == people[1::2]


async def test_the_address_goes_by_itself_and_every_question_knows_the_stream(
    log: Log, stages: Callable[..., Stage]
) -> None:
    stage = stages(log)
    waiting = await busy(stage)
    stream = stream_of(stage)
    done = await stage.service.erase(EraseOrder(peer=BEN_AT))
    assert done.address_until is not None
    stage.advance(done.address_until - stage.clock.now())
    await stage.until(lambda: stage.lives["main"].account.known(BEN) is None)
    assert len(await stage.events(AddressForgotten)) == 1
    assert BEN not in {row.peer for row in await stage.log.addresses("weixin:main")}
    with pytest.raises(UnknownPeer):
        await stage.service.peer(BEN_AT)
    assert BEN_AT not in {p.peer for p in await stage.service.peers()}
    receipt = await stage.service.delivery(waiting)
    assert (receipt.state, receipt.peer) == ("erased", stream)
    rows = (await stage.service.ledger(LedgerQuery())).rows
    assert [(r.peer, r.instance) for r in rows] == [(stream, "i-1")] * 2

    await stage.service.resume(ResumeOrder(scope="main"))
    await stage.lines["main"].hear("hello, I am new", BEN)
    assert stream_of(stage) != stream
    assert (await stage.service.peer(BEN_AT)).share.used == 0


async def test_it_goes_after_a_restart_too(log: Log, stages: Callable[..., Stage]) -> None:
    first = stages(log)
    await busy(first)
    done = await first.service.erase(EraseOrder(peer=BEN_AT))
    await first.close()
    assert done.address_until is not None
    second = stages(log, instance="i-2", now=done.address_until + HOUR_MS)
    await second.account(access=("all",))
    await second.until(lambda: second.lives["main"].account.known(BEN) is None)
    assert (await second.service.delivery(done.deliveries[0])).state == "erased"


async def test_who_comes_back_before_that_has_spent_what_was_spent(stage: Stage) -> None:
    await busy(stage)
    stream = stream_of(stage)
    await stage.service.erase(EraseOrder(peer=BEN_AT))
    stage.advance(HOUR_MS)
    await stage.service.resume(ResumeOrder(scope="main"))
    await stage.lines["main"].hear("me again", BEN)
    assert stream_of(stage) == stream
    view = await stage.service.peer(BEN_AT)
    assert (view.share.used, view.erased_at, view.address) == (1, None, "kept")
    stage.advance(3 * DAY_MS)
    await stage.service.peers()
    assert stream_of(stage) == stream, "the new conversation keeps its address"


async def test_a_message_that_overtakes_the_forgetting_keeps_the_address(stage: Stage) -> None:
    """The poll's append is on its way to the log, behind the one that forgets."""
    await busy(stage)
    stream = stream_of(stage)
    done = await stage.service.erase(EraseOrder(peer=BEN_AT))
    assert done.address_until is not None
    await stage.service.resume(ResumeOrder(scope="main"))
    line = stage.lines["main"]
    stage.clock.advance(done.address_until - stage.clock.now())
    heard = line.hear("me again", BEN)  # asked for in the same moment as the wake of the peer
    stage.scheduler.clock_moved()
    await heard
    now_at = stream_of(stage)
    assert len(await stage.events(MessageReceived)) == 3
    assert {row.peer: row.stream for row in await stage.log.addresses("weixin:main")}[BEN] == now_at
    await stage.offer("welcome back", BEN_AT, turn_id=stage.hub.turns[-1])
    await stage.until(lambda: line.texts[-1] == "welcome back")
    assert line.orders[-1].peer == BEN
    assert stream


async def test_the_login_keeps_its_address_until_the_logout(stage: Stage) -> None:
    await busy(stage, ANN)
    done = await stage.service.erase(EraseOrder(peer="weixin:main"))
    assert (done.address, done.address_until, done.addresses) == ("login", None, (ANN_AT, "weixin:main"))
    stage.advance(3 * DAY_MS)
    assert (await stage.service.peer("weixin:main")).address == "login"
    await stage.service.account(AccountOrder(account="main", action="logout"))
    await stage.until(lambda: stage.lives["main"].account.known(ANN) is None)
    assert len(await stage.events(AddressForgotten)) == 1


async def test_what_is_on_its_way_arrives_and_nothing_of_it_is_kept(stage: Stage) -> None:
    line = await stage.account(access=("all",))
    line.manual = True
    await line.hear("hello", BEN)
    delivery = await stage.send("news", BEN_AT)
    await stage.until(lambda: line.orders)
    done = await stage.service.erase(EraseOrder(peer=BEN_AT))
    assert (done.in_flight, done.address) == ((await stage.events(SendRequested))[0].request, "outcome")
    assert (await stage.service.delivery(delivery)).state == "requested"
    line.answer(Refused(failure="blocked", code=-2, error="the text `news` is refused"))
    await stage.final(delivery)
    assert (await stage.service.delivery(delivery)).state == "erased"
    assert [e.error for e in await stage.events(SendFailed)] == [""]
    assert await texts(stage, stream_of(stage)) == []


async def test_a_turn_that_was_erased_is_the_same_turn_still(stage: Stage) -> None:
    """Its id is taken, before the address goes and after: a job that runs again must not bring it back."""
    await stage.account(access=("all",))
    await stage.lines["main"].hear("hello", BEN)
    await stage.service.pause(PauseOrder(scope="main"))
    offer = TurnOffer(to=BEN_AT, text="news", turn_id="job-1")
    first = await stage.service.accept_turn(offer)
    done = await stage.service.erase(EraseOrder(peer=BEN_AT))
    again = await stage.service.accept_turn(offer)
    assert again.repeated
    assert [(d.delivery, d.state) for d in again.deliveries] == [(first.deliveries[0].delivery, "erased")]
    assert done.address_until is not None
    stage.advance(done.address_until - stage.clock.now())
    await stage.until(lambda: stage.lives["main"].account.known(BEN) is None)
    again = await stage.service.accept_turn(offer)
    assert again.repeated
    assert [(d.delivery, d.state, d.peer) for d in again.deliveries] == [
        (first.deliveries[0].delivery, "erased", done.stream)
    ]
    assert await texts(stage, done.stream) == []


async def test_an_open_turn_that_was_erased_takes_no_answer(stage: Stage) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", BEN)
    await stage.service.erase(EraseOrder(peer=BEN_AT))
    with pytest.raises(TurnConflict):
        await stage.offer("too late", BEN_AT, turn_id=stage.hub.turns[0])
    assert await texts(stage, stream_of(stage)) == []


# --- one delivery -------------------------------------------------------------------------------------------------


async def test_one_delivery_goes_with_every_text_that_tells_of_it(log: Log, stages: Callable[..., Stage]) -> None:
    stage = stages(log)
    line = await stage.account()
    await stage.service.pause(PauseOrder(scope="main"))
    await line.hear("hello")
    one, two = await stage.send("one secret"), await stage.send("two")
    await stage.service.resume(ResumeOrder(scope="main"))
    await stage.final(two)
    stream = stream_of(stage, ANN)
    assert any("one secret" in t for t in await texts(stage, stream) if t != "one secret"), "merged with the other"
    done = await stage.service.erase(EraseOrder(delivery=one[:12]))
    assert (done.deliveries, done.texts, done.address) == ((), 2, "kept")
    assert not [t for t in await texts(stage, stream) if "secret" in t]
    assert "two" in await texts(stage, stream)
    assert (await stage.service.delivery(one)).state == "delivered"
    assert (await stage.service.erase(EraseOrder(delivery=one))).texts == 0
    assert sum(len(e.bodies) for e in await stage.events(BodyErased)) == 2


async def test_one_delivery_that_waits_is_dropped(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.service.pause(PauseOrder(scope="main"))
    one, two = await stage.send("one"), await stage.send("two")
    done = await stage.service.erase(EraseOrder(delivery=one))
    assert done.deliveries == (one,)
    assert (await stage.service.delivery(one)).state == "erased"
    assert [w.delivery for b in await stage.service.backlog() for w in b.waiting] == [two]
    await stage.service.resume(ResumeOrder(scope="main"))
    assert (await stage.final(two)).state == "delivered"
    assert line.texts == ["two"]


async def test_one_delivery_on_its_way(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    done = await stage.service.erase(EraseOrder(delivery=delivery))
    assert done.in_flight
    line.answer(Accepted(message_id="m"))
    assert (await stage.final(delivery)).state == "delivered"
