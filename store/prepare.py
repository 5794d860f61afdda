"""What can be done to a batch before its turn in the writer: encode, measure, refuse what could never be stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from events.codec import encode_tagged
from events.errors import TextNotEncodable
from store.errors import TextTooLarge
from store.limits import BATCH_BYTES_MAX, INTEGER_MAX
from store.records import SALT_BYTES, TEXT_BYTES_MAX, Batch

OVERHEAD_BYTES = 200
"""What a row weighs besides its text, roughly."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A batch with its events encoded: for each write (tag, bytes) of each event."""

    batch: Batch
    encoded: Sequence[Sequence[tuple[str, bytes]]]
    body_bytes: tuple[int, ...]
    streams: Sequence[str]  # that it names, except those it forgets; some of them twice
    size: int
    bare: bool  # nothing but events


def prepare(batch: Batch) -> Prepared:
    """The batch, encoded. Raises TextTooLarge, TextNotEncodable, or ValueError for numbers and salts that no log can hold."""
    streams: list[str] = []
    encoded = []
    size = OVERHEAD_BYTES
    for write in batch.writes:
        streams.append(write.stream)
        rows = [encode_tagged(event) for event in write.events]
        encoded.append(rows)
        for _, data in rows:
            size += len(data) + OVERHEAD_BYTES
    bare = not (
        batch.bodies
        or batch.keys
        or batch.agenda
        or batch.wake
        or batch.addresses
        or batch.bindings
        or batch.erase
        or batch.forget
        or batch.unkey
    )
    names = [batch.account, batch.cause]
    body_bytes: tuple[int, ...] = ()
    _check_number(batch.at)
    if not bare:
        body_bytes = _measure_bodies(batch, streams, names)
        _list_agenda(batch, streams)
        _list_others(batch, streams, names)
    names += streams
    _check_text(names, "a name or key of the batch")
    size += sum(body_bytes) + OVERHEAD_BYTES * len(names)
    if size > BATCH_BYTES_MAX:
        raise TextTooLarge(f"a batch of {size} bytes; at most {BATCH_BYTES_MAX} fit into one commit")
    return Prepared(batch, encoded, body_bytes, streams, size, bare)


def _measure_bodies(batch: Batch, streams: list[str], names: list[str]) -> tuple[int, ...]:
    sizes = []
    for body in batch.bodies:
        _check_text((body.text,), "a body")
        size = len(body.text) if body.text.isascii() else len(body.text.encode())
        if size > TEXT_BYTES_MAX:
            raise TextTooLarge(f"a body of {size} bytes; at most {TEXT_BYTES_MAX} are taken")
        if body.salt and len(body.salt) != SALT_BYTES:
            raise ValueError(f"a salt of {len(body.salt)} bytes; the salt of a body has {SALT_BYTES}")
        sizes.append(size)
        streams.append(body.stream)
        names += (body.id, body.kind)
        _check_number(body.at)
    return tuple(sizes)


def _list_agenda(batch: Batch, streams: list[str]) -> None:
    for row in (*batch.agenda, *batch.wake):
        streams.append(row.stream)
        for number in (row.due_at, row.open_epoch, row.waiting):
            if number is not None:
                _check_number(number)


def _list_others(batch: Batch, streams: list[str], names: list[str]) -> None:
    for key in batch.keys:
        names += (key.source, key.key, key.value)
    for address in batch.addresses:
        streams.append(address.stream)
        names += (address.peer, address.name)
    for binding in batch.bindings:
        streams.append(binding.stream)
        names.append(binding.session)
    names += (*batch.erase, *batch.forget, *batch.unkey)


def _check_text(texts: Iterable[str], what: str) -> None:
    joined = "".join(texts)
    if joined.isascii():
        return
    try:
        joined.encode()
    except UnicodeEncodeError as error:
        raise TextNotEncodable(f"{what} holds text that UTF-8 cannot carry: {error.reason}") from error


def _check_number(number: int) -> None:
    if not 0 <= number <= INTEGER_MAX:
        raise ValueError(f"{number} is no number that a log can hold (0 to {INTEGER_MAX})")
