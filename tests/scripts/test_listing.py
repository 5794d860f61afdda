"""Events as they lie in the log; texts only on request, tokens never."""

from __future__ import annotations

import pytest

from events import peer
from scripts.errors import NotFound
from scripts.reading.listing import TailOptions, export, show, tail
from store.log import Reader
from tests.scripts.reading import Paper, log_of
from tests.streams_builder import ANN, BEN, NOON, Streams


def some() -> Streams:
    s = Streams().start().message("m1").complete("t1", total=9).request("r1", "t1").ok("r1")
    return s.message("m9", stream=BEN)


async def test_tail_gives_the_last_events_with_their_envelope() -> None:
    paper = Paper(json=True)
    await tail(await log_of(some()), TailOptions(count=3), paper)
    assert [row["type"] for row in paper.rows] == ["send_succeeded", "message_received", "context_token_seen"]
    assert paper.rows[0] == {
        "position": 8,
        "at": NOON,
        "stream": ANN,
        "peer": "weixin:main:user-a@im.wechat",
        "version": 5,
        "type": "send_succeeded",
        "epoch": 1,
        "cause": "r1",
        "data": {"type": "send_succeeded", "request": "r1", "message_id": "m-r1"},
        "texts": None,
    }


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (10, 10), (1000, 10)])
async def test_tail_counts(count: int, expected: int) -> None:
    paper = Paper(json=True)
    await tail(await log_of(some()), TailOptions(count=count), paper)
    assert len(paper.rows) == expected


async def test_tail_of_one_peer_and_of_an_empty_log() -> None:
    paper, empty = Paper(json=True), Paper(json=True)
    await tail(await log_of(some()), TailOptions(peer=BEN), paper)
    assert [row["position"] for row in paper.rows] == [9, 10]
    await tail(await log_of(Streams()), TailOptions(), empty)
    assert empty.rows == []


async def test_following_prints_what_comes_later_once_and_knows_new_peers() -> None:
    streams = Streams().start().message("m1")
    log = await log_of(streams)
    before = len(streams.recorded)
    rounds = iter([True, True, False])

    async def pause() -> bool:
        if len(streams.recorded) == before:
            streams.message("m9", stream=BEN)
            await streams.fill(log, after=before)
        return next(rounds)

    paper = Paper(json=True)
    await tail(log, TailOptions(count=1), paper, pause)
    assert [row["position"] for row in paper.rows] == [5, 6, 7]
    assert paper.rows[-1]["peer"] == "weixin:main:user-b@im.wechat"


async def test_show_one_and_one_that_is_not_there() -> None:
    log, paper = await log_of(some()), Paper(json=True)
    await show(log, 6, paper)
    assert paper.rows[0]["type"] == "turn_completed"
    for position in (0, -3, 11, 2**70):
        with pytest.raises(NotFound, match="the log has 1 to 10"):
            await show(log, position, Paper())


async def everything(log: Reader, *, texts: bool) -> str:
    paper, lines = Paper(json=True), Paper(json=True)
    await tail(log, TailOptions(count=100, texts=texts), paper)
    await export(log, lines, texts=texts)
    return paper.text + lines.text


async def test_texts_only_on_request_and_tokens_never() -> None:
    log = await log_of(some())
    silent, told = await everything(log, texts=False), await everything(log, texts=True)
    for text in ("text of m1", "xxxxxxxxx", "rendered"):
        assert text not in silent
        assert told.count(text) == 2
    assert "secret-token" not in silent + told


async def test_a_text_that_is_gone_is_absent() -> None:
    streams = some()
    streams.texts.pop("b-t1")
    paper = Paper(json=True)
    await show(await log_of(streams), 6, paper, texts=True)
    assert paper.rows[0]["texts"] == {}


async def test_export_gives_every_row_with_its_digest() -> None:
    log, paper = await log_of(some()), Paper()
    assert await export(log, paper) == 10
    stored = [row async for page in log.rows() for row in page]
    assert [(row["position"], row["digest"]) for row in paper.rows] == [(r.position, r.digest.hex()) for r in stored]
    assert paper.rows[5]["data"]["turn_id"] == "t1"


async def test_text_cannot_command_the_terminal() -> None:
    streams = Streams().start().add(ANN, peer.SessionBound(session="a\x1b[2Jb\u202ec"))
    paper = Paper()
    await tail(await log_of(streams), TailOptions(count=1), paper)
    assert "\x1b" not in paper.text
    assert "\u202e" not in paper.text
