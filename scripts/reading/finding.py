"""What an id, or the beginning of one, stands for. The log is searched once, as bytes; only rows that can match are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from events import bot, codec, peer
from events.base import Event
from scripts.errors import Ambiguous, NotFound
from store.log import Reader

Sort = Literal["turn", "output", "request", "message", "instance"]

FOUND_MAX = 10
"""How many candidates an error lists."""

KEYS_MAX = 20
"""How many message keys of the channel are looked at."""


class Found(msgspec.Struct, frozen=True, order=True):
    """One thing that an id stands for. `name` is what was matched, `id` the thing's own id."""

    name: str
    sort: Sort
    id: str
    stream: str


async def find(reader: Reader, given: str, progress: Callable[[int], None] = lambda _: None) -> tuple[Found, ...]:
    """Everything that `given` names: one thing, or the same turn in several peers' streams.
    Raises NotFound, or Ambiguous when it begins several names and is none of them."""
    if not given:
        raise NotFound("an id is needed: of a turn, a delivery, a request, a client or a message")
    if not is_text(given):
        raise NotFound(f"{given!r} is not text, so nothing in the log is called so")
    found = await _search(reader, given, progress)
    for _, name, value in await reader.key_prefix("message", given, KEYS_MAX):
        found |= {
            msgspec.structs.replace(f, name=name) for f in await _search(reader, value, progress) if f.id == value
        }
    exact = {f for f in found if f.name == given}
    return _same(exact or found, given)


def is_text(given: str) -> bool:
    """Whether UTF-8 can carry it; arguments of a shell can be any bytes."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _search(reader: Reader, given: str, progress: Callable[[int], None]) -> set[Found]:
    if not given:
        return set()
    needle = b'"' + msgspec.json.encode(given)[1:-1]
    found: set[Found] = set()
    async for page in reader.rows():
        for row in page:
            if needle in row.data:
                found.update(f for f in _names_in(codec.decode(row.type, row.data), row.stream) if _begins(f, given))
        progress(page[-1].position)
    return found


def _begins(found: Found, given: str) -> bool:
    return found.name.startswith(given)


def _same(found: set[Found], given: str) -> tuple[Found, ...]:
    if not found:
        raise NotFound(f"nothing in the log is called {given!r}, or begins so")
    names = sorted({f.name for f in found})
    if len(names) > 1:
        more = f" and {len(names) - FOUND_MAX} more" if len(names) > FOUND_MAX else ""
        raise Ambiguous(f"{given!r} begins {', '.join(names[:FOUND_MAX])}{more}")
    sorts = {f.sort for f in found}
    return tuple(sorted(f for f in found if f.sort == min(sorts, key=_ORDER.index)))


_ORDER: tuple[Sort, ...] = ("turn", "output", "request", "message", "instance")
"""Where one id names several things, the first of these is meant."""


def _names_in(event: Event, stream: str) -> Iterator[Found]:
    """The ids that an event gives to things."""
    match event:
        case peer.TurnStarted():
            yield Found(event.turn_id, "turn", event.turn_id, stream)
        case peer.TurnCompleted() | peer.TurnFailed():
            yield Found(event.turn_id, "turn", event.turn_id, stream)
            yield Found(event.output, "output", event.output, stream)
        case peer.OutputSkipped() | peer.OutputDropped():
            yield Found(event.output.turn_id, "turn", event.output.turn_id, stream)
            yield Found(event.output.output, "output", event.output.output, stream)
        case peer.SendRequested():
            yield Found(event.request, "request", event.request, stream)
            yield Found(event.client_id, "request", event.request, stream)
        case peer.SendSucceeded() | peer.UnknownResolved():
            yield Found(event.message_id, "request", event.request, stream)
        case peer.MessageReceived():
            yield Found(event.message, "message", event.message, stream)
        case bot.BotStarted():
            yield Found(event.instance, "instance", event.instance, stream)
        case _:
            return
