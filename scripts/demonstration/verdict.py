"""Do phone and ledger agree? Pure: what the server wrote down beside what the events tell, row by row.

Two witnesses that share nothing: the simulator counts what arrived; the ledger is folded from a copy of the log. Every charged request
must be exactly one message of the server, with the same id, text, order, slot and share, except that a request which the ledger itself
calls unknown may have arrived or not (guarantee G8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from events.base import Millis
from events.stories import MessageStory
from events.streams import fingerprint
from scripts.demonstration.stage import Phone
from scripts.reading.audit import AuditRow
from scripts.simulators.weixin.ledgers import Accepted, Refused, Shown

TOLERANCE_MS = 60_000
"""How far apart the two may note the time of one message; the steps of the day are further apart."""

SKEW_MS = 500
"""How far apart two followers of one clock may be: each hears of a jump after its own delay."""

UNSURE = frozenset({"unknown", "open"})
"""Outcomes of which the ledger says itself that the message may have arrived or not."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the copy of the log tells of the one peer of the demo."""

    rows: tuple[AuditRow, ...]  # also those that were free, in commit order
    digests: dict[str, str]  # request -> fingerprint of its text
    messages: tuple[MessageStory, ...]
    salts: dict[str, bytes]  # request -> what keys that
    left: int  # replies left of the quota, by the fold
    share_window_ms: Millis
    flaws: tuple[str, ...] = ()  # of the log itself: a broken chain, a real clock


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One line of both: what the server has, and what the ledger has."""

    at: Millis
    said: Shown | None = None  # the user's message on the phone
    message: MessageStory | None = None  # and in the log
    arrived: Accepted | None = None
    refused: Refused | None = None
    row: AuditRow | None = None
    differences: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All lines in order of time, and what is wrong with the whole."""

    pairs: tuple[Pair, ...]
    differences: tuple[str, ...]  # of all lines, and those that belong to no line

    @property
    def agrees(self) -> bool:
        """Whether phone and ledger tell the same."""
        return not self.differences


def compare(phone: Phone, told: Told, expected: Sequence[str]) -> Verdict:
    """The verdict; `expected` are the texts that the day must have brought to the phone, in any order."""
    pairs = sorted((*_said(phone, told), *_sent(phone, told)), key=lambda pair: pair.at)
    lines = [f"{_name(pair)}: {what}" for pair in pairs for what in pair.differences]
    return Verdict(pairs=tuple(pairs), differences=(*lines, *_whole(phone, told, expected)))


def _name(pair: Pair) -> str:
    if pair.row is not None:
        return f"request {pair.row.request}"
    found = pair.arrived or pair.refused
    return f"client id {found.client_id}" if found else "message of the user"


# --- the user's messages ----------------------------------------------------------------------------------------------


def _said(phone: Phone, told: Told) -> Iterator[Pair]:
    said = [line for line in phone.shown if line.by == "user"]
    for index in range(max(len(said), len(told.messages))):
        line = said[index] if index < len(said) else None
        message = told.messages[index] if index < len(told.messages) else None
        at = line.at if line else message.at if message else 0
        yield Pair(at=at, said=line, message=message, differences=tuple(_message_differs(line, message)))


def _message_differs(line: Shown | None, message: MessageStory | None) -> Iterator[str]:
    if line is None:
        yield "the ledger has a message that the phone has not sent"
    elif message is None:
        yield "the phone has sent a message that the ledger does not have"
    else:
        yield from _differs("time of the message", line.at, message.sent_at)
        yield from _differs("bytes of the message", len(line.text.encode()), message.total)


# --- sends ------------------------------------------------------------------------------------------------------------


def _sent(phone: Phone, told: Told) -> Iterator[Pair]:
    arrived = {a.client_id: a for a in phone.accepted}
    refused = {r.client_id: r for r in phone.refused}
    shares = _shares(phone, told)
    shown = {line.message_id: line for line in phone.shown if line.by == "bot"}
    for row in told.rows:
        here, gone = arrived.pop(row.client_id, None), refused.pop(row.client_id, None)
        if here is None:
            found = tuple(_absence_differs(row, gone, told))
        else:
            found = (*_arrival_differs(row, here, told), *_shown_differs(here, shown), *_share_differs(row, shares))
        yield Pair(at=here.at if here else row.at, arrived=here, refused=gone, row=row, differences=found)
    for left in arrived.values():
        yield Pair(at=left.at, arrived=left, differences=("the server took a message that the ledger does not have",))
    for left_refused in refused.values():
        what = "the server refused a send that the ledger does not have"
        yield Pair(at=left_refused.at, refused=left_refused, differences=(what,))


