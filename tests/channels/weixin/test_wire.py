from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.channels.weixin import wire
from actors.channels.weixin.wire import Done, QrCode, QrStatus, Ticket, Trouble, Updates
from actors.ports import Accepted, LoginGone, Refused, Unknown

AT = 1_790_000_000_000
ID = 7497484083968569999
LOST = Unknown(reason="server_error", settled_at=AT)


def refused(failure: Any, code: int, error: str = "") -> Refused:
    return Refused(failure=failure, code=code, error=error)


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        # accepted: an id proves it, whether or not `ret` is there (design 5.12)
        (200, {"ret": 0, "message_id": ID}, Accepted(message_id=str(ID))),
        (200, {"message_id": ID}, Accepted(message_id=str(ID))),
        (200, {"ret": 0, "message_id": str(ID)}, Accepted(message_id=str(ID))),
        (200, {"ret": "0", "message_id": 2**64 - 1}, Accepted(message_id=str(2**64 - 1))),
        (200, {"ret": None, "errcode": 0, "message_id": 1, "new": [1]}, Accepted(message_id="1")),
        (200, {"ret": [], "message_id": ID}, Accepted(message_id=str(ID))),
        (201, {"ret": 0, "message_id": 1}, Accepted(message_id="1")),
        # unconfirmed
        (200, {"ret": 0}, Accepted()),
        (200, {}, Accepted()),
        (200, {"ret": 0, "message_id": 0}, Accepted()),
        (200, {"ret": 0, "message_id": "0"}, Accepted()),
        (200, {"ret": 0, "message_id": ""}, Accepted()),
        (200, {"ret": 0, "message_id": None}, Accepted()),
        (200, {"ret": 0, "message_id": 7.5e18}, Accepted()),
        (200, {"ret": 0.0, "errcode": "", "errmsg": "ok"}, Accepted()),
        # refused
        (200, {"ret": -2, "errmsg": "prepare failed"}, refused("blocked", -2, "prepare failed")),
        (200, {"ret": -2}, refused("blocked", -2)),
        (200, {"errcode": -2}, refused("blocked", -2)),
        (200, {"ret": "-2", "errmsg": 7}, refused("blocked", -2)),
        (200, {"ret": -2, "message_id": ID}, refused("blocked", -2)),
        (200, {"ret": -1}, refused("bad_request", -1)),
        (200, {"ret": -3, "errmsg": "invalid argument"}, refused("bad_request", -3, "invalid argument")),
        (200, {"ret": -4}, refused("bad_request", -4)),
        (200, {"ret": -12}, refused("bad_request", -12)),
        (200, {"ret": 17}, refused("bad_request", 17)),
        (200, {"ret": 0, "errcode": -3}, refused("bad_request", -3)),
        # login lost, wherever it stands
        (200, {"errcode": -14, "errmsg": "session timeout"}, refused("login_lost", -14, "session timeout")),
        (200, {"ret": -14}, refused("login_lost", -14)),
        (200, {"ret": 0, "errcode": -14}, refused("login_lost", -14)),
        (200, {"ret": -2, "errcode": -14}, refused("login_lost", -14)),
        (200, {"ret": "-14"}, refused("login_lost", -14)),
        (200, {"errcode": -14, "message_id": ID}, refused("login_lost", -14)),
        (200, {"ret": 0, "errcode": -3, "message_id": ID}, Accepted(message_id=str(ID))),
        # HTTP before JSON
        (
            400,
            {"ret": 0, "message_id": ID},
            refused("http_refused", 400, f'HTTP 400: {{"ret": 0, "message_id": {ID}}}'),
        ),
        (401, b"", refused("http_refused", 401, "HTTP 401: empty body")),
        (403, b"<h1>no</h1>", refused("http_refused", 403, "HTTP 403: <h1>no</h1>")),
        (429, {"ret": -14}, refused("http_refused", 429, 'HTTP 429: {"ret": -14}')),
        # nobody can say
        (500, {"ret": 0, "message_id": ID}, LOST),
        (502, b"<html>bad gateway</html>", LOST),
        (524, b"", LOST),
        (302, b"", LOST),
        (200, b"", LOST),
        (200, b"<html></html>", LOST),
        (200, b"[]", LOST),
        (200, b"null", LOST),
        (200, b'{"ret":0', LOST),
        (200, {"ret": "fine"}, LOST),
        (200, {"ret": True}, LOST),
        (200, {"ret": 0, "errcode": {}}, LOST),
        (200, {"ret": 10**30}, LOST),
        (200, b"[" * 100_000, LOST),
    ],
)
def test_what_an_answer_to_a_send_proves(status: int, body: dict[str, Any] | bytes, outcome: Any) -> None:
    assert wire.classify_send(status, json.dumps(body).encode() if isinstance(body, dict) else body, AT) == outcome


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"ret":0,"msgs":[],"get_updates_buf":"Ck","longpolling_timeout_ms":35000}', ((), 0, "Ck", 35_000)),
        (b"{}", ((), 0, "", 35_000)),
        (b'{"ret":0,"msgs":null,"get_updates_buf":null,"longpolling_timeout_ms":"20000"}', ((), 0, "", 20_000)),
        (b'{"ret":0,"longpolling_timeout_ms":-1}', ((), 0, "", 35_000)),
        (b'{"ret":0,"longpolling_timeout_ms":99999999}', ((), 0, "", 300_000)),
        (
            b'{"ret":0,"msgs":[{"seq":1},7,null,[],{"seq":2}],"get_updates_buf":" c "}',
            (({"seq": 1}, {"seq": 2}), 3, "c", 35_000),
        ),
        (b'\xef\xbb\xbf{"get_updates_buf":"c"}', ((), 0, "c", 35_000)),
        (b'{"ret\\ud800":1,"msgs":[{"a\\udc00":1}]}', (({"a\ufffd": 1},), 0, "", 35_000)),
        (b'{"msgs":[{"a":"\\ud83d"},{"b":"\xff"}]}', (({"a": "\ud83d"}, {"b": "�"}), 0, "", 35_000)),
    ],
)
def test_what_a_poll_brings(body: bytes, expected: tuple[Any, ...]) -> None:
    messages, others, cursor, hold_ms = expected
    assert wire.parse_updates(200, body) == Updates(
        messages=messages, not_messages=others, cursor=cursor, hold_ms=hold_ms
    )


