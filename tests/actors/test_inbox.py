"""What a poll comes to: facts, duplicates, and what it proves."""

from __future__ import annotations

import msgspec
import pytest

from actors.inbox import LATENCY_MS_MAX, Facts, all_keys, gather, not_before
from actors.ports import Inbound, Polled
from actors.runtime.clock import SeededIds
from events.bot import BotState
from events.peer import ContextTokenSeen, DuplicateSuppressed, MessageReceived
from events.streams import fingerprint
from store.records import ANY, SALT_BYTES

SALT = b"salt"
NOW = 1_750_000_000_000


def gathered(
    *messages: Inbound,
    taken: frozenset[str] = frozenset(),
    state: BotState | None = None,
    polled: Polled | None = None,
) -> Facts:
    return gather(
        polled or Polled(messages=messages, cursor="c", started_at=NOW - 30, ended_at=NOW),
        stream_of=lambda peer: f"peer-{peer}",
        taken=taken,
        state=state or BotState(generation=3),
        bot_stream="bot-weixin:main",
        ids=SeededIds(1),
        salt=SALT,
        now=NOW,
    )


def said(**fields: object) -> Inbound:
    given = {"peer": "ann", "message_id": "1", "sent_at": NOW - 100, "text": "hi", "token": "t", **fields}
    return Inbound(**given)  # type: ignore[arg-type] # named by each test


def test_message_token_and_cursor_go_together_as_facts() -> None:
    facts = gathered(said())
    peer, bot = facts.writes
    assert [type(e) for e in peer.events] == [MessageReceived, ContextTokenSeen]
    assert (peer.stream, peer.expected, bot.stream, bot.expected) == ("peer-ann", ANY, "bot-weixin:main", ANY)
    assert {b.kind: b.text for b in facts.bodies} == {"inbound": "hi", "token": "t"}
    assert [(w.stream, w.due_at, w.waiting) for w in facts.wake] == [("peer-ann", NOW, 1)]
    assert len(facts.keys) == 2, "its id, and its content"
    assert [(a.stream, a.peer) for a in facts.addresses] == [("peer-ann", "ann")]


def test_each_text_has_a_salt_of_its_own_and_its_event_the_fingerprint_under_it() -> None:
    first = said(media=('{"key":"k"}', '{"key":"l"}'))
    facts = gathered(first, said())
    bodies = {b.id: b for b in facts.bodies}
    assert len({b.salt for b in facts.bodies}) == len(bodies) == 5
    assert {len(b.salt) for b in facts.bodies} == {SALT_BYTES}
    message, _token, again = facts.writes[0].events
    assert isinstance(message, MessageReceived)
    assert isinstance(again, DuplicateSuppressed)
    named = {message.body: message.digest, again.body: again.digest}
    named |= dict(zip(message.media, message.media_digests, strict=True))
    assert named == {b: fingerprint(bodies[b].salt, bodies[b].text) for b in named}
    assert len(named) == 4


def test_a_key_that_fingerprints_a_text_names_its_peer() -> None:
    """So that it can be deleted with the peer; the channel's id of a message stays."""
    assert {k.key.partition(":")[0]: k.value for k in gathered(said()).keys} == {"id": "", "content": "peer-ann"}


def test_a_message_without_a_token_brings_none() -> None:
    (peer, _) = gathered(said(token="")).writes
    assert [type(e) for e in peer.events] == [MessageReceived]


@pytest.mark.parametrize(
    ("again", "reason"),
    [
        (said(), "same_id"),
        (said(message_id="2"), "same_content"),
        (said(message_id=""), "same_content"),
        (said(text="edited"), "same_id"),
    ],
)
def test_whatever_is_delivered_again_is_suppressed(again: Inbound, reason: str) -> None:
    taken = all_keys([said()], SALT)
    (peer, _) = gathered(again, taken=taken).writes
    (event,) = peer.events
    assert isinstance(event, DuplicateSuppressed)
    assert event.reason == reason


def test_within_one_poll_as_well() -> None:
    (peer, _) = gathered(said(), said(message_id="2")).writes
    assert [type(e) for e in peer.events] == [MessageReceived, ContextTokenSeen, DuplicateSuppressed]


