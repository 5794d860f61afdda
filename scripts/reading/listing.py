"""Events as they lie in the log: the end of it, one of them, or all of them as JSON lines.

Texts are left out unless asked for; context tokens and media keys are never shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import msgspec

from events.base import Event, Millis, Recorded
from events.codec import tag_of
from scripts.errors import NotFound
from scripts.printing import Printer
from scripts.reading.names import Names, find_peer, read_names
from store.limits import INTEGER_MAX
from store.log import Reader

TAIL_MAX = 100_000
"""The most events that `tail` shows at once."""

PAGE_ROWS = 1_000
"""Rows of an exported page: their texts are read together."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its envelope. `texts`: by body's id, only on request; those that are gone are absent."""

    position: int
    at: Millis
    stream: str
    peer: str  # its address, or the account's for a bot; the stream once the address was erased
    version: int
    type: str
    epoch: int
    cause: str
    data: Event
    texts: Mapping[str, str] | None


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A row as it is stored: `data` is the very JSON of the log, `digest` in hex."""

    position: int
    stream: str
    version: int
    type: str
    at: Millis
    epoch: int
    cause: str
    data: msgspec.Raw
    digest: str
    texts: Mapping[str, str] | None


class TailOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The last `count` events, of one peer or of all."""

    count: int = 20
    peer: str = ""
    texts: bool = False


async def tail(
    reader: Reader, options: TailOptions, printer: Printer, pause: Callable[[], Awaitable[bool]] | None = None
) -> None:
    """Print the last events; with `pause` go on with what is committed later, as long as it returns True."""
    names = await read_names(reader)
    stream = await find_peer(reader, names, options.peer) if options.peer else ""
    seen = await reader.position()
    await _print(reader, names, await _last(reader, stream, min(options.count, TAIL_MAX), seen), options, printer)
    while pause is not None and await pause():
        async for page in reader.page(after=seen):
            fresh = [r for r in page if not stream or r.stream == stream]
            names = names if all(r.stream in names.account for r in fresh) else await read_names(reader)
            await _print(reader, names, fresh, options, printer)
            seen = page[-1].position
        printer.flush()


async def _last(reader: Reader, stream: str, count: int, position: int) -> list[Recorded]:
    if count == 0:
        return []
    if stream:
        return [r for r in await reader.read(stream) if r.position <= position][-count:]
    pages = reader.page(after=max(0, position - count), until=position) if position else _nothing()
    return [r async for page in pages for r in page]


async def _nothing() -> AsyncIterator[tuple[Recorded, ...]]:
    return
    yield


async def show(reader: Reader, position: int, printer: Printer, *, texts: bool = False) -> None:
    """Print one event. Raises NotFound."""
    async for page in (
        reader.page(after=position - 1, until=position, size=1) if 0 < position <= INTEGER_MAX else _nothing()
    ):
        await _print(reader, await read_names(reader), page, TailOptions(texts=texts), printer)
        return
    raise NotFound(f"there is no event at position {position}; the log has 1 to {await reader.position()}")


async def export(
    reader: Reader, printer: Printer, *, texts: bool = False, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Print every row as a JSON line; returns how many."""
    count = 0
    async for page in reader.rows(size=PAGE_ROWS):
        found: Mapping[str, str] = {}
        if texts:
            found = await reader.bodies(b for row in page for b in _bodies_in(row.type, row.data))
        for row in page:
            exported = Exported(
                position=row.position,
                stream=row.stream,
                version=row.version,
                type=row.type,
                at=row.at,
                epoch=row.epoch,
                cause=row.cause,
                data=msgspec.Raw(row.data),
                digest=bytes(row.digest).hex(),
                texts=_of(found, _bodies_in(row.type, row.data)) if texts else None,
            )
            printer.raw(f"{msgspec.json.encode(exported).decode()}\n")
        count += len(page)
        progress(page[-1].position)
    return count


async def _print(
    reader: Reader, names: Names, events: Iterable[Recorded], options: TailOptions, printer: Printer
) -> None:
    given = list(events)
    found = await reader.bodies(b for r in given for b in text_bodies(r.event)) if options.texts else {}
    for r in given:
        texts = _of(found, text_bodies(r.event)) if options.texts else None
        listed = Listed(
            position=r.position,
            at=r.at,
            stream=r.stream,
            peer=names.show(r.stream).removeprefix("bot-"),
            version=r.version,
            type=r.type,
            epoch=r.epoch,
            cause=r.cause,
            data=r.event,
            texts=texts,
        )
        printer.row(listed, _line(listed, printer))


def _line(listed: Listed, printer: Printer) -> str:
    fields = {k: v for k, v in msgspec.to_builtins(listed.data).items() if k != "type"}
    data = msgspec.json.encode(fields).decode()
    texts = "".join(f"\n    {body}: {text}" for body, text in (listed.texts or {}).items())
    return f"{listed.position}  {printer.time(listed.at)}  {listed.peer}  {listed.type}  {data}{texts}"


_TEXT_FIELDS: Mapping[str, str] = {
    "message_received": "body",
    "duplicate_suppressed": "body",
    "turn_completed": "body",
    "turn_failed": "error",
    "send_requested": "body",
    "send_failed": "error",
}
"""Where an event names a body whose text may be shown. Tokens and media keys are in none of these."""


def text_bodies(event: Event) -> tuple[str, ...]:
    """The bodies of an event whose texts may be shown."""
    field = _TEXT_FIELDS.get(tag_of(event))
    body = getattr(event, field) if field else ""
    return (body,) if body else ()


def _bodies_in(tag: str, data: bytes) -> tuple[str, ...]:
    field = _TEXT_FIELDS.get(tag)
    body = msgspec.json.decode(data).get(field, "") if field else ""
    return (body,) if body else ()


def _of(found: Mapping[str, str], bodies: Iterable[str]) -> dict[str, str]:
    return {body: found[body] for body in bodies if body in found}