@pytest.mark.parametrize("parse", [wire.parse_updates, wire.parse_config, lambda s, b: wire.parse_done(s, b, "config")])
@pytest.mark.parametrize("reply", [{"ret": -14}, {"errcode": -14}, {"ret": 0, "errcode": -14}, {"ret": "-14"}])
def test_a_lost_login_wherever_it_stands(parse: Any, reply: dict[str, Any]) -> None:
    gone = parse(200, json.dumps(reply).encode())
    assert isinstance(gone, LoginGone)
    assert gone.code == -14


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(500, b"{}", "http"), (403, b'{"ret":-14}', "http"), (200, b"<p>", "unreadable"), (200, b'{"ret":-1}', "refused"),
     (200, b'{"ret":"?"}', "unreadable"), (200, b'{"msgs":"x"}', "unreadable")],
)  # fmt: skip
def test_trouble_of_a_poll(status: int, body: bytes, kind: str) -> None:
    trouble = wire.parse_updates(status, body)
    assert isinstance(trouble, Trouble)
    assert (trouble.kind, trouble.detail != "") == (kind, True)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"ret":0,"typing_ticket":"t1"}', Ticket(ticket="t1")),
        (b'{"ret":0}', Trouble(kind="unreadable", detail="no typing ticket")),
        (
            b'{"ret":-4,"errmsg":"GetTypingTicket rpc failed","typing_ticket":"t"}',
            Trouble(kind="refused", code=-4, detail="refused with -4: GetTypingTicket rpc failed"),
        ),
        (b"", Trouble(kind="unreadable", status=200, detail="empty body")),
    ],
)
def test_typing_tickets(body: bytes, told: Any) -> None:
    assert wire.parse_config(200, body) == told


