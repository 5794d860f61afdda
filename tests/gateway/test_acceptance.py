"""The same turn id is the same deliveries, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from actors.deciding.commands import AcceptTurn, TakeTurn
from actors.gateway.api import BindOrder, EraseOrder, TurnOffer
from actors.gateway.errors import (
    BadRequest,
    Busy,
    KeysApart,
    NeverFits,
    Partly,
    TooLarge,
    TurnConflict,
    TurnHeld,
    Unavailable,
    UnknownPeer,
)
from actors.runtime.errors import MailboxFull, OffloadFull
from events.bot import Policy
from events.peer import TurnCompleted
from store.errors import LogBusy, LogUnreadable
from store.log import Log
from store.records import TEXT_BYTES_MAX
from store.sqlite import SqliteLog
from tests.gateway.stage import ANN, BEN, NOON, PATIENCE_S, Stage
from tests.store.test_migration import DUMP

Stages = Callable[..., Stage]

ANN_AT, BEN_AT = f"weixin:main:{ANN}", f"weixin:main:{BEN}"


async def bind(stage: Stage, *addresses: str, session: str = "desk") -> None:
    for address in addresses:
        await stage.service.bind(BindOrder(peer=address, session=session))


async def test_the_same_turn_is_the_same_delivery_over_a_restart(log: Log, stages: Stages) -> None:
    first = stages(log)
    line = await first.account()
    await line.hear("hello")
    accepted = await first.offer("job done", turn_id="t1")
    await first.final(accepted.deliveries[0].delivery)
    await first.close()

    second = stages(log, instance="i-2", now=first.clock.now() + 1_000)
    again_line = await second.account()
    again = await second.offer("job done", turn_id="t1")
    assert [d.delivery for d in again.deliveries] == [d.delivery for d in accepted.deliveries]
    assert (accepted.repeated, again.repeated) == (False, True)
    assert again.deliveries[0].state == "delivered"
    assert line.texts == ["job done"]
    assert again_line.texts == []


async def handed_turn(stage: Stage, agent: str) -> str:
    """Ann writes, and an agent takes the turn; its id."""
    line = await stage.account()
    await line.hear("hello")
    (turn_id,) = stage.hub.turns
    await stage.service._acceptance.ask(stage.finder.place("weixin:main"), TakeTurn(turn_id=turn_id, agent=agent))
    return turn_id


@pytest.mark.parametrize("over", [False, True], ids=["open", "over"])
async def test_the_log_knows_over_a_restart_whose_turn_it_is(log: Log, stages: Stages, over: bool) -> None:
    """The hub of the new process has not been offered the turn yet: an agent's ending comes by acceptance."""
    first = stages(log)
    turn_id = await handed_turn(first, "a")
    offer = TurnOffer(to="sender", turn_id=turn_id, origin="inbound", text="fine")
    if over:
        await first.service.accept_turn(offer, "a")
    await first.close()

    second = stages(log, instance="i-2", now=first.clock.now() + 1_000)
    line = await second.account()
    with pytest.raises(TurnHeld, match=turn_id):
        await second.service.accept_turn(offer, "c")
    with pytest.raises(TurnHeld, match=turn_id):
        await second.service.accept_turn(msgspec.structs.replace(offer, to=ANN_AT, origin="api"), "c")
    assert len(await second.events(TurnCompleted)) == int(over)
    accepted = await second.service.accept_turn(offer, "a")
    assert accepted.repeated == over
    assert (await second.final(accepted.deliveries[0].delivery)).state == "delivered"
    assert [*first.lines["main"].texts, *line.texts] == ["fine"]
    (completed,) = await second.events(TurnCompleted)
    assert completed.agent == "a"


async def test_over_http_no_agent_is_named_and_the_turn_may_be_finished(stage: Stage) -> None:
    turn_id = await handed_turn(stage, "a")
    accepted = await stage.service.accept_turn(TurnOffer(to="sender", turn_id=turn_id, text="by a hook"))
    assert (await stage.final(accepted.deliveries[0].delivery)).origin == "inbound"
    assert stage.lines["main"].texts == ["by a hook"]
    assert stage.hub.withdrawn == [(turn_id, "answered")], "its agent need not go on"


