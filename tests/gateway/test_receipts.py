"""What people read about an output: a sentence for every fate, reason and state of an account."""

from __future__ import annotations

from typing import get_args

import pytest

from actors.deciding.facts import DROPPED, SKIPPED
from actors.gateway.receipts import dead_standing, held_by, story_standing
from actors.gateway.views import FINAL, AccountState, State
from events.backlog import Dead, Fate, Output
from events.stories import OutputStory
from events.streams import Address

OUTPUT = Output(output="d-1", turn_id="t", body="b", total=8, start=4, accepted_at=1, origin="api")
REASONS = {"skipped": SKIPPED, "dropped": DROPPED}


def dead(fate: Fate, reason: str = "timeout") -> Dead:
    return Dead(output=OUTPUT, fate=fate, reason=reason, at=1)


@pytest.mark.parametrize("fate", get_args(Fate))
def test_every_fate_is_final_and_has_a_sentence(fate: Fate) -> None:
    state, reason = dead_standing(dead(fate, {"skipped": "blank", "dropped": "expired"}.get(fate, "timeout")))
    assert state in FINAL
    assert " " in reason


@pytest.mark.parametrize(("fate", "reason"), [(f, r) for f, known in REASONS.items() for r in known])
def test_every_reason_has_a_sentence(fate: Fate, reason: str) -> None:
    assert dead_standing(dead(fate, reason)) == (fate, REASONS[fate][reason])
    assert " " in REASONS[fate][reason]


def test_a_reason_of_a_later_version_is_shown_as_it_is() -> None:
    assert dead_standing(dead("dropped", "by_the_moon")) == ("dropped", "by_the_moon")


def test_what_was_cut_says_how_much_arrived() -> None:
    assert dead_standing(dead("cut")) == (
        "delivered",
        "its first 4 of 8 bytes were delivered; the rest is retrievable",
    )


@pytest.mark.parametrize("state", [s for s in get_args(State) if s in FINAL])
def test_history_and_state_tell_the_same(state: State) -> None:
    reason = {"skipped": "blank", "dropped": "expired"}.get(state, "")
    story = OutputStory(
        output="d-1",
        turn_id="t",
        lane="push",
        origin="api",
        body="b",
        total=8,
        position=1,
        delivered_bytes=8,
        accepted_at=1,
        at=1,
        fate=state,
        reason=reason,
    )
    told, sentence = story_standing(story)
    assert told == state
    assert " " in sentence
    if state in ("skipped", "dropped", "unconfirmed", "erased"):
        assert (told, sentence) == dead_standing(dead(state, reason))


@pytest.mark.parametrize("state", get_args(AccountState))
def test_an_account_that_holds_everything_says_what_ends_that(state: AccountState) -> None:
    sentence = held_by(state, Address("weixin", "main"))
    if state in ("running", "login_lost"):
        assert sentence == "", "each peer has a reason of its own"
    else:
        assert "weixin:main" in sentence
        assert "; it waits until " in sentence
