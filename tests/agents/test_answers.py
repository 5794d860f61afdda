"""What agents say of their turns, and what they are told."""

from __future__ import annotations

import pytest

from actors.agents.turns import REOFFER_AFTER_MS
from actors.deciding.commands import Bind, FinishTurn
from actors.gateway.agent_wire import Cancel, Error, Receipt
from actors.gateway.errors import Busy
from actors.runtime.errors import ActorStopped, MailboxFull
from actors.runtime.futures import Slot
from events.streams import delivery_id
from store.errors import Fenced, LogBusy, LogFailed, TextTooLarge
from tests.agents.world import NOW, Agent, World

TURN = "t-ann-1"
DELIVERY = delivery_id("peer-ann", TURN)
RECEIPT = Receipt(
    turn_id=TURN,
    delivery=DELIVERY,
    peer="weixin:main:ann",
    state="queued",
    reason="waits for the pace",
    earliest=NOW + 1000,
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def agent(world: World) -> Agent:
    """An agent that has a turn of ann's."""
    agent = world.agent("a")
    world.turn()
    agent.new()
    return agent


@pytest.mark.parametrize("kind", ["completed", "degraded", "failed"])
def test_an_ending_is_recorded_and_receipted(world: World, agent: Agent, kind: str) -> None:
    assert agent.say(kind, turn_id=TURN, text="hi") == [RECEIPT]
    assert world.peers.commands(FinishTurn) == [FinishTurn(turn_id=TURN, status=kind, text="hi", agent="a")]  # type: ignore[arg-type] # a status
    assert agent.seat.holding == set()


def test_failed_needs_no_text(world: World, agent: Agent) -> None:
    assert agent.say("failed", turn_id=TURN) == [RECEIPT]


def test_the_same_again_gets_the_same_receipt(world: World, agent: Agent) -> None:
    agent.say("completed", turn_id=TURN, text="hi")
    (again,) = agent.say("completed", turn_id=TURN, text="hi")
    assert (again.delivery, again.state, again.note) == (DELIVERY, "queued", "accepted before")


def test_a_text_that_was_not_taken_is_told_in_the_note(world: World, agent: Agent) -> None:
    agent.say("completed", turn_id="own", text="one", to="weixin:main:ann")
    world.desk.not_taken = "its text is gone"
    (again,) = agent.say("completed", turn_id="own", text="two", to="weixin:main:ann")
    assert (again.state, again.note) == ("queued", "its text is gone")


def test_another_text_is_a_conflict(world: World, agent: Agent) -> None:
    agent.say("completed", turn_id=TURN, text="hi")
    (error,) = agent.say("completed", turn_id=TURN, text="ho")
    assert (error.code, error.turn_id) == ("turn_conflict", TURN)
    assert world.peers.finished[DELIVERY] == ("completed", "hi")


def test_a_stranger_to_a_turn_is_refused_and_nothing_changes(world: World, agent: Agent) -> None:
    stranger = world.agent("c")
    stranger.new()
    (error,) = stranger.say("completed", turn_id=TURN, text="mine now")
    assert (error.code, error.turn_id) == ("turn_taken", TURN)
    assert world.peers.finished == {}
    assert agent.seat.holding == {TURN}, "the turn is not taken from its agent"
    assert agent.say("completed", turn_id=TURN, text="hi") == [RECEIPT]


@pytest.mark.parametrize("refused_first", [True, False])
def test_later_receipts_go_to_whom_the_turn_was_and_not_to_a_stranger(
    world: World, agent: Agent, refused_first: bool
) -> None:
    stranger = world.agent("c")
    stranger.new()
    order = [stranger, agent] if refused_first else [agent, stranger]
    for one in order:
        one.post("completed", turn_id=TURN, text="hi")
    agent.new(), stranger.new()
    world.hub.delivery_changed(DELIVERY, "delivered")
    assert [f.state for f in agent.new()] == ["delivered"]  # type: ignore[union-attr] # receipts
    assert stranger.new() == []


def test_a_former_holder_that_comes_back_may_still_answer(world: World, agent: Agent) -> None:
    agent.leave()
    world.pass_ms(REOFFER_AFTER_MS + 1)
    other = world.agent("b")
    assert other.turns == [TURN]
    back = world.agent("a")
    back.new(), other.new()
    (receipt,) = back.say("completed", turn_id=TURN, text="hi")
    assert (receipt.delivery, receipt.state) == (DELIVERY, "queued")
    assert other.new() == [Cancel(turn_id=TURN, reason="answered")]


def test_the_gateway_is_told_who_offers_what(world: World, agent: Agent) -> None:
    """A turn whose peer has not offered it in this process: the log knows who had it."""
    agent.say("completed", turn_id="job-1", to="weixin:main:ann", text="news")
    assert world.desk.claims == ["a"]


@pytest.mark.parametrize("seed", range(10))
def test_two_at_once_are_one(seed: int) -> None:
    world = World(seed)
    agent = world.agent("a")
    world.turn()
    agent.new()
    agent.post("completed", turn_id=TURN, text="hi")
    agent.post("completed", turn_id=TURN, text="hi")
    receipts = agent.new()
    assert [frame.delivery for frame in receipts] == [DELIVERY, DELIVERY]  # type: ignore[union-attr] # receipts
    assert list(world.peers.finished) == [DELIVERY]


def test_a_cancelled_turn_is_over(world: World, agent: Agent) -> None:
    del world.peers.turns["peer-ann"]
    world.hub.withdraw(TURN, "cancelled")
    agent.new()
    (error,) = agent.say("completed", turn_id=TURN, text="hi")
    assert error.code == "turn_conflict"


def test_after_a_restart_the_log_knows_the_turn(world: World, agent: Agent) -> None:
    agent.say("completed", turn_id=TURN, text="hi")
    successor = World()
    successor.peers.finished = world.peers.finished
    reconnected = successor.agent("a")
    reconnected.new()
    (receipt,) = reconnected.say("completed", turn_id=TURN, text="hi")
    assert (receipt.delivery, receipt.note) == (DELIVERY, "accepted before")
    (offer,) = successor.desk.offers
    assert (offer.origin, offer.turn_id, offer.text, offer.status) == ("inbound", TURN, "hi", "completed")


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (LogBusy(), "busy"),
        (LogFailed(), "unavailable"),
        (MailboxFull(), "busy"),
        (Fenced(), "unavailable"),
        (ActorStopped(), "unavailable"),
        (TextTooLarge(), "too_large"),
    ],
)
def test_what_could_not_be_recorded_may_be_sent_again(
    world: World, agent: Agent, failure: Exception, code: str
) -> None:
    world.peers.failures = [failure]
    (error,) = agent.say("completed", turn_id=TURN, text="hi")
    assert isinstance(error, Error)
    assert (error.code, error.turn_id) == (code, TURN)
    assert agent.say("completed", turn_id=TURN, text="hi") == [RECEIPT]


