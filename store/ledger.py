"""The ledger: every request with its charge and what became of it, page by page, straight from the events.

Rows come in order of (at, position), so that a page goes on where the one before ended. The story of a request is told by the
same fold as everywhere else (`events.fates`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from events.base import Kind, Millis, Recorded
from events.fates import Fates
from events.peer import SendFailed, SendRequested, SendSucceeded, SendUnknown, UnknownResolved
from events.stories import RequestStory, Result
from store.limits import INTEGER_MAX
from store.memory_core import MemoryCore
from store.queries import recorded

Outcome = SendSucceeded | SendFailed | SendUnknown | UnknownResolved

PAGE_MAX = 1_000
"""Rows of a page; who asks for more gets this many."""

_SCAN_ROWS = 256
_KINDS: tuple[Kind, ...] = ("answer", "push", "notice")

# The type of the first outcome lets a rare result be found without decoding every request before it.
_OF_ALL = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events AS e INDEXED BY requests"
    " WHERE type = 'send_requested' AND at >= :at AND (at > :at OR position > :position) AND at < :until"
    " AND (:every_kind OR json_extract(CAST(data AS TEXT), '$.kind') IN (:kind1, :kind2, :kind3))"
    " AND (:every_type OR (SELECT type FROM events AS o INDEXED BY outcomes WHERE o.stream = e.stream AND o.version > e.version"
    " AND o.type IN ('send_succeeded', 'send_failed', 'send_unknown', 'unknown_resolved')"
    " AND o.type <> 'unknown_resolved' ORDER BY o.version LIMIT 1) IN (:type1, :type2))"
    " ORDER BY at, position LIMIT :rows"
)
_OF_STREAM = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events AS e INDEXED BY requests_of"
    " WHERE type = 'send_requested' AND stream = :stream AND at >= :at AND (at > :at OR position > :position) AND at < :until"
    " AND (:every_kind OR json_extract(CAST(data AS TEXT), '$.kind') IN (:kind1, :kind2, :kind3))"
    " AND (:every_type OR (SELECT type FROM events AS o INDEXED BY outcomes WHERE o.stream = e.stream AND o.version > e.version"
    " AND o.type IN ('send_succeeded', 'send_failed', 'send_unknown', 'unknown_resolved')"
    " AND o.type <> 'unknown_resolved' ORDER BY o.version LIMIT 1) IN (:type1, :type2))"
    " ORDER BY at, position LIMIT :rows"
)
# The same, from the indexes of what is rare. A request's first outcome is the first after it, and it the last request before that.
_OF_NOTICES = _OF_ALL.replace(
    "INDEXED BY requests WHERE type = 'send_requested'",
    "INDEXED BY notices WHERE type = 'send_requested' AND instr(data, CAST('\"kind\":\"notice\"' AS BLOB)) > 0",
)
_OF_UNKNOWN = (
    "SELECT e.position, e.stream, e.version, e.type, e.at, e.epoch, e.cause, e.data"
    " FROM events AS o INDEXED BY unknowns CROSS JOIN events AS e ON e.stream = o.stream AND e.version = (SELECT r.version"
    " FROM events AS r WHERE r.stream = o.stream AND r.version < o.version AND r.type = 'send_requested' ORDER BY r.version DESC LIMIT 1)"
    " WHERE o.type = 'send_unknown' AND e.at >= :at AND (e.at > :at OR e.position > :position) AND e.at < :until"
    " AND (:every_kind OR json_extract(CAST(e.data AS TEXT), '$.kind') IN (:kind1, :kind2, :kind3))"
    " ORDER BY e.at, e.position LIMIT :rows"
)
_OF_FAILED = _OF_UNKNOWN.replace("INDEXED BY unknowns", "INDEXED BY failures").replace(
    "'send_unknown'", "'send_failed'"
)
_RARE: Final = {"send_unknown": _OF_UNKNOWN, "send_failed": _OF_FAILED}
_COUNTS: Final = {
    "send_unknown": "SELECT count(*) FROM (SELECT 1 FROM events INDEXED BY unknowns WHERE type = 'send_unknown' LIMIT ?)",
    "send_failed": "SELECT count(*) FROM (SELECT 1 FROM events INDEXED BY failures WHERE type = 'send_failed' LIMIT ?)",
}
_INDEXED = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name IN ('unknowns', 'failures', 'notices')"
RARE_MAX = 2_000
"""Outcomes of a type up to which they are looked up one by one; more of them are found as quickly by a look at all requests."""
_VALUES: Final = (
    *("at", "position", "until", "every_kind", "kind1", "kind2", "kind3"),
    *("every_type", "type1", "type2", "rows", "stream"),
)

# A peer has one open request at a time, so the first outcome after a request is nearly always its own.
_OUTCOMES = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events INDEXED BY outcomes"
    " WHERE stream = ? AND version > ? AND type IN ('send_succeeded', 'send_failed', 'send_unknown', 'unknown_resolved')"
    " ORDER BY version"
)
_RESOLVED = (
    "SELECT position, stream, version, type, at, epoch, cause, data FROM events INDEXED BY resolutions"
    " WHERE type = 'unknown_resolved' AND stream = ? AND version > ? ORDER BY version"
)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests; empty = all. `since` inclusive, `until` exclusive (ms). Without `free` only those that were charged."""

    stream: str = ""
    since: Millis | None = None
    until: Millis | None = None
    kinds: tuple[Kind, ...] = ()
    results: tuple[Result, ...] = ()
    free: bool = False


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a page ended: time and position of its last row."""

    at: Millis = -1
    position: int = 0


START: Final = Place()
"""Before the first row."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a stream, and its story."""

    stream: str
    story: RequestStory

    @property
    def place(self) -> Place:
        """Where this row stands, to go on after it."""
        return Place(self.story.at, self.story.position)


