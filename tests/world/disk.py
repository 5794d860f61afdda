"""The log of a world: one file for all its processes, of which only what was committed outlives a crash; and each process's port to
it, with drawn latencies, refusals and failed commits. Beneath is the store's own code, in memory or on SQLite."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from actors.runtime.futures import Slot
from events.base import Recorded
from store import memory_queries, queries
from store.core import Outcome, SqliteCore
from store.errors import LogBusy, LogFailed
from store.memory_core import MemoryCore
from store.prepare import Prepared, prepare
from store.records import BARE, AgendaRow, Batch, Claim, Start
from store.sqlite import connect
from tests.world.dice import Dice
from tests.world.machine import Machine

SALT = b"the salt of a world!"
READ_MS_MAX = 3
"""How long a read may take, so that nothing waits longer for the fence (ms)."""


class Disk(Protocol):
    """One log file."""

    bodies: dict[str, str]  # every text that was ever committed, for the checks
    salts: dict[str, bytes]  # and what keys its fingerprints
    committed: list[Recorded]
    snapshots: int  # how many were put
    on_commit: Callable[[], object]

    def append(self, group: list[Prepared]) -> list[Outcome]: ...

    def fail(self, group: list[Prepared]) -> None:
        """A transaction begins, and does not get to its end."""
        ...

    def claim(self, account: str, instance: str, at: int, start: Start = BARE) -> Claim: ...

    def ask(self, what: str, *args: Any) -> Any:
        """A query of store.queries, by name."""
        ...

    def prune_keys(self, account: str, source: str, before: int) -> int: ...

    def snapshot(self, stream: str, fold_version: str) -> tuple[int, bytes] | None: ...

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> None: ...

    def forget_caches(self) -> list[str]:
        """Delete them; the names of those that had anything."""
        ...

    def put_caches(self, account: str, rows: Iterable[AgendaRow], bindings: Iterable[tuple[str, str]]) -> None: ...

    def close(self) -> None: ...


class _Disk:
    def __init__(self, core: Any, source: Any, twin: ModuleType) -> None:
        self.core, self._source, self._twin = core, source, twin
        self.bodies: dict[str, str] = {}
        self.salts: dict[str, bytes] = {}
        self.committed: list[Recorded] = []
        self.snapshots = 0
        self.on_commit: Callable[[], object] = lambda: None

    def ask(self, what: str, *args: Any) -> Any:
        return getattr(self._twin, what)(self._source, *args)

    def _note(self, group: list[Prepared]) -> None:
        for prepared in group:
            self.bodies.update((b.id, b.text) for b in prepared.batch.bodies)
            self.salts.update((b.id, b.salt) for b in prepared.batch.bodies)
        self._catch_up()

    def _catch_up(self) -> None:
        self.committed.extend(self.ask("page", len(self.committed), 0, 50_000))
        self.on_commit()

    def prune_keys(self, account: str, source: str, before: int) -> int:
        return int(self.core.prune_keys(account, source, before))

    def claim(self, account: str, instance: str, at: int, start: Start = BARE) -> Claim:
        claim: Claim = self.core.claim(account, instance, at, start)
        self._catch_up()
        return claim


class MemoryDisk(_Disk):
    def __init__(self) -> None:
        core = MemoryCore(salt=SALT)
        super().__init__(core, core, memory_queries)

    def append(self, group: list[Prepared]) -> list[Outcome]:
        outcomes = self.core.append_group(group)
        self.core.commit()
        self._note(group)
        return outcomes

    def fail(self, group: list[Prepared]) -> None:
        self.core.append_group(group)
        self.core.crash()

    def snapshot(self, stream: str, fold_version: str) -> tuple[int, bytes] | None:
        version, made_by, data = self.core.snapshots.get(stream, (0, "", b""))
        return (version, data) if made_by == fold_version else None

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> None:
        self.core.snapshots[stream] = (version, fold_version, data)

    def forget_caches(self) -> list[str]:
        caches = {"agenda": self.core.agenda, "bindings": self.core.bindings, "snapshots": self.core.snapshots}
        had = [name for name, kept in caches.items() if kept]
        for kept in caches.values():
            kept.clear()
        return had

    def put_caches(self, account: str, rows: Iterable[AgendaRow], bindings: Iterable[tuple[str, str]]) -> None:
        self.core.agenda.update({row.stream: (account, row) for row in rows})
        self.core.bindings.update({stream: (account, session) for stream, session in bindings})

    def close(self) -> None:
        """Nothing to close."""


class SqliteDisk(_Disk):
    def __init__(self, path: Path) -> None:
        path.write_bytes(_empty_log())
        path.chmod(0o600)
        core: SqliteCore = connect(path, salt=SALT)
        core.connection.execute(
            "PRAGMA synchronous = OFF"
        )  # what a power failure takes is the store's own tests' matter
        super().__init__(core, core.connection, queries)

    def append(self, group: list[Prepared]) -> list[Outcome]:
        outcomes = self.core.append_group(group)
        self._note(group)
        return outcomes

    def fail(self, group: list[Prepared]) -> None:
        class PowerCut(Exception):
            pass

        def cut(_connection: Any) -> None:
            self.core._append_all(group)
            raise PowerCut

        try:
            self.core.transact(cut)
        except PowerCut:
            return

    def snapshot(self, stream: str, fold_version: str) -> tuple[int, bytes] | None:
        return queries.snapshot(self.core.connection, stream, fold_version)

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> None:
        self.core.transact(lambda connection: queries.put_snapshot(connection, stream, version, fold_version, data))

    def forget_caches(self) -> list[str]:
        tables = ("agenda", "bindings", "snapshots")
        return [name for name in tables if self.core.connection.execute(f"DELETE FROM {name}").rowcount]

    def put_caches(self, account: str, rows: Iterable[AgendaRow], bindings: Iterable[tuple[str, str]]) -> None:
        self.core.connection.executemany(
            "INSERT INTO agenda (stream, account, due_at, open_epoch, waiting, turn_open) VALUES (?, ?, ?, ?, ?, ?)",
            [(r.stream, account, r.due_at, r.open_epoch, r.waiting, int(r.turn_open)) for r in rows],
        )
        self.core.connection.executemany(
            "INSERT INTO bindings (stream, account, session) VALUES (?, ?, ?)", [(s, account, x) for s, x in bindings]
        )

    def close(self) -> None:
        self.core.connection.close()


@cache
def _empty_log() -> bytes:
    """The file of a log in which nothing has happened: making its tables takes as long as half a world."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        connect(path, salt=SALT).connection.close()
        return path.read_bytes()