def _absence_differs(row: AuditRow, gone: Refused | None, told: Told) -> Iterator[str]:
    """What is wrong with a request of which the server has no message."""
    if row.charged and row.outcome not in UNSURE:
        yield f"the ledger charges a {row.kind} that the server never took"
    if row.outcome == "refused" and gone is None:
        yield "the ledger tells of a refusal that the server does not have"
    if gone is not None:
        yield from _differs("code of the refusal", gone.code, row.code)
        yield from _differs(
            "text", fingerprint(told.salts.get(row.request, b""), gone.text), told.digests.get(row.request)
        )


def _arrival_differs(row: AuditRow, here: Accepted, told: Told) -> Iterator[str]:
    if not row.charged:
        yield "the server took a message that the ledger calls free"
    if row.outcome == "confirmed":
        yield from _differs("message id", "" if here.message_id is None else str(here.message_id), row.message_id)
    yield from _differs("bytes", here.bytes, row.bytes)
    yield from _differs("text", fingerprint(told.salts.get(row.request, b""), here.text), told.digests.get(row.request))
    yield from _differs("slot of the quota", here.slot, row.slot)
    if abs(here.at - row.at) > TOLERANCE_MS:
        yield f"time: the phone says {here.at}, the ledger {row.at}"


def _shown_differs(here: Accepted, shown: dict[int, Shown]) -> Iterator[str]:
    line = shown.get(here.message_id or 0)
    if line is None:
        yield "the server took the message and the phone shows nothing"
    else:
        yield from _differs("shown text", line.text, here.text)


def _share_differs(row: AuditRow, shares: dict[str, int]) -> Iterator[str]:
    yield from _differs("place in the share", shares.get(row.client_id, 0), row.share)
    if row.shares and shares.get(row.client_id, 0) > row.shares:
        yield f"more than {row.shares} pushes in one rolling window"


def _shares(phone: Phone, told: Told) -> dict[str, int]:
    """Place of each push in the share, counted from the server's own times alone."""
    pushes = {row.client_id for row in told.rows if row.kind == "push"}
    arrivals = [a for a in phone.accepted if a.client_id in pushes]
    return {
        one.client_id: sum(1 for a in arrivals[: index + 1] if a.at - SKEW_MS > one.at - told.share_window_ms)
        for index, one in enumerate(arrivals)
    }


def _differs(what: str, phone: object, ledger: object) -> Iterator[str]:
    if phone != ledger:
        yield f"{what}: the phone says {phone}, the ledger {ledger}"


# --- the whole --------------------------------------------------------------------------------------------------------


def _whole(phone: Phone, told: Told, expected: Sequence[str]) -> Iterator[str]:
    both = {row.client_id for row in told.rows} & {a.client_id for a in phone.accepted}
    by_server = [a.client_id for a in phone.accepted if a.client_id in both]
    by_ledger = [row.client_id for row in told.rows if row.client_id in both]
    if by_server != by_ledger:
        yield "the messages arrived in another order than the ledger tells"
    bot_lines = [line for line in phone.shown if line.by == "bot"]
    ids = {a.message_id for a in phone.accepted}
    yield from (
        f"the phone shows a message that the server never took, at {b.at}" for b in bot_lines if b.message_id not in ids
    )
    yield from _expected([line.text for line in bot_lines], expected)
    yield from _differs("replies left in the window", phone.left, told.left)
    yield from (f"the client broke rule {v.rule} at {v.endpoint}" for v in phone.violations)
    yield from told.flaws


def _expected(texts: list[str], expected: Iterable[str]) -> Iterator[str]:
    """Each text of the day exactly once."""
    extra = list(texts)
    for text in expected:
        if text in extra:
            extra.remove(text)
        else:
            yield f"the phone never showed {text[:60]!r}"
    yield from (f"the phone showed {text[:60]!r}, which is one too many" for text in extra)
