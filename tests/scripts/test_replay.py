"""Quota and backlog rebuilt from the events alone."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.peer import agenda_of
from events import bot
from events.bot import BotState, Policy
from events.peer_state import PeerState
from scripts.reading.replay import ReplayOptions, replay, step
from scripts.reading.world import view_of
from store.log import Reader
from tests.scripts.reading import Paper, log_of
from tests.streams_builder import ANN, BEN, BOT, DAY, HOUR, MINUTE, NOON, SECOND, Streams


async def one(streams: Streams, **options: Any) -> dict[str, Any]:
    paper = Paper(json=True)
    await replay(await log_of(streams), ReplayOptions(**{"now": streams.now, "peer": ANN, **options}), paper)
    (row,) = paper.rows
    return row


def share_spent() -> Streams:
    s = Streams().start().message("m1")
    for n in range(1, 4):
        s.wait(MINUTE).complete(f"t{n}").request(f"r{n}", f"t{n}", share=n).ok(f"r{n}")
    return s.wait(MINUTE).complete("t4")


async def test_numbers_of_a_peer() -> None:
    row = await one(share_spent())
    assert (row["quota_spent"], row["quota_of"], row["share_spent"], row["share_of"]) == (3, 10, 3, 3)
    assert row["window_ends_at"] == NOON - 500 + DAY - 20 * SECOND
    assert (row["window"], row["window_opened_by"], row["window_open"]) == (1, "m1", True)
    assert row["share_free_at"] == NOON + MINUTE + DAY
    assert [w["turn_id"] for w in row["backlog"]] == ["t4"]
    assert (row["blocked_by"], row["blocked_until"]) == ("share_spent", None)
    assert row["token"]


async def test_until_a_time_or_a_position_is_the_past() -> None:
    streams = share_spent()
    past = await one(streams, until=NOON + 2 * MINUTE, now=NOON + 2 * MINUTE)
    assert (past["share_spent"], past["backlog"]) == (2, [])
    first = await one(streams, until_position=6)
    assert [w["turn_id"] for w in first["backlog"]] == ["t1"]
    assert (first["position"], first["blocked_by"]) == (6, "")


async def test_text_names_window_end_with_zone_and_what_blocks() -> None:
    paper = Paper()
    await replay(await log_of(share_spent()), ReplayOptions(now=NOON + HOUR), paper)
    assert "3 of 10 spent; window 1, opened by m1, ends 2025-06-16 15:06:19 UTC" in paper.text
    assert "share     3 of 3 spent; rolls 2025-06-16 15:07:40 UTC" in paper.text
    assert "it waits until the peer writes after 2025-06-16 15:07:40 UTC" in paper.text
    assert paper.talked == "1 peer, 1 bot, up to position 15\n"


async def test_policy_and_pause_come_from_the_bots_events() -> None:
    streams = Streams().start(policy=Policy(quota_replies=5, share_replies=1)).message("m1").complete("t1")
    streams.add(BOT, bot.SendingPaused(until=NOON + HOUR, who="ann"))
    row = await one(streams)
    assert (row["quota_of"], row["share_of"]) == (5, 1)
    assert (row["blocked_by"], row["blocked_until"]) == ("paused", NOON + HOUR)


async def test_all_peers_and_a_peer_whose_address_was_erased() -> None:
    streams = share_spent().message("m9", stream=BEN)
    streams.peers.clear()
    paper = Paper(json=True)
    await replay(await log_of(streams), ReplayOptions(now=streams.now), paper)
    assert [row["peer"] for row in paper.rows] == [ANN, BEN]
    assert [row["quota_of"] for row in paper.rows] == [10, 10]


class WithoutCaches:
    """A log whose caches are gone: heads, agenda and bindings."""

    def __init__(self, log: Reader) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        assert name not in ("heads", "agenda", "bindings"), f"{name} is a cache"
        return getattr(self._log, name)


async def test_it_needs_no_cache() -> None:
    log, paper, bare = await log_of(share_spent()), Paper(json=True), Paper(json=True)
    await replay(log, ReplayOptions(now=NOON), paper)
    await replay(WithoutCaches(log), ReplayOptions(now=NOON), bare)
    assert bare.rows == paper.rows


async def test_the_address_of_whoever_is_logged_in_stays_and_is_due_at_no_time() -> None:
    """Erased, it has nothing that is to be forgotten later: an agenda without a due time is no difference (world 3151)."""
    bot_state = BotState(owner="peer-a", credentials="secret's fingerprint", generation=1)
    erased = PeerState(version=1, erased_at=NOON)
    for state, stream, due_at in (
        (bot_state, "peer-a", None),
        (bot_state, "peer-b", 0),
        (msgspec.structs.replace(bot_state, credentials=""), "peer-a", 0),
    ):
        assert agenda_of(stream, erased, view_of(state, "weixin:main", stream, NOON), NOON).due_at == due_at


async def test_step_goes_event_by_event_until_q() -> None:
    answers = iter(["", "", "", "", "q"])

    async def ask() -> str:
        return next(answers)

    paper = Paper(json=True)
    world = await step(await log_of(share_spent()), ReplayOptions(now=NOON), paper, ask)
    assert [row["type"] for row in paper.rows] == [
        "bot_started",
        "policy_changed",
        "login_completed",
        "message_received",
        "context_token_seen",
    ]
    assert [row["peer"] and row["peer"]["token"] for row in paper.rows] == [None, None, None, False, True]
    assert world.position == 5


async def test_step_in_text_says_what_each_event_did() -> None:
    async def ask() -> str:
        return ""

    paper = Paper()
    await step(await log_of(share_spent()), ReplayOptions(now=NOON, until_position=7), paper, ask)
    assert "7  2025-06-15 15:07:40 UTC  send_requested" in paper.text
    assert "blocked   request r1 is open" in paper.text


async def test_progress_hears_the_position() -> None:
    heard: list[int] = []
    await replay(await log_of(share_spent()), ReplayOptions(now=NOON), Paper(), heard.append)
    assert heard == [15]
