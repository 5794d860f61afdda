"""What a poll brought, as facts for the log. Pure.

A message is handled once, whatever the channel delivers again: under the same id, under a new id with the same sender, text and creation
time, or all of them on an empty cursor. An honest repeat has a creation time of its own and passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from actors.deciding.draft import NewIds
from actors.ports import Inbound, Polled
from actors.text.clean import text_bytes
from events.base import Event, Millis
from events.bot import BotState, CursorAdvanced
from events.peer import ContextTokenSeen, DuplicateSuppressed, MessageReceived
from events.streams import fingerprint
from store.records import ANY, SALT_BYTES, AddressRow, AgendaRow, Body, Key, Write

LATENCY_MS_MAX = 5_000
"""How long an answer of the channel may travel: a poll that ended without a message proves that the message had not arrived this
long before."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The writes of one poll, and what belongs to them."""

    writes: tuple[Write, ...]
    bodies: tuple[Body, ...]
    keys: tuple[Key, ...]
    addresses: tuple[AddressRow, ...]
    wake: tuple[AgendaRow, ...]
    texts: Mapping[str, str]  # body -> text, for the peers


class Gathering:
    """Collects the facts of one poll."""

    def __init__(self, *, ids: NewIds, salt: bytes, generation: int, now: Millis) -> None:
        self._ids, self._salt, self._generation, self._now = ids, salt, generation, now
        self.events: dict[str, list[Event]] = {}
        self.bodies: list[Body] = []
        self.keys: dict[str, Key] = {}
        self.addresses: list[AddressRow] = []
        self.woken: dict[str, AgendaRow] = {}
        self._earliest: dict[str, Millis] = {}  # stream -> what its messages so far prove

    def body(self, stream: str, kind: str, text: str) -> tuple[str, str]:
        """Put a text among the bodies; its id and its fingerprint."""
        name, salt = f"b-{self._ids.token(8)}", bytes.fromhex(self._ids.token(SALT_BYTES))
        self.bodies.append(Body(id=name, stream=stream, kind=kind, text=text, at=self._now, salt=salt))
        return name, fingerprint(salt, text)

    def add(self, stream: str, inbound: Inbound, taken: frozenset[str], not_before: Millis) -> None:
        """One message: a fact of its own, or a duplicate of an earlier one. The channel's window is that of the message that it had
        last, however a poll sorts them: what one of them proves holds for the next as well."""
        events = self.events.setdefault(stream, [])
        self.addresses.append(AddressRow(stream=stream, peer=inbound.peer, name=inbound.name))
        keys = message_keys(inbound, self._salt)
        reason = _repeated(keys, taken | self.keys.keys())
        body, digest = self.body(stream, "inbound", inbound.text)
        if reason:
            events.append(DuplicateSuppressed(reason=reason, body=body, sent_at=inbound.sent_at, digest=digest))
            return
        earliest = self._earliest[stream] = max(self._earliest.get(stream, 0), not_before)
        self.keys.update({k: Key(source="message", key=k, value=_owner(k, stream)) for k in keys})
        self.woken[stream] = AgendaRow(stream=stream, due_at=self._now, waiting=1)
        message = f"m-{self._ids.token(8)}"
        media = [self.body(stream, "media", m) for m in inbound.media]
        events.append(
            MessageReceived(
                message=message,
                body=body,
                total=text_bytes(inbound.text),
                sent_at=inbound.sent_at,
                not_before=earliest,
                generation=self._generation,
                contents=inbound.contents,
                media=tuple(name for name, _ in media),
                quote=inbound.quote,
                digest=digest,
                media_digests=tuple(found for _, found in media),
            )
        )
        if inbound.token:
            token, _ = self.body(stream, "token", inbound.token)
            events.append(ContextTokenSeen(message=message, body=token, generation=self._generation))


def message_keys(inbound: Inbound, salt: bytes) -> tuple[str, ...]:
    """The keys that make a message this very one: its id, and its sender, text and creation time."""
    keys = [f"id:{inbound.message_id}"] if inbound.message_id else []
    if inbound.sent_at > 0:
        content = "\0".join((inbound.peer, str(inbound.sent_at), *inbound.contents, inbound.text))
        keys.append(f"content:{fingerprint(salt, content)}")
    return tuple(keys)


def _owner(key: str, stream: str) -> str:
    """Whose a key is that holds a fingerprint of a text: it goes when the peer is erased. A channel's id tells nothing, and stays."""
    return stream if key.startswith("content:") else ""


def all_keys(messages: Iterable[Inbound], salt: bytes) -> frozenset[str]:
    """The keys of all messages of a poll."""
    return frozenset(k for m in messages for k in message_keys(m, salt))


def not_before(state: BotState, polled: Polled, sent_at: Millis) -> Millis:
    """The earliest instant (our clock) at which the channel can have received a message that `polled` brought.

    The last poll proves one: it did not bring the message. Where this poll was held, the message's creation time tells a later one,
    LATENCY_MS_MAX early for whatever the clocks of the channel disagree on. A held poll is answered as soon as a message is there, so
    that its end caps what the creation time says: a phone whose clock is ahead and a poll that was stalled on its way would both have
    to be wrong at once. A poll that was answered at once may have found a message that was there for long.
    """
    by_last_poll = max(state.poll_started_at, state.poll_ended_at - LATENCY_MS_MAX, 0)
    held = polled.ended_at - polled.started_at > LATENCY_MS_MAX
    if not held or polled.ahead_ms is None or sent_at <= 0:
        return by_last_poll
    return max(by_last_poll, min(sent_at - polled.ahead_ms, polled.ended_at) - LATENCY_MS_MAX)


def gather(
    polled: Polled,
    *,
    stream_of: Callable[[str], str],
    taken: frozenset[str],
    state: BotState,
    bot_stream: str,
    ids: NewIds,
    salt: bytes,
    now: Millis,
) -> Facts:
    """The facts of one poll: messages, tokens and the cursor, to be appended together before the next poll."""
    gathering = Gathering(ids=ids, salt=salt, generation=state.generation, now=now)
    for inbound in polled.messages:
        gathering.add(stream_of(inbound.peer), inbound, taken, not_before(state, polled, inbound.sent_at))
    cursor = CursorAdvanced(cursor=polled.cursor, poll_started_at=polled.started_at, poll_ended_at=polled.ended_at)
    writes = [Write(stream, ANY, tuple(events)) for stream, events in gathering.events.items()]
    return Facts(
        writes=(*writes, Write(bot_stream, ANY, (cursor,))),
        bodies=tuple(gathering.bodies),
        keys=tuple(gathering.keys.values()),
        addresses=tuple(gathering.addresses),
        wake=tuple(gathering.woken.values()),
        texts={b.id: b.text for b in gathering.bodies if b.kind != "media"},
    )


def _repeated(keys: tuple[str, ...], taken: Iterable[str]) -> Literal["same_id", "same_content"] | None:
    held = frozenset(taken)
    for key in keys:
        if key in held:
            return "same_id" if key.startswith("id:") else "same_content"
    return None
