"""Metrics say what happened and how things stand."""

from __future__ import annotations

from actors.gateway.api import PauseOrder
from actors.ports import Accepted, Refused, Unknown
from events.bot import Policy
from tests.gateway.stage import Stage


def value(stage: Stage, name: str, **labels: str) -> float | None:
    return stage.registry.get_sample_value(name, labels)


async def test_requests_and_outcomes_are_counted(stage: Stage) -> None:
    line = await stage.account(policy=Policy(share_replies=9, notice_after_ms=0))
    line.manual = True
    await line.hear("question")
    for outcome in (
        Accepted(message_id="m"),
        Accepted(),
        Unknown(reason="timeout", settled_at=stage.clock.now()),
        Refused(failure="bad_request", code=-3),
    ):
        count = len(line.orders)
        delivery = await stage.send("news")
        await stage.until(lambda: len(line.orders) > count)  # noqa: B023 (awaited here)
        line.answer(outcome)
        await stage.final(delivery)
    count = len(line.orders)
    await stage.offer("answer", turn_id=stage.hub.turns[0])
    await stage.until(lambda: len(line.orders) > count)
    assert value(stage, "replyledger_sends_requested_total", kind="push") == 4
    assert value(stage, "replyledger_sends_requested_total", kind="answer") == 1
    for outcome_name in ("confirmed", "unconfirmed", "unknown", "bad_request"):
        assert value(stage, "replyledger_send_outcomes_total", outcome=outcome_name) == 1, outcome_name
    assert value(stage, "replyledger_events_total", type="message_received") == 1
    assert value(stage, "replyledger_events_total", type="send_requested") == 5


async def test_accounts_as_they_are(stage: Stage) -> None:
    line = await stage.account(policy=Policy(share_replies=1, notice_after_ms=0))
    name = {"account": "weixin:main"}
    assert value(stage, "replyledger_account_state", state="running", **name) == 1
    assert value(stage, "replyledger_account_state", state="stopped", **name) == 0
    assert value(stage, "replyledger_account_epoch", **name) == 1
    assert value(stage, "replyledger_peers_waiting", **name) == 0
    await line.hear("hello")
    await stage.offer("answer", turn_id=stage.hub.turns[0])
    await stage.final(await stage.send("one"))
    await stage.service.delivery(await stage.send("two"))
    assert value(stage, "replyledger_peers_waiting", **name) == 1
    assert value(stage, "replyledger_peers_blocked", reason="share_spent", **name) == 1
    assert value(stage, "replyledger_share_spent_episodes", **name) == 1
    assert value(stage, "replyledger_actors_live", **name) == 2
    await stage.service.pause(PauseOrder(scope="main"))
    await stage.until(lambda: value(stage, "replyledger_peers_blocked", reason="paused", **name) == 1)
    assert value(stage, "replyledger_peers_blocked", reason="share_spent", **name) is None
    await stage.lives["main"].stop("test")
    assert value(stage, "replyledger_account_state", state="stopped", **name) == 1


async def test_starts_and_takeovers_are_counted(stage: Stage) -> None:
    await stage.account()
    name = {"account": "weixin:main"}
    assert value(stage, "replyledger_claims_total", replaced="nobody", **name) == 1
    await stage.lives["main"].stop("test")
    await stage.lives["main"].start()
    assert value(stage, "replyledger_claims_total", replaced="instance", **name) == 1
    assert value(stage, "replyledger_events_total", type="bot_started") == 2
