"""The log in memory as plain methods, for tests and simulations.

What is appended is not durable until `commit`: `crash` takes back whatever came after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from events.base import Millis, Recorded
from store.admit import Admitted, Facts, Known, admit, is_blank, unkeyed, woken
from store.core import PRUNABLE, Outcome, started
from store.errors import AppendRefused, OtherDays
from store.prepare import Prepared, prepare
from store.queries import stored_row
from store.records import BARE, AgendaRow, Appended, Batch, Body, Claim, Row, Start
from store.schema import SCHEMA

K = TypeVar("K")
V = TypeVar("V")


class Journal:
    """Undoes what was done to dictionaries and lists since the last `keep`."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], Any]] = []

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Set an entry."""
        if key in table:
            old = table[key]
            self._steps.append(lambda: table.__setitem__(key, old))
        else:
            self._steps.append(lambda: table.pop(key))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Delete an entry, if it is there. Undone, it comes last in the order of the table."""
        if key in table:
            old = table.pop(key)
            self._steps.append(lambda: table.__setitem__(key, old))

    def extend(self, rows: list[V], more: Iterable[V]) -> None:
        """Add to the end of a list."""
        length = len(rows)
        rows.extend(more)
        self._steps.append(lambda: rows.__delitem__(slice(length, None)))

    def keep(self) -> None:
        """What was done stays."""
        self._steps.clear()

    def undo(self) -> None:
        """Take back what was not kept."""
        while self._steps:
            self._steps.pop()()


class HeldKey(msgspec.Struct, frozen=True):
    """A key's value, and when it was taken."""

    value: str
    at: Millis


class MemoryCore:
    """The log as plain methods over dictionaries."""

    def __init__(self, *, salt: bytes = b"a salt for tests", at: Millis = 0) -> None:
        self.salt = salt
        self.facts = Facts(epochs={}, tips={}, keys={}, streams={}, peers={}, bodies=set())
        self.recorded: list[Recorded] = []
        self.rows: list[Row] = []
        self.by_stream: dict[str, list[Recorded]] = {}
        self.bodies: dict[str, tuple[str, int, Body]] = {}  # id to (account, order of arrival, body)
        self.held: dict[tuple[str, str, str], HeldKey] = {}
        self.agenda: dict[str, tuple[str, AgendaRow]] = {}
        self.bindings: dict[str, tuple[str, str]] = {}
        self.claims: dict[str, Claim] = {}
        self.snapshots: dict[str, tuple[int, str, bytes]] = {}
        self.meta = {"schema": str(SCHEMA), "created_at": str(at), "salt": salt.hex(), "simulated": "0"}
        self._journal = Journal()
        self._arrivals = 0

    def append(self, batch: Batch) -> Appended:
        """Put one batch into the log. Raises AppendRefused. Not durable until `commit`."""
        return self._apply(admit(prepare(batch), self._current()))

    def append_group(self, group: Iterable[Prepared]) -> list[Outcome]:
        """Put batches into the log, each for itself. Not durable until `commit`."""
        outcomes: list[Outcome] = []
        bodies = set(self.bodies)  # one that is erased within the group is not free within it
        for prepared in group:
            facts = self._current()
            facts.bodies = bodies
            try:
                outcomes.append(self._apply(admit(prepared, facts)))
                bodies.update(body.id for body in prepared.batch.bodies)
            except AppendRefused as refusal:
                outcomes.append(refusal)
        return outcomes

    def commit(self) -> None:
        """What was appended so far is durable."""
        self._journal.keep()

    def crash(self) -> None:
        """Lose everything after the last commit."""
        self._journal.undo()

    def claim(self, account: str, instance: str, at: Millis, start: Start = BARE) -> Claim:
        """The next epoch of an account for an instance, with BotStarted. Durable at once, with all before it."""
        marked = self.meta["simulated"] != "0"
        if self.rows and marked != start.simulated:
            raise OtherDays(simulated=marked)
        before = self.claims.get(account)
        epoch, replaces = (before.epoch, before.instance) if before else (0, "")
        claim = Claim(account=account, epoch=epoch + 1, instance=instance, replaces=replaces, claimed_at=at)
        prepared = prepare(started(claim, start))
        self._journal.put(self.claims, account, claim)
        if start.simulated:
            self._journal.put(self.meta, "simulated", "1")
        self._apply(admit(prepared, self._current()))
        self.commit()
        return claim

    def prune_keys(self, account: str, source: str, before: Millis) -> int:
        """Forget an account's keys older than `before`. Raises ValueError for keys that are kept for ever."""
        if source not in PRUNABLE:
            raise ValueError(
                f"{source} keys are kept for ever; only {', '.join(sorted(PRUNABLE))} keys can be forgotten"
            )
        old = [k for k, held in self.held.items() if k[:2] == (account, source) and held.at < before]
        for key in old:
            self._journal.drop(self.held, key)
            self._journal.drop(self.facts.keys, key)
        self.commit()
        return len(old)

    def _current(self) -> Facts:
        self.facts.position = len(self.rows)
        self.facts.epochs = {a: c.epoch for a, c in self.claims.items()}
        self.facts.bodies = set(self.bodies)
        return self.facts

    def _apply(self, admitted: Admitted) -> Appended:
        batch, journal = admitted.prepared.batch, self._journal
        journal.extend(self.rows, [stored_row(values) for values in admitted.rows])
        journal.extend(self.recorded, admitted.appended.recorded)
        for recorded in admitted.appended.recorded:
            journal.extend(self.by_stream.setdefault(recorded.stream, []), (recorded,))
        for stream, tip in admitted.tips.items():
            journal.put(self.facts.tips, stream, tip)
        for stream in batch.forget:
            self._untie(stream)
        for stream, known in admitted.streams.items():
            self._tie(stream, known)
        for body in batch.bodies:
            self._arrivals += 1
            journal.put(self.bodies, body.id, (batch.account, self._arrivals, body))
        for key in batch.keys:
            name = (batch.account, key.source, key.key)
            journal.put(self.held, name, HeldKey(key.value, batch.at))
            journal.put(self.facts.keys, name, key.value)
        for name in unkeyed(batch, self.facts):
            journal.drop(self.held, name)
            journal.drop(self.facts.keys, name)
        self._apply_caches(batch)
        for body_id in batch.erase:
            if body_id in self.bodies and self.bodies[body_id][0] == batch.account:
                journal.drop(self.bodies, body_id)
        return admitted.appended

    def _apply_caches(self, batch: Batch) -> None:
        for row in batch.agenda:
            self._put_agenda(batch.account, row)
        for row in batch.wake:
            _, before = self.agenda.get(row.stream, ("", AgendaRow(stream=row.stream)))
            self._put_agenda(batch.account, woken(before, row.due_at))
        for binding in batch.bindings:
            if binding.session:
                self._journal.put(self.bindings, binding.stream, (batch.account, binding.session))
            else:
                self._journal.drop(self.bindings, binding.stream)

    def _put_agenda(self, account: str, row: AgendaRow) -> None:
        if is_blank(row):
            self._journal.drop(self.agenda, row.stream)
        else:
            self._journal.put(self.agenda, row.stream, (account, row))

    def _untie(self, stream: str) -> None:
        known = self.facts.streams.get(stream)
        if known is not None and known.peer is not None:
            self._journal.drop(self.facts.peers, (known.account, known.peer))

    def _tie(self, stream: str, known: Known) -> None:
        self._journal.put(self.facts.streams, stream, known)
        if known.peer is not None:
            self._journal.put(self.facts.peers, (known.account, known.peer), stream)
