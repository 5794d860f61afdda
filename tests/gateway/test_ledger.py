"""The ledger over HTTP: every request with its charge and outcome, by page, filter and epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.gateway.api import LedgerQuery, TurnOffer
from actors.gateway.errors import UnknownPeer
from actors.gateway.views import LedgerRow
from actors.ports import Accepted, Outcome, Refused, Unknown
from events.bot import Policy
from store.log import Log
from tests.gateway.stage import ANN, BEN, NOON, Stage

Stages = Callable[..., Stage]
ANN_AT, BEN_AT = f"weixin:main:{ANN}", f"weixin:main:{BEN}"
POLICY = Policy(share_replies=50, quota_replies=50, notice_after_ms=0)


async def rows(stage: Stage, **query: Any) -> tuple[LedgerRow, ...]:
    return (await stage.service.ledger(LedgerQuery(**query))).rows


async def told(stage: Stage, name: str, to: str, outcome: Outcome, **turn: Any) -> str:
    """Offer a turn whose send ends so."""
    line = stage.lines[name]
    count = len(line.orders)
    delivery = await stage.send(f"news {count}", to, **turn)
    await stage.until(lambda: len(line.orders) > count)
    line.answer(outcome)
    return delivery


@pytest.fixture
async def busy(log: Log, stages: Stages) -> Stage:
    """Two accounts, three peers, four outcomes, an answer and two epochs."""
    stage = stages(log)
    main, other = await stage.account(access=("all",), policy=POLICY), await stage.account("other", policy=POLICY)
    main.manual = other.manual = True
    await main.hear("question", ANN)
    await main.hear("hello", BEN)
    await other.hear("hello", ANN)
    await told(stage, "main", ANN_AT, Accepted(message_id="m1"), turn_id=stage.hub.turns[0])
    await told(stage, "main", ANN_AT, Accepted(), turn_id="t1")
    stage.advance(1_000)
    await told(stage, "main", BEN_AT, Unknown(reason="timeout", settled_at=stage.clock.now()), turn_id="t2")
    await told(stage, "other", f"weixin:other:{ANN}", Refused(failure="bad_request", code=-3), turn_id="t3")
    await stage.close()
    again = stages(log, instance="i-2", now=stage.clock.now() + 1_000)
    await again.account(access=("all",), policy=POLICY)
    await again.account("other", policy=POLICY)
    await again.final(await again.send("late", BEN_AT, turn_id="t4"))
    return again


async def test_every_charged_request_is_a_row(busy: Stage) -> None:
    found = await rows(busy)
    assert [(r.peer, r.kind, r.outcome, r.turn_ids[1:]) for r in found] == [
        (ANN_AT, "answer", "confirmed", ()),
        (ANN_AT, "push", "unconfirmed", ()),
        (BEN_AT, "push", "unknown", ()),
        (BEN_AT, "push", "confirmed", ()),
    ]
    assert [r.turn_ids[0] for r in found[1:]] == ["t1", "t2", "t4"]
    assert [(r.epoch, r.instance) for r in found] == [(1, "i-1")] * 3 + [(2, "i-2")]
    assert [(r.slot, r.share) for r in found] == [(1, 0), (2, 1), (1, 1), (2, 2)]
    assert [r.message_id for r in found] == ["m1", "", "", "m1"]
    assert all((r.charged and r.slots == r.shares) or r.kind == "answer" for r in found)


@pytest.mark.parametrize(
    ("query", "turns"),
    [
        ({"free": True}, 5),
        ({"kind": "answer"}, 1),
        ({"kind": "push"}, 3),
        ({"kind": "notice"}, 0),
        ({"outcome": "unknown"}, 1),
        ({"outcome": "refused", "free": True}, 1),
        ({"peer": ANN_AT}, 2),
        ({"peer": BEN_AT}, 2),
        ({"peer": "main"}, 4),
        ({"peer": "weixin:main"}, 4),
        ({"peer": "weixin:other", "free": True}, 1),
        ({"peer": "weixin:other"}, 0),
        ({"since": NOON + 1_000}, 2),
        ({"until": NOON + 1_000}, 2),
        ({"since": NOON + 1_000, "until": NOON + 1_001}, 1),
        ({"since": NOON + 1_000, "peer": "main", "kind": "push"}, 2),
    ],
)
async def test_filters_and_pages_of_any_size_agree(busy: Stage, query: dict[str, Any], turns: int) -> None:
    whole = await rows(busy, **query)
    assert len(whole) == turns
    for limit in (1, 2, 3):
        paged: list[LedgerRow] = []
        after: int | None = 0
        while after is not None:
            page = await busy.service.ledger(LedgerQuery(after=after, limit=limit, **query))
            assert len(page.rows) <= limit
            paged.extend(page.rows)
            after = page.next
        assert tuple(paged) == whole


async def test_an_open_request_is_a_row(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    await stage.send("news")
    await stage.until(lambda: line.orders)
    assert [(r.outcome, r.charged) for r in await rows(stage)] == [("open", True)]


async def test_an_unknown_name(stage: Stage) -> None:
    await stage.account()
    with pytest.raises(UnknownPeer):
        await rows(stage, peer="weixin:main:zoe")
    assert await rows(stage) == ()


async def test_what_a_message_finds_on_its_way_is_told_as_carried_wherever_the_quota_is(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    first = await stage.offer("on its way", turn_id="t1")
    assert (first.deliveries[0].quota.left, first.deliveries[0].quota.carried) == (9, 0)
    await stage.until(lambda: len(line.orders) == 1)
    await line.hear("and?")
    peer = await stage.service.peer(ANN_AT)
    assert (peer.quota.left, peer.quota.carried) == (9, 1)
    line.answer(Accepted(message_id="m1"))
    second = await stage.send("news", turn_id="t2")
    await stage.until(lambda: len(line.orders) == 2)
    line.answer(Accepted(message_id="m2"))
    receipt = await stage.final(second)
    assert (receipt.quota.left, receipt.quota.carried) == (8, 1)
    (forecast,) = (await stage.service.dry_run(TurnOffer(to="weixin:main", text="more", turn_id="t3"))).forecasts
    assert (forecast.quota_before.carried, forecast.quota_after.carried) == (1, 1)
    assert [(r.slot, r.carried) for r in await rows(stage)] == [(1, 0), (2, 1)]
