"""What can be done to a batch before its turn in the writer: encode, measure, refuse what could never be stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from events.codec import encode, tag_of
from events.errors import TextNotEncodable
from store.errors import TextTooLarge
from store.limits import BATCH_BYTES_MAX, INTEGER_MAX
from store.records import TEXT_BYTES_MAX, AgendaRow, Batch, Body

OVERHEAD_BYTES = 200
"""What a row weighs besides its text, roughly."""


class Prepared(msgspec.Struct, frozen=True):
    """A batch with its events encoded: for each write (tag, bytes) of each event."""

    batch: Batch
    encoded: tuple[tuple[tuple[str, bytes], ...], ...]
    body_bytes: tuple[int, ...]
    size: int


def prepare(batch: Batch) -> Prepared:
    """The batch, encoded. Raises TextTooLarge, TextNotEncodable, or ValueError for numbers that no log can hold."""
    encoded = tuple([tuple([(tag_of(e), encode(e)) for e in w.events]) for w in batch.writes])
    body_bytes = tuple([_measure(b) for b in batch.bodies])
    _check_names(batch)
    _check_numbers(batch)
    rows = sum([len(data) + OVERHEAD_BYTES for w in encoded for _, data in w])
    size = OVERHEAD_BYTES + rows + sum(body_bytes) + OVERHEAD_BYTES * len(body_bytes)
    if size > BATCH_BYTES_MAX:
        raise TextTooLarge(f"a batch of {size} bytes; at most {BATCH_BYTES_MAX} fit into one commit")
    return Prepared(batch, encoded, body_bytes, size)


def _measure(body: Body) -> int:
    size = _utf8_bytes(body.text, "a body")
    if size > TEXT_BYTES_MAX:
        raise TextTooLarge(f"a body of {size} bytes; at most {TEXT_BYTES_MAX} are taken")
    return size


def _utf8_bytes(text: str, what: str) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise TextNotEncodable(f"{what} holds text that UTF-8 cannot carry: {error.reason}") from error


def _check_names(batch: Batch) -> None:
    _utf8_bytes("".join(_names(batch)), "a name or key of the batch")


def _names(batch: Batch) -> Iterable[str]:
    names = [batch.account, batch.cause, *[w.stream for w in batch.writes], *batch.erase, *batch.forget]
    for body in batch.bodies:
        names += (body.id, body.stream, body.kind)
    for key in batch.keys:
        names += (key.source, key.key, key.value)
    for row in (*batch.agenda, *batch.wake):
        names.append(row.stream)
    for address in batch.addresses:
        names += (address.stream, address.peer, address.name)
    for binding in batch.bindings:
        names += (binding.stream, binding.session)
    return names


def _check_numbers(batch: Batch) -> None:
    _check_number(batch.at)
    for body in batch.bodies:
        _check_number(body.at)
    for row in (*batch.agenda, *batch.wake):
        _check_agenda(row)


def _check_agenda(row: AgendaRow) -> None:
    _check_number(row.due_at or 0)
    _check_number(row.open_epoch or 0)
    _check_number(row.waiting)


def _check_number(number: int) -> None:
    if not 0 <= number <= INTEGER_MAX:
        raise ValueError(f"{number} is no number that a log can hold (0 to {INTEGER_MAX})")
