"""A log opened to be read: while a gateway writes to it, on a read-only medium, or as a copy.

Opens `mode=ro`. Where SQLite cannot do that (there is no shared-memory file and none can be made) database and WAL are copied
to a private folder and read there. Never `immutable`: that hides what is in the WAL.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from events.base import Millis, Recorded
from store import ledger, queries
from store.chain import Root
from store.errors import CannotOpen, LogDamaged, LogUnreadable
from store.ledger import START, Entry, Place, Wanted
from store.limits import BUSY_MS, PAGE_ROWS, PAGE_ROWS_MAX
from store.opening import check_contents, check_file, is_damage, refusal
from store.records import AddressRow, AgendaRow, Binding, Claim, Head, Kept, Row
from store.thread import ConnectionThread, file_uri

P = ParamSpec("P")
T = TypeVar("T")

COPY_TRIES = 3
"""How often a log that changes while it is copied is copied again."""


class SqliteReader:
    """Reads a log in SQLite. Every call is a short transaction of its own."""

    def __init__(self, path: Path, reads: ConnectionThread, copied_to: Path | None = None) -> None:
        """Use `open`."""
        self.path = path
        self._reads = reads
        self._copied_to = copied_to

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open a log to read. Raises CannotOpen."""
        if not check_file(path):
            raise CannotOpen(f"there is no log at {path}")
        try:
            return cls(path, await _connect(path))
        except sqlite3.Error as error:
            if _primary(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise refusal(error, path) from error
        folder = await asyncio.to_thread(copy_log, path)
        try:
            return cls(path, await _connect(folder / path.name), folder)
        except BaseException as error:
            shutil.rmtree(folder)
            if isinstance(error, sqlite3.Error):
                raise refusal(error, path) from error
            raise

    async def _ask(
        self, query: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            return await self._reads.run(lambda connection: query(connection, *args, **kwargs))
        except sqlite3.Error as error:
            if is_damage(error):
                raise LogDamaged(str(self.path), error) from error
            raise LogUnreadable(f"{self.path} could not be read: {error}") from error

    async def flaws(self) -> tuple[str, ...]:
        """What SQLite finds wrong with the file, in its words; reads all of it (seconds for a million events). Raises LogDamaged."""
        return await self._ask(queries.flaws)

    async def read(self, stream: str, after: int = 0, limit: int = 0) -> tuple[Recorded, ...]:
        """Events of a stream after a version, in order; `limit` 0 = all."""
        return await self._ask(queries.read, stream, after, limit)

    async def read_since_key(self, stream: str, source: str, key: str) -> tuple[Recorded, ...]:
        """Events of a stream from those on that took a key of its account; all of them where it has no such key."""
        return await self._ask(queries.read_since_key, stream, source, key)

    async def page(self, after: int = 0, until: int = 0, size: int = PAGE_ROWS) -> AsyncIterator[tuple[Recorded, ...]]:
        """All events after a position up to `until` (0 = the end), in pages."""
        while found := await self._ask(queries.page, after, until, min(size, PAGE_ROWS_MAX)):
            yield found
            after = self._onward(after, found[-1].position)

    async def rows(self, after: int = 0, size: int = 5000) -> AsyncIterator[tuple[Row, ...]]:
        """The same, undecoded."""
        while found := await self._ask(queries.row_page, after, min(size, PAGE_ROWS_MAX)):
            yield found
            after = self._onward(after, found[-1].position)

    def _onward(self, after: int, last: int) -> int:
        """Where the next page begins. In a damaged file SQLite may give the same row again, for ever. Raises LogDamaged."""
        if last <= after:
            raise LogDamaged(str(self.path), f"position {last} comes after {after}")
        return last

    async def position(self) -> int:
        """The last position, 0 when empty."""
        return await self._ask(queries.position)

    async def position_at(self, at: Millis) -> int:
        """The last position before the first event later than `at` (ms). See `store.queries.position_at`."""
        return await self._ask(queries.position_at, at)

    async def bodies(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Texts by id; those that are gone are absent."""
        return await self._ask(queries.bodies, list(ids))

    async def kept(self, ids: Iterable[str]) -> Mapping[str, Kept]:
        """Texts by id, each with what keys its fingerprints; those that are gone are absent."""
        return await self._ask(queries.kept, list(ids))

    async def key(self, source: str, key: str) -> Mapping[str, str]:
        """Account to value of a key."""
        return await self._ask(queries.key, source, key)

    async def taken(self, account: str, source: str, keys: Iterable[str]) -> frozenset[str]:
        """Which of these keys an account holds."""
        return await self._ask(queries.taken, account, source, list(keys))

    async def key_prefix(self, source: str, prefix: str, limit: int = 20) -> tuple[tuple[str, str, str], ...]:
        """(account, key, value) of the keys that begin so, by key."""
        return await self._ask(queries.key_prefix, source, prefix, limit)

    async def values(self, account: str, source: str, keys: Iterable[str]) -> Mapping[str, str]:
        """The values of those of these keys that an account holds."""
        return await self._ask(queries.values, account, source, list(keys))

    async def key_counts(self, account: str) -> Mapping[str, int]:
        """How many keys of each source an account holds."""
        return await self._ask(queries.key_counts, account)

    async def key_values(self, account: str, source: str, prefix: str, since: Millis) -> Mapping[str, int]:
        """How often each value stands among the keys that begin so and were taken since then (ms)."""
        return await self._ask(queries.key_values, account, source, prefix, since)

    async def newest_key(self, account: str, source: str, prefix: str, value: str) -> Millis:
        """When the newest key that begins so and has this value was taken (ms), 0 if there is none."""
        return await self._ask(queries.newest_key, account, source, prefix, value)

    async def keys_after(self, account: str, source: str, after: str, limit: int = 5000) -> tuple[str, ...]:
        """The next keys of an account after one, in their order."""
        return await self._ask(queries.keys_after, account, source, after, limit)

    async def agenda(self, account: str) -> tuple[AgendaRow, ...]:
        """What an account's streams wait for, earliest due first."""
        return await self._ask(queries.agenda, account)

    async def addresses(self, account: str) -> tuple[AddressRow, ...]:
        """The peers of an account."""
        return await self._ask(queries.addresses, account)

    async def accounts_of(self) -> Mapping[str, str]:
        """The account of every stream, also of peers that were forgotten."""
        return await self._ask(queries.accounts_of)

    async def account_of(self, stream: str) -> str:
        """The account of a stream, "" if it is unknown."""
        return await self._ask(queries.account_of, stream)

    async def bindings(self) -> tuple[tuple[str, Binding], ...]:
        """(account, binding) of each bound peer."""
        return await self._ask(queries.bindings)

    async def heads(self) -> tuple[Head, ...]:
        """Every stream's head, by name."""
        return await self._ask(queries.heads)

    async def claims(self) -> tuple[Claim, ...]:
        """The fence rows."""
        return await self._ask(queries.claims)

    async def epoch(self, account: str) -> int:
        """An account's epoch as others committed it, 0 before its first claim."""
        return await self._ask(queries.epoch, account)

    async def expired(self, account: str, before: Millis, limit: int = 1000) -> tuple[tuple[str, str], ...]:
        """(stream, body) of an account's bodies older than `before` (ms), oldest first."""
        return await self._ask(queries.expired, account, before, limit)

    async def held(self, account: str, stream: str, limit: int) -> tuple[tuple[str, str], ...]:
        """(body id, kind) of a stream's bodies, oldest first."""
        return await self._ask(queries.held, account, stream, limit)

    async def meta(self) -> Mapping[str, str]:
        """Facts about the log as a whole."""
        return await self._ask(queries.meta)

    async def requests(self, wanted: Wanted, after: Place = START, size: int = 100) -> tuple[Entry, ...]:
        """A page of the ledger."""
        return await self._ask(ledger.page, wanted, after, size)

    async def root(self) -> Root:
        """The root over all heads, as they are now."""
        return await self._ask(queries.root_now)

    async def snapshot(self, stream: str, fold_version: str) -> tuple[int, bytes] | None:
        """(version, state) of a stream's snapshot, if there is one of this fold."""
        return await self._ask(queries.snapshot, stream, fold_version)

    async def close(self) -> None:
        """Let go of the log, and of the private copy if there is one."""
        await self._reads.close()
        if self._copied_to is not None:
            shutil.rmtree(self._copied_to)
            self._copied_to = None


async def _connect(path: Path) -> ConnectionThread:
    """A read-only connection that has proved that it can read. Raises sqlite3.Error or CannotOpen."""
    thread = ConnectionThread(file_uri(path, "ro"), busy_ms=BUSY_MS)
    try:
        await thread.start()
        await thread.run(lambda connection: connection.execute("SELECT count(*) FROM sqlite_master").fetchone())
        await thread.run(lambda connection: check_contents(connection, path))
    except BaseException:
        await thread.close()
        raise
    return thread


def copy_log(path: Path) -> Path:
    """Copy database and WAL to a new folder that only this user can enter. Raises CannotOpen if the log will not hold still."""
    folder = Path(tempfile.mkdtemp(prefix="replyledger-"))
    try:
        for _ in range(COPY_TRIES):
            before = _stamps(path)
            for source in before:
                shutil.copyfile(source, folder / source.name)
            if _stamps(path) == before:
                return folder
            for copy in folder.iterdir():
                copy.unlink()
    except OSError as error:
        shutil.rmtree(folder)
        raise CannotOpen(f"{path} could be neither read in place nor copied to {folder}: {error.strerror}") from error
    shutil.rmtree(folder)
    raise CannotOpen(f"{path} is being written to and cannot be read in place; make its folder writable for this user")


def _stamps(path: Path) -> dict[Path, tuple[int, int]]:
    files = [path, path.with_name(f"{path.name}-wal")]
    return {f: (f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.exists()}


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
