"""The iLink bot API as bytes: the requests that we write, the answers before anybody judges them. Pure.

Facts cite the iLink protocol notes.
"""

from __future__ import annotations

import base64
from typing import Literal

import msgspec

from actors.ports import SendOrder

CHANNEL_VERSION = "2.4.9"
"""The version of Tencent's own client whose dialect this is."""

_BOT, _FINISHED, _TEXT = 2, 2, 1  # message_type, message_state, item type of what we send. Notes 1.5, 1.8


class BaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who is calling; in every POST body but that of get_bot_qrcode. Notes 1.1."""

    channel_version: str = CHANNEL_VERSION
    bot_agent: str


class UpdatesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """getupdates."""

    get_updates_buf: str
    base_info: BaseInfo


class TextItem(msgspec.Struct, frozen=True, kw_only=True):
    """The text of an item."""

    text: str


class OutItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a message that we send."""

    type: int = _TEXT
    text_item: TextItem


class OutMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that we send. Notes 1.5."""

    from_user_id: str = ""
    to_user_id: str
    client_id: str
    message_type: int = _BOT
    message_state: int = _FINISHED
    item_list: tuple[OutItem]
    context_token: str | msgspec.UnsetType = msgspec.UNSET


class SendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """sendmessage."""

    msg: OutMessage
    base_info: BaseInfo


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """getconfig."""

    ilink_user_id: str
    context_token: str | msgspec.UnsetType = msgspec.UNSET
    base_info: BaseInfo


class TypingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """sendtyping."""

    ilink_user_id: str
    typing_ticket: str
    status: Literal[1, 2]  # 1 start, 2 stop
    base_info: BaseInfo


class NotifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """msg/notifystart and msg/notifystop."""

    base_info: BaseInfo


class QrRequest(msgspec.Struct, frozen=True, kw_only=True):
    """get_bot_qrcode."""

    local_token_list: tuple[str, ...]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What every answer may have. Fields are `object` because nothing promises their types; read them with `as_int` and its kin."""

    ret: object = None
    errcode: object = None
    errmsg: object = None


class UpdatesReply(Reply, frozen=True, kw_only=True):
    """getupdates."""

    msgs: object = None
    get_updates_buf: object = None
    longpolling_timeout_ms: object = None


class SendReply(Reply, frozen=True, kw_only=True):
    """sendmessage."""

    message_id: object = None


class ConfigReply(Reply, frozen=True, kw_only=True):
    """getconfig."""

    typing_ticket: object = None


class QrReply(Reply, frozen=True, kw_only=True):
    """get_bot_qrcode."""

    qrcode: object = None
    qrcode_img_content: object = None


class QrStatusReply(Reply, frozen=True, kw_only=True):
    """get_qrcode_status."""

    status: object = None
    bot_token: object = None
    ilink_bot_id: object = None
    ilink_user_id: object = None
    baseurl: object = None
    redirect_host: object = None


def client_version_number(version: str = CHANNEL_VERSION) -> int:
    """`major << 16 | minor << 8 | patch`. Notes 1.1."""
    major, minor, patch = (int(n) for n in version.split("."))
    return major << 16 | minor << 8 | patch


def get_headers() -> dict[str, str]:
    """Headers of the QR status poll. Notes 1.1."""
    return {"iLink-App-Id": "bot", "iLink-App-ClientVersion": str(client_version_number())}


def post_headers(token: str, uin: int) -> dict[str, str]:
    """Headers of a POST; `uin` is a random uint32, new for each request; without a token nothing is authorised. Notes 1.1."""
    fixed = {"Content-Type": "application/json", "AuthorizationType": "ilink_bot_token", **get_headers()}
    fixed["X-WECHAT-UIN"] = base64.b64encode(str(uin).encode()).decode()
    return {**fixed, "Authorization": f"Bearer {token}"} if token else fixed


def updates_request(cursor: str, info: BaseInfo) -> bytes:
    """Body of getupdates."""
    return msgspec.json.encode(UpdatesRequest(get_updates_buf=cursor, base_info=info))


def send_request(order: SendOrder, info: BaseInfo) -> bytes:
    """Body of sendmessage; without a token the field is left out."""
    message = OutMessage(
        to_user_id=order.peer,
        client_id=order.client_id,
        item_list=(OutItem(text_item=TextItem(text=order.text)),),
        context_token=order.token or msgspec.UNSET,
    )
    return msgspec.json.encode(SendRequest(msg=message, base_info=info))


def config_request(peer: str, token: str, info: BaseInfo) -> bytes:
    """Body of getconfig."""
    return msgspec.json.encode(ConfigRequest(ilink_user_id=peer, context_token=token or msgspec.UNSET, base_info=info))


def typing_request(peer: str, ticket: str, on: bool, info: BaseInfo) -> bytes:
    """Body of sendtyping."""
    return msgspec.json.encode(
        TypingRequest(ilink_user_id=peer, typing_ticket=ticket, status=1 if on else 2, base_info=info)
    )


def notify_request(info: BaseInfo) -> bytes:
    """Body of msg/notifystart and msg/notifystop."""
    return msgspec.json.encode(NotifyRequest(base_info=info))


def qr_request(tokens: tuple[str, ...]) -> bytes:
    """Body of get_bot_qrcode; the server takes at most the 10 newest tokens. Notes 1.2."""
    return msgspec.json.encode(QrRequest(local_token_list=tokens[:10]))
