"""Orders without a running gateway: the account is claimed for a moment, and nothing is sent."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from actors.gateway import api, views
from events.bot import BotStarted
from events.peer import SendRequested
from scripts.configuration.config import load
from scripts.exits import ExitCode, Failed, LoginNeeded, Misused
from scripts.running.offline import OfflineAsker
from store.sqlite import SqliteLog
from tests.scripts.gateway_here import GatewayHere


class Waiting(msgspec.Struct):
    backlog: tuple[views.BacklogView, ...]


class Dead(msgspec.Struct):
    dead: tuple[views.DeadView, ...]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayHere:
    made = GatewayHere(tmp_path, monkeypatch)
    made.log_in()
    return made


def asker(here: GatewayHere) -> OfflineAsker:
    return OfflineAsker(load(here.path))


def offer(here: GatewayHere, text: str = "news", turn_id: str = "t1", to: str = "weixin:main") -> views.TurnAccepted:
    return asker(here).post(views.TurnAccepted, "/v1/turns", api.TurnOffer(to=to, turn_id=turn_id, text=text))


def events_of(here: GatewayHere, kind: type) -> list[object]:
    async def read() -> list[object]:
        log = await SqliteLog.open(here.log)
        try:
            return [r.event async for page in log.page() for r in page if isinstance(r.event, kind)]
        finally:
            await log.close()

    return asyncio.run(read())


def test_a_turn_is_accepted_and_waits(here: GatewayHere) -> None:
    accepted = offer(here)
    assert [d.state for d in accepted.deliveries] == ["queued"]
    assert offer(here).repeated
    assert here.line.links == [], "the channel is not opened"
    receipt = asker(here).get(views.Receipt, f"/v1/deliveries/{accepted.deliveries[0].delivery[:10]}", wait_ms=60_000)
    assert (receipt.state, receipt.turn_id) == ("queued", "t1")
    assert len(events_of(here, BotStarted)) == 3


def test_before_the_first_login_nothing_is_accepted(here: GatewayHere) -> None:
    (here.state / "accounts" / "main.json").unlink()
    with pytest.raises(LoginNeeded, match="nobody has logged in to weixin:main yet") as refused:
        offer(here)
    assert refused.value.code is ExitCode.FAILED
    here.log_in()
    assert not offer(here).repeated


async def run_until_heard(here: GatewayHere, monkeypatch: pytest.MonkeyPatch, delivery: str) -> tuple[str, list[str]]:
    task = await here.start(monkeypatch)
    await here.line.hear("hello")
    receipt = await here.process.service.delivery(delivery, 10_000)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(task, 20) is ExitCode.DONE
    return receipt.state, here.line.texts


def test_the_next_start_sends_it(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = offer(here).deliveries[0].delivery
    assert asyncio.run(run_until_heard(here, monkeypatch, delivery)) == ("delivered", ["news"])
    held = offer(here, "more", "t2").deliveries[0]
    assert held.state == "queued", "a window is open, but nothing leaves offline"
    assert len(events_of(here, SendRequested)) == 1


def test_orders_and_lists(here: GatewayHere) -> None:
    delivery = offer(here).deliveries[0].delivery
    bound = asker(here).post(views.Bound, "/v1/bind", api.BindOrder(peer="weixin:main", session="desk"))
    assert bound.session == "desk"
    paused = asker(here).post(views.Paused, "/v1/pause", api.PauseOrder(scope="main"))
    assert paused.until is None
    (shown,) = asker(here).get(Waiting, "/v1/backlog", peer="").backlog
    assert [w.delivery for w in shown.waiting] == [delivery]
    gone = asker(here).post(views.Gone, "/v1/backlog/drop", api.DropOrder(deliveries=(delivery,)))
    assert gone.deliveries == (delivery,)
    (dead,) = asker(here).get(Dead, "/v1/dead").dead
    assert dead.delivery == delivery


def test_refusals_are_those_of_the_command_line(here: GatewayHere) -> None:
    with pytest.raises(Failed, match="no peer has the address weixin:main:zoe"):
        offer(here, to="weixin:main:zoe")
    with pytest.raises(Misused, match="is not an address"):
        offer(here, to="a b")
    offer(here)
    with pytest.raises(Failed, match="another text"):
        offer(here, "other")


def test_a_file_that_is_no_log(here: GatewayHere) -> None:
    here.log.write_bytes(b"a diary" * 1_000)
    with pytest.raises(Failed):
        offer(here)


async def test_a_running_gateway_is_replaced(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await here.start(monkeypatch)
    accepted = await asyncio.to_thread(offer, here)
    assert accepted.deliveries[0].state == "queued"
    assert await asyncio.wait_for(task, 20) is ExitCode.REPLACED
