"""The log in SQLite as plain methods on one connection: what the writer thread runs, and the seeded simulator calls.

A group of batches is one transaction. What it refuses leaves no row; what fails before COMMIT did not happen; what fails in
COMMIT is unknown, and the log takes no more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from events.base import Millis
from events.bot import BotStarted
from store.admit import Admitted, Facts, accept, admit
from store.append import Cache, gather, insert
from store.errors import AppendRefused, LogBusy, LogFailed, OtherDays
from store.limits import DISK_RESERVE_BYTES, HEADS_CACHED_MAX, PAGE_ROWS_MAX
from store.opening import is_damage
from store.prepare import Prepared, prepare
from store.records import ANY, BARE, Appended, Batch, Claim, Start, Write

T = TypeVar("T")

Outcome = Appended | AppendRefused
"""What became of one batch of a group."""

_BEFORE_COMMIT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY})
_OWN_FAULT = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, OverflowError, UnicodeEncodeError)

PRUNABLE = frozenset({"message"})
"""Sources whose keys may be forgotten; the others keep their promise for ever."""


class SqliteCore:
    """Writes through one sqlite3 connection in autocommit mode. Not for two threads at once."""

    def __init__(self, connection: sqlite3.Connection, free_bytes: Callable[[], int] | None = None) -> None:
        """`free_bytes` says how much room the disk has above its reserve; without it the disk is not asked."""
        self.connection = connection
        self._cache = Cache()
        self._free_bytes = free_bytes
        self._failed = ""
        self._unclean = True  # whether the WAL may hold erased text; an earlier process may have left some

    def append(self, batch: Batch) -> Appended:
        """Put one batch into the log. Raises AppendRefused or LogFailed."""
        (outcome,) = self.append_group([prepare(batch)])
        if isinstance(outcome, AppendRefused):
            raise outcome
        return outcome

    def append_group(self, group: Sequence[Prepared]) -> list[Outcome]:
        """Put batches into the log in one commit, each for itself. Raises LogBusy (none of them is there) or LogFailed."""
        self._check_room()
        try:
            return self._in_transaction(lambda: self._append_all(group))
        except _OWN_FAULT as error:
            if len(group) == 1:
                return [AppendRefused(f"the database refuses the batch: {error}")]
        # One of them trips over a constraint that the checks do not know: it must not harm the others.
        return [outcome for prepared in group for outcome in self.append_group([prepared])]

    def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Claim:
        """The next epoch of an account for an instance, with BotStarted, in one transaction. Raises OtherDays."""
        return self._in_transaction(lambda: self._claim(account, instance, at, start))

    def prune_keys(self, account: str, source: str, before: Millis) -> int:
        """Forget an account's keys older than `before`, page by page. Raises ValueError for keys that are kept for ever."""
        if source not in PRUNABLE:
            raise ValueError(
                f"{source} keys are kept for ever; only {', '.join(sorted(PRUNABLE))} keys can be forgotten"
            )
        gone, last = 0, ""
        while True:
            after = last
            dropped, last = self._in_transaction(lambda: self._prune_page(account, source, before, after))  # noqa: B023 - runs at once
            gone += dropped
            if not last:
                return gone

    def checkpoint(self) -> bool:
        """Move the WAL into the database and empty it, so that erased text is in no file. False while a reader holds it.

        Does nothing where nothing was erased: it keeps every writer out meanwhile, also a successor of a process that is stopped in it.
        """
        if self._unclean:
            (busy, _, _) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._unclean = bool(busy)
        return not self._unclean

    def transact(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run a change of the caches in a transaction of its own."""
        return self._in_transaction(lambda: change(self.connection))

    def takes(self) -> None:
        """Return if an append would be taken now: there is room, and nobody holds the lock. Raises LogBusy or LogFailed."""
        self._in_transaction(self._check_room)

    def _check_room(self) -> None:
        if self._free_bytes is None:
            return
        spare = self._free_bytes()
        if spare <= 0:
            free, least = (spare + DISK_RESERVE_BYTES) >> 20, DISK_RESERVE_BYTES >> 20
            raise LogBusy(f"the disk of the log is full: {free} MB are free, and {least} MB must stay so; make room")

    def _in_transaction(self, work: Callable[[], T]) -> T:
        if self._failed:
            raise LogFailed(self._failed)
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self._cache.refresh(self.connection, HEADS_CACHED_MAX)
            result = work()
        except BaseException as error:
            self._roll_back(error)
            raise
        self._commit()
        return result

    def _roll_back(self, error: BaseException) -> None:
        """Undo, and say what the error means."""
        self._cache.data_version = -1
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            raise self._fail(f"the log could not undo a transaction: {second}") from error
        if isinstance(error, _OWN_FAULT) or not isinstance(error, sqlite3.Error):
            return
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _BEFORE_COMMIT:
            raise LogBusy(f"the log cannot be written now: {error}") from error
        why = f"it is damaged ({error}); restore a backup" if is_damage(error) else str(error)
        raise self._fail(f"the log failed: {why}") from error

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except BaseException as error:
            raise self._fail(f"a commit failed: {error}") from error

    def _fail(self, message: str) -> LogFailed:
        self._failed = message
        return LogFailed(message)

    def _append_all(self, group: Sequence[Prepared]) -> list[Outcome]:
        facts = gather(self.connection, group, self._cache)
        admitted: list[Admitted] = []
        outcomes: list[Outcome] = []
        for prepared in group:
            try:
                one = admit(prepared, facts)
            except AppendRefused as refusal:
                outcomes.append(refusal)
                continue
            accept(one, facts)
            admitted.append(one)
            outcomes.append(one.appended)
        self._insert(admitted, facts)
        return outcomes

    def _insert(self, admitted: Sequence[Admitted], facts: Facts) -> None:
        self._unclean = self._unclean or any(_takes_away(a.prepared.batch) for a in admitted)
        insert(self.connection, admitted)
        # Void if the commit fails: then the log takes no more anyway.
        self._cache.learn(facts)

    def _claim(self, account: str, instance: str, at: Millis, start: Start) -> Claim:
        begun = self.connection.execute("SELECT EXISTS (SELECT 1 FROM events)").fetchone()[0]
        marked = self.connection.execute("SELECT value FROM meta WHERE name = 'simulated'").fetchone()[0] != "0"
        if begun and marked != start.simulated:
            raise OtherDays(simulated=marked)
        query = "SELECT epoch, instance FROM epochs WHERE account = ?"
        epoch, replaces = self.connection.execute(query, (account,)).fetchone() or (0, "")
        claim = Claim(account=account, epoch=epoch + 1, instance=instance, replaces=replaces, claimed_at=at)
        self.connection.execute(
            "INSERT OR REPLACE INTO epochs (account, epoch, instance, replaces, claimed_at) VALUES (?, ?, ?, ?, ?)",
            (account, claim.epoch, instance, replaces, at),
        )
        if start.simulated:
            self.connection.execute("UPDATE meta SET value = '1' WHERE name = 'simulated'")
        outcome = self._append_all([prepare(started(claim, start))])[0]
        if isinstance(outcome, AppendRefused):
            raise outcome
        return claim

    def _prune_page(self, account: str, source: str, before: Millis, after: str) -> tuple[int, str]:
        """How many keys of a page went, and the page's last key, "" at the end."""
        page = self.connection.execute(
            "SELECT key, at FROM keys WHERE account = ? AND source = ? AND key > ? ORDER BY key LIMIT ?",
            (account, source, after, PAGE_ROWS_MAX),
        ).fetchall()
        old = [(account, source, key) for key, at in page if at < before]
        self.connection.executemany("DELETE FROM keys WHERE account = ? AND source = ? AND key = ?", old)
        return len(old), page[-1][0] if len(page) == PAGE_ROWS_MAX else ""


def _takes_away(batch: Batch) -> bool:
    return bool(batch.erase or batch.forget or batch.unkey)


def started(claim: Claim, start: Start) -> Batch:
    """The batch that goes with a claim."""
    event = BotStarted(
        instance=claim.instance,
        replaces=claim.replaces,
        program=start.program,
        simulated=start.simulated,
        boot=start.boot,
        boot_ms=start.boot_ms,
    )
    write = Write(f"bot-{claim.account}", ANY, (event,))
    return Batch(account=claim.account, epoch=claim.epoch, at=claim.claimed_at, writes=(write,))