def test_a_defect_is_reported_and_the_agent_told(world: World, agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    world.peers.failures = [ZeroDivisionError("the text of a message")]
    (error,) = agent.say("completed", turn_id=TURN, text="hi")
    assert error.code == "broken"
    assert "ZeroDivisionError" in caplog.text
    assert "the text of a message" not in caplog.text


def test_the_state_cannot_be_read_but_it_is_accepted(world: World, agent: Agent) -> None:
    def unreadable(_: str) -> Slot:
        slot = Slot()
        slot.set_exception(Busy())
        return slot

    world.desk.delivery = unreadable  # type: ignore[method-assign] # this once
    (receipt,) = agent.say("completed", turn_id=TURN, text="hi")
    assert receipt.state == "queued"
    world.hub.delivery_changed(DELIVERY, "delivered")
    assert [frame.state for frame in agent.new()] == ["delivered"]  # type: ignore[union-attr] # receipts


# --- later receipts ---------------------------------------------------------------------------------------------------


def test_later_receipts(world: World, agent: Agent) -> None:
    agent.say("completed", turn_id=TURN, text="hi")
    world.hub.delivery_changed(DELIVERY, "unknown", "no answer in time")
    world.hub.delivery_changed(DELIVERY, "unknown", "no answer in time")
    world.hub.delivery_changed(DELIVERY, "delivered", "a late answer")
    world.hub.delivery_changed("d-other", "delivered")
    assert [(f.turn_id, f.state, f.reason) for f in agent.new()] == [  # type: ignore[union-attr] # receipts
        (TURN, "unknown", "no answer in time"),
        (TURN, "delivered", "a late answer"),
    ]


def test_later_receipts_find_a_reconnected_agent(world: World, agent: Agent) -> None:
    agent.say("completed", turn_id=TURN, text="hi")
    agent.leave()
    world.hub.delivery_changed(DELIVERY, "unconfirmed")
    again = world.agent("a")
    again.new()
    world.hub.delivery_changed(DELIVERY, "delivered")
    assert [f.state for f in again.new()] == ["delivered"]  # type: ignore[union-attr] # receipts


@pytest.mark.parametrize("seed", range(10))
def test_a_send_that_is_faster_than_the_receipt(seed: int) -> None:
    """The first receipt says the newest state, and nothing older follows."""
    world = World(seed)
    agent = world.agent("a")
    world.turn()
    agent.new()
    world.peers.on_finish = lambda delivery: world.hub.delivery_changed(delivery, "delivered", "done")
    frames = agent.say("completed", turn_id=TURN, text="hi")
    assert [(f.state, f.reason) for f in frames] == [("delivered", "done")]  # type: ignore[union-attr] # receipts


# --- started, delta ---------------------------------------------------------------------------------------------------


def test_started_binds_an_unbound_peer(world: World, agent: Agent) -> None:
    open_ = Receipt(turn_id=TURN, peer="weixin:main:ann", state="open")
    assert agent.say("started", turn_id=TURN, session="s7") == [open_]
    assert world.peers.commands(Bind) == [Bind(session="s7", who="a", only_if_unbound=True)]
    assert agent.say("started", turn_id=TURN) == [open_]
    assert len(world.peers.commands(Bind)) == 1


def test_a_delta_is_noted_and_not_delivered(world: World, agent: Agent) -> None:
    before = len(world.peers.asked)
    assert agent.say("delta", turn_id=TURN, text="h") == [Receipt(turn_id=TURN, state="open")]
    assert len(world.peers.asked) == before


@pytest.mark.parametrize("kind", ["started", "delta"])
def test_only_of_ones_own_open_turn(world: World, agent: Agent, kind: str) -> None:
    text = {"text": "x"} if kind == "delta" else {}
    other = world.agent("b")
    other.new()
    assert [f.code for f in other.say(kind, turn_id=TURN, **text)] == ["turn_taken"]  # type: ignore[union-attr] # errors
    assert [f.code for f in other.say(kind, turn_id="t-none", **text)] == ["turn_not_open"]  # type: ignore[union-attr] # errors


def test_hello_comes_once(world: World, agent: Agent) -> None:
    assert [f.code for f in agent.say("hello", agent="z", protocol=1)] == ["hello_twice"]  # type: ignore[union-attr] # an error
    assert world.hub.agents == 1


# --- turns of the agent's own -----------------------------------------------------------------------------------------


def test_a_turn_of_ones_own(world: World, agent: Agent) -> None:
    (receipt,) = agent.say("completed", turn_id="job-1", origin="scheduled", to="weixin:main:ann", text="news")
    delivery = delivery_id("peer-ann", "job-1")
    assert (receipt.delivery, receipt.state, receipt.of) == (delivery, "queued", 1)
    (offer,) = world.desk.offers
    assert (offer.to, offer.session, offer.origin, offer.status) == ("weixin:main:ann", "", "scheduled", "completed")
    world.hub.delivery_changed(delivery, "dropped", "backlog_full")
    assert [(f.turn_id, f.state) for f in agent.new()] == [("job-1", "dropped")]  # type: ignore[union-attr] # receipts


def test_a_turn_for_a_session_has_a_receipt_for_each_peer(world: World, agent: Agent) -> None:
    receipts = agent.say("degraded", turn_id="job-1", session="s1", text="news")
    assert [f.delivery for f in receipts] == [delivery_id(f"peer-{p}", "job-1") for p in ("ann", "bob")]  # type: ignore[union-attr] # receipts
    assert {f.of for f in receipts} == {2}  # type: ignore[union-attr] # receipts
    assert world.desk.offers[0].origin == "api"


def test_a_refused_turn_of_ones_own(world: World, agent: Agent) -> None:
    (error,) = agent.say("completed", turn_id="job-1", to="weixin:main:stranger", text="news")
    assert (error.code, error.path, error.near) == ("unknown_peer", "$.to", ("weixin:main:ann",))
    (receipt,) = agent.say("completed", turn_id="job-1", to="weixin:main:ann", text="news")
    assert receipt.state == "queued"


@pytest.mark.parametrize("seed", range(10))
def test_turns_of_ones_own_keep_their_order(seed: int) -> None:
    world = World(seed)
    agent = world.agent("a")
    gate = world.desk.held["job-1"] = Slot()
    for number in (1, 2, 3):
        agent.post("completed", turn_id=f"job-{number}", to="weixin:main:ann", text="news")
    agent.new()
    assert list(world.desk.accepted) == []
    gate.set_result(None)
    assert [f.turn_id for f in agent.new()] == ["job-1", "job-2", "job-3"]  # type: ignore[union-attr] # receipts
    assert list(world.desk.accepted) == ["job-1", "job-2", "job-3"]
