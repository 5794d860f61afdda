"""What readers ask of the log in memory: plain functions on its core, the twins of `store.queries`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from events.base import Millis, Recorded
from store.limits import PAGE_ROWS_MAX
from store.memory_core import HeldKey, MemoryCore
from store.records import AddressRow, AgendaRow, Binding, Claim, Head, Kept, Row

V = TypeVar("V")


def read(core: MemoryCore, stream: str, after: int, limit: int) -> tuple[Recorded, ...]:
    """Events of a stream after a version."""
    events = core.by_stream.get(stream, [])
    return tuple(events[after : after + limit if limit else None])


def read_since_key(core: MemoryCore, stream: str, source: str, key: str) -> tuple[Recorded, ...]:
    """Events of a stream from those on that took a key of its account; all of them where it has no such key."""
    events = core.by_stream.get(stream, [])
    held = core.held.get((account_of(core, stream), source, key))
    return tuple(events if held is None else [e for e in events if e.at >= held.at])


def page(core: MemoryCore, after: int, until: int, size: int) -> tuple[Recorded, ...]:
    """The next events of the whole log, up to `until` (0 = the end)."""
    return _slice(core.recorded, after, until, size)


def row_page(core: MemoryCore, after: int, size: int) -> tuple[Row, ...]:
    """The next rows of the whole log."""
    return _slice(core.rows, after, 0, size)


def position(core: MemoryCore) -> int:
    """The last position."""
    return len(core.rows)


def position_at(core: MemoryCore, at: Millis) -> int:
    """The last position before the first event later than `at`, by the same bisection as in SQLite: exact while the clock of the
    log went forward, near it where a clock was set back."""
    low, high = 0, len(core.rows)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if core.rows[middle - 1].at <= at else (low, middle - 1)
    return low


def bodies(core: MemoryCore, ids: Iterable[str]) -> dict[str, str]:
    """Texts by id."""
    return {i: core.bodies[i][2].text for i in ids if i in core.bodies}


def kept(core: MemoryCore, ids: Iterable[str]) -> dict[str, Kept]:
    """Texts by id, each with what keys its fingerprints."""
    found = [core.bodies[i][2] for i in ids if i in core.bodies]
    return {body.id: Kept(body.text, body.salt or core.salt) for body in found}


def key(core: MemoryCore, source: str, name: str) -> dict[str, str]:
    """Account to value of a key."""
    return {a: held.value for (a, s, k), held in core.held.items() if (s, k) == (source, name)}


def taken(core: MemoryCore, account: str, source: str, keys: Iterable[str]) -> frozenset[str]:
    """Which keys an account holds."""
    return frozenset([k for k in keys if (account, source, k) in core.held])


def key_prefix(core: MemoryCore, source: str, prefix: str, limit: int) -> tuple[tuple[str, str, str], ...]:
    """(account, key, value) of the keys that begin so."""
    found = [(a, k, h.value) for (a, s, k), h in core.held.items() if s == source and k.startswith(prefix)]
    return tuple(sorted(found, key=lambda f: (f[1], f[0]))[:limit])


def values(core: MemoryCore, account: str, source: str, keys: Iterable[str]) -> dict[str, str]:
    """The values of those of these keys that an account holds."""
    return {k: core.held[account, source, k].value for k in keys if (account, source, k) in core.held}


def key_counts(core: MemoryCore, account: str) -> dict[str, int]:
    """How many keys of each source an account holds."""
    return dict(Counter(source for a, source, _ in core.held if a == account))


def key_values(core: MemoryCore, account: str, source: str, prefix: str, since: Millis) -> dict[str, int]:
    """How often each value stands among the keys that begin so and were taken since then."""
    return dict(Counter(h.value for h in _keys(core, account, source, prefix) if h.at >= since))


def newest_key(core: MemoryCore, account: str, source: str, prefix: str, value: str) -> Millis:
    """When the newest key that begins so and has this value was taken, 0 if there is none."""
    return max((h.at for h in _keys(core, account, source, prefix) if h.value == value), default=0)


def keys_after(core: MemoryCore, account: str, source: str, after: str, limit: int) -> tuple[str, ...]:
    """The next keys of an account after one, in their order."""
    return tuple(sorted(k for a, s, k in core.held if (a, s) == (account, source) and k > after)[:limit])


def _keys(core: MemoryCore, account: str, source: str, prefix: str) -> list[HeldKey]:
    return [h for (a, s, k), h in core.held.items() if (a, s) == (account, source) and k.startswith(prefix)]


def agenda(core: MemoryCore, account: str) -> tuple[AgendaRow, ...]:
    """An account's agenda, earliest due first, rows without a due time last."""
    rows = [row for owner, row in core.agenda.values() if owner == account]
    return tuple(sorted(rows, key=lambda r: (r.due_at is None, r.due_at or 0, r.stream)))


def addresses(core: MemoryCore, account: str) -> tuple[AddressRow, ...]:
    """An account's peers that were not forgotten."""
    mine = [(s, k) for s, k in sorted(core.facts.streams.items()) if k.account == account]
    return tuple([AddressRow(stream=s, peer=k.peer, name=k.name) for s, k in mine if k.peer is not None])


def accounts_of(core: MemoryCore) -> dict[str, str]:
    """The account of every stream."""
    return {s: k.account for s, k in sorted(core.facts.streams.items())}


def account_of(core: MemoryCore, stream: str) -> str:
    """The account of one stream, "" if it is unknown."""
    known = core.facts.streams.get(stream)
    return known.account if known else ""


def bindings(core: MemoryCore) -> tuple[tuple[str, Binding], ...]:
    """(account, binding) of each bound peer."""
    rows = sorted(core.bindings.items())
    return tuple([(account, Binding(stream=stream, session=session)) for stream, (account, session) in rows])


def heads(core: MemoryCore) -> tuple[Head, ...]:
    """Every head by stream."""
    tips = sorted(core.facts.tips.items())
    return tuple([Head(stream=s, version=t.version, at=t.at, digest=t.digest) for s, t in tips])


def claims(core: MemoryCore) -> tuple[Claim, ...]:
    """The fence rows."""
    return tuple([claim for _, claim in sorted(core.claims.items())])


def epoch(core: MemoryCore, account: str) -> int:
    """An account's epoch, 0 before its first claim."""
    claim = core.claims.get(account)
    return claim.epoch if claim else 0


def expired(core: MemoryCore, account: str, before: Millis, limit: int) -> tuple[tuple[str, str], ...]:
    """(stream, body) of the bodies older than `before`, oldest first."""
    mine = [(body.at, n, body) for a, n, body in core.bodies.values() if a == account and body.at < before]
    return tuple([(body.stream, body.id) for _, _, body in sorted(mine, key=lambda m: m[:2])[:limit]])


def held(core: MemoryCore, account: str, stream: str, limit: int) -> tuple[tuple[str, str], ...]:
    """(body, kind) of a stream's bodies, oldest first."""
    mine = [(body.at, n, body) for a, n, body in core.bodies.values() if (a, body.stream) == (account, stream)]
    return tuple([(body.id, body.kind) for _, _, body in sorted(mine, key=lambda m: m[:2])[:limit]])


def _slice(rows: list[V], after: int, until: int, size: int) -> tuple[V, ...]:
    """Rows after a position; positions have no gaps."""
    end = min(after + min(size, PAGE_ROWS_MAX), until or len(rows))
    return tuple(rows[after:end])
