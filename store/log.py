"""The port of the log: what every store offers. One contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Protocol

from events.base import Millis, Recorded
from store.chain import Root
from store.ledger import START, Entry, Place, Wanted
from store.limits import PAGE_ROWS
from store.records import BARE, AddressRow, AgendaRow, Appended, Batch, Binding, Claim, Head, Kept, Row, Start


class Reader(Protocol):
    """Reads a log; never changes it. Transactions are short, so that no reader holds up the log's clean-up."""

    async def read(self, stream: str, after: int = 0, limit: int = 0) -> tuple[Recorded, ...]:
        """Events of a stream after a version, in order; `limit` 0 = all."""
        ...

    async def read_since_key(self, stream: str, source: str, key: str) -> tuple[Recorded, ...]:
        """Events of a stream from those on that took a key of its account (a turn's, a delivery's); all of them where it has no such
        key. What became of one thing is told without all that came before it."""
        ...

    def page(self, after: int = 0, until: int = 0, size: int = PAGE_ROWS) -> AsyncIterator[tuple[Recorded, ...]]:
        """All events after a position up to `until` (0 = the end), in pages."""
        ...

    def rows(self, after: int = 0, size: int = 5000) -> AsyncIterator[tuple[Row, ...]]:
        """The same, undecoded, for verification and export."""
        ...

    async def position(self) -> int:
        """The last position of the log, 0 when empty."""
        ...

    async def position_at(self, at: Millis) -> int:
        """The last position before the first event later than `at` (ms); near it where a clock was set back."""
        ...

    async def bodies(self, ids: Iterable[str]) -> Mapping[str, str]:
        """The texts of bodies by id; expired, erased and unknown ones are absent."""
        ...

    async def kept(self, ids: Iterable[str]) -> Mapping[str, Kept]:
        """The same, each with the salt that keys its fingerprints."""
        ...

    async def key(self, source: str, key: str) -> Mapping[str, str]:
        """Account to value of a key, for each account that holds it."""
        ...

    async def taken(self, account: str, source: str, keys: Iterable[str]) -> frozenset[str]:
        """Which of these keys an account holds."""
        ...

    async def key_prefix(self, source: str, prefix: str, limit: int = 20) -> tuple[tuple[str, str, str], ...]:
        """(account, key, value) of the keys that begin so; for ids by unique prefix."""
        ...

    async def values(self, account: str, source: str, keys: Iterable[str]) -> Mapping[str, str]:
        """The values of those of these keys that an account holds."""
        ...

    async def key_counts(self, account: str) -> Mapping[str, int]:
        """How many keys of each source an account holds."""
        ...

    async def key_values(self, account: str, source: str, prefix: str, since: Millis) -> Mapping[str, int]:
        """How often each value stands among the keys that begin so and were taken since then (ms)."""
        ...

    async def newest_key(self, account: str, source: str, prefix: str, value: str) -> Millis:
        """When the newest key that begins so and has this value was taken (ms), 0 if there is none."""
        ...

    async def keys_after(self, account: str, source: str, after: str, limit: int = 5000) -> tuple[str, ...]:
        """The next keys of an account after one, in their order."""
        ...

    async def agenda(self, account: str) -> tuple[AgendaRow, ...]:
        """Rows of an account that have something due, open, waiting, or a turn open; earliest due first."""
        ...

    async def addresses(self, account: str) -> tuple[AddressRow, ...]:
        """The peers of an account."""
        ...

    async def accounts_of(self) -> Mapping[str, str]:
        """The account of every stream, also of peers whose address was forgotten."""
        ...

    async def account_of(self, stream: str) -> str:
        """The account of a stream, also of a peer whose address was forgotten; "" of one that the log does not know."""
        ...

    async def bindings(self) -> tuple[tuple[str, Binding], ...]:
        """(account, binding) of each bound peer."""
        ...

    async def heads(self) -> tuple[Head, ...]:
        """Every stream's head, by name."""
        ...

    async def claims(self) -> tuple[Claim, ...]:
        """The fence rows."""
        ...

    async def expired(self, account: str, before: Millis, limit: int = 1000) -> tuple[tuple[str, str], ...]:
        """(stream, body id) of an account's bodies older than `before`, oldest first."""
        ...

    async def held(self, account: str, stream: str, limit: int) -> tuple[tuple[str, str], ...]:
        """(body id, kind) of a stream's bodies, oldest first, at most `limit`. Looks through all of the account's."""
        ...

    async def requests(self, wanted: Wanted, after: Place = START, size: int = 100) -> tuple[Entry, ...]:
        """A page of the ledger: the next requests after a place, in order of (at, position)."""
        ...

    async def root(self) -> Root:
        """The root over all heads, as they are now."""
        ...

    async def snapshot(self, stream: str, fold_version: str) -> tuple[int, bytes] | None:
        """(version, state) of a stream's snapshot, if there is one of this fold."""
        ...

    async def meta(self) -> Mapping[str, str]:
        """Facts about the log as a whole: schema, created_at, salt, simulated."""
        ...

    async def close(self) -> None:
        """Let go of the log. Waits for what is in flight."""
        ...


class Log(Reader, Protocol):
    """A log that can be written."""

    @property
    def salt(self) -> bytes:
        """The key of the fingerprints that belong to no body with a salt of its own."""
        ...

    async def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Claim:
        """Take the account over: the next epoch, and BotStarted, in one transaction."""
        ...

    async def append(self, batch: Batch) -> Appended:
        """Put a batch into the log, durably. Raises AppendRefused (nothing happened) or LogFailed (unknown)."""
        ...

    async def epoch(self, account: str) -> int:
        """The account's current epoch, 0 before the first claim; as others committed it."""
        ...

    def follow(self, after: int) -> AsyncIterator[tuple[Recorded, ...]]:
        """Events after a position as they are committed (by this process at once, by others within a second)."""
        ...

    async def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> None:
        """Keep the state of a long stream (over 5,000 events) as a cache for `snapshot`."""
        ...

    async def checkpoint(self) -> bool:
        """Make sure that erased text is in no file of the log. False while a reader, here or elsewhere, is in the way: try again."""
        ...

    async def takes(self) -> None:
        """Return if the log would take an append now. Raises LogBusy, or LogUnusable."""
        ...

    async def prune_keys(self, account: str, source: str, before: Millis) -> int:
        """Forget keys older than `before`; `turn` and `delivery` keys are refused. How many went."""
        ...
