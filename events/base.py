"""How an event is written: frozen structs with a tag that never changes, and the envelope that the log puts around them.

All times are `int` milliseconds since the Unix epoch. Events hold ids, lengths and fingerprints; texts, names and tokens
live in bodies (see `store/README.md`), so that they can expire or be erased while quota and audit stay whole.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Millis = int
"""Milliseconds since the Unix epoch."""

Origin = Literal["inbound", "scheduled", "desktop", "api"]
"""Who started a turn: `inbound` = this bot forwarded a peer's message; the others complete without one."""

Status = Literal["completed", "degraded", "failed"]
"""How a turn ended: `degraded` went wrong but says so in its own words."""

Kind = Literal["answer", "push", "notice"]
"""The three kinds of send."""

SendClass = Literal["blocked", "bad_request", "login_lost", "http_refused", "not_sent", "too_late"]
"""Why a send failed. `blocked`: refused with the token it had; `bad_request`, `http_refused`: refused for what it is;
`login_lost`: the account must log in again; `not_sent`, `too_late`: proven never to have left."""


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,  # frozen trees hold no cycles: the collector need not look at them, and each is 16 bytes smaller
):
    """Base of all events. Each subclass names its tag; a default, once released, never changes its meaning."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Base of the structs inside events."""


class Carried(Part, frozen=True, kw_only=True):
    """Bytes `start` to `end` of an output's text (UTF-8, `total` bytes long) that one message carries."""

    output: str
    start: int = 0
    end: int
    total: int

    @property
    def whole(self) -> bool:
        """Whether nothing of the output comes after these bytes."""
        return self.end >= self.total


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as the log keeps it."""

    position: int  # commit order over the whole log, from 1
    stream: str
    version: int  # place in its stream, from 1
    type: str
    at: int  # ms; never decreases within a stream
    epoch: int  # the epoch under which it was appended
    cause: str  # id of the command, message or request that caused it, or ""
    event: Event
