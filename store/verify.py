"""Is the log as it was written? Recomputes every digest, and compares with a root that was published earlier.

Shows: an edit of any column, a deletion, a swap; against a root also a tail that was cut off with all its traces, or a history that
was rewritten as a whole before that root.
"""

from __future__ import annotations

import msgspec

from events.base import Millis
from store.chain import GENESIS, Root, link_row, root
from store.limits import INTEGER_MAX
from store.log import Reader
from store.records import Row

FINDINGS_MAX = 100
"""Findings that a verdict lists; it counts all of them."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written. `position` 0 = of no single row."""

    position: int
    stream: str
    what: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found: `findings` is empty if all is well."""

    rows: int
    streams: int
    root: Root  # over the rows as they are
    findings: tuple[Finding, ...]
    count: int  # of findings, also those that are not listed
    extends: bool | None = None  # whether the log extends the given root; None if none was given

    @property
    def sound(self) -> bool:
        """Whether nothing was found, and the log extends the root if one was given."""
        return self.count == 0 and self.extends is not False


class _Tail(msgspec.Struct):
    """The end of a stream so far."""

    version: int = 0
    at: Millis = 0
    digest: bytes = GENESIS


async def verify(log: Reader, against: Root | None = None) -> Verdict:
    """Read the whole log. Works while a gateway writes: what it appends meanwhile is verified too."""
    settled = await log.position()
    check = _Check(settled, against)
    async for page in log.rows():
        for row in page:
            check.row(row)
    return check.verdict()


class _Check:
    def __init__(self, settled: int, against: Root | None) -> None:
        self._settled = settled  # the last position that the log says it gave
        self._against = against
        self._extends: bool | None = None if against is None else False
        self._tails: dict[str, _Tail] = {}
        self._findings: list[Finding] = []
        self._count = 0
        self._position = 0
        self._rows = 0

    def row(self, row: Row) -> None:
        self._look_at_root(row.position)
        if row.position != self._position + 1:
            self._find(row.position, row.stream, f"positions {self._position + 1} to {row.position - 1} are missing")
        self._position, self._rows = row.position, self._rows + 1
        tail = self._tails.setdefault(str(row.stream), _Tail())
        if not _is_plain(row):
            self._find(row.position, str(row.stream), "a column holds another type than was written")
            tail.version += 1
            return
        if row.version != tail.version + 1:
            self._find(row.position, row.stream, f"version {row.version} follows version {tail.version}")
        elif row.at < tail.at:
            self._find(
                row.position, row.stream, f"its time {row.at} is before {tail.at}, the time of the event before it"
            )
        if link_row(tail.digest, row) != row.digest:
            self._find(row.position, row.stream, "its digest does not fit the row and the one before it")
        tail.version, tail.at, tail.digest = row.version, row.at, row.digest

    def verdict(self) -> Verdict:
        self._look_at_root(self._position + 1)
        if self._position < self._settled:
            self._find(0, "", f"positions {self._position + 1} to {self._settled} are missing at the end")
        return Verdict(
            rows=self._rows,
            streams=len(self._tails),
            root=self._root(),
            findings=tuple(self._findings),
            count=self._count,
            extends=self._extends,
        )

    def _look_at_root(self, next_position: int) -> None:
        """The moment to compare is after the root's position and before the next row."""
        if self._against is not None and self._position == self._against.position < next_position:
            self._extends = self._root() == self._against

    def _root(self) -> Root:
        return root(self._position, {stream: (t.version, t.digest) for stream, t in self._tails.items()})

    def _find(self, position: int, stream: str, what: str) -> None:
        self._count += 1
        if len(self._findings) < FINDINGS_MAX:
            self._findings.append(Finding(position, stream, what))


def _is_plain(row: Row) -> bool:
    """SQLite puts any type into any column."""
    numbers = (row.version, row.at, row.epoch)
    return (
        all(isinstance(n, int) and 0 <= n <= INTEGER_MAX for n in numbers)
        and all(isinstance(t, str) for t in (row.stream, row.type, row.cause))
        and all(isinstance(b, bytes) for b in (row.data, row.digest))
    )
