"""Who gets a turn, and when another one does."""

from __future__ import annotations

import pytest

from actors.agents.hub import REPLACED
from actors.agents.turns import REOFFER_AFTER_MS, RETRY_MS
from actors.deciding.commands import LoseAgent, TakeTurn
from actors.gateway.agent_wire import Cancel, Completed, Message, Reset, Welcome
from actors.runtime.errors import ActorStopped
from store.errors import Fenced, LogBusy
from tests.agents.world import NOW, Agent, World

AWAY = REOFFER_AFTER_MS + 1


@pytest.fixture
def world() -> World:
    return World()


def test_a_turn_is_recorded_and_then_sent(world: World) -> None:
    agent = world.agent("a")
    assert isinstance(agent.new()[0], Welcome)
    world.turn("ann", session="s1")
    assert agent.link.frames == []
    assert agent.new() == [
        Message(
            turn_id="t-ann-1",
            session="s1",
            resets=3,
            peer="weixin:main:ann",
            message="m-ann-1",
            text="text of m-ann-1",
            contents=("text",),
            sent_at=NOW - 5,
            at=NOW,
        )
    ]
    assert world.peers.commands(TakeTurn) == [TakeTurn(turn_id="t-ann-1", agent="a")]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_leaves_before_it_is_recorded(seed: int) -> None:
    world = World(seed)
    agents = [world.agent(name, max_turns=2) for name in ("a", "b")]

    def check() -> None:
        for agent in agents:
            for frame in agent.link.frames:
                if isinstance(frame, Message):
                    assert world.peers.turns[f"peer-{frame.peer.rpartition(':')[2]}"].agent == agent.seat.name

    world.scheduler.on_turn = check
    for number in range(6):
        world.turn(f"p{number}")
    world.scheduler.run_ready()
    assert sorted(agents[0].turns + agents[1].turns) == [f"t-p{number}-1" for number in range(4)]


def test_the_same_offer_again_changes_nothing(world: World) -> None:
    agent = world.agent("a")
    world.turn()
    world.offer()
    world.scheduler.run_ready()
    world.offer()
    assert agent.turns == ["t-ann-1"]


def taken_one_by_one(agent: Agent, count: int) -> list[str]:
    """The turns of an agent that takes one at a time, in the order in which it gets them."""
    order, frames = [], agent.new()
    for _ in range(count):
        (turn_id,) = [frame.turn_id for frame in frames if isinstance(frame, Message)]
        order.append(turn_id)
        frames = agent.say("completed", turn_id=turn_id, text="x")
    return order


@pytest.mark.parametrize("seed", range(10))
def test_turns_wait_in_the_order_of_their_offers(seed: int) -> None:
    world = World(seed)
    for peer in "cab":
        world.turn(peer)
    assert taken_one_by_one(world.agent("x", max_turns=1), 3) == ["t-c-1", "t-a-1", "t-b-1"]


def test_no_more_than_an_agent_takes(world: World) -> None:
    agent = world.agent("a", max_turns=2)
    for number in range(5):
        world.turn(f"p{number}")
    assert sorted(agent.turns) == ["t-p0-1", "t-p1-1"]
    agent.say("completed", turn_id="t-p1-1", text="x")
    world.scheduler.run_ready()
    assert "t-p2-1" in agent.seat.holding
    assert len(agent.seat.holding) == 2


