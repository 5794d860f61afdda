"""The typing sign of a chat: shown while an agent works, and always taken away again. Best effort; never a send's outcome."""

from __future__ import annotations

import asyncio
import logging

from actors.channels.weixin import shapes, wire
from actors.channels.weixin.calls import NETWORK_ERRORS, Answer
from actors.channels.weixin.line import Line
from actors.ports import LoginGone
from events.base import Millis
from store.errors import Fenced, StoreError

KEEP_ALIVE_MS = 5_000
"""The phone hides the sign if it is not repeated. Notes 1.9."""

TICKET_MS = 10 * 60_000
"""How long a ticket is taken to be good. Notes 1.9."""

RETRY_MS = 60_000
"""After a failure a peer's sign rests for this long."""

SHOWN_MS_MAX = 60 * 60_000
"""A sign that nobody took away disappears after this time."""

CALL_MS = 10_000
CLOSE_MS = 3_000
SIGNS_MAX = 64
"""Signs shown at the same time; further peers see none."""

TICKETS_MAX = 1_024

log = logging.getLogger(__name__)


class TypingSigns:
    """The typing signs of one account."""

    def __init__(self, line: Line, *, keep_alive_ms: int = KEEP_ALIVE_MS) -> None:
        self._line = line
        self._keep_alive_ms = keep_alive_ms
        self._tickets: dict[str, tuple[str, Millis]] = {}  # peer -> ticket, good until (boot clock)
        self._resting: dict[str, Millis] = {}  # peer -> until (boot clock)
        self._wanted: dict[str, asyncio.Event] = {}  # peer -> set when its sign is to go
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False  # login lost, fenced or closed

    def show(self, peer: str, token: str) -> None:
        """Show the sign to a peer until `hide`."""
        if self._over or peer in self._wanted or len(self._tasks) >= SIGNS_MAX:
            return
        if self._resting.get(peer, 0) > self._line.clock.monotonic():
            return
        done = self._wanted[peer] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._keep(peer, token, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hide(self, peer: str) -> None:
        """Take the sign of a peer away."""
        if done := self._wanted.pop(peer, None):
            done.set()

    async def close(self) -> None:
        """Take all signs away, within `CLOSE_MS`."""
        for peer in tuple(self._wanted):
            self.hide(peer)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_MS / 1000)
        self._over = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, peer: str, token: str, done: asyncio.Event) -> None:
        """Repeat the sign until `done`, then take it away if it may have been seen."""
        shown, until = False, self._line.clock.monotonic() + SHOWN_MS_MAX
        while not done.is_set() and self._line.clock.monotonic() < until:
            if not await self._sign(peer, token, on=True):
                self._rest(peer)
                break
            shown = True
            await _either(done, self._keep_alive_ms)
        if self._wanted.get(peer) is done:
            del self._wanted[peer]
        if shown:
            await self._sign(peer, token, on=False)

    def _rest(self, peer: str) -> None:
        now = self._line.clock.monotonic()
        self._resting = {p: until for p, until in self._resting.items() if until > now}
        self._resting[peer] = now + RETRY_MS

    async def _sign(self, peer: str, token: str, *, on: bool) -> bool:
        """Send one sign; whether the server took it. A ticket that has run out is fetched again, for the end of a sign as well."""
        ticket = await self._ticket(peer, token)
        if not ticket:
            return False
        body = shapes.typing_request(peer, ticket, on, self._line.calls.info)
        answer = await self._call("sendtyping", body)
        return answer is not None and self._ok(wire.parse_done(answer.status, answer.body, "config"), "sendtyping")

    async def _ticket(self, peer: str, token: str) -> str:
        now = self._line.clock.monotonic()
        ticket, good_until = self._tickets.get(peer, ("", 0))
        if ticket and now < good_until:
            return ticket
        answer = await self._call("getconfig", shapes.config_request(peer, token, self._line.calls.info))
        if answer is None:
            return ""
        told = wire.parse_config(answer.status, answer.body)
        if not isinstance(told, wire.Ticket):
            self._ok(told, "getconfig")
            return ""
        self._remember(peer, told.ticket, now + TICKET_MS)
        return told.ticket

    def _remember(self, peer: str, ticket: str, good_until: Millis) -> None:
        self._tickets.pop(peer, None)
        while len(self._tickets) >= TICKETS_MAX:
            del self._tickets[next(iter(self._tickets))]
        self._tickets[peer] = (ticket, good_until)

    async def _call(self, path: str, body: bytes) -> Answer | None:
        """None if there is no answer, or if nothing may be sent any more."""
        if self._over:
            return None
        try:
            await self._line.fence.confirm()
            return await self._line.calls.post(path, body, timeout_ms=CALL_MS)
        except Fenced:
            self._over = True
            self._line.on_fenced()
        except (*NETWORK_ERRORS, StoreError) as error:
            log.info("%s: %s failed: %s", self._line.account, path, type(error).__name__)
        return None

    def _ok(self, told: wire.Done | LoginGone | wire.Trouble, path: str) -> bool:
        match told:
            case wire.Done():
                return True
            case LoginGone():
                self._over = True
                self._line.on_lost(told)
            case wire.Trouble():
                log.info("%s: %s: %s, HTTP %d, code %d", self._line.account, path, told.kind, told.status, told.code)
        return False


async def _either(done: asyncio.Event, ms: int) -> None:
    """Wait for an event, or for a time."""
    try:
        async with asyncio.timeout(ms / 1000):
            await done.wait()
    except TimeoutError:
        return