def test_a_yes_may_be_empty() -> None:
    assert wire.parse_done(200, b"", "poll") == wire.parse_done(200, b"{}", "poll") == Done()


def test_qr_codes() -> None:
    good = b'{"qrcode":"ab","qrcode_img_content":"https://liteapp.weixin.qq.com/q/1?qrcode=ab&bot_type=3"}'
    assert wire.parse_qr_code(200, good) == QrCode(
        key="ab", url="https://liteapp.weixin.qq.com/q/1?qrcode=ab&bot_type=3"
    )
    assert wire.parse_qr_code(200, b'{"errcode":-3}') == Trouble(kind="refused", code=-3, detail="refused with -3: ")
    for bad in (b"", b"{}", b'{"qrcode":"ab"}', b'{"qrcode":7,"qrcode_img_content":"x"}'):
        assert isinstance(wire.parse_qr_code(200, bad), Trouble)
    assert wire.parse_qr_status(200, b'{"status":"wait","bot_token":7}') == QrStatus(status="wait")
    for bad in (b"", b"{}", b"[]", b'{"status":1}'):
        assert isinstance(wire.parse_qr_status(200, bad), Trouble)


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abc",
        "a1b2c3d4e5f6@im.bot:0600aabb",
        "o9cq80AbC@im.wechat",
        "context_token=AARzJWexampleAARzJWexample==",
        "\n bearer \n a1b2@im.bot:06 ",
    ],
)
def test_tokens_are_redacted(text: str) -> None:
    shown = wire.redact(f"no: {text} (x)")
    assert shown.startswith("no: ")
    for secret in ("abc", "0600", "im.wechat", "AARz", "06"):
        assert secret not in shown


def test_errors_are_bounded_and_one_line() -> None:
    assert wire.redact("prepare\nfailed\x1b[31m\u202e") == "prepare failed?[31m?"
    assert len(wire.redact("no " * 5_000)) == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["-14", "0", -14, -2, 0, ID]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["ret", "errcode", "errmsg", "message_id", "msgs", "get_updates_buf", "longpolling_timeout_ms", "typing_ticket",
     "qrcode", "qrcode_img_content", "status", "bot_token", "baseurl"]
)  # fmt: skip
BODIES = st.binary() | st.builds(lambda v: json.dumps(v).encode(), st.dictionaries(FIELDS, JSON) | JSON)


@given(st.integers(100, 599), BODIES)
def test_nothing_a_server_sends_raises(status: int, body: bytes) -> None:
    outcome = wire.classify_send(status, body, AT)
    assert isinstance(outcome, Accepted | Refused | Unknown)
    if isinstance(outcome, Accepted):
        assert 200 <= status < 300
    if isinstance(outcome, Refused):
        assert outcome.code != 0
        assert len(outcome.error) <= 200
    for told in (
        wire.parse_updates(status, body),
        wire.parse_config(status, body),
        wire.parse_done(status, body, "config"),
        wire.parse_qr_code(status, body),
        wire.parse_qr_status(status, body),
    ):
        assert isinstance(told, Updates | LoginGone | Trouble | Ticket | Done | QrCode | QrStatus)
        assert not isinstance(told, Trouble) or len(told.detail) <= 220


def test_ids_keep_all_their_digits() -> None:
    body = json.dumps({"msgs": [{"message_id": 2**64 - 1}]}).encode()
    updates = wire.parse_updates(200, body)
    assert isinstance(updates, Updates)
    assert wire.as_id(updates.messages[0]["message_id"]) == "18446744073709551615"


def test_uin_is_base64_of_decimal_text() -> None:
    from actors.channels.weixin import shapes

    headers = shapes.post_headers("t", 4_294_967_295)
    assert base64.b64decode(headers["X-WECHAT-UIN"]) == b"4294967295"