def page(con: sqlite3.Connection, wanted: Wanted, after: Place, size: int) -> tuple[Entry, ...]:
    """The next requests after a place."""
    found: list[Entry] = []
    size = min(size, PAGE_MAX)
    while True:
        candidates = _candidates(con, wanted, after)
        for request in candidates:
            entry = _entry(request, _outcomes(con, request))
            if _is_wanted(entry, wanted):
                found.append(entry)
            if len(found) == size:
                return tuple(found)
        if len(candidates) < _SCAN_ROWS:
            return tuple(found)
        after = Place(candidates[-1].at, candidates[-1].position)


def page_of_memory(core: MemoryCore, wanted: Wanted, after: Place, size: int) -> tuple[Entry, ...]:
    """The same from the log in memory."""
    requests = [r for r in core.recorded if isinstance(r.event, SendRequested) and _in_range(r, wanted, after)]
    requests.sort(key=lambda r: (r.at, r.position))
    entries = (_entry(r, _outcomes_among(core.by_stream[r.stream][r.version :], r)) for r in requests)
    found = [e for e in entries if _is_wanted(e, wanted) and e.story.kind in (wanted.kinds or _KINDS)]
    return tuple(found[: min(size, PAGE_MAX)])


def _candidates(con: sqlite3.Connection, wanted: Wanted, after: Place) -> list[Recorded]:
    since, until = wanted.since or 0, INTEGER_MAX if wanted.until is None else wanted.until
    start = (after.at, after.position) if after.at >= since else (since, 0)
    kinds = (*wanted.kinds, *[""] * len(_KINDS))[: len(_KINDS)]
    types = _first_types(wanted)
    given = (*start, until, not wanted.kinds, *kinds, not types, *(types or ("", "")), _SCAN_ROWS, wanted.stream)
    values = dict(zip(_VALUES, given, strict=True))
    found = [r for query in _queries(con, wanted, types) for r in recorded(con.execute(query, values))]
    return sorted(found, key=lambda r: (r.at, r.position))[:_SCAN_ROWS]


def _queries(con: sqlite3.Connection, wanted: Wanted, types: tuple[str, ...]) -> tuple[str, ...]:
    """The statements that find the candidates with the fewest looks. A log that nobody has opened to write since schema 1 has no
    indexes of what is rare."""
    if wanted.stream:
        return (_OF_STREAM,)
    (indexes,) = con.execute(_INDEXED).fetchone()
    if indexes < 3:
        return (_OF_ALL,)
    if types and _RARE.keys() >= set(types) and all(_is_rare(con, t) for t in types):
        return tuple(_RARE[t] for t in dict.fromkeys(types))
    return (_OF_NOTICES if wanted.kinds == ("notice",) else _OF_ALL,)


def _is_rare(con: sqlite3.Connection, outcome: str) -> bool:
    (count,) = con.execute(_COUNTS[outcome], (RARE_MAX + 1,)).fetchone()
    return bool(count <= RARE_MAX)


def _first_types(wanted: Wanted) -> tuple[str, str] | tuple[()]:
    """The types that the first outcome of a wanted request can have; an unknown one may have been resolved. Empty = any."""
    results = set(wanted.results)
    if results and results <= {"unknown", "refused", "not_sent"}:
        return ("send_unknown", "send_failed") if results != {"unknown"} else ("send_unknown", "send_unknown")
    return ("send_unknown", "send_succeeded") if results and results <= {"confirmed", "unconfirmed"} else ()


def _outcomes(con: sqlite3.Connection, request: Recorded) -> list[Recorded]:
    place = (request.stream, request.version)
    first = next(_outcomes_among(recorded(con.execute(_OUTCOMES, place)), request), None)
    if first is None or not isinstance(first.event, SendUnknown):
        return [first] if first else []
    return [first, *_outcomes_among(recorded(con.execute(_RESOLVED, place)), request)]


def _outcomes_among(later: Iterable[Recorded], request: Recorded) -> Iterator[Recorded]:
    assert isinstance(request.event, SendRequested)
    name = request.event.request
    return (r for r in later if isinstance(r.event, Outcome) and r.event.request == name)


def _entry(request: Recorded, outcomes: Iterable[Recorded]) -> Entry:
    assert isinstance(request.event, SendRequested)
    fates = Fates()
    for event in (request, *outcomes):
        fates.apply(event)
    return Entry(stream=request.stream, story=fates.requests()[request.event.request])


def _is_wanted(entry: Entry, wanted: Wanted) -> bool:
    story = entry.story
    return (story.charged or wanted.free) and (not wanted.results or story.result in wanted.results)


def _in_range(request: Recorded, wanted: Wanted, after: Place) -> bool:
    return (
        wanted.stream in ("", request.stream)
        and (wanted.since is None or request.at >= wanted.since)
        and (wanted.until is None or request.at < wanted.until)
        and Place(request.at, request.position) > after
    )
