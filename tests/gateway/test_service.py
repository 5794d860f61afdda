"""What people and programs ask of a gateway, answered by real accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from actors.gateway.api import (
    AccessOrder,
    AccountOrder,
    BindOrder,
    LedgerQuery,
    PauseOrder,
    ResumeOrder,
    TurnOffer,
    UnbindOrder,
)
from actors.gateway.errors import (
    AmbiguousId,
    BadRequest,
    TurnConflict,
    UnknownAccount,
    UnknownDelivery,
    UnknownPeer,
    WrongState,
)
from actors.ports import Accepted, LoginGone, Refused, Unknown
from events.base import Recorded
from events.bot import DAY_MS, Policy
from store.log import Log
from tests.gateway.stage import ANN, BEN, Login, Stage, credentials

Stages = Callable[..., Stage]
ANN_AT, BEN_AT = f"weixin:main:{ANN}", f"weixin:main:{BEN}"


# --- waiting for a delivery -------------------------------------------------------------------------------------------


async def test_a_wait_ends_with_the_outcome(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    line.manual = True
    delivery = await stage.send("news")
    waiting = asyncio.create_task(stage.service.delivery(delivery, 60_000))
    await stage.until(lambda: line.orders)
    assert (await stage.service.delivery(delivery)).state == "requested"
    line.answer(Accepted(message_id="m1"))
    receipt = await asyncio.wait_for(waiting, 10)
    assert (receipt.state, receipt.message_ids, receipt.delivered_bytes) == ("delivered", ("m1",), 4)
    assert receipt.settled_at == stage.clock.now()
    assert stage.service._waiters == {}


async def test_a_wait_ends_with_its_time(stage: Stage) -> None:
    await stage.account()
    delivery = await stage.send("news")
    receipt = await stage.service.delivery(delivery, 10)
    assert (receipt.state, receipt.settled_at) == ("queued", None)
    assert "no context token is there" in receipt.reason
    assert stage.service._waiters == {}


async def test_a_wait_outlasts_what_is_not_final_and_several_may_wait(stage: Stage) -> None:
    line = await stage.account()
    delivery = await stage.send("news")
    waiting = [asyncio.create_task(stage.service.delivery(delivery[:8], 60_000)) for _ in range(3)]
    line.manual = True
    await line.hear("hello")
    await stage.until(lambda: line.orders)
    line.answer(Refused(failure="blocked", code=-2))
    await line.hear("again")
    await stage.until(lambda: len(line.orders) == 2)
    assert not any(w.done() for w in waiting)
    line.answer(Accepted(message_id="m2"))
    assert [(await w).state for w in waiting] == ["delivered"] * 3


async def test_a_wait_outlasts_the_stop_of_the_account(stage: Stage) -> None:
    line = await stage.account()
    delivery = await stage.send("news")
    waiting = asyncio.create_task(stage.service.delivery(delivery, 60_000))
    await stage.until(lambda: stage.service._waiters)
    await stage.service.account(AccountOrder(account="main", action="restart"))
    assert not waiting.done()
    await line.hear("hello")
    assert (await asyncio.wait_for(waiting, 10)).state == "delivered"


async def test_a_delivery_by_the_beginning_of_its_id(stage: Stage) -> None:
    await stage.account()
    deliveries = [await stage.send(f"news {i}") for i in range(2)]
    with pytest.raises(AmbiguousId) as refusal:
        await stage.service.delivery("d-")
    assert set(refusal.value.near) == set(deliveries)
    with pytest.raises(UnknownDelivery):
        await stage.service.delivery("d-zzz")


# --- dry runs ---------------------------------------------------------------------------------------------------------


async def forecast_then_do(stage: Stage, text: str, **fields: object) -> tuple[object, object]:
    before = await stage.log.position()
    run = await stage.service.dry_run(TurnOffer(to="weixin:main", text=text, **fields))
    assert await stage.log.position() == before, "a dry run changes nothing"
    accepted = await stage.offer(text, **fields)
    (forecast,), (view,) = run.forecasts, accepted.deliveries
    assert (forecast.reason, forecast.earliest) == (view.reason, view.earliest) or forecast.would == "send"
    assert (forecast.quota_after, forecast.share_after) == (view.quota, view.share)
    return forecast, view


async def test_a_dry_run_predicts_a_send(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    line.manual = True
    forecast, view = await forecast_then_do(stage, "news")
    assert (forecast.would, view.state, forecast.replies) == ("send", "requested", 1)
    assert (forecast.quota_before.left, forecast.quota_after.left) == (10, 9)
    assert (forecast.share_before.used, forecast.share_after.used) == (0, 1)
    assert forecast.earliest == stage.clock.now()


async def test_a_dry_run_predicts_a_wait_a_skip_and_what_falls_out(stage: Stage) -> None:
    await stage.account(policy=Policy(backlog_outputs=2, notice_after_ms=0, push_origins=("api",)))
    oldest = await stage.send("1")
    forecast, view = await forecast_then_do(stage, "2")
    assert (forecast.would, view.state, forecast.drops) == ("wait", "queued", ())
    forecast, _ = await forecast_then_do(stage, "3")
    assert forecast.drops == (oldest,)
    assert (await stage.service.delivery(oldest)).state == "dropped"
    forecast, view = await forecast_then_do(stage, " ")
    assert (forecast.would, view.state, view.reason) == ("skip", "skipped", "its text is blank")
    forecast, view = await forecast_then_do(stage, "x", status="failed")
    assert (forecast.would, view.reason) == ("skip", "the turn failed")
    forecast, view = await forecast_then_do(stage, "x", origin="desktop")
    assert (forecast.would, view.reason) == ("skip", "turns of this origin are kept out by push_origins")


async def test_a_dry_run_predicts_the_share(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    for number in range(3):
        await stage.final(await stage.send(f"news {number}"))
    stage.advance(1_000)
    forecast, view = await forecast_then_do(stage, "more")
    assert (forecast.would, view.state) == ("wait", "queued")
    assert "the share of pushes is spent: 3 of 3 in 24 h" in view.reason
    assert len(line.orders) == 3


async def test_a_dry_run_of_a_known_turn(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.final(await stage.send("one", turn_id="t1"))
    (forecast,) = (await stage.service.dry_run(TurnOffer(to="weixin:main", turn_id="t1", text="one"))).forecasts
    assert (forecast.would, forecast.replies, forecast.earliest) == ("skip", 0, None)
    assert forecast.reason == "the same turn was accepted before: it was delivered"
    assert forecast.quota_before == forecast.quota_after
    with pytest.raises(TurnConflict):
        await stage.service.dry_run(TurnOffer(to="weixin:main", turn_id="t1", text="two"))


async def test_a_dry_run_of_the_answer_to_a_message(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("question")
    await stage.until(lambda: stage.hub.turns)
    run = await stage.service.dry_run(TurnOffer(to="weixin:main", turn_id=stage.hub.turns[0], text="answer"))
    assert [(f.would, f.share_after.used) for f in run.forecasts] == [("send", 0)]
    assert line.orders == []


# --- receipts ---------------------------------------------------------------------------------------------------------


async def test_the_receipt_of_every_fate(stage: Stage) -> None:
    policy = Policy(part_bytes=64, notice_after_ms=0, share_replies=9)
    line = await stage.account(policy=policy)
    line.manual = True
    await line.hear("hello")

    async def outcome(text: str, given: Accepted | Refused | Unknown) -> tuple[str, str]:
        delivery = await stage.send(text)
        before = len(line.orders)
        await stage.until(lambda: len(line.orders) >= max(1, before))
        line.answer(given)
        receipt = await stage.final(delivery)
        assert receipt.earliest is None
        return receipt.state, receipt.reason

    assert await outcome("a", Accepted(message_id="m")) == ("delivered", "it was delivered")
    assert await outcome("b", Accepted()) == (
        "unconfirmed",
        "the channel took it without a message id: nothing proves that it is shown",
    )
    assert await outcome("c", Unknown(reason="timeout", settled_at=stage.clock.now())) == (
        "unknown",
        "nobody can say whether it arrived; it is charged and not sent again",
    )
    assert await outcome("d", Refused(failure="bad_request", code=-3)) == (
        "dropped",
        "the channel refused it for what it is",
    )
    state, reason = await outcome("e" * 200, Accepted(message_id="m"))
    assert (state, "of 200 bytes were delivered; the rest is retrievable" in reason) == ("delivered", True)


async def test_what_is_on_its_way_says_so(stage: Stage) -> None:
    line = await stage.account()
    line.manual = True
    await line.hear("hello")
    first, second = await stage.send("one"), await stage.send("two")
    receipt = await stage.service.delivery(first)
    assert (receipt.state, receipt.reason) == ("requested", "it is on its way; its outcome is not known yet")
    receipt = await stage.service.delivery(second)
    assert receipt.state == "queued"
    assert receipt.reason.endswith(
        "is open, and a peer has one at a time; it waits until the outcome of that request is known"
    )


async def test_a_receipt_survives_what_the_state_forgets(log: Log, stages: Stages) -> None:
    stage = stages(log)
    line = await stage.account(policy=Policy(share_replies=100, quota_replies=100, notice_after_ms=0))
    await line.hear("hello")
    delivery = await stage.send("kept")
    await stage.final(delivery)
    await stage.close()
    again = stages(log, instance="i-2", now=stage.clock.now() + DAY_MS)
    await again.account()
    receipt = await again.service.delivery(delivery)
    assert (receipt.state, receipt.bytes, receipt.delivered_bytes) == ("delivered", 4, 4)


# --- pauses -----------------------------------------------------------------------------------------------------------


async def test_a_receipt_reads_nothing_of_what_came_before(
    log: Log, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person of many years is told of today's delivery as quickly as a new one."""
    stage = stages(log)
    line = await stage.account(policy=Policy(share_replies=9))
    await line.hear("hello")
    for number in range(5):
        await stage.send(f"news {number}")
        stage.clock.advance(1_000)
    read: list[int] = []
    whole = log.read_since_key

    async def counted(stream: str, source: str, key: str) -> tuple[Recorded, ...]:
        found = await whole(stream, source, key)
        read.append(len(found))
        return found

    async def refused(*_: object) -> tuple[Recorded, ...]:
        raise AssertionError("the whole stream was read")

    monkeypatch.setattr(log, "read_since_key", counted)
    monkeypatch.setattr(log, "read", refused)
    delivery = await stage.send("the last")
    assert (await stage.service.delivery(delivery, 10_000)).state == "delivered"
    assert max(read) <= 3  # completed, requested, succeeded


