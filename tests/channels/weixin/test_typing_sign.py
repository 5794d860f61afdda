from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.channels.weixin import typing_sign
from actors.channels.weixin.typing_sign import TICKET_MS
from actors.ports import LoginGone
from tests.channels.weixin.fake import PEER, Opened, Room, Say, Server

TICKET = Say({"ret": 0, "typing_ticket": "t1"})


@pytest.fixture
async def room(server: Server, opened: Opened) -> Room:
    room = opened(server.url, typing=True)
    assert room.link.outlet._signs is not None
    room.link.outlet._signs._keep_alive_ms = 10
    return room


def statuses(server: Server) -> list[int]:
    return [c.body["status"] for c in server.to("sendtyping")]


async def test_shown_repeated_and_taken_away(server: Server, room: Room) -> None:
    server.says("getconfig", TICKET)
    room.link.outlet.typing(PEER, "ctx", True)
    room.link.outlet.typing(PEER, "ctx", True)
    await server.until(lambda: len(statuses(server)) == 3)
    room.link.outlet.typing(PEER, "ctx", False)
    await server.until(lambda: 2 in statuses(server))
    await room.link.outlet.close()
    assert (statuses(server)[:3], statuses(server).count(2), statuses(server)[-1]) == ([1, 1, 1], 1, 2)
    (config,) = server.to("getconfig")
    assert (config.body["ilink_user_id"], config.body["context_token"]) == (PEER, "ctx")
    assert {c.body["typing_ticket"] for c in server.to("sendtyping")} == {"t1"}


async def test_a_ticket_that_ran_out_is_fetched_again_for_the_end(server: Server, room: Room) -> None:
    server.says("getconfig", TICKET, Say({"ret": 0, "typing_ticket": "t2"}))
    room.link.outlet._signs._keep_alive_ms = 60_000  # type: ignore[union-attr]  # the fixture made them
    room.link.outlet.typing(PEER, "ctx", True)
    await server.until(lambda: len(statuses(server)) == 1)
    room.clock.advance(TICKET_MS)
    room.link.outlet.typing(PEER, "ctx", False)
    await server.until(lambda: len(statuses(server)) == 2)
    assert [(c.body["typing_ticket"], c.body["status"]) for c in server.to("sendtyping")] == [("t1", 1), ("t2", 2)]


async def test_closing_takes_all_signs_away(server: Server, room: Room) -> None:
    server.says("getconfig", TICKET, TICKET)
    for peer in ("a", "b"):
        room.link.outlet.typing(peer, "ctx", True)
    await server.until(lambda: len(statuses(server)) >= 2)
    await room.link.outlet.close()
    stops = [c.body["ilink_user_id"] for c in server.to("sendtyping") if c.body["status"] == 2]
    assert sorted(stops) == ["a", "b"]


@pytest.mark.parametrize(
    "say", [Say({"ret": -4, "errmsg": "GetTypingTicket rpc failed"}), Say(b"", status=500), Say(cut=True)]
)
async def test_failures_rest_and_are_nobodys_outcome(server: Server, room: Room, say: Say) -> None:
    server.says("getconfig", say)
    room.link.outlet.typing(PEER, "ctx", True)
    await room.until(lambda: not room.link.outlet._signs._tasks)  # type: ignore[union-attr]  # the fixture made them
    room.link.outlet.typing(PEER, "ctx", True)
    assert not room.link.outlet._signs._tasks  # type: ignore[union-attr]  # the fixture made them
    assert (len(server.to("getconfig")), server.to("sendtyping"), room.reports) == (1, [], [])
    room.clock.advance(typing_sign.RETRY_MS)
    server.says("getconfig", TICKET)
    room.link.outlet.typing(PEER, "ctx", True)
    await server.until(lambda: bool(server.to("sendtyping")))


@pytest.mark.parametrize("path", ["getconfig", "sendtyping"])
async def test_a_lost_login_ends_all_signs(server: Server, room: Room, path: str) -> None:
    if path == "sendtyping":
        server.says("getconfig", TICKET)
    server.says(path, Say({"errcode": -14}))
    room.link.outlet.typing(PEER, "ctx", True)
    await room.until(lambda: bool(room.lost))
    assert room.lost == [LoginGone(code=-14, where="config")]
    room.link.outlet.typing("other", "ctx", True)
    await room.link.outlet.close()
    assert len(server.calls) == (1 if path == "getconfig" else 2)


async def test_a_fenced_instance_shows_nothing(server: Server, room: Room) -> None:
    room.fence.lost = True
    room.link.outlet.typing(PEER, "ctx", True)
    await room.until(lambda: bool(room.fenced))
    assert server.calls == []


async def test_signs_are_bounded(server: Server, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing_sign, "SIGNS_MAX", 1)
    server.says("getconfig", TICKET, TICKET)
    for peer in ("a", "b"):
        room.link.outlet.typing(peer, "ctx", True)
    await server.until(lambda: len(statuses(server)) == 1)
    assert {c.body["ilink_user_id"] for c in server.calls} == {"a"}


async def test_a_sign_that_nobody_takes_away_goes(server: Server, room: Room) -> None:
    server.says("getconfig", TICKET, TICKET)
    room.link.outlet.typing(PEER, "ctx", True)
    await server.until(lambda: len(statuses(server)) == 1)
    room.clock.advance(typing_sign.SHOWN_MS_MAX)
    await server.until(lambda: 2 in statuses(server))


async def test_without_typing_nothing_is_called(server: Server, opened: Opened) -> None:
    room = opened(server.url)
    room.link.outlet.typing(PEER, "ctx", True)
    await asyncio.sleep(0)
    await room.link.outlet.close()
    assert server.calls == []


async def test_switching_quickly_leaves_it_off(server: Server, room: Room) -> None:
    config = asyncio.Event()
    server.says("getconfig", Say(TICKET.body, headers_after=config))
    tasks: Any = room.link.outlet._signs._tasks  # type: ignore[union-attr]  # the fixture made them
    room.link.outlet.typing(PEER, "ctx", True)
    await server.until(lambda: len(server.to("getconfig")) == 1)
    room.link.outlet.typing(PEER, "ctx", False)
    config.set()
    await room.until(lambda: not tasks)
    assert statuses(server) in ([], [1, 2])