@pytest.mark.parametrize(
    "honest",
    [
        said(message_id="2", sent_at=NOW - 99),
        said(message_id="2", text="ho"),
        said(message_id="2", peer="bob"),
        said(message_id="2", contents=("image",)),
    ],
)
def test_an_honest_repeat_passes(honest: Inbound) -> None:
    facts = gathered(honest, taken=all_keys([said()], SALT))
    assert isinstance(facts.writes[0].events[0], MessageReceived)


def test_a_message_without_id_and_time_is_always_new() -> None:
    odd = said(message_id="", sent_at=0)
    assert all_keys([odd], SALT) == frozenset()
    assert isinstance(gathered(odd, odd).writes[0].events[-2], MessageReceived)


def test_a_suppressed_duplicate_wakes_nobody() -> None:
    facts = gathered(said(), taken=all_keys([said()], SALT))
    assert (facts.wake, facts.keys) == ((), ())


POLL = Polled(messages=(), cursor="c", started_at=NOW - 30_000, ended_at=NOW, ahead_ms=0)
"""A poll that was held for 30 s, of a channel whose clock is not ahead of ours."""


def of_poll(**changes: object) -> Polled:
    return msgspec.structs.replace(POLL, **changes)


@pytest.mark.parametrize("poll", [of_poll(ahead_ms=None), of_poll(started_at=NOW - LATENCY_MS_MAX)])
@pytest.mark.parametrize(
    ("started_at", "ended_at", "earliest"),
    [
        (0, 0, 0),
        (NOW - 1_000, NOW, NOW - 1_000),
        (NOW - 60_000, NOW, NOW - LATENCY_MS_MAX),
        (NOW - LATENCY_MS_MAX, NOW, NOW - LATENCY_MS_MAX),
    ],
)
def test_what_the_last_poll_proves(started_at: int, ended_at: int, earliest: int, poll: Polled) -> None:
    """And nothing else does when nobody knows the channel's time, or when this poll may have been answered at once."""
    state = BotState(poll_started_at=started_at, poll_ended_at=ended_at)
    assert not_before(state, poll, NOW) == earliest


@pytest.mark.parametrize(
    ("poll", "sent_at", "earliest"),
    [
        (POLL, NOW - 10_000, NOW - 15_000),
        (of_poll(ahead_ms=999), NOW - 10_000, NOW - 15_999),
        (of_poll(ahead_ms=-3_600_000), NOW - 3_610_000, NOW - 15_000),
        (of_poll(ahead_ms=3_600_000), NOW + 3_590_000, NOW - 15_000),
        (of_poll(started_at=NOW - LATENCY_MS_MAX - 1), NOW, NOW - 5_000),
        (POLL, NOW, NOW - 5_000),
        (POLL, NOW + 1, NOW - 5_000),
        (POLL, NOW + 86_400_000, NOW - 5_000),
        (of_poll(ahead_ms=-86_400_000), NOW, NOW - 5_000),
        (POLL, NOW - 25_001, NOW - 30_000),
        (POLL, NOW - 25_000, NOW - 30_000),
        (POLL, NOW - 24_999, NOW - 29_999),
        (of_poll(ahead_ms=86_400_000), NOW, NOW - 30_000),
        (POLL, 1, NOW - 30_000),
        (POLL, 0, NOW - 30_000),
        (of_poll(ahead_ms=-(10**15)), 0, NOW - 30_000),
    ],
)
def test_what_the_creation_time_tells_of_a_message_of_a_held_poll(poll: Polled, sent_at: int, earliest: int) -> None:
    """Never more than that it came within LATENCY_MS_MAX of the poll's end, and never less than what the last poll proves."""
    state = BotState(poll_started_at=NOW - 35_000, poll_ended_at=NOW - 25_000)
    assert not_before(state, poll, sent_at) == earliest


def test_each_message_of_a_poll_has_its_own() -> None:
    polled = of_poll(messages=(said(sent_at=NOW - 9_000), said(message_id="2", sent_at=NOW - 7_000)))
    (peer, _) = gathered(polled=polled).writes
    assert [e.not_before for e in peer.events if isinstance(e, MessageReceived)] == [NOW - 14_000, NOW - 12_000]


def test_media_are_bodies_that_peers_do_not_get() -> None:
    facts = gathered(said(media=('{"key":"k"}',), contents=("image",)))
    assert '{"key":"k"}' in [b.text for b in facts.bodies if b.kind == "media"]
    assert '{"key":"k"}' not in facts.texts.values()