async def test_an_account_is_paused_and_resumed(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    paused = await stage.service.pause(PauseOrder(scope="main"))
    assert (paused.scope, paused.until) == ("main", None)
    delivery = await stage.send("news")
    receipt = await stage.service.delivery(delivery)
    assert (receipt.state, receipt.reason) == (
        "queued",
        "sending is paused; it waits until somebody runs `replyledger resume`",
    )
    assert (await stage.service.peer("weixin:main")).paused_until is None
    assert (await stage.service.resume(ResumeOrder(scope="weixin:main"))).until == 0
    assert (await stage.final(delivery)).state == "delivered"
    assert line.texts == ["news"]


async def test_a_peer_is_paused_alone_and_for_a_time(stage: Stage) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", ANN)
    await line.hear("hello", BEN)
    until = stage.clock.now() + 60_000
    assert (await stage.service.pause(PauseOrder(scope=BEN_AT, for_ms=60_000))).until == until
    held, free = await stage.send("for ben", BEN_AT), await stage.send("for ann", ANN_AT)
    assert (await stage.final(free)).state == "delivered"
    receipt = await stage.service.delivery(held)
    assert (receipt.state, receipt.earliest) == ("queued", until)
    stage.advance(60_000)
    assert (await stage.final(held)).state == "delivered"


@pytest.mark.parametrize("scope", ["nobody", "weixin:main:zoe", "weixin:other", "a b"])
async def test_an_unknown_scope(stage: Stage, scope: str) -> None:
    await stage.account()
    with pytest.raises(UnknownPeer):
        await stage.service.pause(PauseOrder(scope=scope))


# --- accounts ---------------------------------------------------------------------------------------------------------


async def test_an_account_stops_starts_and_restarts(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    with pytest.raises(WrongState, match="weixin:main is running"):
        await stage.service.account(AccountOrder(account="main", action="start"))
    shown = await stage.service.account(AccountOrder(account="weixin:main", action="stop", who="ops"))
    assert (shown.state, shown.reason, shown.epoch) == ("stopped", "stop by ops", 1)
    assert line.links[0].outlet.closed
    shown = await stage.service.account(AccountOrder(account="main", action="start"))
    assert (shown.state, shown.epoch) == ("running", 2)
    assert shown.owner == ANN_AT
    shown = await stage.service.account(AccountOrder(account="main", action="restart"))
    assert (shown.state, shown.epoch, len(line.links)) == ("running", 3, 3)
    assert (await stage.final(await stage.send("news"))).state == "delivered"
    with pytest.raises(UnknownAccount) as refusal:
        await stage.service.account(AccountOrder(account="mian", action="stop"))
    assert refusal.value.path == "$.account"


async def test_while_an_account_is_stopped_everything_can_be_read(stage: Stage) -> None:
    line, other = await stage.account(), await stage.account("other")
    await line.hear("hello")
    sent = await stage.send("sent")
    await stage.final(sent)
    await stage.service.pause(PauseOrder(scope=ANN_AT))
    waiting = await stage.send("waiting")
    skipped = await stage.send(" ")
    await stage.service.resume(ResumeOrder(scope="other"))
    before = await stage.service.peer("weixin:main")
    await stage.service.account(AccountOrder(account="main", action="stop"))

    status = await stage.service.status()
    assert (status.ready, status.reasons) == (False, ("weixin:main: stopped (stop by http)",))
    assert (status.peers, status.waiting, status.dead) == (2, 1, 1)
    assert [(a.account, a.state) for a in status.accounts] == [("weixin:main", "stopped"), ("weixin:other", "running")]
    peer = await stage.service.peer("weixin:main")
    assert (peer.waiting, peer.quota, peer.share) == (1, before.quota, before.share)
    assert (peer.reason, peer.earliest) == (
        "weixin:main is stopped; it waits until somebody runs `replyledger accounts start weixin:main`",
        None,
    )
    assert len(await stage.service.peers()) == 2
    assert [d.delivery for d in await stage.service.dead()] == [skipped]
    (backlog,) = await stage.service.backlog()
    assert [(w.delivery, w.reason) for w in backlog.waiting] == [(waiting, peer.reason)]
    assert (await stage.service.waiting(waiting)).text == "waiting"
    assert (await stage.service.delivery(sent)).state == "delivered"
    assert (await stage.service.delivery(waiting)).reason == peer.reason
    assert len((await stage.service.ledger(LedgerQuery())).rows) == 1
    assert other.orders == []


async def test_a_logout_forgets_the_login_and_sends_no_more(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello")
    await stage.service.pause(PauseOrder(scope="main"))
    delivery = await stage.send("news")
    shown = await stage.service.account(AccountOrder(account="main", action="logout"))
    assert (shown.state, shown.reason) == ("login_needed", "log in with: replyledger login weixin --account main")
    assert stage.logins["main"].kept is None
    await stage.service.resume(ResumeOrder(scope="main"))
    for _ in range(5):
        stage.advance(60_000)
        receipt = await stage.service.delivery(delivery)
    assert receipt.state == "queued"
    assert "replyledger login" in receipt.reason
    tried = await stage.service.ledger(LedgerQuery(free=True))
    assert tried.rows == (), "nothing is tried while nobody is logged in"


async def test_a_lost_login_is_seen_and_a_new_one_cures_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.life.CHECK_MS", 1)
    line = await stage.account()
    await line.hear("hello")
    line.incoming.put_nowait(LoginGone(code=-14, where="poll"))
    await stage.until(lambda: stage.lives["main"].state == "login_lost")
    delivery = await stage.send("news")
    ready = await stage.service.ready()
    assert ready.reasons == ("weixin:main: login_lost (the channel ended this login (code -14); log in again)",)
    assert "the login is gone" in (await stage.service.delivery(delivery)).reason
    stage.logins["main"].kept = credentials(token="login-2")
    await stage.until(lambda: stage.lives["main"].state == "running")
    assert "no context token" in (r := (await stage.service.delivery(delivery)).reason) or "older login" in r
    await line.hear("I am back")
    assert (await stage.final(delivery)).state == "delivered"
    (shown,) = await stage.service.accounts()
    assert (shown.generation, shown.epoch, shown.last_poll_at) == (2, 1, None)


# --- peers ------------------------------------------------------------------------------------------------------------


async def test_bindings(stage: Stage) -> None:
    await stage.account()
    bound = await stage.service.bind(BindOrder(peer="weixin:main", session="desk"))
    assert (bound.peer, bound.session, bound.was) == (ANN_AT, "desk", "")
    again = await stage.service.bind(BindOrder(peer=ANN_AT, session="attic"))
    assert again.was == "desk"
    assert (await stage.service.unbind(UnbindOrder(peer=ANN_AT))).was == "attic"
    assert (await stage.service.peer(ANN_AT)).session == ""


async def test_access(stage: Stage) -> None:
    line = await stage.account(access=("owner", "pairing"))
    await line.hear("may I?", BEN)
    assert [(p.peer, p.access) for p in await stage.service.peers("main")] == [(ANN_AT, "owner"), (BEN_AT, "pending")]
    assert stage.hub.turns == []
    granted = await stage.service.access(AccessOrder(peer=BEN_AT, action="grant"))
    assert granted.access == "granted"
    await stage.until(lambda: stage.hub.turns)
    with pytest.raises(BadRequest) as refusal:
        await stage.service.access(AccessOrder(peer=BEN_AT, action="refuse"))
    assert refusal.value.path == "$.action"


async def test_strangers_are_refused(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("hello", BEN)
    assert (await stage.service.peer(BEN_AT)).access == "refused"


async def test_health_and_readiness(stage: Stage) -> None:
    stage.add("main", login=Login())
    assert (await stage.service.health()).ok
    assert (await stage.service.ready()).reasons == ("weixin:main: stopped",)
    await stage.lives["main"].start()
    assert (await stage.service.ready()).ready
    stage.service.stopping = True
    assert (await stage.service.ready()).reasons == ("the gateway is stopping",)
