"""Bytes of the iLink API as this server reads and writes them (iLink protocol notes 1.1 to 1.8).

Written from the protocol notes alone and shared with no client, so that a misreading on one side shows on the other.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

BODY_BYTES_MAX = 1 << 20
"""The longest request body the server reads; longer ones are answered with HTTP 413."""

UINT32_DIGITS_MAX = 10
CURSOR_DIGITS_MAX = 18

Raw = dict[str, Any]
"""A JSON object as it came: the checks look at keys that the structs below leave out."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request: header names in lower case, `query` with the first value of each key."""

    method: str
    path: str
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: bytes = b""


class Text(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `text_item`."""

    text: str = ""


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of a message, as far as the server looks into it."""

    type: int = 0
    text_item: Text | None = None
    voice_item: Raw | None = None
    image_item: Raw | None = None
    file_item: Raw | None = None
    video_item: Raw | None = None


class Outbound(msgspec.Struct, frozen=True):
    """The `msg` of a sendmessage request (iLink protocol notes 1.5)."""

    to_user_id: str = ""
    from_user_id: str = ""
    client_id: str = ""
    message_type: int = 0
    message_state: int = 0
    context_token: str = ""
    run_id: str = ""
    item_list: list[Item] = []


class SendRequest(msgspec.Struct, frozen=True):
    """Body of sendmessage."""

    msg: Outbound = Outbound()


class UpdatesRequest(msgspec.Struct, frozen=True):
    """Body of getupdates."""

    get_updates_buf: str = ""


class ConfigRequest(msgspec.Struct, frozen=True):
    """Body of getconfig."""

    ilink_user_id: str = ""
    context_token: str = ""


class TypingRequest(msgspec.Struct, frozen=True):
    """Body of sendtyping; `status` 1 start, 2 stop."""

    ilink_user_id: str = ""
    typing_ticket: str = ""
    status: int = 0


class UploadRequest(msgspec.Struct, frozen=True):
    """Body of getuploadurl (iLink protocol notes 1.7)."""

    filekey: str = ""
    media_type: int = 0
    to_user_id: str = ""
    rawsize: int = -1
    rawfilemd5: str = ""
    filesize: int = -1
    aeskey: str = ""
    context_token: str = ""


class QrRequest(msgspec.Struct, frozen=True):
    """Body of get_bot_qrcode."""

    local_token_list: list[str] = []


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as getupdates delivers it (iLink protocol notes 1.8); times in ms since the epoch."""

    seq: int
    message_id: int | str | UnsetType = UNSET
    from_user_id: str
    to_user_id: str
    client_id: str
    create_time_ms: int
    session_id: str
    message_type: int = 1
    message_state: int = 2
    context_token: str
    item_list: list[Raw]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Any JSON answer of the server; what is UNSET is left out."""

    ret: int | UnsetType = UNSET
    errcode: int | UnsetType = UNSET
    errmsg: str | UnsetType = UNSET
    message_id: int | str | UnsetType = UNSET
    msgs: list[Raw] | UnsetType = UNSET
    get_updates_buf: str | UnsetType = UNSET
    longpolling_timeout_ms: int | UnsetType = UNSET
    typing_ticket: str | UnsetType = UNSET
    upload_param: str | UnsetType = UNSET
    upload_full_url: str | UnsetType = UNSET
    qrcode: str | UnsetType = UNSET
    qrcode_img_content: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    redirect_host: str | UnsetType = UNSET
    bot_token: str | UnsetType = UNSET
    ilink_bot_id: str | UnsetType = UNSET
    ilink_user_id: str | UnsetType = UNSET
    baseurl: str | UnsetType = UNSET


_raw = msgspec.json.Decoder(Raw)
_encoder = msgspec.json.Encoder()


def read_object(body: bytes) -> Raw | None:
    """Return the JSON object that `body` holds, or None."""
    try:
        return _raw.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def write(value: object) -> bytes:
    """Return `value` as JSON; integers beyond 2^53 stay bare numbers, as the real server writes them."""
    return _encoder.encode(value)


def write_cursor(position: int) -> str:
    """Return the opaque `get_updates_buf` that stands for `position`."""
    return base64.b64encode(b"\x0a\x05sim:%d" % position).decode()


def read_cursor(cursor: str) -> int | None:
    """Return the position that `cursor` stands for, None when this server never wrote it."""
    try:
        head, _, digits = base64.b64decode(cursor, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    ours = head == b"\x0a\x05sim" and digits.isdigit() and len(digits) <= CURSOR_DIGITS_MAX
    return int(digits) if ours else None


def read_uin(header: str) -> int | None:
    """Return the uint32 of an `X-WECHAT-UIN` header (base64 of its decimal text), None when it holds none."""
    try:
        digits = base64.b64decode(header, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not digits.isdigit() or len(digits) > UINT32_DIGITS_MAX or (len(digits) > 1 and digits.startswith(b"0")):
        return None
    return int(digits) if int(digits) < 1 << 32 else None
