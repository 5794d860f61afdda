"""A decision in the making: the texts at hand, what the log holds, and what is asked for."""

from __future__ import annotations

import pytest

from actors.deciding.draft import SPLIT_BYTES_MAX, Texts
from actors.deciding.view import Held
from actors.errors import HeldNeeded, TextsNeeded
from events.streams import fingerprint
from store.records import SALT_BYTES, Body, Kept
from tests.actors.one_peer import SALT, OnePeer


def test_texts_that_are_gone_from_the_log_are_known_to_be_gone() -> None:
    texts = Texts()
    texts.learn(("b1", "b2"), {"b1": Kept("one", b"salt 1")})
    draft = OnePeer().draft(texts)
    assert (draft.text("b1"), draft.text("b2")) == ("one", None)
    assert draft.digest("b1", "one") == fingerprint(b"salt 1", "one")
    with pytest.raises(TextsNeeded) as needed:
        draft.digest("b2", "two")
    assert needed.value.bodies == {"b2"}
    with pytest.raises(TextsNeeded) as needed:
        draft.need(frozenset(("b1", "b3")))
    assert needed.value.bodies == {"b3"}


@pytest.mark.parametrize(("keep", "left"), [("", {}), ("b1", {"b1": "one"}), ("b2", {}), ("b9", {})])
def test_between_decisions_one_text_is_kept_at_most(keep: str, left: dict[str, str]) -> None:
    texts = Texts()
    texts.learn(("b1", "b2", "b3"), {"b1": Kept("one", b"1"), "b3": Kept("three", b"3")})
    passing = texts.passing
    texts.forget(keep)
    assert texts.known == left
    assert texts.passing is not passing
    assert texts.passing.salts == {}


def test_a_text_that_is_stored_twice_in_a_decision_is_one_body_with_one_salt() -> None:
    peer = OnePeer()
    draft = peer.draft()
    body, total = draft.store("output", "naïve")
    assert draft.store("output", "naïve") == (body, total)
    assert total == 6
    assert draft.store("rendered", "naïve")[0] != body
    assert draft.text(body) == "naïve"
    first, again, _ = draft.decision(None).bodies
    assert isinstance(first, Body)
    assert (first.salt, len(first.salt)) == (again.salt, SALT_BYTES)
    assert draft.digest(body, "naïve") == fingerprint(first.salt, "naïve")
    assert draft.digest("", "naïve") == fingerprint(SALT, "naïve"), "under the log's own salt"


def test_what_the_log_holds_is_asked_for_and_told_without_what_this_decision_erases() -> None:
    peer = OnePeer()
    with pytest.raises(HeldNeeded):
        peer.draft().held()
    draft = peer.draft(held=Held((("b1", "output"), ("b2", "error")), more=True))
    assert draft.held() == Held((("b1", "output"), ("b2", "error")), more=True)
    draft.erase = ("b1",)
    assert draft.held() == Held((("b2", "error"),), more=True)


@pytest.mark.parametrize(("over", "asked"), [(0, False), (1, True)])
def test_a_text_is_split_within_a_turn_up_to_a_size(over: int, asked: bool) -> None:
    draft = OnePeer().draft(Texts({"b": "w" * (SPLIT_BYTES_MAX + over)}))
    text = draft.text("b") or ""
    if asked:
        with pytest.raises(TextsNeeded) as needed:
            draft.parts("b", text)
        assert (needed.value.bodies, needed.value.splits) == (frozenset(), {"b"})
    else:
        assert "".join(part.text for part in draft.parts("b", text)) == text
        assert draft.parts("b", text) is draft.parts("b", text), "split once"


@pytest.mark.parametrize(
    ("due_at", "paced_at", "wake_at"), [(None, None, None), (5, None, 5), (5, 9, 9), (9, 5, 9), (None, 5, None)]
)
def test_a_send_that_waits_for_its_place_is_looked_at_when_that_comes(
    due_at: int | None, paced_at: int | None, wake_at: int | None
) -> None:
    draft = OnePeer().draft()
    draft.paced_at = paced_at
    assert (draft.decision(due_at).due_at, draft.decision(due_at).wake_at) == (due_at, wake_at)
