"""What an answer of the iLink bot API means. Pure.

Facts cite the iLink protocol notes. Whatever a server sends, the parsers return one of their documented values and raise nothing:
fields that they do not know are passed over, fields of a wrong type count as absent, an answer that nobody can read is `Trouble`.
"""

from __future__ import annotations

import json
import re
from typing import Literal

import msgspec

from actors.channels.weixin.shapes import (
    ConfigReply,
    QrReply,
    QrStatusReply,
    Reply,
    SendReply,
    UpdatesReply,
)
from actors.ports import Accepted, LoginGone, Outcome, Refused, Unknown
from actors.text.clean import clean
from events.base import Millis

LOGIN_GONE = -14
"""In `ret` or `errcode` of getupdates, sendmessage, getconfig: the login is lost. Notes 2.1."""

BLOCKED = -2
"""Refused with the token it had: window closed, quota spent, throttled, or too long. Notes 2.1."""

TEXT_BYTES_MAX = 16_384
"""A longer text is refused with -2, which would read as `blocked`; so it is never sent. Notes 2.3."""

ERROR_CHARS_MAX = 200
HOLD_MS = 35_000
"""How long the server holds a poll when it does not say. Notes 1.4."""

HOLD_MS_MAX = 300_000

_UNREADABLE = (ValueError, RecursionError)  # msgspec's and json's errors are ValueErrors
_SECRETS = (
    re.compile(r"(?i)bearer\s+\S+"),
    re.compile(r"\S*@im\.(?:bot|wechat)\S*"),
    re.compile(r"[A-Za-z0-9+/=_-]{24,}"),
)


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A call that brought no usable answer. `detail` is redacted and bounded."""

    kind: Literal["connection", "timeout", "http", "unreadable", "refused"]
    detail: str
    status: int = 0  # HTTP
    code: int = 0  # ret or errcode


class Updates(msgspec.Struct, frozen=True, kw_only=True):
    """A readable answer to a poll. `cursor` is "" if the server gave none: keep the old one. Notes 1.4."""

    messages: tuple[dict[str, object], ...]
    not_messages: int  # entries that are no objects
    cursor: str
    hold_ms: int  # how long the server says it holds the next poll
    dated: Millis | None = None  # what time it was at the server (ms, its clock), None if nobody can tell


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The handle that sendtyping wants."""

    ticket: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The server said yes."""


class QrCode(msgspec.Struct, frozen=True, kw_only=True):
    """A new QR code: `url` is what to show, `key` what to poll with. Notes 1.3."""

    key: str
    url: str


class QrStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a QR code; absent fields are ""."""

    status: str
    token: str = ""
    bot_id: str = ""
    user_id: str = ""
    base_url: str = ""
    redirect_host: str = ""


def as_int(value: object) -> int | None:
    """A code or a number of ms, which servers write as 0, "0" or 0.0; None if it is nothing of the kind."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and abs(value) < 1 << 63 else None


def as_id(value: object) -> str:
    """An id as text. Ids are uint64 as number or string; 0, and a number that lost its digits to a float, identify nothing."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if 0 < value < 1 << 64 else ""
    text = as_text(value, 128)
    return "" if text.strip("0") == "" else text


def as_text(value: object, chars_max: int) -> str:
    """A token, an id or an address: printable text without spaces around, or ""."""
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= chars_max and text.isprintable() else ""


def redact(text: str) -> str:
    """An error text fit for an operator: one line, bounded, without tokens, ids of people, or anything as long as a token."""
    text = " ".join(text[:4096].split())
    for secret in _SECRETS:
        text = secret.sub("[...]", text)
    return "".join(c if c.isprintable() else "?" for c in text)[:ERROR_CHARS_MAX]


def loads(body: bytes) -> dict[str, object] | None:
    """The object that a body holds, None if it holds none. Half characters are replaced, so that one does not lose a batch."""
    try:
        value = msgspec.json.decode(body)
    except _UNREADABLE:
        value = _loads_leniently(body)
    return value if isinstance(value, dict) else None