class Trouble(Protocol):
    """Which of the log's faults are on."""

    def strikes(self, fault: str, probability: float, dice: Dice) -> bool: ...

    def count(self, what: str) -> None: ...


class SimLog:
    """A process's port to the log: `LogPort`, and the queries that a start, the fence, agents and retention need. Appends that
    wait while one commits share the next commit, as they do in production."""

    def __init__(
        self, machine: Machine, disk: Disk, trouble: Trouble, dice: Dice, on_failed: Callable[[BaseException], None]
    ) -> None:
        self._machine, self._disk, self._trouble, self._dice, self._on_failed = machine, disk, trouble, dice, on_failed
        self._waiting: list[tuple[Prepared, Slot]] = []
        self._group: list[tuple[Prepared, Slot]] = []
        self._dead = False

    @property
    def salt(self) -> bytes:
        return SALT

    @property
    def busy(self) -> bool:
        """Whether an append is under way."""
        return bool(self._group or self._waiting)

    # --- appends --------------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> Slot:
        slot = Slot()
        self._waiting.append((prepare(batch), slot))
        if not self._group:
            self._begin()
        return slot

    def _begin(self) -> None:
        self._group, self._waiting = self._waiting, []
        slow = self._trouble.strikes("slow_log", 0.1, self._dice)
        if slow:
            self._trouble.count("slow commit")
        wait = self._dice.between(50, 4_000) if slow else self._dice.between(1, 4)
        self._machine.world.call_at(
            self._machine.world.clock.now() + wait, self._finish
        )  # the kernel's work: no pause stops it

    def _finish(self) -> None:
        if self._dead:
            return
        group, self._group = self._group, []
        if self._trouble.strikes("busy_log", 0.05, self._dice):
            self._trouble.count("busy log")
            self._answer(group, [LogBusy("drawn")] * len(group))
        elif self._trouble.strikes("failed_log", 0.01, self._dice):
            self._fail(group)
            return
        else:
            self._answer(group, self._disk.append([p for p, _ in group]))
        if self._waiting:
            self._begin()

    def _answer(self, group: list[tuple[Prepared, Slot]], outcomes: Iterable[Any]) -> None:
        for (_, slot), outcome in zip(group, outcomes, strict=True):
            tell = slot.set_exception if isinstance(outcome, Exception) else slot.set_result
            self._machine.call_soon(partial(tell, outcome))

    def _fail(self, group: list[tuple[Prepared, Slot]]) -> None:
        """A COMMIT that fails may have happened."""
        if self._dice.chance(0.5):
            self._trouble.count("failed commit, all of it there")
            self._disk.append([p for p, _ in group])
        else:
            self._trouble.count("failed commit, nothing of it there")
            self._disk.fail([p for p, _ in group])
        self._machine.call_soon(lambda: self._on_failed(LogFailed("drawn")))

    def die(self) -> None:
        """The process is gone: what was in a transaction is in the log whole, or not at all."""
        self._dead = True
        group = [p for p, _ in self._group]
        if group and self._dice.chance(0.4):
            self._trouble.count("unacknowledged append there")
            self._disk.append(group)
        elif group:
            self._trouble.count("unacknowledged append gone")
            self._disk.fail(group)

    # --- reads ----------------------------------------------------------------------------------------------------

    def read(self, stream: str, after: int = 0, limit: int = 0) -> Slot:
        return self._ask("read", stream, after, limit)

    def read_since_key(self, stream: str, source: str, key: str) -> Slot:
        return self._ask("read_since_key", stream, source, key)

    def snapshot(self, stream: str, fold_version: str) -> Slot:
        return self._do(lambda: self._disk.snapshot(stream, fold_version))

    def put_snapshot(self, stream: str, version: int, fold_version: str, data: bytes) -> Slot:
        self._disk.snapshots += 1
        return self._do(lambda: self._disk.put_snapshot(stream, version, fold_version, data))

    def position(self) -> Slot:
        return self._ask("position")

    async def page(self, after: int) -> AsyncIterator[tuple[Recorded, ...]]:
        found: tuple[Recorded, ...] = await self._ask("page", after, 0, 5_000)
        if found:
            yield found

    def bodies(self, ids: Iterable[str]) -> Slot:
        return self._ask("bodies", tuple(ids))

    def kept(self, ids: Iterable[str]) -> Slot:
        return self._ask("kept", tuple(ids))

    def held(self, account: str, stream: str, limit: int) -> Slot:
        return self._ask("held", account, stream, limit)

    def taken(self, account: str, source: str, keys: Iterable[str]) -> Slot:
        return self._ask("taken", account, source, tuple(keys))

    def key(self, source: str, key: str) -> Slot:
        return self._ask("key", source, key)

    def key_prefix(self, source: str, prefix: str, limit: int = 20) -> Slot:
        return self._ask("key_prefix", source, prefix, limit)

    def account_of(self, stream: str) -> Slot:
        return self._ask("account_of", stream)

    def bindings(self) -> Slot:
        return self._ask("bindings")

    def epoch(self, account: str) -> Slot:
        return self._ask("epoch", account)

    def addresses(self, account: str) -> Slot:
        return self._ask("addresses", account)

    def agenda(self, account: str) -> Slot:
        return self._ask("agenda", account)

    def expired(self, account: str, before: int, limit: int = 1000) -> Slot:
        return self._ask("expired", account, before, limit)

    def _ask(self, what: str, *args: Any) -> Slot:
        return self._do(partial(self._disk.ask, what, *args))

    # --- other writes ---------------------------------------------------------------------------------------------

    def claims(self) -> Slot:
        return self._ask("claims")

    def claim(self, account: str, instance: str, at: int, start: Start = BARE) -> Slot:
        return self._do(lambda: self._disk.claim(account, instance, at, start))

    def prune_keys(self, account: str, source: str, before: int) -> Slot:
        return self._do(lambda: self._disk.prune_keys(account, source, before))

    def checkpoint(self) -> Slot:
        return self._do(lambda: True)

    def _do(self, work: Callable[[], Any]) -> Slot:
        slot = Slot()
        wait = self._dice.below(READ_MS_MAX) if self._dice.chance(0.3) else 0

        run = partial(self._answer_read, slot, work)
        if wait:
            self._machine.call_at(self._machine.clock.now() + wait, run)
        else:
            self._machine.call_soon(run)
        return slot

    @staticmethod
    def _answer_read(slot: Slot, work: Callable[[], Any]) -> None:
        slot.set_result(work())
