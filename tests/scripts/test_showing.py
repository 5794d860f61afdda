from __future__ import annotations

import asyncio
import os
import pty
import sys
from typing import Any

import msgspec
import pytest

from actors.gateway.views import Forecast, PeerView, QuotaView, ShareView
from scripts import peers, showing
from scripts.options import Options
from tests.gateway.fake import NOW
from tests.scripts.console import Console
from tests.scripts.reading import Paper

ROWS: list[showing.Row] = [({"a": 1}, ("x" * 300, "会话", "[red]1[/red]")), ({"a": 2}, ("y", "\x1b[2Jz", ""))]


def test_columns_cut_nothing_and_obey_nobody() -> None:
    paper = Paper()
    showing.table(Options(), paper, ("A", "B", "C"), ROWS)
    head, first, second = paper.text.splitlines()
    assert head.split() == ["A", "B", "C"]
    assert first.split() == ["x" * 300, "会话", "[red]1[/red]"]
    assert second.split() == ["y", "�[2Jz"]


def test_json_is_a_record_on_each_line() -> None:
    paper = Paper(json=True)
    showing.table(Options(json=True), paper, ("A",), ROWS)
    assert paper.rows == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("json", [False, True])
def test_an_empty_list_is_talk(json: bool) -> None:
    paper = Paper(json=json)
    showing.table(Options(json=json), paper, ("A",), [])
    assert paper.text == ""
    assert json or paper.talked == "nothing\n"


def test_room_in_words() -> None:
    paper = Paper()
    open_ = showing.room(paper, QuotaView(left=7, of=10, ends_at=NOW), ShareView(used=1, of=3, rolls_at=NOW))
    assert open_ == (
        "quota 7 of 10 left, until 2025-06-15 15:06:40 UTC; share 1 of 3 used, the next frees 2025-06-15 15:06:40 UTC"
    )
    carried = showing.room(paper, QuotaView(left=0, of=10, ends_at=NOW, carried=4), ShareView(used=1, of=3))
    assert carried.startswith("quota 0 of 10 left (4 carried from before the message), until")
    closed = showing.room(paper, QuotaView(left=0, of=10), ShareView(used=0, of=3))
    assert closed == "quota 0 of 10 left, no window is open; share 0 of 3 used"


def test_pauses_in_words() -> None:
    paper = Paper()
    assert showing.paused(paper, 0) == ""
    assert showing.paused(paper, None) == "paused until resumed"
    assert showing.paused(paper, NOW) == "paused until 2025-06-15 15:06:40 UTC"


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
async def test_a_terminal_gets_colours_unless_it_wants_none(console: Console, no_color: str, colored: bool) -> None:
    master, slave = pty.openpty()
    env = console.env | {"TERM": "xterm", "COLUMNS": "200"} | ({"NO_COLOR": no_color} if no_color else {})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripts", "accounts", "list", cwd=console.folder, env=env, stdin=slave, stdout=slave
    )
    assert await asyncio.wait_for(process.wait(), 30) == 0
    os.close(slave)
    shown = os.read(master, 65_536)
    os.close(master)
    assert b"weixin:main" in shown
    assert (b"\x1b[1m" in shown) is colored


def peer(**changes: Any) -> PeerView:
    view = PeerView(
        peer="weixin:main:ann",
        stream="peer-0123456789abcdef",
        name="",
        access="owner",
        session="",
        quota=QuotaView(left=10, of=10, ends_at=NOW),
        share=ShareView(used=0, of=3),
        token=True,
        waiting=1,
        dead=1,
        open_request="",
        open_turn="",
        agent="",
        paused_until=0,
        reason="",
        earliest=None,
        last_message_at=NOW,
        last_send_at=None,
    )
    return msgspec.structs.replace(view, **changes)


def test_one_is_one_and_a_peer_has_the_name_that_log_lines_use() -> None:
    text = peers.whole(Paper(), peer())
    assert "1 output waits, 1 is dead; a context token is there" in text
    assert "named peer-0123456789abcdef in logs" in text
    assert "2 outputs wait, 0 are dead; no context token is there" in peers.whole(
        Paper(), peer(waiting=2, dead=0, token=False)
    )


@pytest.mark.parametrize(("agent", "said"), [("", "it waits for an agent"), ("ada", "agent ada has it")])
def test_an_open_turn_is_said_to_be_with_an_agent_only_if_it_is(agent: str, said: str) -> None:
    view = peer(open_turn="t-1", agent=agent)
    assert f"turn t-1 is open: {said}" in peers.whole(Paper(), view)
    assert peers.cells(Paper(), view)[-1] == f"turn t-1 is open: {said}"


def test_earliest_is_a_time_or_refers_to_what_is_waited_for_and_is_left_out_where_nothing_waits() -> None:
    forecast = Forecast(
        peer="weixin:main:ann",
        would="skip",
        reason="its text is blank",
        earliest=None,
        replies=1,
        quota_before=QuotaView(left=7, of=10),
        quota_after=QuotaView(left=6, of=10),
        share_before=ShareView(used=0, of=3),
        share_after=ShareView(used=1, of=3),
    )
    assert "earliest" not in showing.forecast(Paper(), forecast)
    assert "quota 7 of 10 -> 6 of 10 left; spends 1 reply" in showing.forecast(Paper(), forecast)
    room = QuotaView(left=6, of=10, carried=2)
    told = showing.forecast(Paper(), msgspec.structs.replace(forecast, quota_before=room, quota_after=room))
    assert "quota 6 of 10 -> 6 of 10 left (2 carried from before the message); spends" in told
    waits = msgspec.structs.replace(forecast, would="wait")
    assert "earliest: when that happens; no time is known" in showing.forecast(Paper(), waits)
    timed = msgspec.structs.replace(forecast, would="wait", earliest=NOW)
    assert "earliest: 2025-06-15 15:06:40 UTC" in showing.forecast(Paper(), timed)