def _loads_leniently(body: bytes) -> object:
    try:
        return json.loads(body.decode("utf-8-sig", "replace"), object_pairs_hook=_object)
    except _UNREADABLE:
        return None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Half a character in the name of a field is fatal to whoever looks for fields; those in values are cleaned where they are used."""
    return {clean(name): value for name, value in pairs}


def _trouble(status: int, body: bytes) -> Trouble | None:
    """What the HTTP status says, before anybody looks at the body. Notes 7c.9."""
    if 200 <= status < 300:
        return None
    hint = "another client polls with this login; " if status == 403 else ""
    return Trouble(kind="http", status=status, detail=f"HTTP {status}: {hint}{_shown(body)}"[:ERROR_CHARS_MAX])


def _shown(body: bytes) -> str:
    return redact(body[:4096].decode("utf-8", "replace")) if body else "empty body"


def _present(value: object) -> bool:
    return value is not None and value != ""


def code_of(reply: Reply) -> int | None:
    """The code of an answer: -14 wherever it stands, else the first of `ret`, `errcode` that is not 0; None if unreadable."""
    codes = [as_int(v) for v in (reply.ret, reply.errcode) if _present(v)]
    if LOGIN_GONE in codes:
        return LOGIN_GONE
    told = [c for c in codes if c]
    if told:
        return told[0]
    return None if None in codes else 0


def _checked(reply: Reply, where: str, body: bytes) -> LoginGone | Trouble | None:
    """None if the answer says yes."""
    code = code_of(reply)
    if code == 0:
        return None
    if code == LOGIN_GONE:
        return LoginGone(code=code, where=where)
    if code is None:
        return Trouble(kind="unreadable", detail=_shown(body))
    return Trouble(
        kind="refused", code=code, detail=f"refused with {code}: {redact(_message(reply))}"[:ERROR_CHARS_MAX]
    )


def _message(reply: Reply) -> str:
    return reply.errmsg if isinstance(reply.errmsg, str) else ""


def parse_updates(status: int, body: bytes) -> Updates | LoginGone | Trouble:
    """What a poll brought. Only `Updates` may move the cursor."""
    if trouble := _trouble(status, body):
        return trouble
    fields = loads(body)
    if fields is None:
        return Trouble(kind="unreadable", status=status, detail=_shown(body))
    reply = msgspec.convert(fields, UpdatesReply)
    return _checked(reply, "poll", body) or _updates(reply, body)


def _updates(reply: UpdatesReply, body: bytes) -> Updates | Trouble:
    entries = [] if reply.msgs is None else reply.msgs
    if not isinstance(entries, list):  # whatever it is, a cursor behind it would lose it
        return Trouble(kind="unreadable", detail=_shown(body))
    messages = tuple(e for e in entries if isinstance(e, dict))
    hold_ms = as_int(reply.longpolling_timeout_ms) or 0
    return Updates(
        messages=messages,
        not_messages=len(entries) - len(messages),
        cursor=as_text(reply.get_updates_buf, 1 << 20),
        hold_ms=min(hold_ms, HOLD_MS_MAX) if hold_ms > 0 else HOLD_MS,
    )


def classify_send(status: int, body: bytes, at: Millis) -> Outcome:
    """What an answer to sendmessage, read at `at` (ms), proves. Notes 2.5.

    A message id proves acceptance; `ret` 0, or none, without an id is accepted but unconfirmed. A code is a refusal and free.
    Whatever else an intermediary may have said (5xx, a page, an empty body, a redirect) leaves it unknown: the request was sent.
    """
    if 400 <= status < 500:
        return Refused(failure="http_refused", code=status, error=f"HTTP {status}: {_shown(body)}"[:ERROR_CHARS_MAX])
    fields = loads(body) if 200 <= status < 300 else None
    if fields is None:
        return Unknown(reason="server_error", settled_at=at)
    reply = msgspec.convert(fields, SendReply)
    code, message_id = code_of(reply), as_id(reply.message_id)
    if message_id and not as_int(reply.ret) and code != LOGIN_GONE:
        return Accepted(message_id=message_id)
    if code is None:
        return Unknown(reason="server_error", settled_at=at)
    return _refused(code, reply) if code else Accepted()


def _refused(code: int, reply: SendReply) -> Refused:
    error = redact(_message(reply))
    match code:
        case -14:
            return Refused(failure="login_lost", code=code, error=error)
        case -2:
            return Refused(failure="blocked", code=code, error=error)
        case _:
            return Refused(failure="bad_request", code=code, error=error)


def parse_config(status: int, body: bytes) -> Ticket | LoginGone | Trouble:
    """The typing ticket."""
    if trouble := _trouble(status, body):
        return trouble
    fields = loads(body)
    if fields is None:
        return Trouble(kind="unreadable", status=status, detail=_shown(body))
    reply = msgspec.convert(fields, ConfigReply)
    ticket = as_text(reply.typing_ticket, 16_384)
    return _checked(reply, "config", body) or (
        Ticket(ticket=ticket) if ticket else Trouble(kind="unreadable", detail="no typing ticket")
    )


def parse_done(status: int, body: bytes, where: str) -> Done | LoginGone | Trouble:
    """Whether the server said yes; an empty body is a yes."""
    if trouble := _trouble(status, body):
        return trouble
    fields = loads(body or b"{}")
    if fields is None:
        return Trouble(kind="unreadable", status=status, detail=_shown(body))
    return _checked(msgspec.convert(fields, Reply), where, body) or Done()


def parse_qr_code(status: int, body: bytes) -> QrCode | Trouble:
    """A new QR code. A refusal of the listed tokens has code -3. Notes 1.3."""
    if trouble := _trouble(status, body):
        return trouble
    reply = msgspec.convert(loads(body) or {}, QrReply)
    if code := code_of(reply):
        return Trouble(kind="refused", code=code, detail=f"refused with {code}: {redact(_message(reply))}")
    key, url = as_text(reply.qrcode, 512), as_text(reply.qrcode_img_content, 2048)
    return QrCode(key=key, url=url) if key and url else Trouble(kind="unreadable", detail=_shown(body))


def parse_qr_status(status: int, body: bytes) -> QrStatus | Trouble:
    """What became of a QR code."""
    if trouble := _trouble(status, body):
        return trouble
    reply = msgspec.convert(loads(body) or {}, QrStatusReply)
    word = as_text(reply.status, 64)
    if not word:
        return Trouble(kind="unreadable", detail=_shown(body))
    return QrStatus(
        status=word,
        token=as_text(reply.bot_token, 4096),
        bot_id=as_text(reply.ilink_bot_id, 256),
        user_id=as_text(reply.ilink_user_id, 256),
        base_url=as_text(reply.baseurl, 512),
        redirect_host=as_text(reply.redirect_host, 256),
    )
