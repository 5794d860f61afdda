"""Orders without a running gateway: the account is claimed for a moment, which stops one that runs elsewhere, and nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from actors.gateway import routes
from actors.gateway.errors import GatewayError, NoLogin
from actors.ports import LoginGone, Polled, SendOrder
from actors.runtime.scheduler import LoopScheduler
from events.base import Millis
from events.bot import DAY_MS
from scripts.configuration.config import Config
from scripts.exits import ConfigRefused, Failed, LoginNeeded, Misused
from scripts.running.days import clock_of, open_log
from scripts.running.process import GatewayProcess
from store.errors import OtherDays, StoreError

T = TypeVar("T")


class ShutInlet:
    """An inlet that hears nothing."""

    async def run(
        self,
        deliver: Callable[[Polled], Awaitable[None]],  # noqa: ARG002 (the port's shape)
        lost: Callable[[LoginGone], Awaitable[None]],  # noqa: ARG002
        cursor: str,  # noqa: ARG002
    ) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


class ShutOutlet:
    """An outlet with no place in its pace: whatever is due stays due for the next start."""

    def earliest(self, stream: str, now: Millis, *, keep: bool = True) -> Millis:  # noqa: ARG002
        """Not today."""
        return now + DAY_MS

    def send(self, order: SendOrder) -> None:
        """Refuse what cannot happen: nothing is requested without a place."""
        raise AssertionError(f"request {order.request} while nothing may be sent")

    def holds(self, request: str) -> bool:  # noqa: ARG002
        """Nothing is in flight."""
        return False

    def settled(self, request: str) -> None:
        """Nothing is in flight."""

    def typing(self, peer: str, token: str, on: bool) -> None:
        """Nothing is shown."""

    async def close(self) -> None:
        """Nothing is open."""


class ShutLink:
    """A channel that is not opened."""

    def __init__(self, *_: object, **__: object) -> None:
        self.inlet, self.outlet = ShutInlet(), ShutOutlet()


class OfflineAsker:
    """Asks a gateway that lives in this process for the length of one question."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def get(self, kind: type[T], path: str, *, wait_ms: int = 0, **query: object) -> T:  # noqa: ARG002 (nothing is sent, so nothing to wait for)
        """See `scripts.asking.client.Asker.get`."""
        return self._ask(kind, "GET", path, {k: str(v) for k, v in query.items() if v not in (None, "", False)}, b"")

    def post(self, kind: type[T], path: str, order: msgspec.Struct) -> T:
        """See `scripts.asking.client.Asker.post`."""
        return self._ask(kind, "POST", path, {}, msgspec.json.encode(order))

    def _ask(self, kind: type[T], method: str, path: str, query: dict[str, str], body: bytes) -> T:
        try:
            answer = asyncio.run(self._answer(method, path, query, body))
        except NoLogin as refusal:
            raise LoginNeeded(refusal.message) from None
        except GatewayError as refusal:
            said = refusal.message + (f"; near: {', '.join(refusal.near)}" if refusal.near else "")
            raise (Misused(said) if refusal.status == 400 else Failed(said)) from None
        except OtherDays as error:
            raise ConfigRefused(str(error)) from None
        except StoreError as error:
            raise Failed(str(error)) from None
        return msgspec.convert(msgspec.to_builtins(answer), kind)

    async def _answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        route, tail = routes.find(method, urlsplit(path).path)
        call = routes.Call(tail=routes.tail_of(tail), query=query, body=body, gone=lambda: False)
        async with clock_of(self._config) as clock:
            scheduler = LoopScheduler(clock=clock)
            log = await open_log(self._config, scheduler)
            process = GatewayProcess(self._config, log, scheduler, open_links=lambda _channel: ShutLink)
            try:
                for life in process.lives.values():
                    await life.start()
                return await route.handler(process.service, call)
            finally:
                await process.stop()
                await log.close()
                scheduler.close()
