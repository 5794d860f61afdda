from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.ports import LoginGone, Polled
from actors.runtime.clock import SeededIds
from store.errors import Fenced
from tests.channels.weixin.fake import PEER, Opened, Room, Say, Server


def updates(cursor: str = "", *texts: str, **more: Any) -> dict[str, Any]:
    msgs = [
        {"message_id": i, "from_user_id": PEER, "item_list": [{"type": 1, "text_item": {"text": t}}]}
        for i, t in enumerate(texts, 1)
    ]
    return {"ret": 0, "msgs": msgs, "get_updates_buf": cursor, "longpolling_timeout_ms": 1_000, **more}


class Polling:
    """A running inlet and what it delivered."""

    def __init__(self, room: Room, cursor: str = "c0") -> None:
        self.polled: list[Polled] = []
        self.lost: list[LoginGone] = []
        self.durable = asyncio.Event()
        self.durable.set()
        self.room = room
        self.task = asyncio.create_task(room.link.inlet.run(self.deliver, self.lose, cursor))

    async def deliver(self, polled: Polled) -> None:
        self.polled.append(polled)
        await self.durable.wait()

    async def lose(self, gone: LoginGone) -> None:
        self.lost.append(gone)

    async def stop(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


def cursors(server: Server) -> list[str]:
    return [c.body["get_updates_buf"] for c in server.to("getupdates")]


async def test_polls_from_the_cursor_and_announces_itself(server: Server, opened: Opened) -> None:
    server.says("getupdates", Say(updates("c1", "hi", "there")), Say(updates("c2")))
    room = opened(server.url)
    polling = Polling(room)
    await server.until(lambda: len(server.to("getupdates")) == 3)
    await polling.stop()
    assert cursors(server) == ["c0", "c1", "c2"]
    assert [[m.text for m in p.messages] for p in polling.polled] == [["hi", "there"], []]
    assert [c.path for c in server.calls] == ["msg/notifystart", *["getupdates"] * 3, "msg/notifystop"]
    status = room.link.inlet.status
    assert (status.polls, status.last_poll_at, status.running) == (2, room.clock.now(), False)


async def test_a_poll_tells_how_far_the_server_is_ahead(server: Server, opened: Opened) -> None:
    """By the start's announcement already, which is answered at once; 2026-09-21 14:13:25 is 5 s ahead of the test's clock."""
    dated = {"Date": "Mon, 21 Sep 2026 14:13:25 GMT"}
    answering = asyncio.Event()
    server.says("msg/notifystart", Say(headers=dated))
    server.says("getupdates", Say(updates("c1", "hi"), headers=dated, headers_after=answering))
    room = opened(server.url)
    polling = Polling(room)
    await server.until(lambda: len(server.to("getupdates")) == 1)
    room.clock.advance(2_500)
    answering.set()
    await room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    assert polling.polled[0].ahead_ms == 6_000


async def test_an_answer_that_waited_for_a_stopped_process_proves_no_more_than_its_date(
    server: Server, opened: Opened
) -> None:
    """Dated 2 s after the poll began, read three minutes after: what came meanwhile came, perhaps, right after its date, which a machine
    may have stamped whose clock is 2 s ahead of the one that answered first."""
    room = opened(server.url)
    server.says("msg/notifystart", Say(headers={"Date": "Mon, 21 Sep 2026 14:13:20 GMT"}))
    answering = asyncio.Event()
    dated = {"Date": "Mon, 21 Sep 2026 14:13:22 GMT"}
    server.says("getupdates", Say(updates("c1", "hi"), headers=dated, headers_after=answering))
    polling = Polling(room)
    await server.until(lambda: len(server.to("getupdates")) == 1)
    room.clock.advance(180_000)
    answering.set()
    await room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    polled = polling.polled[0]
    assert polled.ended_at - polled.started_at == 2_000 - 1_000 - 2_000 + 5_000


async def test_an_answer_without_a_date_proves_nothing_after_its_poll_began(server: Server, opened: Opened) -> None:
    """It may have been there since; the account's status tells when it was read."""
    answering = asyncio.Event()
    server.says("getupdates", Say(updates("c1", "hi"), headers={"Date": ""}, headers_after=answering))
    server.says("msg/notifystart", Say(headers={"Date": ""}))
    room = opened(server.url)
    began = room.clock.now()
    polling = Polling(room)
    await server.until(lambda: len(server.to("getupdates")) == 1)
    room.clock.advance(3_600_000)
    answering.set()
    await room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    (polled,) = polling.polled
    assert (polled.started_at, polled.ended_at) == (began, began)
    assert room.link.inlet.status.last_poll_at == began + 3_600_000


async def test_each_yield_is_durable_before_the_next_poll(server: Server, opened: Opened) -> None:
    server.says("getupdates", Say(updates("c1", "hi")))
    polling = Polling(opened(server.url))
    polling.durable.clear()
    await polling.room.until(lambda: len(polling.polled) == 1)
    await asyncio.sleep(0.02)
    assert len(server.to("getupdates")) == 1
    polling.durable.set()
    await server.until(lambda: len(server.to("getupdates")) == 2)
    await polling.stop()


async def test_an_empty_cursor_keeps_the_old_one(server: Server, opened: Opened) -> None:
    server.says("getupdates", Say(updates("", "hi")), Say(b"{}"))
    polling = Polling(opened(server.url))
    await server.until(lambda: len(server.to("getupdates")) == 3)
    await polling.stop()
    assert cursors(server) == ["c0", "c0", "c0"]
    assert [p.cursor for p in polling.polled] == ["c0", "c0"]


async def test_times_are_those_before_and_after_the_poll(server: Server, opened: Opened) -> None:
    answer = asyncio.Event()
    server.says("getupdates", Say(updates("c1", "hi"), headers_after=answer))
    polling = Polling(opened(server.url))
    started_at = polling.room.clock.now()
    await server.until(lambda: len(server.to("getupdates")) == 1)
    polling.room.clock.advance(700)
    answer.set()
    await polling.room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    assert (polling.polled[0].started_at, polling.polled[0].ended_at) == (started_at, started_at + 700)


@pytest.mark.parametrize("where", ["headers_after", "body_after"])
async def test_a_poll_held_longer_than_advertised_is_an_empty_one(server: Server, opened: Opened, where: str) -> None:
    """A stalled body as well: the time covers all of the answer."""
    server.says(
        "getupdates",
        Say(updates("c1", longpolling_timeout_ms=20)),
        Say(updates("lost", "lost"), **{where: asyncio.Event()}),
        Say(updates("c2", "hi")),
    )
    room = opened(server.url, grace_ms=60)
    polling = Polling(room)
    await room.until(lambda: len(polling.polled) == 2)
    await polling.stop()
    assert cursors(server)[:3] == ["c0", "c1", "c1"]
    status = room.link.inlet.status
    assert (status.polls, status.timeouts, status.consecutive_failures, status.last_error) == (2, 1, 0, "")


async def test_an_answer_soon_after_the_advertised_time_is_taken(server: Server, opened: Opened) -> None:
    """Equal times would race, and lose what the server believes to have delivered."""
    answer = asyncio.Event()
    server.says(
        "getupdates", Say(updates("c1", longpolling_timeout_ms=20)), Say(updates("c2", "hi"), headers_after=answer)
    )
    polling = Polling(opened(server.url))
    await server.until(lambda: len(server.to("getupdates")) == 2)
    await asyncio.sleep(0.06)
    answer.set()
    await polling.room.until(lambda: len(polling.polled) == 2)
    await polling.stop()
    assert (polling.polled[1].cursor, polling.room.link.inlet.status.timeouts) == ("c2", 0)


async def test_a_connection_that_never_stands_is_trouble(opened: Opened) -> None:
    """Only a server that was reached can leave a poll open."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # a TLS handshake that nobody answers
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listener:
        room = opened(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", grace_ms=30)
        room.link.inlet._hold_ms = 30
        polling = Polling(room)
        await room.until(lambda: room.link.inlet.status.consecutive_failures == 1)
        await polling.stop()
    assert room.link.inlet.status.last_error == "no connection: TimeoutError"
    assert room.link.inlet.status.timeouts == 0


async def test_a_server_that_says_nothing_of_its_hold_gets_35_s(server: Server, opened: Opened) -> None:
    server.says("getupdates", Say({"ret": 0, "longpolling_timeout_ms": 0}))
    room = opened(server.url)
    polling = Polling(room)
    await room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    assert room.link.inlet._hold_ms == 35_000


@pytest.mark.parametrize(
    ("say", "shown"),
    [
        (Say(b"<html>502 Bad Gateway</html>", status=502), "HTTP 502: <html>502 Bad Gateway</html>"),
        (Say(b"", status=524), "HTTP 524: empty body"),
        (Say(b"<html>", status=200), "<html>"),
        (Say(b""), "empty body"),
        (Say({"ret": -1, "errmsg": "odd"}), "refused with -1: odd"),
        (Say({}, status=403), "HTTP 403: another client polls with this login; {}"),
        (Say({"ret": 0, "msgs": {"a": 1}, "get_updates_buf": "bad"}), "msgs"),
        (Say(cut=True), "no answer"),
    ],
)
async def test_trouble_is_visible_keeps_the_cursor_and_passes(
    server: Server, opened: Opened, say: Say, shown: str
) -> None:
    server.says("getupdates", say)
    room = opened(server.url, backoff_ms=(40, 40))
    polling = Polling(room)
    await room.until(lambda: room.link.inlet.status.consecutive_failures == 1)
    assert shown in room.link.inlet.status.last_error
    server.says("getupdates", Say(updates("c1", "hi")))
    await room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    assert cursors(server)[:2] == ["c0", "c0"]
    assert (room.link.inlet.status.consecutive_failures, room.link.inlet.status.last_error) == (0, "")


async def test_nobody_there_is_trouble_and_no_empty_poll(opened: Opened) -> None:
    room = opened("https://nobody.invalid")
    polling = Polling(room)
    await room.until(lambda: room.link.inlet.status.consecutive_failures >= 3)
    await polling.stop()
    assert room.link.inlet.status.last_error.startswith("no connection")
    assert room.link.inlet.status.timeouts == 0


async def test_waits_grow_to_the_longest_and_vary(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    room = opened("https://nobody.invalid", backoff_ms=(2_000, 30_000))
    inlet = room.link.inlet
    monkeypatch.setattr("actors.channels.weixin.inlet.asyncio.sleep", sleep)
    inlet._ids = SeededIds(5)
    trouble = await inlet._poll("c0")
    for _ in range(40):
        await inlet._back_off(trouble)  # type: ignore[arg-type]  # the poll above cannot have worked
    monkeypatch.undo()
    assert 1.5 <= slept[0] <= 2.5
    assert all(low <= s <= high for s, low, high in zip(slept, (1.5, 3, 6, 12), (2.5, 5, 10, 20), strict=False))
    assert max(slept) <= 30
    assert len(set(slept)) > 10


async def test_a_server_that_does_not_hold_does_not_make_it_spin(server: Server, opened: Opened) -> None:
    server.says("getupdates", *[Say(updates("c")) for _ in range(500)])
    room = opened(server.url, idle_ms=(20, 80))
    polling = Polling(room)
    await asyncio.sleep(0.3)
    await polling.stop()
    assert 2 <= len(server.to("getupdates")) <= 8


async def test_a_body_without_end_is_refused(server: Server, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.channels.weixin.calls.BODY_BYTES_MAX", 1_000)
    server.says("getupdates", Say(updates("c1", "x" * 1_000)))
    room = opened(server.url)
    polling = Polling(room)
    await room.until(lambda: room.link.inlet.status.consecutive_failures == 1)
    await polling.stop()
    assert ("BodyTooLarge" in room.link.inlet.status.last_error, polling.polled) == (True, [])


@pytest.mark.parametrize(
    "reply", [{"ret": -14}, {"errcode": -14}, {"ret": -14, "errcode": -14}, {"ret": 0, "errcode": "-14"}]
)
async def test_a_lost_login_ends_it(server: Server, opened: Opened, reply: dict[str, Any]) -> None:
    server.says("getupdates", Say(updates("c1")), Say(reply))
    polling = Polling(opened(server.url))
    await polling.task
    assert polling.lost == [LoginGone(code=-14, where="poll")]
    assert server.calls[-1].path == "getupdates"  # nothing is announced with a login that is gone


async def test_a_fenced_instance_stops_and_leaves_the_login_to_its_successor(server: Server, opened: Opened) -> None:
    server.says("getupdates", Say(updates("c1", "hi")))
    room = opened(server.url)
    polling = Polling(room)
    polling.durable.clear()
    await room.until(lambda: len(polling.polled) == 1)
    room.fence.lost = True
    polling.durable.set()
    with pytest.raises(Fenced):
        await polling.task
    assert [c.path for c in server.calls] == ["msg/notifystart", "getupdates"]


async def test_a_fenced_instance_that_is_cancelled_announces_no_end(server: Server, opened: Opened) -> None:
    room = opened(server.url)
    polling = Polling(room)
    await server.until(lambda: len(server.to("getupdates")) == 1)
    room.fence.lost = True
    await polling.stop()
    assert server.to("msg/notifystop") == []


async def test_an_append_that_is_refused_ends_it(server: Server, opened: Opened) -> None:
    server.says("getupdates", Say(updates("c1", "hi")))
    room = opened(server.url)

    async def refuse(_polled: Polled) -> None:
        raise Fenced

    with pytest.raises(Fenced):
        await room.link.inlet.run(refuse, refuse, "")  # type: ignore[arg-type]  # never called with the other


@pytest.mark.parametrize(
    "say", [Say(b"", status=500), Say({"ret": -14}), Say(cut=True), Say(headers_after=asyncio.Event())]
)
async def test_announcements_that_fail_are_not_in_the_way(server: Server, opened: Opened, say: Say) -> None:
    server.says("msg/notifystart", say)
    server.says("msg/notifystop", say)
    room = opened(server.url, notify_ms=50)
    polling = Polling(room)
    await server.until(lambda: len(server.to("getupdates")) == 1)
    await polling.stop()
    assert len(server.to("msg/notifystop")) == 1


async def test_messages_that_are_none_are_counted(
    server: Server, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    odd = updates("c1", "hi")
    odd["msgs"] += [None, {"from_user_id": 7}, {"from_user_id": "b@im.bot", "message_type": 2}]
    server.says("getupdates", Say(odd))
    room = opened(server.url)
    polling = Polling(room)
    await room.until(lambda: len(polling.polled) == 1)
    await polling.stop()
    assert [m.text for m in polling.polled[0].messages] == ["hi"]
    assert (room.link.inlet.status.malformed, room.link.inlet.status.echoes) == (2, 1)
    assert "2 entries" in caplog.text