async def test_another_text_under_a_known_turn_is_refused_and_changes_nothing(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.final(await stage.send("one", turn_id="t1"))
    with pytest.raises(TurnConflict):
        await stage.offer("two", turn_id="t1")
    assert line.texts == ["one"]
    assert len(await stage.events(TurnCompleted)) == 1


async def test_once_its_text_is_gone_the_same_turn_is_the_same_delivery_whatever_text_comes(stage: Stage) -> None:
    """The salt went with the text: nobody can tell any more whether it was the same."""
    line = await stage.account()
    await line.hear("hello")
    delivery = await stage.send("one", turn_id="t1")
    await stage.final(delivery)
    await stage.service.erase(EraseOrder(delivery=delivery))
    for text in ("one", "two"):
        again = await stage.offer(text, turn_id="t1")
        assert ([d.delivery for d in again.deliveries], again.repeated) == ([delivery], True)
        assert again.deliveries[0].not_taken.startswith("the text that was sent now was not taken")
    assert line.texts == ["one"]
    assert len(await stage.events(TurnCompleted)) == 1


async def test_what_can_be_compared_is_not_said_to_be_lost(stage: Stage) -> None:
    line = await stage.account(access=("all",))
    for peer in (ANN, BEN):
        await line.hear("hello", peer)
    await bind(stage, ANN_AT, BEN_AT)
    offer = TurnOffer(session="desk", turn_id="t1", text="news")
    first = await stage.service.accept_turn(offer)
    assert [d.not_taken for d in first.deliveries] == ["", ""]
    for each in first.deliveries:
        await stage.final(each.delivery)
    await stage.service.erase(EraseOrder(delivery=first.deliveries[0].delivery))
    again = await stage.service.accept_turn(offer)
    assert [bool(d.not_taken) for d in again.deliveries] == [True, False]
    with pytest.raises(TurnConflict):
        await stage.service.accept_turn(msgspec.structs.replace(offer, text="other news"))


@pytest.mark.parametrize("text", ["", "[[reply_to:m-1]]\n"])
async def test_a_turn_without_a_text_is_compared_as_well(stage: Stage, text: str) -> None:
    await stage.account()
    await stage.service.accept_turn(TurnOffer(to=f"weixin:main:{ANN}", text=text, turn_id="t1"))
    assert (await stage.offer(text, turn_id="t1")).repeated
    with pytest.raises(TurnConflict):
        await stage.offer("more", turn_id="t1")


async def test_turns_of_schema_1_are_still_the_same_turns(tmp_path: Path, stages: Stages) -> None:
    path = tmp_path / "log.db"
    connection = sqlite3.connect(path)
    connection.executescript(DUMP.read_text())
    connection.close()
    log = await SqliteLog.open(path)
    stage = stages(log, instance="i-2")
    line = await stage.account()
    for turn, text in (("t1", "no"), ("t2", "later")):
        assert (await stage.offer(text, turn_id=turn)).repeated
        with pytest.raises(TurnConflict):
            await stage.offer("another", turn_id=turn)
    assert line.texts == []
    await stage.close()
    await log.close()


@pytest.mark.parametrize("text", ["one", "two"])
async def test_a_turn_whose_key_was_lost_is_refused_and_not_looked_for_for_ever(
    tmp_path: Path, stages: Stages, text: str
) -> None:
    path = tmp_path / "log.db"
    log = await SqliteLog.open(path, salt=b"salt of this test", at=NOON)
    async with contextlib.AsyncExitStack() as closing:
        closing.push_async_callback(log.close)
        stage = stages(log)
        closing.push_async_callback(stage.close)
        line = await stage.account()
        await line.hear("hello")
        await stage.final(await stage.send("one", turn_id="t1"))
        with contextlib.closing(sqlite3.connect(path)) as damage, damage:
            assert damage.execute("DELETE FROM keys WHERE source = 'turn' AND key = 't1'").rowcount == 1
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(
                KeysApart, match=r"turn t1 .*nothing was accepted; run `replyledger audit --verify`"
            ) as told:
                await stage.offer(text, turn_id="t1")
        assert (told.value.status, told.value.code, told.value.facts) == (503, "keys_apart", {"turn_id": "t1"})
        await stage.send("another turn is taken", turn_id="t2")
        assert len(await stage.events(TurnCompleted)) == 2


async def test_a_repetition_after_rebinding_goes_to_the_peers_of_the_first_time(stage: Stage) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    await line.hear("hello", BEN)
    await bind(stage, ANN_AT)
    first = await stage.service.accept_turn(TurnOffer(session="desk", turn_id="t1", text="news"))
    await bind(stage, BEN_AT)
    again = await stage.service.accept_turn(TurnOffer(session="desk", turn_id="t1", text="news"))
    elsewhere = await stage.offer("news", BEN_AT, turn_id="t1")
    assert [d.peer for d in first.deliveries] == [ANN_AT]
    assert [d.delivery for d in again.deliveries] == [d.delivery for d in first.deliveries]
    assert [d.peer for d in elsewhere.deliveries] == [ANN_AT]
    assert [o.peer for o in line.orders] == [ANN]


async def test_each_peer_of_a_session_gets_its_own_delivery_over_two_accounts(log: Log, stages: Stages) -> None:
    stage = stages(log)
    main, other = await stage.account(access=("all",)), await stage.account("other")
    for line, peer in ((main, ANN), (main, BEN), (other, ANN)):
        await line.hear("hello", peer)
    await bind(stage, ANN_AT, BEN_AT, f"weixin:other:{ANN}")
    offer = TurnOffer(session="desk", turn_id="t1", text="news")
    accepted = await stage.service.accept_turn(offer)
    assert {d.peer for d in accepted.deliveries} == {ANN_AT, BEN_AT, f"weixin:other:{ANN}"}
    assert len({d.delivery for d in accepted.deliveries}) == 3
    for each in accepted.deliveries:
        assert (await stage.final(each.delivery)).state == "delivered"
    assert (await stage.service.accept_turn(offer)).repeated
    assert sorted(o.peer for o in main.orders) == [ANN, BEN]
    assert [o.peer for o in other.orders] == [ANN]


@pytest.mark.parametrize("second", ["weixin:main:" + BEN, "weixin:other:" + ANN])
async def test_a_crash_between_two_peers_is_made_good_by_repetition(
    log: Log, stages: Stages, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the first peer's acceptance is durable; meanwhile the binding changes, too."""
    first = stages(log)
    main, other = await first.account(access=("all",)), await first.account("other")
    for line, peer in ((main, ANN), (main, BEN), (other, ANN)):
        await line.hear("hello", peer)
    await bind(first, ANN_AT, second)
    offer = TurnOffer(session="desk", turn_id="t1", text="news")
    acceptance = first.service._acceptance
    asked = acceptance.ask

    async def die_at_the_second(place: object, command: object) -> object:
        if await first.events(TurnCompleted):
            raise RuntimeError("killed")
        return await asked(place, command)

    monkeypatch.setattr(acceptance, "ask", die_at_the_second)
    with pytest.raises(RuntimeError, match="killed"):
        await first.service.accept_turn(offer)
    assert len(await first.events(TurnCompleted)) == 1
    await first.crash()

    stage = stages(log, instance="i-2", now=first.clock.now() + 1_000)
    await stage.account(access=("all",))
    await stage.account("other")
    await bind(stage, second, session="elsewhere")
    again = await stage.service.accept_turn(offer)
    assert {d.peer for d in again.deliveries} == {ANN_AT, second}
    assert not again.repeated
    assert len(await stage.events(TurnCompleted)) == 2
    assert (await stage.service.accept_turn(offer)).repeated
    assert len(await stage.events(TurnCompleted)) == 2
    assert len(await log.key("turn", "t1")) == (2 if "other" in second else 1)


async def test_concurrent_posters_of_one_turn_come_to_one_send(log: Log, stages: Stages) -> None:
    stage = stages(log)
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    await line.hear("hello", BEN)
    await bind(stage, ANN_AT, BEN_AT)
    offer = TurnOffer(session="desk", turn_id="t1", text="news")
    answers = await asyncio.gather(*(stage.service.accept_turn(offer) for _ in range(5)))
    assert len({tuple(sorted(d.delivery for d in a.deliveries)) for a in answers}) == 1
    for each in answers[0].deliveries:
        await stage.final(each.delivery)
    assert sorted(o.peer for o in line.orders) == [ANN, BEN]
    assert len(await stage.events(TurnCompleted)) == 2


async def test_concurrent_posters_of_one_turn_with_two_texts(log: Log, stages: Stages) -> None:
    stage = stages(log)
    line = await stage.account()
    await line.hear("hello")
    answers = await asyncio.gather(
        stage.offer("one", turn_id="t1"), stage.offer("two", turn_id="t1"), return_exceptions=True
    )
    assert [isinstance(a, TurnConflict) for a in answers] == [False, True]
    await stage.final(answers[0].deliveries[0].delivery)
    assert line.texts == ["one"]


async def test_a_turn_that_answers_a_message_is_finished_over_http_and_never_pushed(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("question")
    await stage.until(lambda: stage.hub.turns)
    (turn_id,) = stage.hub.turns
    answer = await stage.offer("answer", turn_id=turn_id, origin="desktop")  # whatever is claimed
    receipt = await stage.final(answer.deliveries[0].delivery)
    assert (receipt.state, receipt.origin) == ("delivered", "inbound")
    assert line.texts == ["answer"]
    assert (await stage.service.peer("weixin:main")).share.used == 0
    assert (await stage.offer("answer", turn_id=turn_id)).repeated
    with pytest.raises(TurnConflict):
        await stage.offer("another", turn_id=turn_id)


async def test_a_cancelled_turn_has_no_text_any_more(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("question")
    await stage.until(lambda: stage.hub.turns)
    await line.hear("/cancel")
    await stage.until(lambda: stage.hub.withdrawn)
    with pytest.raises(TurnConflict, match="ended without a text"):
        await stage.offer("answer", turn_id=stage.hub.turns[0])


@pytest.mark.parametrize("rehearse", [False, True])
async def test_nobody_else_starts_an_inbound_turn(stage: Stage, rehearse: bool) -> None:
    await stage.account()
    ask = stage.service.dry_run if rehearse else stage.service.accept_turn
    with pytest.raises(BadRequest) as refusal:
        await ask(TurnOffer(to="weixin:main", turn_id="t1", origin="inbound", text="x"))
    assert refusal.value.path == "$.origin"
    assert await stage.events(TurnCompleted) == []


@pytest.mark.parametrize("rehearse", [False, True])
async def test_a_text_that_is_too_large(stage: Stage, rehearse: bool) -> None:
    await stage.account()
    ask = stage.service.dry_run if rehearse else stage.service.accept_turn
    with pytest.raises(TooLarge) as refusal:
        await ask(TurnOffer(to="weixin:main", text="x" * (TEXT_BYTES_MAX + 1)))
    assert refusal.value.path == "$.text"
    assert await stage.events(TurnCompleted) == []


async def test_an_unknown_peer_comes_with_near_ones(stage: Stage) -> None:
    await stage.account()
    with pytest.raises(UnknownPeer) as refusal:
        await stage.offer("x", "weixin:main:anne@im.wechat")
    assert refusal.value.near == (ANN_AT,)


async def test_without_a_turn_id_each_offer_is_a_turn(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    for _ in range(2):
        await stage.final(await stage.send("same"))
    assert line.texts == ["same", "same"]


@pytest.mark.parametrize("stopped", ["main", "other"])
async def test_while_one_account_of_a_session_is_stopped_nothing_is_accepted_for_any_peer(
    stage: Stage, stopped: str
) -> None:
    """The refusal says so, and whoever reads it may offer the turn elsewhere."""
    main, other = await stage.account(), await stage.account("other")
    await main.hear("hello")
    await other.hear("hello")
    await bind(stage, ANN_AT, f"weixin:other:{ANN}")
    await stage.lives[stopped].stop("by hand")
    offer = TurnOffer(session="desk", turn_id="t1", text="news")
    with pytest.raises(Unavailable, match="nothing was accepted"):
        await stage.service.accept_turn(offer)
    assert await stage.events(TurnCompleted) == []
    await stage.lives[stopped].start()
    assert len((await stage.service.accept_turn(offer)).deliveries) == 2


async def test_a_push_without_any_share_is_refused_at_acceptance(stage: Stage) -> None:
    line = await stage.account(policy=Policy(share_replies=0))
    await line.hear("hello")
    with pytest.raises(NeverFits):
        await stage.offer("news", turn_id="t1")
    assert not await stage.events(TurnCompleted)


@pytest.mark.parametrize("given", ["t1", ""])
@pytest.mark.parametrize("second", ["weixin:main:" + BEN, "weixin:other:" + ANN])
async def test_a_peer_that_is_busy_after_another_accepted_is_told_as_it_is_and_the_same_turn_completes_it(
    log: Log, stages: Stages, second: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages(log)
    main, other = await stage.account(access=("all",)), await stage.account("other")
    for line, peer in ((main, ANN), (main, BEN), (other, ANN)):
        await line.hear("hello", peer)
    await bind(stage, ANN_AT, second)
    acceptance = stage.service._acceptance
    asked, busy = acceptance.ask, True

    async def busy_at_the_second(place: object, command: object) -> object:
        if busy and isinstance(command, AcceptTurn) and await stage.events(TurnCompleted):
            raise Busy("its mailbox is full")
        return await asked(place, command)

    monkeypatch.setattr(acceptance, "ask", busy_at_the_second)
    offer = TurnOffer(session="desk", turn_id=given, text="news")
    with pytest.raises(Partly, match="accepted for 1 of 2 peers, then: its mailbox is full") as told:
        await stage.service.accept_turn(offer)
    facts = told.value.facts
    assert "nothing was accepted" not in told.value.message
    assert str(facts["turn_id"]) in told.value.message
    (first,) = facts["deliveries"]
    assert (await stage.service.delivery(first)).turn_id == facts["turn_id"] == (given or facts["turn_id"])
    again = msgspec.structs.replace(offer, turn_id=facts["turn_id"])
    with pytest.raises(Partly, match="1 of 2"):
        await stage.service.accept_turn(again)

    busy = False
    done = await stage.service.accept_turn(again)
    assert (len(done.deliveries), done.repeated) == (2, False)
    assert first in {d.delivery for d in done.deliveries}
    assert len(await stage.events(TurnCompleted)) == 2


async def test_a_first_peer_that_is_busy_accepts_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    await bind(stage, ANN_AT)

    async def busy(_place: object, _command: object) -> object:
        raise Busy

    monkeypatch.setattr(stage.service._acceptance, "ask", busy)
    with pytest.raises(Busy, match="nothing was accepted"):
        await stage.service.accept_turn(TurnOffer(session="desk", turn_id="t1", text="news"))


@pytest.mark.parametrize("error", [Busy("its mailbox is full"), LogUnreadable("the disk does not answer")])
async def test_what_fails_after_the_acceptance_is_told_as_a_turn_that_was_accepted(
    stage: Stage, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.account()

    async def fail(_place: object, _delivery: str, _turn_id: str) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(stage.service, "_delivery_view", fail)
        with pytest.raises(Partly, match=f"accepted, but .* {error}; offer it again as turn t1 to learn it") as told:
            await stage.offer("news", turn_id="t1")
    assert "nothing was accepted" not in told.value.message
    again = await stage.offer("news", turn_id="t1")
    assert (again.repeated, (again.deliveries[0].delivery,)) == (True, told.value.facts["deliveries"])


@pytest.mark.parametrize("error", [MailboxFull("peer-x"), OffloadFull("64 jobs"), LogBusy("the disk is full")])
async def test_what_is_full_is_busy(stage: Stage, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.account()

    def full(_key: str, _message: object) -> None:
        raise error

    monkeypatch.setattr(stage.lives["main"].account.peers, "ask", full)
    with pytest.raises(Busy, match=str(error).split("(", maxsplit=1)[0].strip()):
        await stage.offer("news", turn_id="t1")
