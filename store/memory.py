"""The log in memory behind the port of the log: the twin of the SQLite log, for tests and simulations.

It loses everything when the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping

from events.base import Millis, Recorded
from store import memory_queries as queries
from store.chain import Root, root
from store.errors import LogClosed
from store.ledger import START, Entry, Place, Wanted, page_of_memory
from store.limits import PAGE_ROWS
from store.memory_core import MemoryCore
from store.records import BARE, AddressRow, AgendaRow, Appended, Batch, Binding, Claim, Head, Kept, Row, Start


class MemoryLog:
    """A log that can be written, without a file. Each call acts at once and acknowledges what is durable."""

    def __init__(self, core: MemoryCore | None = None) -> None:
        self.core = core or MemoryCore()
        self._news = asyncio.Event()
        self._closed = False

    @property
    def salt(self) -> bytes:
        """The key of the fingerprints that belong to no body with a salt of its own."""
        return self.core.salt

    async def append(self, batch: Batch) -> Appended:
        """Put a batch into the log. Raises AppendRefused."""
        core = self._open()
        appended = core.append(batch)
        core.commit()
        self._spread_news()
        return appended

    async def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Claim:
        """Take the account over."""
        claim = self._open().claim(account, instance, at, start)
        self._spread_news()
        return claim

    async def checkpoint(self) -> bool:
        """Nothing is in any file."""
        self._open()
        return True

    async def takes(self) -> None:
        """Return: memory takes everything."""

    async def prune_keys(self, account: str, source: str, before: Millis) -> int:
        """Forget keys older than `before` (ms). Raises ValueError for sources that are kept for ever."""
        return self._open().prune_keys(account, source, before)

    async def epoch(self, account: str) -> int:
        """The account's epoch, 0 before its first claim."""
        return queries.epoch(self._open(), account)

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
        return queries.read(self._open(), stream, after, limit)

    async def read_since_key(self, stream: str, source: str, key: str) -> tuple[Recorded, ...]:
        """Events of a stream from those on that took a key of its account; all of them where it has no such key."""
        return queries.read_since_key(self._open(), stream, source, key)

    async def page(self, after: int = 0, until: int = 0, size: int = PAGE_ROWS) -> AsyncIterator[tuple[Recorded, ...]]:
        """All events after a position up to `until` (0 = the end), in pages."""
        while found := queries.page(self._open(), after, until, size):
            yield found
            after = found[-1].position

    async def rows(self, after: int = 0, size: int = 5000) -> AsyncIterator[tuple[Row, ...]]:
        """The same, undecoded."""
        while found := queries.row_page(self._open(), after, size):
            yield found
            after = found[-1].position

    async def position(self) -> int:
        """The last position, 0 when empty."""
        return queries.position(self._open())

    async def position_at(self, at: Millis) -> int:
        """The last position before the first event later than `at` (ms)."""
        return queries.position_at(self._open(), at)

    async def bodies(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Texts by id; those that are gone are absent."""
        return queries.bodies(self._open(), ids)

    async def kept(self, ids: Iterable[str]) -> Mapping[str, Kept]:
        """Texts by id, each with what keys its fingerprints; those that are gone are absent."""
        return queries.kept(self._open(), ids)

    async def key(self, source: str, key: str) -> Mapping[str, str]:
        """Account to value of a key."""
        return queries.key(self._open(), source, key)

    async def taken(self, account: str, source: str, keys: Iterable[str]) -> frozenset[str]:
        """Which of these keys an account holds."""
        return queries.taken(self._open(), account, source, keys)

    async def key_prefix(self, source: str, prefix: str, limit: int = 20) -> tuple[tuple[str, str, str], ...]:
        """(account, key, value) of the keys that begin so, by key."""
        return queries.key_prefix(self._open(), source, prefix, limit)

    async def values(self, account: str, source: str, keys: Iterable[str]) -> Mapping[str, str]:
        """The values of those of these keys that an account holds."""
        return queries.values(self._open(), account, source, list(keys))

    async def key_counts(self, account: str) -> Mapping[str, int]:
        """How many keys of each source an account holds."""
        return queries.key_counts(self._open(), account)

    async def key_values(self, account: str, source: str, prefix: str, since: Millis) -> Mapping[str, int]:
        """How often each value stands among the keys that begin so and were taken since then (ms)."""
        return queries.key_values(self._open(), account, source, prefix, since)

    async def newest_key(self, account: str, source: str, prefix: str, value: str) -> Millis:
        """When the newest key that begins so and has this value was taken (ms), 0 if there is none."""
        return queries.newest_key(self._open(), account, source, prefix, value)

    async def keys_after(self, account: str, source: str, after: str, limit: int = 5000) -> tuple[str, ...]:
        """The next keys of an account after one, in their order."""
        return queries.keys_after(self._open(), account, source, after, limit)

    async def agenda(self, account: str) -> tuple[AgendaRow, ...]:
        """What an account's streams wait for, earliest due first."""
        return queries.agenda(self._open(), account)

    async def addresses(self, account: str) -> tuple[AddressRow, ...]:
        """The peers of an account."""
        return queries.addresses(self._open(), account)

    async def accounts_of(self) -> Mapping[str, str]:
        """The account of every stream, also of peers that were forgotten."""
        return queries.accounts_of(self._open())

    async def account_of(self, stream: str) -> str:
        """The account of a stream, "" if it is unknown."""
        return queries.account_of(self._open(), stream)

    async def bindings(self) -> tuple[tuple[str, Binding], ...]:
        """(account, binding) of each bound peer."""
        return queries.bindings(self._open())

    async def heads(self) -> tuple[Head, ...]:
        """Every stream's head, by name."""
        return queries.heads(self._open())

    async def claims(self) -> tuple[Claim, ...]:
        """The fence rows."""
        return queries.claims(self._open())

    async def expired(self, account: str, before: Millis, limit: int = 1000) -> tuple[tuple[str, str], ...]:
        """(stream, body) of an account's bodies older than `before` (ms), oldest first."""
        return queries.expired(self._open(), account, before, limit)

    async def held(self, account: str, stream: str, limit: int) -> tuple[tuple[str, str], ...]:
        """(body id, kind) of a stream's bodies, oldest first."""
        return queries.held(self._open(), account, stream, limit)

    async def meta(self) -> Mapping[str, str]:
        """Facts about the log as a whole."""
        return dict(self._open().meta)

    async def requests(self, wanted: Wanted, after: Place = START, size: int = 100) -> tuple[Entry, ...]:
        """A page of the ledger."""
        return page_of_memory(self._open(), wanted, after, size)

    async def root(self) -> Root:
        """The root over all heads, as they are now."""
        core = self._open()
        return root(queries.position(core), {h.stream: (h.version, h.digest) for h in queries.heads(core)})

    async def snapshot(self, stream: str, fold_version: str) -> tuple[int, bytes] | None:
        """(version, state) of a stream's snapshot, if there is one of this fold."""
        version, made_by, data = self._open().snapshots.get(stream, (0, "", b""))
        return (version, data) if version and made_by == fold_version else None

    async def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> None:
        """Keep the state of a long stream (over 5,000 events) as a cache for `snapshot`."""
        self._open().snapshots[stream] = (version, fold_version, data)

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
