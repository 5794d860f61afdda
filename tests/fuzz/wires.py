# ruff: noqa: PT017 (a refusal that is allowed is looked at)
"""Targets: what the network brings. Each takes bytes, and fails on anything that its parser does not document."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import msgspec
from websockets.datastructures import Headers
from websockets.http11 import Request
from yarl import URL

from actors.channels.ahead import dated_ms
from actors.channels.errors import BadBaseUrl
from actors.channels.weixin import address, inbound, login, wire
from actors.gateway import routes, views
from actors.gateway.agent_wire import AgentFrame, Ending, Error, Goodbye, Hello, encode, read_frame, token_in
from actors.gateway.agents import _tokens
from actors.gateway.callers import is_token
from actors.gateway.errors import GatewayError
from actors.gateway.http import _query_of
from actors.ports import Accepted, LoginGone, Refused, Unknown
from actors.text.clean import clean
from actors.text.names import fault_of
from scripts.asking.client import Client
from scripts.exits import Stop
from store.records import TEXT_BYTES_MAX

STATUSES = (200, 204, 302, 400, 403, 502)
HOME = "https://own.example"


def plain(value: object) -> None:
    """All of a struct can be written down, and reads the same again."""
    written = msgspec.json.encode(value)
    assert msgspec.json.decode(written, type=type(value)) == value, value


# --- the Weixin server ------------------------------------------------------------------------------------------------


def updates(data: bytes) -> None:
    """A poll's answer: whatever it is, it is an answer, a lost login or trouble; and every message in it can be kept."""
    for status in STATUSES:
        found = wire.parse_updates(status, data)
        assert isinstance(found, wire.Updates | LoginGone | wire.Trouble)
        if not isinstance(found, wire.Updates):
            plain(found)
            continue
        assert 0 < found.hold_ms <= wire.HOLD_MS_MAX
        found.cursor.encode()
        read = inbound.read(found)
        assert len(read.messages) + read.echoes + read.malformed == len(found.messages) + found.not_messages
        for message in read.messages:
            plain(message)
            assert message.peer
            assert clean(message.text) == message.text
            assert len(message.text) <= inbound.TEXT_CHARS_MAX + 10
            assert sum(map(len, message.media)) <= inbound.ITEMS_MAX * inbound.MEDIUM_BYTES_MAX


def send(data: bytes) -> None:
    """The answer to a send is one of four outcomes; an id that nobody refused is accepted."""
    for status in STATUSES:
        found = wire.classify_send(status, data, 5)
        assert isinstance(found, Accepted | Refused | Unknown)
        plain(found)
        if status >= 500 or 300 <= status < 400:
            assert isinstance(found, Unknown)
        if isinstance(found, Refused):
            assert len(found.error) <= wire.ERROR_CHARS_MAX
            assert found.code != 0


def replies(data: bytes) -> None:
    """The answers of the smaller endpoints."""
    for status in STATUSES:
        for found in (wire.parse_config(status, data), wire.parse_done(status, data, "typing")):
            plain(found)
    text = data.decode("utf-8", "replace")
    assert len(wire.redact(text)) <= wire.ERROR_CHARS_MAX
    assert wire.redact(text).isprintable()
    at = dated_ms(data.decode("latin-1"))
    assert at is None or isinstance(at, int)


def qr(data: bytes) -> None:
    """The answers of a login, one for each line: it goes on or ends, and never at a host that is not allowed."""
    steps = login.begin(HOME, ("known",))
    for line in data.split(b"\n")[:20]:
        match steps.step:
            case login.Create():
                steps = login.created(steps, wire.parse_qr_code(200, line))
            case login.Poll(base_url=base_url):
                assert_allowed(base_url)
                steps = login.polled(steps, wire.parse_qr_status(200, line))
            case login.AskCode():
                steps = login.coded(steps, line.decode("utf-8", "replace"))
            case login.Finish(result=result):
                if not isinstance(result, login.AlreadyConnected):
                    plain(result)
                    assert_allowed(result.base_url)
                return
            case login.Fail(reason=reason):
                assert reason.isprintable()
                return


def hosts(data: bytes) -> None:
    """Whatever host is allowed, the HTTP client reads as that host."""
    text = data.decode("utf-8", "replace")
    for named in (text, f"https://{text}", f"https://{text}.weixin.qq.com", f"https://own.example{text}"):
        try:
            assert_allowed(address.allowed_base_url(named, HOME))
        except BadBaseUrl:
            continue
    for home in (HOME, "http://127.0.0.1:9"):
        try:
            found = URL(address.redirected(text, home))
        except BadBaseUrl:
            continue
        local = found.host in ("127.0.0.1", "localhost", "::1") or str(found.host).startswith("127.")
        assert local if home != HOME and found.scheme == "http" else allowed(str(found)), text


