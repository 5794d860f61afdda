"""Events to the bytes that the log keeps, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from events import bot, peer, upcast
from events.base import Event
from events.errors import CodecError, NewerEvent, TextNotEncodable, UnknownEventType

AnyEvent = bot.BotEvent | peer.PeerEvent

CLASSES: Mapping[str, type[Event]] = {cls.__struct_config__.tag: cls for cls in get_args(AnyEvent)}
"""Every event of the vocabulary by its tag."""

_TAGS: Mapping[type[Event], str] = {cls: tag for tag, cls in CLASSES.items()}

_encoder = msgspec.json.Encoder()
_decode: Callable[[bytes], Any] = msgspec.json.Decoder(AnyEvent).decode


def tag_of(event: Event) -> str:
    """The tag under which an event is stored."""
    return _TAGS[type(event)]


def encode(event: Event) -> bytes:
    """The bytes to store. Raises TextNotEncodable."""
    return encode_tagged(event)[1]


def encode_tagged(event: Event) -> tuple[str, bytes]:
    """The tag and the bytes to store. Raises TextNotEncodable."""
    try:
        return _TAGS[type(event)], _encoder.encode(event)
    except UnicodeEncodeError as error:
        raise TextNotEncodable(f"{tag_of(event)} holds text that UTF-8 cannot carry: {error.reason}") from error


def decode(tag: str, data: bytes) -> Event:
    """The event of stored bytes. Raises UnknownEventType, NewerEvent or CodecError."""
    if upcast.STEPS and tag in upcast.STEPS:  # a replay has each tag as a new string, and hashing that takes time
        return _decode_old(tag, data)
    try:
        event: Event = _decode(data)
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        TypeError,
        RecursionError,
    ) as error:  # a damaged row can hold anything
        raise _refusal(tag, error) from error
    if _TAGS[type(event)] != tag:
        raise CodecError(f"a {tag} event holds the data of a {tag_of(event)}")
    return event


def _decode_old(tag: str, data: bytes) -> Event:
    try:
        raw = upcast.upcast(tag, msgspec.json.decode(data))
        return msgspec.convert(raw, CLASSES[raw["type"]])
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:  # an old form that is not what its steps expect
        raise _refusal(tag, error) from error


def _refusal(tag: str, error: Exception) -> CodecError:
    if tag not in CLASSES:
        return UnknownEventType(
            f"{tag!r} is not an event of this version; the log was written by a newer one, or is not ours"
        )
    if "unknown field" in str(error):
        return NewerEvent(f"a {tag} event has a field that this version does not know ({error}); use the newer version")
    return CodecError(f"a {tag} event cannot be read: {error}")