def test_the_least_loaded_takes_it_and_peers_stay_with_their_agent(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    for peer in ("p", "q", "r"):
        world.turn(peer)
        world.scheduler.run_ready()
    assert a.turns == ["t-p-1", "t-r-1"]
    assert b.turns == ["t-q-1"]
    for agent, peer in ((a, "p"), (a, "r"), (b, "q")):
        agent.say("completed", turn_id=f"t-{peer}-1", text="x")
    world.turn("q", 2)
    world.scheduler.run_ready()
    assert b.turns == ["t-q-2"]


@pytest.mark.parametrize(
    ("session", "account", "taker"),
    [
        ("s1", "weixin:main", "by_session"),
        ("s2", "weixin:main", "by_account"),
        ("s2", "weixin:spare", "by_name"),
        ("", "feishu:work", "any"),
        ("s9", "feishu:work", "any"),
    ],
)
def test_the_closest_takes_it(world: World, session: str, account: str, taker: str) -> None:
    agents = {
        "any": world.agent("any"),
        "by_session": world.agent("by_session", sessions=("s1",)),
        "by_account": world.agent("by_account", accounts=("weixin:main",)),
        "by_name": world.agent("by_name", accounts=("spare",)),
    }
    world.turn("ann", session=session)
    world.hub.withdraw("t-ann-1", "cancelled")
    world.offer("ann", account)
    assert [name for name, agent in agents.items() if agent.turns] == [taker]


def test_what_nobody_serves_waits(world: World) -> None:
    agent = world.agent("a", sessions=("s1",))
    world.turn(session="s2")
    world.pass_ms(60_000)
    assert agent.turns == []
    assert world.agent("b").turns == ["t-ann-1"]


def test_a_closer_agent_without_room_is_waited_for(world: World) -> None:
    close, other = world.agent("close", sessions=("s1",), max_turns=1), world.agent("other")
    world.turn("p", session="s1")
    world.turn("q", session="s1")
    assert close.turns == ["t-p-1"]
    assert other.turns == []
    close.say("completed", turn_id="t-p-1", text="x")
    world.scheduler.run_ready()
    assert close.seat.holding == {"t-q-1"}


# --- agents that go ---------------------------------------------------------------------------------------------------


def test_an_agent_that_comes_back_gets_its_turn_again(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    world.turn()
    assert a.turns == ["t-ann-1"]
    a.leave()
    world.pass_ms(REOFFER_AFTER_MS - 1)
    assert b.turns == []
    again = world.agent("a")
    assert again.turns == ["t-ann-1"]
    world.pass_ms(60_000)
    assert b.turns == []
    assert world.peers.commands(LoseAgent) == []


def test_an_agent_that_stays_away_loses_its_turn(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    world.turn()
    world.scheduler.run_ready()
    a.leave()
    world.pass_ms(AWAY)
    assert b.turns == ["t-ann-1"]
    assert world.peers.commands(LoseAgent) == [LoseAgent("a")]
    assert world.peers.turns["peer-ann"].agent == "b"
    assert world.agent("a").turns == []


def test_goodbye_passes_turns_on_at_once(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    world.turn()
    world.scheduler.run_ready()
    a.say("goodbye")
    world.turn("bob")
    assert a.turns == []
    assert b.turns == ["t-bob-1"]
    a.leave()
    assert b.turns == ["t-bob-1", "t-ann-1"]


def test_a_leaving_agent_may_still_finish(world: World) -> None:
    a = world.agent("a")
    world.turn()
    world.scheduler.run_ready()
    a.say("goodbye")
    (receipt,) = a.say("completed", turn_id="t-ann-1", text="x")
    assert receipt.state == "queued"


def test_after_a_restart_the_agent_of_the_turn_is_waited_for(world: World) -> None:
    b = world.agent("b")
    world.turn(agent="a")
    world.pass_ms(REOFFER_AFTER_MS - 1)
    assert b.turns == []
    world.pass_ms(2)
    assert b.turns == ["t-ann-1"]


def test_after_a_restart_the_agent_of_the_turn_gets_it(world: World) -> None:
    world.turn(agent="a")
    world.pass_ms(5_000)
    world.agent("b")
    assert world.agent("a").turns == ["t-ann-1"]


@pytest.mark.parametrize("seed", range(10))
def test_the_turns_of_a_lost_agent_keep_their_order(seed: int) -> None:
    world = World(seed)
    a = world.agent("a")
    for peer in "dcab":
        world.turn(peer)
    world.scheduler.run_ready()
    a.leave()
    world.pass_ms(AWAY)
    assert len(world.peers.commands(LoseAgent)) == 4
    assert taken_one_by_one(world.agent("b", max_turns=1), 4) == ["t-d-1", "t-c-1", "t-a-1", "t-b-1"]


def test_a_newer_connection_replaces_the_older(world: World) -> None:
    old = world.agent("a")
    world.turn()
    world.scheduler.run_ready()
    new = world.agent("a")
    assert old.link.closed == (REPLACED, "replaced by a newer connection of the same agent")
    assert new.turns == ["t-ann-1"]
    old.leave()
    world.pass_ms(60_000)
    assert world.hub.agents == 1
    assert world.peers.commands(LoseAgent) == []
    assert world.changes == [1]


def test_the_old_connection_may_finish_the_turn(world: World) -> None:
    old = world.agent("a")
    world.turn()
    world.scheduler.run_ready()
    new = world.agent("a")
    assert new.turns == ["t-ann-1"]
    world.hub.receive(old.seat, Completed(turn_id="t-ann-1", text="x"))
    assert new.got(Cancel) == [Cancel(turn_id="t-ann-1", reason="answered")]
    assert [text for _, text in world.peers.finished.values()] == ["x"]


def test_whoever_finishes_first_has_finished(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    world.turn()
    world.scheduler.run_ready()
    a.leave()
    world.pass_ms(AWAY)
    a = world.agent("a")
    (_, receipt) = a.say("completed", turn_id="t-ann-1", text="from a")
    assert receipt.state == "queued"
    assert b.got(Cancel) == [Cancel(turn_id="t-ann-1", reason="answered")]
    (*_, error) = b.say("completed", turn_id="t-ann-1", text="from b")
    assert error.code == "turn_conflict"


def test_the_connection_ends_while_the_turn_is_taken(world: World) -> None:
    b = world.agent("b", accounts=("none",))
    a = world.agent("a")
    world.turn()
    for _ in range(100):
        world.scheduler.step()
        if world.peers.commands(TakeTurn):
            break
    a.leave()
    world.scheduler.run_ready()
    assert a.turns == []
    assert world.agent("a").turns == ["t-ann-1"]
    assert b.turns == []


# --- peers that cannot obey -------------------------------------------------------------------------------------------


def test_a_turn_that_is_over_is_forgotten(world: World) -> None:
    world.turn()
    del world.peers.turns["peer-ann"]
    agent = world.agent("a")
    world.scheduler.run_ready()
    assert agent.turns == []
    assert agent.seat.holding == set()


@pytest.mark.parametrize("refusals", [1, 3])
def test_a_busy_log_is_asked_again(world: World, refusals: int) -> None:
    agent = world.agent("a")
    world.peers.failures = [LogBusy() for _ in range(refusals)]
    world.turn()
    assert agent.turns == []
    assert agent.seat.holding == set()
    world.pass_ms(RETRY_MS * refusals + 1)
    assert agent.turns == ["t-ann-1"]


def test_a_full_mailbox_is_asked_again(world: World) -> None:
    agent = world.agent("a")
    world.peers.full = 1
    world.turn()
    world.pass_ms(RETRY_MS + 1)
    assert agent.turns == ["t-ann-1"]


def test_losing_an_agent_is_tried_again(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    world.turn()
    world.scheduler.run_ready()
    a.leave()
    world.peers.failures = [LogBusy()]
    world.pass_ms(AWAY)
    assert b.turns == []
    world.pass_ms(REOFFER_AFTER_MS + RETRY_MS)
    assert b.turns == ["t-ann-1"]


@pytest.mark.parametrize("gone", [Fenced(), ActorStopped("peer-ann")])
def test_a_peer_that_is_not_here_is_left_alone(world: World, gone: Exception) -> None:
    agent = world.agent("a")
    world.peers.failures = [gone]
    world.turn()
    world.pass_ms(60_000)
    assert agent.turns == []
    world.offer()
    assert agent.turns == ["t-ann-1"]


def test_an_account_that_stops_is_forgotten(world: World) -> None:
    agent = world.agent("a")
    world.turn("ann")
    world.scheduler.run_ready()
    world.hub.forget("weixin:mai")
    assert agent.seat.holding == {"t-ann-1"}
    world.hub.forget("weixin:main")
    assert agent.seat.holding == set()
    assert agent.got(Cancel) == []


# --- the end of turns, and other news ---------------------------------------------------------------------------------


def test_a_turn_that_somebody_else_answered_is_taken_from_its_agent(world: World) -> None:
    agent = world.agent("a", max_turns=1)
    world.turn("ann")
    world.turn("bob")
    assert agent.turns == ["t-ann-1"]
    world.hub.withdraw("t-ann-1", "answered")
    assert agent.got(Cancel) == [Cancel(turn_id="t-ann-1", reason="answered")]
    assert agent.turns == ["t-ann-1", "t-bob-1"], "and makes room for the next"


def test_withdrawn_while_it_waits(world: World) -> None:
    world.turn()
    world.hub.withdraw("t-ann-1", "cancelled")
    assert world.agent("a").turns == []


@pytest.mark.parametrize("seed", range(5))
def test_withdrawn_while_it_is_taken(seed: int) -> None:
    world = World(seed)
    agent = world.agent("a")
    world.turn()
    while not world.peers.commands(TakeTurn):
        world.scheduler.step()
    world.hub.withdraw("t-ann-1", "cancelled")
    assert agent.turns == []
    assert agent.seat.holding == set()


def test_withdrawn_from_the_agent(world: World) -> None:
    agent = world.agent("a")
    world.turn()
    world.scheduler.run_ready()
    world.hub.withdraw("t-ann-1", "cancelled")
    world.hub.withdraw("t-nobody", "cancelled")
    assert agent.got(Cancel) == [Cancel(turn_id="t-ann-1", reason="cancelled")]
    assert agent.seat.holding == set()


def test_the_next_turn_of_a_peer_ends_the_one_before(world: World) -> None:
    agent = world.agent("a")
    world.turn("ann", 1)
    world.scheduler.run_ready()
    world.turn("ann", 2)
    assert agent.turns == ["t-ann-1", "t-ann-2"]
    assert agent.seat.holding == {"t-ann-2"}


def test_reset_reaches_the_agents_that_serve_the_session(world: World) -> None:
    any_, mine, other = world.agent("any"), world.agent("m", sessions=("s1",)), world.agent("o", sessions=("s2",))
    world.hub.reset("peer-ann", "s1", 4)
    assert any_.got(Reset) == mine.got(Reset) == [Reset(session="s1", resets=4)]
    assert other.got(Reset) == []


def test_reset_names_the_peer_of_an_open_turn(world: World) -> None:
    agent = world.agent("a", accounts=("main",))
    world.turn()
    world.hub.reset("peer-ann", "", 1)
    assert agent.got(Reset) == [Reset(session="", resets=1, peer="weixin:main:ann")]


def test_the_number_of_agents_is_told(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    world.agent("b")
    a.leave()
    a.leave()
    b.leave()
    assert world.changes == [1, 2, 1]
    assert [(view.agent, view.open_turns) for view in world.hub.views()] == [("b", 0)]


def test_a_closed_hub_hands_nothing_over(world: World) -> None:
    agent = world.agent("a")
    world.turn()
    world.hub.close()
    world.turn("bob")
    world.scheduler.run_until_idle()
    assert agent.turns == []
