from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from actors.channels.weixin.inlet import Timing
from actors.channels.weixin.link import open_link
from actors.ports import Credentials, LoginGone, Outcome, SendOrder
from actors.runtime.clock import ManualClock, SeededIds
from events.bot import Policy
from tests.channels.weixin.fake import PEER, TOKEN, FakeFence, Opened, Room, Server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    served = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield served
    served.over.set()
    await runner.cleanup()


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens links; closes them in the end."""
    rooms: list[Room] = []

    def open_(
        url: str, *, typing: bool = False, policy: Policy | None = None, listen_ms: int = 5_000, **timing: Any
    ) -> Room:
        reports: list[tuple[str, str, Outcome]] = []
        lost: list[LoginGone] = []
        fenced: list[bool] = []
        clock, fence = ManualClock(1_790_000_000_000), FakeFence()
        held = policy or Policy(pace_ms=0, client_timeout_ms=2_000)
        link = open_link(
            Credentials(token=TOKEN, base_url=url, user_id=PEER),
            account="weixin:main",
            fence=fence,
            clock=clock,
            ids=SeededIds(1),
            policy=lambda: held,
            report=lambda stream, request, outcome: reports.append((stream, request, outcome)),
            on_lost=lost.append,
            on_fenced=lambda: fenced.append(True),
            typing=typing,
            timing=Timing(**{"grace_ms": 2_000, "backoff_ms": (2, 10), "idle_ms": (1, 5), "notify_ms": 500, **timing}),
            listen_ms=listen_ms,
        )
        rooms.append(Room(link, clock, fence, reports, lost, fenced, held))
        return rooms[-1]

    yield open_
    for room in rooms:
        await room.link.outlet.close()


@pytest.fixture
def order() -> Callable[..., SendOrder]:
    """Makes orders that may leave until the boot clock reads 5,000 ms."""

    def make(request: str = "r1", **changes: Any) -> SendOrder:
        fields: dict[str, Any] = {
            "request": request,
            "stream": "peer-1",
            "peer": PEER,
            "text": "hello",
            "token": "AARzJWexample",
            "client_id": f"c-{request}",
            "leave_by": 5_000,
        }
        return SendOrder(**{**fields, **changes})

    return make
