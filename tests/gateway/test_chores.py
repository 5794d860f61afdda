"""What operators do by hand, all or nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from actors.gateway.api import (
    BindOrder,
    DiscardOrder,
    DropOrder,
    EraseOrder,
    FlushOrder,
    PauseOrder,
    ResumeOrder,
    RetryOrder,
    TurnOffer,
)
from actors.gateway.errors import AmbiguousId, UnknownDelivery, WrongState
from actors.ports import Accepted, Refused
from events.bot import Policy
from events.peer import OperatorActed
from tests.gateway.stage import ANN, BEN, Stage

ANN_AT, BEN_AT = f"weixin:main:{ANN}", f"weixin:main:{BEN}"


async def two_waiting(stage: Stage) -> tuple[str, str]:
    """An output each for two peers, held by a pause."""
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    await line.hear("hello", BEN)
    await stage.service.pause(PauseOrder(scope="main"))
    return await stage.send("for ann", ANN_AT), await stage.send("for ben", BEN_AT)


async def test_drop_then_retry_then_discard(stage: Stage) -> None:
    ann, ben = await two_waiting(stage)
    gone = await stage.service.drop(DropOrder(deliveries=(ann[:9], ben), who="ops"))
    assert gone.deliveries == (ann, ben)
    assert [(d.delivery, d.fate, d.reason, d.retrievable) for d in await stage.service.dead()] == [
        (d, "dropped", "an operator dropped it", True)
        for d in sorted((ann, ben), key=[x.delivery for x in await stage.service.dead()].index)
    ]
    assert (await stage.service.dead_one(ann)).text == "for ann"
    assert await stage.service.backlog() == ()

    views = await stage.service.retry(RetryOrder(deliveries=(ann,)))
    assert [(v.delivery, v.state) for v in views] == [(ann, "queued")]
    assert (await stage.service.waiting(ann)).text == "for ann"

    assert (await stage.service.discard(DiscardOrder(deliveries=(ben,)))).deliveries == (ben,)
    assert await stage.service.dead() == ()
    await stage.service.resume(ResumeOrder(scope="main"))
    assert (await stage.final(ann)).state == "delivered"
    assert [(e.what, e.who) for e in await stage.events(OperatorActed)] == [
        ("drop", "ops"),
        ("drop", "ops"),
        ("retry", "http"),
        ("discard", "http"),
    ]


async def test_a_delivery_goes_by_its_turn_as_well(stage: Stage) -> None:
    await stage.account()
    delivery = await stage.send("news", turn_id="nightly-2026-05-01")
    await stage.send("more", turn_id="nightly-2026-05-02")
    gone = await stage.service.drop(DropOrder(deliveries=("nightly-2026-05-01",)))
    assert (gone.deliveries, gone.turn_ids) == ((delivery,), ("nightly-2026-05-01",))
    with pytest.raises(AmbiguousId, match="2 turns begin with nightly-: nightly-2026-05-01, nightly-2026-05-02"):
        await stage.service.retry(RetryOrder(deliveries=("nightly-",)))
    (view,) = await stage.service.retry(RetryOrder(deliveries=("nightly-2026-05-01",)))
    assert (view.delivery, view.turn_id, view.state) == (delivery, "nightly-2026-05-01", "queued")
    with pytest.raises(WrongState, match=rf"{delivery} \(turn nightly-2026-05-01\) still waits"):
        await stage.service.retry(RetryOrder(deliveries=("nightly-2026-05-01",)))
    assert (await stage.service.delivery("nightly-2026-05-02")).turn_id == "nightly-2026-05-02"


async def test_a_turn_that_stands_for_no_one_delivery(stage: Stage) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    await line.hear("hello", BEN)
    for peer in (ANN_AT, BEN_AT):
        await stage.service.bind(BindOrder(peer=peer, session="desk"))
    accepted = await stage.service.accept_turn(TurnOffer(session="desk", turn_id="t-both", text="news"))
    with pytest.raises(AmbiguousId, match="turn t-both has 2 deliveries, one for each peer") as told:
        await stage.service.delivery("t-both")
    assert set(told.value.near) == {d.delivery for d in accepted.deliveries}
    (open_turn, *_) = stage.hub.turns
    with pytest.raises(UnknownDelivery, match="has no delivery yet"):
        await stage.service.delivery(open_turn)


Order = Callable[[Stage, tuple[str, ...]], Awaitable[object]]
DROP: Order = lambda stage, ids: stage.service.drop(DropOrder(deliveries=ids))  # noqa: E731
RETRY: Order = lambda stage, ids: stage.service.retry(RetryOrder(deliveries=ids))  # noqa: E731
DISCARD: Order = lambda stage, ids: stage.service.discard(DiscardOrder(deliveries=ids))  # noqa: E731


@pytest.mark.parametrize(
    ("order", "others", "error"),
    [
        (DROP, "delivered", WrongState),
        (DROP, "d-nothing", UnknownDelivery),
        (DROP, "d-", AmbiguousId),
        (RETRY, "waiting", WrongState),
        (RETRY, "delivered", UnknownDelivery),
        (RETRY, "d-nothing", UnknownDelivery),
        (DISCARD, "waiting", WrongState),
        (DISCARD, "delivered", UnknownDelivery),
    ],
)
async def test_one_wrong_id_and_nothing_changes(
    stage: Stage, order: Order, others: str, error: type[Exception]
) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    delivered = await stage.send("sent")
    await stage.final(delivered)
    await stage.service.pause(PauseOrder(scope="main"))
    waiting, dead = await stage.send("waits"), await stage.send("dead")
    await DROP(stage, (dead,))
    before = await stage.log.position()
    good = waiting if order is DROP else dead
    wrong = {"delivered": delivered, "waiting": waiting}.get(others, others)
    with pytest.raises(error):
        await order(stage, (good, wrong))
    assert await stage.log.position() == before


async def test_what_is_on_its_way_cannot_be_dropped(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    with pytest.raises(WrongState, match="is on its way"):
        await DROP(stage, (delivery,))
    shown = await stage.service.waiting(delivery)
    assert (shown.text, shown.output.state) == ("news", "requested"), "what the backlog lists can be shown"
    line.answer(Accepted(message_id="m"))
    assert (await stage.final(delivery)).state == "delivered"
    with pytest.raises(WrongState, match="does not wait"):
        await stage.service.waiting(delivery)


async def test_a_blank_turn_is_dead_without_a_text(stage: Stage) -> None:
    """There is nothing to send again, and that is said; it can be taken off the list."""
    await stage.account()
    blank = await stage.send("")
    (dead,) = await stage.service.dead()
    assert (dead.delivery, dead.fate, dead.retrievable) == (blank, "skipped", False)
    assert (await stage.service.dead_one(blank)).text is None
    with pytest.raises(WrongState, match="has expired or was erased"):
        await RETRY(stage, (blank,))
    assert (await DISCARD(stage, (blank,))).deliveries == (blank,)
    assert not await stage.service.dead()


async def test_a_flush_tries_what_was_held_after_a_refusal_but_never_without_a_token(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    line.answer(Refused(failure="blocked", code=-2))
    await stage.until(lambda: stage.tidings and stage.tidings[-1].state == "queued")
    shown = await stage.service.flush(FlushOrder(peer="weixin:main", who="ops"))
    assert [w.delivery for w in shown.waiting] == [delivery]
    assert "no context token" in shown.reason
    assert len(line.orders) == 1


async def test_a_flush_does_not_wait_for_the_next_try_after_what_never_left(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    delivery = await stage.send("news")
    await stage.until(lambda: line.orders)
    line.answer(Refused(failure="not_sent"))
    receipt = await _queued(stage, delivery)
    assert receipt.earliest is not None
    assert receipt.earliest > stage.clock.now()
    stage.advance(receipt.earliest - stage.clock.now())
    await stage.until(lambda: len(line.orders) == 2)


async def _queued(stage: Stage, delivery: str) -> object:
    await stage.until(lambda: stage.tidings and stage.tidings[-1].state == "queued")
    return await stage.service.delivery(delivery)


async def test_an_expired_text_cannot_be_sent_again(stage: Stage) -> None:
    await stage.account(policy=Policy(notice_after_ms=0))
    await stage.service.pause(PauseOrder(scope="main"))
    delivery = await stage.send("news")
    await DROP(stage, (delivery,))
    await stage.service.erase(EraseOrder(delivery=delivery))
    with pytest.raises((WrongState, UnknownDelivery)):
        await RETRY(stage, (delivery,))
