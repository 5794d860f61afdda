"""The peer's actor around `decide`: append first, then act; conflicts, restarts, passivation, outlets that are gone."""

from __future__ import annotations

import pytest

from actors.deciding.commands import AcceptTurn, Advance, FinishTurn, Rehearse
from actors.peer import Peer
from actors.ports import Accepted, Refused
from events.peer_state import PeerState, evolve
from events.quota import SEND_WITHIN_MS
from events.streams import peer_stream
from store.errors import Fenced
from store.records import ANY, Batch, Write
from tests.actors.stage import Stage


@pytest.fixture
def stage() -> Stage:
    """Ann wrote, was answered, and can be pushed to."""
    stage = Stage()
    stage.poll(stage.message())
    answer(stage)
    return stage


def answer(stage: Stage, text: str = "hello") -> None:
    turn = stage.hub.offers[-1].turn
    stage.ask(stage.ann, FinishTurn(turn_id=turn.turn_id, status="completed", text=text))
    stage.conclude(Accepted(message_id="1"))


def actor(stage: Stage) -> Peer:
    found = stage.account.peers.actor(stage.ann)
    assert isinstance(found, Peer)
    return found


def folded(stage: Stage) -> PeerState:
    state = PeerState()
    for r in stage.events(stage.ann):
        state = evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)
    return state


def test_an_answer_goes_out_and_its_outcome_is_settled(stage: Stage) -> None:
    (order,) = stage.outlet.orders
    assert (order.peer, order.text, order.token) == ("ann", "hello", "token 1")
    assert stage.outlet.held == set()
    assert actor(stage).state == folded(stage)


def test_the_request_is_durable_before_the_outlet_has_it(stage: Stage) -> None:
    seen: list[bool] = []
    send = stage.outlet.send
    stage.outlet.send = lambda order: (seen.append("send_requested" in stage.types()[-2:]), send(order))[1]  # type: ignore[method-assign] # watched
    stage.accept("t-1")
    assert seen == [True]


def test_bytes_may_leave_within_five_seconds(stage: Stage) -> None:
    before = stage.machine.clock.monotonic()
    stage.accept("t-1")
    assert before <= stage.outlet.orders[-1].leave_by - SEND_WITHIN_MS <= stage.machine.clock.monotonic()


def test_facts_that_came_between_are_read_and_decided_upon_again(stage: Stage) -> None:
    at = stage.machine.clock.now()
    fact = stage.events(stage.ann)[0].event
    write = Write(stage.ann, ANY, (fact,))
    stage.wait(appended(stage, Batch(account="weixin:main", epoch=1, at=at, writes=(write,))))
    stage.accept("t-1")
    assert actor(stage).state == folded(stage)
    assert stage.types(stage.ann).count("turn_completed") == 2


async def appended(stage: Stage, batch: Batch) -> None:
    await stage.log.append(batch)


def test_a_peer_that_was_put_away_knows_everything_again(stage: Stage) -> None:
    before = actor(stage).state
    assert stage.account.peers.passivate(stage.ann)
    stage.ask(stage.ann, Advance())
    assert actor(stage).state == before


def test_no_peer_is_put_away_while_its_request_is_open(stage: Stage) -> None:
    stage.accept("t-1")
    assert not stage.account.peers.passivate(stage.ann)


def test_a_request_that_no_outlet_has_is_given_up_and_tried_again(stage: Stage) -> None:
    stage.account.outlet = None
    stage.accept("t-1")
    assert stage.types(stage.ann)[-1] in ("send_failed", "send_requested")
    stage.account.outlet = stage.outlet
    stage.scheduler.run_for(60_000)
    assert stage.outlet.orders[-1].text == "news"
    assert len({o.request for o in stage.outlet.orders}) == len(stage.outlet.orders)


def test_the_next_life_closes_what_was_open(stage: Stage) -> None:
    stage.accept("t-1")
    later = Stage(stage.disk)
    assert later.account.view.epoch == 2
    assert "send_unknown" in later.types(stage.ann)
    assert later.outlet.orders == [], "and nothing is sent again"


def test_the_next_life_offers_the_open_turn_again(stage: Stage) -> None:
    stage.poll(stage.message("more?"))
    open_turn = stage.hub.offers[-1].turn.turn_id
    later = Stage(stage.disk)
    assert {o.turn.turn_id for o in later.hub.offers} == {open_turn}


def test_what_waits_for_the_pace_leaves_when_its_place_comes(stage: Stage) -> None:
    stage.outlet.paced_until = stage.machine.clock.now() + 3_000
    stage.accept("t-1")
    assert len(stage.outlet.orders) == 1
    stage.scheduler.run_for(3_000)
    assert len(stage.outlet.orders) == 2


def test_a_send_that_never_left_is_tried_again(stage: Stage) -> None:
    stage.accept("t-1")
    stage.conclude(Refused(failure="not_sent"))
    stage.scheduler.run_for(1_100)
    assert [o.text for o in stage.outlet.orders[-2:]] == ["news", "news"]


def test_a_fenced_peer_refuses_who_asks(stage: Stage) -> None:
    stage.disk.claim("weixin:main", "i-2", stage.machine.clock.now())
    with pytest.raises(Fenced):
        stage.accept("t-1")
    assert stage.fenced == 1


def test_a_stranger_stays_one() -> None:
    stage = Stage()
    stage.poll(stage.message(peer="mallory"))
    stream = stage.account.stream_of("mallory")
    assert stage.types(stream)[-1] == "access_refused"
    assert stage.hub.offers == []
    assert stream.startswith(peer_stream("0" * 16)[:5])


def test_a_rehearsal_takes_no_place_in_the_pace(stage: Stage) -> None:
    news = AcceptTurn(turn_id="t-1", origin="scheduled", status="completed", text="news", keys_value="{}")
    before = stage.outlet.kept
    decision = stage.ask(stage.ann, Rehearse(news))
    assert [type(e).__name__ for e in decision.events][-1] == "SendRequested"
    assert (stage.outlet.kept, len(stage.outlet.orders)) == (before, 1)
    stage.ask(stage.ann, news)
    assert (stage.outlet.kept, len(stage.outlet.orders)) == (before + 1, 2)
