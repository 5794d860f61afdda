"""An account's way in: the long poll."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from actors.channels.weixin import inbound, shapes, wire
from actors.channels.weixin.calls import NETWORK_ERRORS, Calls, Gate
from actors.channels.weixin.wire import HOLD_MS, Trouble, Updates
from actors.inbox import LATENCY_MS_MAX
from actors.ports import Fence, LoginGone, Polled
from actors.runtime.clock import Clock, Ids
from events.base import Millis
from store.errors import StoreError

GRACE_MS = 8_000
"""The client waits this much longer than the server says it holds a poll: equal times race. Notes 1.4."""

BACKOFF_MS = (2_000, 30_000)
"""First and longest wait after a poll that failed."""

IDLE_MS = (50, 1_000)
"""First and longest wait after empty answers that came at once: a server that does not hold must not make us spin."""

AT_ONCE_MS = 100

NOTIFY_MS = 3_000
"""How long the start and the end of a client may take to announce."""

log = logging.getLogger(__name__)


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a poll loop (ms); tests shorten them."""

    grace_ms: int = GRACE_MS
    backoff_ms: tuple[int, int] = BACKOFF_MS
    idle_ms: tuple[int, int] = IDLE_MS
    notify_ms: int = NOTIFY_MS


class InletStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the polling goes; holds no secrets and no texts."""

    running: bool = False
    polls: int = 0  # successful ones
    last_poll_at: Millis = 0  # end of the last successful one, 0 = never
    timeouts: int = 0  # polls that the server left open; normal
    consecutive_failures: int = 0
    last_error: str = ""  # of the running row of failures; redacted
    echoes: int = 0  # messages that a bot wrote
    malformed: int = 0  # entries that no message could be made of


class WeixinInlet:
    """The poll loop of one login; satisfies `actors.ports.Inlet`."""

    def __init__(
        self, calls: Calls, *, account: str, fence: Fence, clock: Clock, ids: Ids, timing: Timing | None = None
    ) -> None:
        self._calls = calls
        self._account = account
        self._fence = fence
        self._clock = clock
        self._ids = ids
        self._timing = timing or Timing()
        self._hold_ms = HOLD_MS
        self._at_once = 0  # empty answers in a row that came at once
        self.status = InletStatus()

    async def run(
        self, deliver: Callable[[Polled], Awaitable[None]], lost: Callable[[LoginGone], Awaitable[None]], cursor: str
    ) -> None:
        """Poll until cancelled. See `actors.ports.Inlet.run`."""
        ours = False  # whether to tell the server that this login's client stops: not if a successor may be polling with it
        self._note(running=True)
        try:
            await self._fence.confirm()
            await self._notify("msg/notifystart")
            gone = await self._loop(deliver, cursor)
            await lost(gone)
        except asyncio.CancelledError:
            ours = True
            raise
        finally:
            self._note(running=False)
            if ours:
                await self._stopped()

    async def _loop(self, deliver: Callable[[Polled], Awaitable[None]], cursor: str) -> LoginGone:
        while True:
            await self._fence.confirm()
            started_at = self._clock.now()
            match await self._poll(cursor):
                case LoginGone() as gone:
                    return gone
                case Trouble() as trouble:
                    await self._back_off(trouble)
                case None:
                    self._note(timeouts=self.status.timeouts + 1)
                case Updates() as updates:
                    cursor = updates.cursor or cursor
                    self._hold_ms = updates.hold_ms
                    polled = self._polled(updates, cursor, started_at)
                    await deliver(polled)
                    await self._breathe(polled)

    async def _poll(self, cursor: str) -> Updates | LoginGone | Trouble | None:
        """One poll; None if the server left it open until the client's time was up, which is normal. Notes 1.4."""
        gate = Gate()
        body = shapes.updates_request(cursor, self._calls.info)
        timeout_ms = self._hold_ms + self._timing.grace_ms
        try:
            answer = await self._calls.post("getupdates", body, timeout_ms=timeout_ms, gate=gate)
        except NETWORK_ERRORS as error:
            if isinstance(error, TimeoutError) and gate.passed:
                return None
            how = "no answer" if gate.passed else "no connection"
            return Trouble(kind="connection", detail=f"{how}: {type(error).__name__}")
        found = wire.parse_updates(answer.status, answer.body)
        return msgspec.structs.replace(found, dated=answer.dated) if isinstance(found, Updates) else found

    def _polled(self, updates: Updates, cursor: str, started_at: Millis) -> Polled:
        read = inbound.read(updates)
        if read.malformed:
            log.warning("%s: %d entries of a poll are no messages", self._account, read.malformed)
        now, ahead = self._clock.now(), self._calls.ahead
        self._note(
            polls=self.status.polls + 1,
            last_poll_at=now,
            consecutive_failures=0,
            last_error="",
            echoes=self.status.echoes + read.echoes,
            malformed=self.status.malformed + read.malformed,
        )
        return Polled(
            messages=read.messages,
            cursor=cursor,
            started_at=started_at,
            ended_at=ahead.read_at(updates.dated, started_at, now, LATENCY_MS_MAX),
            ahead_ms=ahead.most_ms(now),
        )

    async def _back_off(self, trouble: Trouble) -> None:
        failures = self.status.consecutive_failures + 1
        self._note(consecutive_failures=failures, last_error=trouble.detail)
        log.log(
            logging.WARNING if failures == 1 else logging.INFO,
            "%s: poll failed (%s, HTTP %d, code %d), %d in a row",
            self._account,
            trouble.kind,
            trouble.status,
            trouble.code,
            failures,
        )
        first_ms, longest_ms = self._timing.backoff_ms
        wait_ms = min(longest_ms, first_ms * 2 ** min(failures - 1, 16)) * self._ids.jitter(0.75, 1.25)
        await asyncio.sleep(min(wait_ms, longest_ms) / 1000)

    async def _breathe(self, polled: Polled) -> None:
        idle = (
            not polled.messages and self.status.last_poll_at - polled.started_at < AT_ONCE_MS
        )  # `ended_at` may be earlier
        self._at_once = self._at_once + 1 if idle else 0
        if self._at_once:
            first_ms, longest_ms = self._timing.idle_ms
            await asyncio.sleep(min(longest_ms, first_ms * 2 ** min(self._at_once - 1, 16)) / 1000)

    async def _stopped(self) -> None:
        try:
            await self._fence.confirm()
        except StoreError as error:
            log.info(
                "%s: not announcing the end, the login may be a successor's: %s", self._account, type(error).__name__
            )
            return
        await self._notify("msg/notifystop")

    async def _notify(self, path: str) -> None:
        """Tell the server that this client starts or stops; not every server wants to know. Notes 1.2."""
        body = shapes.notify_request(self._calls.info)
        try:
            answer = await self._calls.post(path, body, timeout_ms=self._timing.notify_ms)
        except NETWORK_ERRORS as error:
            log.info("%s: %s failed: %s", self._account, path, type(error).__name__)
            return
        told = wire.parse_done(answer.status, answer.body, "poll")
        if not isinstance(told, wire.Done):
            log.info("%s: %s was refused (HTTP %d)", self._account, path, answer.status)

    def _note(self, **changes: int | str | bool) -> None:
        self.status = msgspec.structs.replace(self.status, **changes)
