"""What goes into the log and what comes out of it.

An account's key is its bot's address, `CHANNEL:ACCOUNT` (`events.streams.Address.bot`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from events.base import Event, Millis, Recorded

ANY: Final = -1
"""Expected version of facts from outside, which hold whatever else the stream says."""

TEXT_BYTES_MAX: Final = 1_048_576
"""The largest body; larger ones would hold up every commit behind them."""

SALT_BYTES: Final = 16
"""How long the salt of a body is."""


class Write(msgspec.Struct, frozen=True, gc=False):
    """Events for one stream, which must be at version `expected` (0 = new), or ANY."""

    stream: str
    expected: int
    events: tuple[Event, ...]


class Body(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text, name, token or raw answer that events refer to by id. `salt` (SALT_BYTES random bytes) keys every fingerprint of it
    and goes with it, so that what is left of an erased text cannot be guessed; empty = the log's salt."""

    id: str
    stream: str  # whose it is
    kind: str  # inbound, output, rendered, token, media, error
    text: str
    at: Millis
    salt: bytes = b""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A text as the log has it, and what keys its fingerprints."""

    text: str
    salt: bytes


class Key(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An idempotency key: unique for (account, source, key). `source` is `turn`, `delivery` or `message`.
    `turn` and `delivery` keys are never pruned."""

    source: str
    key: str
    value: str = (
        ""  # what the first holder wants later callers to find; of a `message` key the stream that `unkey` names
    )


class AgendaRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a stream waits for; a cache of its fold."""

    stream: str
    due_at: Millis | None = None  # when to wake it; None = only a new fact can
    open_epoch: int | None = None  # epoch of its open request
    waiting: int = 0  # outputs, remainders and messages that wait
    turn_open: bool = False  # it has a turn that an agent must (still) answer


class AddressRow(msgspec.Struct, frozen=True, kw_only=True):
    """Ties a peer's stream to its address; can be erased."""

    stream: str
    peer: str  # the channel's id of the peer
    name: str = ""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """A peer's stream and the session it is bound to, "" = none; a cache."""

    stream: str
    session: str


class Batch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One atomic unit: everything of it is in the log or nothing is. Never across accounts."""

    account: str
    epoch: int
    at: Millis  # the log lifts it to the stream's last `at` where that is later
    cause: str = ""
    writes: tuple[Write, ...] = ()
    bodies: tuple[Body, ...] = ()
    keys: tuple[Key, ...] = ()
    agenda: tuple[AgendaRow, ...] = ()  # replaces the stream's row
    wake: tuple[AgendaRow, ...] = ()  # only ever makes the stream's row earlier and `waiting` at least 1
    addresses: tuple[AddressRow, ...] = ()  # first one of a stream or peer wins; a differing one is refused
    bindings: tuple[Binding, ...] = ()
    erase: tuple[str, ...] = ()  # bodies to delete
    unkey: tuple[str, ...] = ()  # streams whose `message` keys to delete, those that have it as their value
    forget: tuple[str, ...] = ()  # streams whose address to delete


class Appended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an append put into the log, in the order of its writes."""

    recorded: tuple[Recorded, ...]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What BotStarted says of a start, beside who starts and whom it replaces."""

    program: str = ""
    simulated: bool = False
    boot: str = ""
    boot_ms: Millis = 0


BARE = Start()
"""A start of which nothing is known."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """An account's fence row after a claim."""

    account: str
    epoch: int
    instance: str
    replaces: str  # the instance that held it before, or ""
    claimed_at: Millis


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored event as it lies in the log: bytes and digest, not decoded."""

    position: int
    stream: str
    version: int
    type: str
    at: Millis
    epoch: int
    cause: str
    data: bytes
    digest: bytes


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A stream's last version and digest; a cache."""

    stream: str
    version: int
    at: Millis
    digest: bytes
