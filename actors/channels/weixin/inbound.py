"""From the messages of a poll to `Inbound`. Pure.

One message that makes no sense never costs another one. A message whose sender is known is always delivered, with a stand-in where
its content cannot be read: it opens a window at the server, whatever it says.
"""

from __future__ import annotations

import msgspec

from actors.channels.weixin.wire import Updates, as_id, as_int, as_text
from actors.ports import Inbound
from actors.text.clean import clean

TEXT_CHARS_MAX = 200_000
"""Longer texts are cut; Weixin itself splits what a person types at about 2,000 characters. Notes 3."""

ITEMS_MAX = 64
MEDIUM_BYTES_MAX = 16_384
"""A medium whose keys are longer is named in the text, but its keys are not kept."""

_BOT = 2  # message_type. Notes 1.8
_MILLIS_MAX = 1 << 47  # beyond it no creation time is true


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message on the wire. Notes 1.8."""

    message_id: object = None
    from_user_id: object = None
    create_time_ms: object = None
    message_type: object = None
    context_token: object = None
    item_list: object = None


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message on the wire. Notes 1.8."""

    type: object = None
    text_item: object = None
    image_item: object = None
    voice_item: object = None
    file_item: object = None
    video_item: object = None
    ref_msg: object = None


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a poll that people wrote, and how many entries were passed over."""

    messages: tuple[Inbound, ...]
    echoes: int  # written by a bot
    malformed: int  # no object, or without a sender


class _Piece(msgspec.Struct, frozen=True, kw_only=True):
    content: str
    text: str
    medium: str = ""
    quote: str = ""


def read(updates: Updates) -> Read:
    """What people wrote, in the order of the server."""
    messages = [msgspec.convert(m, Message) for m in updates.messages]
    written = [m for m in messages if not _is_echo(m)]
    read_ = tuple(inbound for m in written if (inbound := _inbound(m)) is not None)
    return Read(
        messages=read_,
        echoes=len(messages) - len(written),
        malformed=updates.not_messages + len(written) - len(read_),
    )


def _is_echo(message: Message) -> bool:
    """Whether a bot wrote it (older servers leave the type out)."""
    return as_int(message.message_type) == _BOT or as_text(message.from_user_id, 256).endswith("@im.bot")


def _inbound(message: Message) -> Inbound | None:
    peer = as_text(message.from_user_id, 256)
    if not peer:
        return None
    pieces = _pieces(message.item_list)
    sent_at = as_int(message.create_time_ms) or 0
    return Inbound(
        peer=peer,
        message_id=as_id(message.message_id),
        sent_at=sent_at if 0 < sent_at < _MILLIS_MAX else 0,
        text=_cut("\n".join(p.text for p in pieces if p.text)),
        token=as_text(message.context_token, 16_384),
        contents=tuple(p.content for p in pieces),
        media=tuple(p.medium for p in pieces if p.medium),
        quote=next((p.quote for p in pieces if p.quote), ""),
    )


def _pieces(items: object) -> list[_Piece]:
    if not isinstance(items, list) or not items:
        return [_Piece(content="unknown", text="[unknown]")]
    pieces = [_piece(item) for item in items[:ITEMS_MAX]]
    return pieces if len(items) <= ITEMS_MAX else [*pieces, _Piece(content="unknown", text="[...]")]


def _piece(fields: object) -> _Piece:
    if not isinstance(fields, dict):
        return _Piece(content="unknown", text="[unknown]")
    item = msgspec.convert(fields, Item)
    return msgspec.structs.replace(_content(item), quote=_quote(item.ref_msg))


def _content(item: Item) -> _Piece:
    match as_int(item.type):
        case 1:
            return _Piece(content="text", text=_text_of(item.text_item))
        case 2:
            return _Piece(content="image", text="[image]", medium=_medium(item.image_item))
        case 3:
            text = _text_of(item.voice_item) or "[voice]"  # the server's own speech-to-text. Notes 1.7
            return _Piece(content="voice", text=text, medium=_medium(item.voice_item))
        case 4:
            return _Piece(content="file", text=_file_stand_in(item.file_item), medium=_medium(item.file_item))
        case 5:
            return _Piece(content="video", text="[video]", medium=_medium(item.video_item))
        case _:
            return _Piece(content="unknown", text="[unknown]")


def _text_of(fields: object) -> str:
    text = fields.get("text") if isinstance(fields, dict) else None
    return clean(text) if isinstance(text, str) else ""


def _file_stand_in(fields: object) -> str:
    name = as_text(fields.get("file_name"), 512) if isinstance(fields, dict) else ""
    return f"[file: {name}]" if name else "[file]"


def _medium(fields: object) -> str:
    """The keys of a medium as JSON, "" if there are none or they cannot be kept."""
    if not isinstance(fields, dict) or not fields:
        return ""
    try:
        medium = msgspec.json.encode(fields)
    except (
        ValueError,
        RecursionError,
    ):  # half characters in a key: the medium is named in the text, but nobody can fetch it
        return ""
    return medium.decode() if len(medium) <= MEDIUM_BYTES_MAX else ""


def _quote(reference: object) -> str:
    """The id of the quoted message; newer phones send nothing else of it. Notes 1.8."""
    if not isinstance(reference, dict):
        return ""
    item = reference.get("message_item")
    inner = item.get("msg_id") if isinstance(item, dict) else None
    return as_id(reference.get("svr_id")) or as_id(inner)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX] + "\n[...]"
