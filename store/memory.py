"""The log in memory behind the port of the log: the twin of the SQLite log, for tests and simulations.

It loses everything when the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TypeVar

from events.base import Millis, Recorded
from store.errors import LogClosed
from store.limits import PAGE_ROWS_MAX
from store.memory_core import MemoryCore
from store.records import AddressRow, AgendaRow, Appended, Batch, Binding, Claim, Head, Row

V = TypeVar("V")


class MemoryLog:
    """A log that can be written, without a file. Each call acts at once and acknowledges what is durable."""

    def __init__(self, core: MemoryCore | None = None) -> None:
        self.core = core or MemoryCore()
        self._news = asyncio.Event()
        self._closed = False

    @property
    def salt(self) -> bytes:
        """The key of all fingerprints of this log."""
        return self.core.salt

    async def append(self, batch: Batch) -> Appended:
        """Put a batch into the log. Raises AppendRefused."""
        core = self._open()
        appended = core.append(batch)
        core.commit()
        self._spread_news()
        return appended

    async def claim(
        self, account: str, instance: str, at: Millis, *, program: str = "", simulated: bool = False
    ) -> Claim:
        """Take the account over."""
        claim = self._open().claim(account, instance, at, program, simulated)
        self._spread_news()
        return claim

    async def prune_keys(self, account: str, source: str, before: Millis) -> int:
        """Forget keys older than `before` (ms). Raises ValueError for sources that are kept for ever."""
        return self._open().prune_keys(account, source, before)

    async def epoch(self, account: str) -> int:
        """The account's epoch, 0 before its first claim."""
        claim = self._open().claims.get(account)
        return claim.epoch if claim else 0

    async def follow(self, after: int) -> AsyncIterator[tuple[Recorded, ...]]:
        """Events after a position as they are committed."""
        while True:
            news = self._news
            async for page in self.page(after):
                yield page
                after = page[-1].position
            await news.wait()

    async def read(self, stream: str, after: int = 0, limit: int = 0) -> tuple[Recorded, ...]:
        """Events of a stream after a version, in order; `limit` 0 = all."""
        events = self._open().by_stream.get(stream, [])
        return tuple(events[after : after + limit if limit else None])

    async def page(self, after: int = 0, until: int = 0, size: int = 5000) -> AsyncIterator[tuple[Recorded, ...]]:
        """All events after a position up to `until` (0 = the end), in pages."""
        while found := _slice(self._open().recorded, after, until, size):
            yield found
            after = found[-1].position

    async def rows(self, after: int = 0, size: int = 5000) -> AsyncIterator[tuple[Row, ...]]:
        """The same, undecoded."""
        while found := _slice(self._open().rows, after, 0, size):
            yield found
            after = found[-1].position

    async def position(self) -> int:
        """The last position, 0 when empty."""
        return len(self._open().rows)

    async def position_at(self, at: Millis) -> int:
        """The last position before the first event later than `at` (ms)."""
        rows = self._open().rows
        return next((row.position - 1 for row in rows if row.at > at), len(rows))

    async def bodies(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Texts by id; those that are gone are absent."""
        bodies = self._open().bodies
        return {i: bodies[i][2].text for i in ids if i in bodies}

    async def key(self, source: str, key: str) -> Mapping[str, str]:
        """Account to value of a key."""
        return {a: held.value for (a, s, k), held in self._open().held.items() if (s, k) == (source, key)}

    async def taken(self, account: str, source: str, keys: Iterable[str]) -> frozenset[str]:
        """Which of these keys an account holds."""
        held = self._open().held
        return frozenset([k for k in keys if (account, source, k) in held])

    async def key_prefix(self, source: str, prefix: str, limit: int = 20) -> tuple[tuple[str, str, str], ...]:
        """(account, key, value) of the keys that begin so, by key."""
        held = self._open().held.items()
        found = [(a, k, h.value) for (a, s, k), h in held if s == source and k.startswith(prefix)]
        return tuple(sorted(found, key=lambda f: (f[1], f[0]))[:limit])

    async def agenda(self, account: str) -> tuple[AgendaRow, ...]:
        """What an account's streams wait for, earliest due first."""
        rows = [row for owner, row in self._open().agenda.values() if owner == account]
        return tuple(sorted(rows, key=lambda r: (r.due_at is None, r.due_at or 0, r.stream)))

    async def addresses(self, account: str) -> tuple[AddressRow, ...]:
        """The peers of an account."""
        known = sorted(self._open().facts.streams.items())
        mine = [(s, k) for s, k in known if k.account == account]
        return tuple([AddressRow(stream=s, peer=k.peer, name=k.name) for s, k in mine if k.peer is not None])

    async def accounts_of(self) -> Mapping[str, str]:
        """The account of every stream, also of peers that were forgotten."""
        return {s: k.account for s, k in sorted(self._open().facts.streams.items())}

    async def bindings(self) -> tuple[tuple[str, Binding], ...]:
        """(account, binding) of each bound peer."""
        rows = sorted(self._open().bindings.items())
        return tuple([(a, Binding(stream=stream, session=session)) for stream, (a, session) in rows])

    async def heads(self) -> tuple[Head, ...]:
        """Every stream's head, by name."""
        tips = sorted(self._open().facts.tips.items())
        return tuple([Head(stream=s, version=t.version, at=t.at, digest=t.digest) for s, t in tips])

    async def claims(self) -> tuple[Claim, ...]:
        """The fence rows."""
        return tuple([claim for _, claim in sorted(self._open().claims.items())])

    async def expired(self, account: str, before: Millis, limit: int = 1000) -> tuple[tuple[str, str], ...]:
        """(stream, body) of an account's bodies older than `before` (ms), oldest first."""
        mine = [(body.at, n, body) for a, n, body in self._open().bodies.values() if a == account and body.at < before]
        return tuple([(body.stream, body.id) for _, _, body in sorted(mine, key=lambda m: m[:2])[:limit]])

    async def meta(self) -> Mapping[str, str]:
        """Facts about the log as a whole."""
        return dict(self._open().meta)

    async def close(self) -> None:
        """Let go of the log."""
        self._closed = True
        self._spread_news()

    def _open(self) -> MemoryCore:
        if self._closed:
            raise LogClosed
        return self.core

    def _spread_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _slice(rows: list[V], after: int, until: int, size: int) -> tuple[V, ...]:
    """Rows after a position; positions have no gaps."""
    end = min(after + min(size, PAGE_ROWS_MAX), until or len(rows))
    return tuple(rows[after:end])
