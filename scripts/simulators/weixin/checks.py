"""What a faithful client never does (iLink protocol notes 1.1, 1.5, 1.7, 6.5): each rule broken is a violation.

Header rules are recorded only, since no report says that the real server refuses for them; body rules also refuse.
"""

from __future__ import annotations

from collections.abc import Iterator

from scripts.simulators.weixin.codec import Item, Raw, SendRequest, UploadRequest, read_uin
from scripts.simulators.weixin.state import Call

TEXT_BYTES_MAX = 16_384
BOT_AGENT_BYTES_MAX = 256
OUTBOUND_ITEM_TYPES = frozenset({1, 2, 3, 4, 5, 11, 12})
INBOUND_MESSAGE_KEYS = frozenset({"seq", "message_id", "create_time_ms", "update_time_ms", "session_id"})
INBOUND_ITEM_KEYS = frozenset({"create_time_ms", "update_time_ms", "msg_id"})
INBOUND_MEDIA_KEYS = frozenset({"full_url", "aeskey", "url"})
AES_KEY_CHARS = 44

Broken = tuple[str, str]
"""A rule's name and what was seen instead (never a secret)."""


def check_headers(call: Call, *, posts: bool, authenticated: bool) -> Iterator[Broken]:
    """Yield the header rules that the request breaks; the status GET carries only the two iLink-App headers."""
    headers = call.request.headers
    if headers.get("ilink-app-id") != "bot":
        yield "app_id", f"iLink-App-Id is {headers.get('ilink-app-id')!r}"
    version = headers.get("ilink-app-clientversion", "")
    if not (version.isascii() and version.isdigit()):
        yield "client_version", f"iLink-App-ClientVersion is {version!r}"
    if posts:
        yield from _check_post(call)
    if authenticated and call.account is None:
        given = headers.get("authorization", "")
        yield "bearer", "unknown token" if given.startswith("Bearer ") else "no Bearer token"


def _check_post(call: Call) -> Iterator[Broken]:
    headers = call.request.headers
    if not headers.get("content-type", "").startswith("application/json"):
        yield "content_type", f"Content-Type is {headers.get('content-type')!r}"
    if headers.get("authorizationtype") != "ilink_bot_token":
        yield "authorization_type", f"AuthorizationType is {headers.get('authorizationtype')!r}"
    uin = read_uin(headers.get("x-wechat-uin", ""))
    if uin is None:
        yield "uin", "X-WECHAT-UIN is not the base64 of a uint32 in decimal"
    elif call.account is not None:
        if uin == call.account.last_uin:
            yield "uin_repeated", "X-WECHAT-UIN is that of the request before"
        call.account.last_uin = uin
    if call.raw is None:
        yield "json", "the body is no JSON object"


def check_base_info(raw: Raw) -> Iterator[Broken]:
    """Yield what is wrong with `base_info`, which every POST but get_bot_qrcode carries."""
    info = raw.get("base_info")
    if not isinstance(info, dict) or not isinstance(info.get("channel_version"), str) or not info["channel_version"]:
        yield "base_info", "base_info.channel_version is missing"
        return
    agent = info.get("bot_agent", "-")
    if not isinstance(agent, str) or not (
        agent.isascii() and agent.isprintable() and len(agent) <= BOT_AGENT_BYTES_MAX
    ):
        yield "bot_agent", "bot_agent is not printable ASCII of at most 256 bytes"


def check_send(call: Call) -> Iterator[Broken]:
    """Yield what is wrong with a sendmessage body."""
    raw_message = (call.raw or {}).get("msg")
    if not isinstance(raw_message, dict) or not call.fits(SendRequest):
        yield "msg", "the body holds no msg object, or one with values of the wrong type"
        return
    message = call.body(SendRequest).msg
    yield from check_user(call, message.to_user_id)
    if message.from_user_id:
        yield "from_user_id", "from_user_id is for the server to fill"
    if not message.client_id:
        yield "client_id", "client_id is missing"
    if message.message_type != 2:
        yield "message_type", f"message_type is {message.message_type}, a bot's is 2"
    if message.message_state != 2:
        yield "message_state", f"message_state is {message.message_state}, a finished message's is 2"
    if INBOUND_MESSAGE_KEYS & raw_message.keys():
        yield "inbound_only_key", ", ".join(sorted(INBOUND_MESSAGE_KEYS & raw_message.keys()))
    if len(message.item_list) != 1:
        yield "items", f"{len(message.item_list)} items, a message holds one"
    for item, raw in zip(message.item_list, raw_message.get("item_list", []), strict=True):
        yield from _check_item(item, raw)


def check_user(call: Call, user: str) -> Iterator[Broken]:
    """Yield what is wrong with a user id: ids are case-sensitive (iLink protocol notes 1.3)."""
    known = call.account.chats if call.account else {}
    if not user:
        yield "user_missing", "the user id is missing"
    elif user not in known:
        folded = {one.casefold() for one in known}
        yield ("user_case", "the user id differs in case") if user.casefold() in folded else ("user", "unknown user id")


def _check_item(item: Item, raw: Raw) -> Iterator[Broken]:
    if item.type not in OUTBOUND_ITEM_TYPES:
        yield "item_type", f"item type {item.type}"
    if item.type == 1:
        text = item.text_item.text if item.text_item else ""
        if not text:
            yield "text_missing", "a text item without text"
        if len(text.encode()) > TEXT_BYTES_MAX:
            yield "text_bytes", f"{len(text.encode())} bytes of text, at most {TEXT_BYTES_MAX}"
    yield from _check_inbound_keys(raw)


def _check_inbound_keys(raw: Raw) -> Iterator[Broken]:
    found = INBOUND_ITEM_KEYS & raw.keys()
    for part in (raw[key] for key in ("image_item", "voice_item", "file_item", "video_item") if key in raw):
        if isinstance(part, dict):
            media = part.get("media")
            media = media if isinstance(media, dict) else {}
            found |= INBOUND_MEDIA_KEYS & (part.keys() | media.keys())
            if len(str(media.get("aes_key", ""))) != AES_KEY_CHARS:
                yield "aes_key", "media.aes_key is not the base64 of 32 hex digits"
    if found:
        yield "inbound_only_key", ", ".join(sorted(found))


def check_upload(call: Call) -> Iterator[Broken]:
    """Yield what is wrong with a getuploadurl body (iLink protocol notes 1.7)."""
    upload = call.body(UploadRequest)
    yield from check_user(call, upload.to_user_id)
    if not _is_hex(upload.filekey, 32):
        yield "filekey", "filekey is not 32 hex digits"
    if not _is_hex(upload.aeskey, 32):
        yield "aeskey", "aeskey is not 32 hex digits"
    if not _is_hex(upload.rawfilemd5, 32):
        yield "rawfilemd5", "rawfilemd5 is not 32 hex digits"
    if upload.media_type not in (1, 2, 3, 4):
        yield "media_type", f"media_type is {upload.media_type}"
    if upload.rawsize < 0 or upload.filesize != (upload.rawsize // 16 + 1) * 16:
        yield "filesize", f"filesize {upload.filesize} does not fit rawsize {upload.rawsize}"


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and all(c in "0123456789abcdefABCDEF" for c in text)
