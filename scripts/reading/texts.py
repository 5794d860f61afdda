"""Whether the texts of the log are still the texts that came in and went out.

Texts lie outside the chain, so that they can be erased; but the events that speak of them hold their fingerprints, keyed by a salt that
lies with the text and goes with it. What is checked: that each text is the one that the event speaks of, under the salt that it was
written with, and that none is gone without a word in the log. Of texts that logs of schema 1 did not fingerprint, and of reply handles,
which the channel itself checks at each use, only the second.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import zip_longest

import msgspec

from events.base import Event, Recorded
from events.peer import (
    BodyErased,
    ContextTokenSeen,
    DuplicateSuppressed,
    MessageReceived,
    SendFailed,
    SendRequested,
    TurnCompleted,
    TurnFailed,
)
from events.streams import fingerprint
from store.log import Reader
from store.verify import Finding


class Told(msgspec.Struct, frozen=True):
    """A text that an event speaks of."""

    body: str
    digest: str  # its fingerprint, "" = the event has none
    what: str  # in words


async def changed_texts(reader: Reader) -> AsyncIterator[Finding]:
    """What is wrong with the texts that the log speaks of."""
    missing: dict[str, Finding] = {}
    async for page in reader.page():
        told = [(r, t) for r in page for t in told_texts(r.event)]
        kept = await reader.kept({t.body for _, t in told}) if told else {}
        for r, t in told:
            found = kept.get(t.body)
            if found is None:
                missing.setdefault(t.body, _finding(r, f"{t.what} is gone"))
            elif t.digest and fingerprint(found.salt, found.text) != t.digest:
                yield _finding(r, f"{t.what} was changed, or the salt of its fingerprint")
        for r in page:
            if isinstance(r.event, BodyErased):
                for body in r.event.bodies:
                    missing.pop(body, None)
    for finding in missing.values():
        yield finding


def told_texts(event: Event) -> Iterator[Told]:
    """The texts that an event speaks of."""
    return (told for told in _told(event) if told.body)


def _told(event: Event) -> Iterator[Told]:
    match event:
        case MessageReceived(message=message):
            yield Told(event.body, event.digest, f"the text of message {message}")
            for body, digest in zip_longest(event.media, event.media_digests, fillvalue=""):
                yield Told(body, digest, f"a medium of message {message}")
        case DuplicateSuppressed():
            yield Told(event.body, event.digest, "the text of a message that came again")
        case ContextTokenSeen(message=message):
            yield Told(event.body, "", f"the reply handle of message {message}")
        case TurnCompleted(turn_id=turn_id):
            yield Told(event.body, event.digest, f"the text of turn {turn_id}")
        case TurnFailed(turn_id=turn_id):
            yield Told(event.error, event.digest, f"the text of turn {turn_id}")
        case SendRequested(request=request):
            yield Told(event.body, event.digest, f"the text of request {request}")
        case SendFailed(request=request):
            yield Told(event.error, event.digest, f"the channel's answer to request {request}")
        case _:
            pass


def _finding(at: Recorded, what: str) -> Finding:
    return Finding(at.position, at.stream, what)