def allowed(base_url: str) -> bool:
    found = URL(base_url + "/ilink/bot/x")
    host = found.host == "own.example" or str(found.host).endswith(".weixin.qq.com")
    return host and (found.scheme, found.port, found.user) == ("https", 443, None) and found.raw_path == found.path


def assert_allowed(base_url: str) -> None:
    assert allowed(base_url), base_url


# --- those who call the listeners -------------------------------------------------------------------------------------


def agent_frame(data: bytes) -> None:
    """A frame is read, or answered with an error that can be sent; what was read is written and read the same."""
    text = data.decode("utf-8", "replace")
    token_in(text)
    found = read_frame(text)
    if isinstance(found, Error):
        assert len(encode(found).encode()) < 8_000
        assert found.message
        return
    if not isinstance(found, Hello | Goodbye):
        assert not fault_of(found.turn_id)
    if isinstance(found, Ending):
        assert clean(found.text) == found.text
        assert len(found.text.encode()) <= TEXT_BYTES_MAX
    again = read_frame(msgspec.json.encode(found).decode())
    assert again == found, (found, again)
    assert isinstance(found, AgentFrame)


def agent_request(data: bytes) -> None:
    """`PATH`, a line break, an Authorization header: a request of a WebSocket has tokens that can be compared, or none."""
    path, _, header = data.decode("ascii", "surrogateescape").partition("\n")
    headers = Headers()
    for line in filter(str.isprintable, header.split("\n")[:5]):  # the library refuses the rest
        headers["Authorization"] = line
    for token in _tokens(Request(path, headers)):
        assert not is_token(token, "the right one") or "the right one" in unquote(path) + header


class Deaf:
    """A gateway that takes every order, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getattr__(self, _name: str) -> Any:
        async def take(*given: object) -> Any:
            self.asked += given
            return SimpleNamespace(state="delivered")

        return take


def http_request(data: bytes) -> None:
    """`METHOD TARGET`, a line break, a body: each request reaches the gateway as a sound order, or is refused."""
    first, _, body = data.partition(b"\n")
    method, _, target = first.decode("utf-8", "replace").partition(" ")
    gateway = Deaf()
    try:
        path, _, asked = target.partition("?")
        url = URL.build(path="/" + path.lstrip("/"), query_string=asked, encoded=True)
    except ValueError:
        return  # the HTTP library refuses it before anybody of ours sees it
    try:
        query = _query_of(SimpleNamespace(query=url.query))  # type: ignore[arg-type] # all that it looks at
        route, tail = routes.find(method, url.raw_path)
        body = body[: route.body_bytes_max]
        call = routes.Call(tail=routes.tail_of(tail), query=query, body=body, gone=lambda: True)
        finish(route.handler(gateway, call))  # type: ignore[arg-type] # it has every method
    except GatewayError as refusal:
        json.dumps([refusal.message, refusal.path, *refusal.near], ensure_ascii=False).encode()
        assert 400 <= refusal.status < 500
        return
    for order in gateway.asked:
        if isinstance(order, msgspec.Struct):
            plain(order)
        elif isinstance(order, str):
            assert not fault_of(order)


class Stranger(Client):
    """Something that answers in the gateway's place."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__("127.0.0.1", 1, None)
        self._said = status, body

    def _exchange(self, method: str, path: str, body: bytes | None, timeout_ms: int) -> tuple[int, bytes]:
        return self._said


ANSWERS = (
    views.TurnAccepted,
    views.Receipt,
    views.PeerView,
    views.AccountView,
    views.LedgerPage,
    views.ReadyView,
    views.HealthView,
)


def client_answer(data: bytes) -> None:
    """`STATUS`, a line break, a body, to the command line: an answer, or an end with a code and words that a terminal can show."""
    first, _, body = data.partition(b"\n")
    status = int(first) if first.isdigit() and len(first) < 4 else 200
    for kind in ANSWERS:
        try:
            plain(Stranger(status, body).get(kind, "/v1/x"))
        except Stop as end:
            json.dumps(str(end), ensure_ascii=False).encode()


def finish(coroutine: Coroutine[Any, Any, object]) -> object:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits for something")
