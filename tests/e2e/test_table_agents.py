"""Rows of the table: messages that no agent is there for, and agents that die in a turn."""

from __future__ import annotations

from tests.e2e.hand import Hand
from tests.e2e.phones import MINUTE, SECOND
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage

NOTICE = "No agent is connected right now."


def test_a_message_waits_for_an_agent_and_its_sender_is_told_once(stage: Stage) -> None:
    person = stage.person()
    person.says("anybody there?")
    eventually(lambda: any(p["open_turn"] for p in stage.gateway.get("/v1/peers")["peers"]), "the turn is open")
    turn_id = stage.gateway.peer(person.address)["open_turn"]
    assert "waits until one connects" in "\n".join(stage.gateway.explain(turn_id)["sentences"])
    stage.silent(person, sends=0)

    stage.later(31 * SECOND)
    stage.answered(person, 1)
    assert person.reads[0].startswith(NOTICE)
    for _ in range(3):
        stage.later(20 * MINUTE)
        stage.silent(person, sends=1)
    stage.gateway.child.kill()  # a restart does not tell it again, nor lose the turn
    stage.gateway.start()
    stage.later(MINUTE)
    stage.silent(person, sends=1)

    with Hand(stage.gateway.agents_url) as agent:
        assert agent.takes(person.address) == turn_id
        agent.answers(turn_id, "yes, now")
        stage.answered(person, 2)
    assert person.reads[1:] == ["yes, now"]
    rows = stage.gateway.ledger(person.address)
    assert [(r["kind"], r["share"], r["slot"]) for r in rows] == [("notice", 0, 1), ("answer", 0, 2)]
    told = "\n".join(stage.gateway.explain(turn_id)["sentences"])
    assert "Its sender was told once" in told
    assert "Agent hand got it" in told
    stage.gateway.sound()


def test_a_turn_whose_agent_dies_goes_to_the_next_under_the_same_id(stage: Stage) -> None:
    dies = stage.echo("--die")
    person = stage.person()
    person.says("careful")
    assert dies.exited() == 70
    turn_id = stage.gateway.peer(person.address)["open_turn"]
    assert turn_id

    with Hand(stage.gateway.agents_url) as agent:
        stage.later(11 * SECOND)  # the dead agent does not come back
        assert agent.takes(person.address) == turn_id
        agent.say(type="completed", turn_id=turn_id, text="survived")
        stage.answered(person, 1)
        agent.say(type="completed", turn_id=turn_id, text="survived")  # it never saw its receipt
        agent.hear("receipt", turn_id=turn_id, state="delivered")
    stage.silent(person, sends=1)
    assert person.reads == ["survived"]
    told = "\n".join(stage.gateway.explain(turn_id)["sentences"])
    assert "offered again under the same turn id" in told


def test_what_a_hook_answers_over_http_is_taken_from_the_agent(stage: Stage) -> None:
    person = stage.person()
    with Hand(stage.gateway.agents_url) as agent:
        person.says("whoever is first")
        turn_id = agent.takes(person.address)
        stage.gateway.offer(person.address, "by a hook", turn_id=turn_id)
        stage.answered(person, 1)
        assert agent.hear("cancel", turn_id=turn_id)["reason"] == "answered"
        (shown,) = stage.gateway.get("/v1/status")["agents"]
        assert shown["open_turns"] == 0
    assert person.reads == ["by a hook"]


def test_an_agent_that_comes_back_keeps_its_turn(stage: Stage) -> None:
    person = stage.person()
    with Hand(stage.gateway.agents_url) as agent:
        person.says("long work")
        turn_id = agent.takes(person.address)
        agent.close()
    with Hand(stage.gateway.agents_url, name="other"), Hand(stage.gateway.agents_url) as again:
        assert again.takes(person.address) == turn_id
        again.answers(turn_id, "done")
        stage.answered(person, 1)
    assert person.reads == ["done"]
    stage.gateway.explain(turn_id)


def test_nobody_finishes_a_turn_that_was_never_its_own(stage: Stage) -> None:
    """Not while it is open, not after a restart of the gateway, whose log knows the holder, and not once it is over."""
    person = stage.person()

    def is_refused(thief: Hand, **more: str) -> None:
        thief.say(type="completed", turn_id=turn_id, text="mine now", **more)
        assert turn_id in thief.hear("error", turn_id=turn_id, code="turn_taken")["message"]

    with Hand(stage.gateway.agents_url) as agent:
        person.says("for one agent")
        turn_id = agent.takes(person.address)
        with Hand(stage.gateway.agents_url, name="thief") as thief:
            is_refused(thief)
            is_refused(thief, to=person.address)
    stage.gateway.restart()
    with Hand(stage.gateway.agents_url, name="thief") as thief:
        is_refused(thief)
        stage.silent(person, sends=0)
        with Hand(stage.gateway.agents_url) as agent:
            agent.answers(turn_id, "done")
            stage.answered(person, 1)
        is_refused(thief)
    assert person.reads == ["done"]
    assert "ended as completed" in (told := "\n".join(stage.gateway.explain(turn_id)["sentences"]))
    assert "by agent hand" in told


def test_a_former_holder_may_still_answer_and_a_second_connection_of_a_name_replaces_the_first(stage: Stage) -> None:
    person = stage.person()
    with Hand(stage.gateway.agents_url) as first:
        person.says("long work")
        turn_id = first.takes(person.address)
        with Hand(stage.gateway.agents_url) as second:
            assert second.takes(person.address) == turn_id, "the same agent, so the same turn"
            assert first.end() == (4409, "replaced by a newer connection of the same agent")
    with Hand(stage.gateway.agents_url, name="other") as other:
        stage.later(11 * SECOND)
        assert other.takes(person.address) == turn_id
        with Hand(stage.gateway.agents_url) as back:
            back.answers(turn_id, "the first answer counts")
            stage.answered(person, 1)
        assert other.hear("cancel", turn_id=turn_id)["reason"] == "answered"
        other.say(type="completed", turn_id=turn_id, text="too late")
        other.hear("error", turn_id=turn_id, code="turn_conflict")
    assert person.reads == ["the first answer counts"]
    assert "by agent hand, which had had it before" in "\n".join(stage.gateway.explain(turn_id)["sentences"])
