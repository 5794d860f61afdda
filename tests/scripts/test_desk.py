"""The agents' way into the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.deciding.commands import Ask
from actors.gateway.api import TurnOffer
from actors.gateway.errors import UnknownPeer
from actors.runtime.errors import ActorStopped
from scripts.running.desk import Desk, Peers
from store.memory import MemoryLog
from tests.gateway.stage import ANN, Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(MemoryLog())
    yield made
    await made.close()


def desk_of(stage: Stage) -> Desk:
    desk = Desk(stage.log, stage.finder)
    desk.gateway = stage.service
    return desk


async def done(future: Any) -> Any:
    return await future


async def test_a_turn_that_a_message_started_is_found_at_its_peer(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("question")
    desk = desk_of(stage)
    home = await done(desk.find(stage.hub.turns[0]))
    assert home is not None
    assert home.address == f"weixin:main:{ANN}"
    await stage.offer("news", turn_id="t1")
    assert await done(desk.find("t1")) is None, "nobody's message started it"
    assert await done(desk.find("t2")) is None


async def test_turns_and_receipts_pass(stage: Stage) -> None:
    line = await stage.account()
    await line.hear("question")
    desk = desk_of(stage)
    accepted = await done(desk.accept(TurnOffer(to="weixin:main", turn_id="t1", text="news"), "a"))
    receipt = await done(desk.delivery(accepted.deliveries[0].delivery))
    assert receipt.turn_id == "t1"
    with pytest.raises(UnknownPeer):
        await done(desk.accept(TurnOffer(to="weixin:main:zoe", text="news"), "a"))


async def test_peers_of_every_account_are_asked_by_stream(stage: Stage) -> None:
    await stage.account()
    await stage.account("other")
    peers = Peers(stage.finder)
    for name in ("main", "other"):
        stream = stage.lives[name].account.known(ANN)
        state, view, _now = await done(peers.ask(stream or "", Ask()))
        assert (view.account, state.version) == (f"weixin:{name}", 0)
    with pytest.raises(ActorStopped):
        await done(peers.ask("peer-ffffffffffffffffffffffffffffffff", Ask()))
