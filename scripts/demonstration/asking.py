"""Questions over HTTP to the processes of the demo, and waiting until an answer is as expected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
import msgspec

from scripts.demonstration.errors import DemoFailed

ANSWER_S = 20.0
"""How long an answer may take, and how long a condition may take to come true."""

PAUSE_S = 0.02
"""Between two looks at a condition that a process cannot be asked to wait for."""

T = TypeVar("T")


class Asking:
    """JSON to and from one process."""

    def __init__(self, http: aiohttp.ClientSession, name: str, base_url: str) -> None:
        self._http, self.name, self.base_url = http, name, base_url

    async def get(self, kind: type[T], path: str, **query: Any) -> T:
        """The answer to a question. Raises DemoFailed."""
        return await self._ask(kind, "GET", path, query, None)

    async def post(self, kind: type[T], path: str, order: object) -> T:
        """The answer to an order. Raises DemoFailed."""
        return await self._ask(kind, "POST", path, {}, order)

    async def _ask(self, kind: type[T], method: str, path: str, query: dict[str, Any], order: object) -> T:
        body = None if order is None else msgspec.json.encode(order)
        headers = {"Content-Type": "application/json"} if body else {}
        timeout = aiohttp.ClientTimeout(total=ANSWER_S + 5)
        url = self.base_url + path
        try:
            async with self._http.request(
                method, url, params=query, data=body, headers=headers, timeout=timeout
            ) as answer:
                said = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise DemoFailed(f"the {self.name} does not answer {method} {path}: {type(error).__name__}") from error
        if answer.status not in (200, 202):
            raise DemoFailed(f"the {self.name} refuses {method} {path}: HTTP {answer.status} {said[:300].decode()}")
        return msgspec.json.decode(said, type=kind)


async def until(what: str, look: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> T:
    """The first answer that is good. Raises DemoFailed with the last one when that takes too long."""
    found: Any = "nothing"
    try:
        async with asyncio.timeout(ANSWER_S):
            while not good(found := await look()):  # noqa: ASYNC110 (the condition is in another process)
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise DemoFailed(f"waited {ANSWER_S:.0f} s in vain: {what}; last seen: {found}") from None
    return found  # type: ignore[no-any-return]  # what `look` gave
