from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from actors.gateway.connections import Limits
from actors.gateway.errors import Busy, InsecureListener, NeverFits
from actors.gateway.http import HttpListener
from actors.gateway.listen import Listen
from store.records import TEXT_BYTES_MAX
from tests.gateway.conftest import Serve, Served
from tests.gateway.fake import NOW, FakeGateway

ALICE = "weixin:main:alice@im.wechat"
TURN = {"to": ALICE, "turn_id": "t1", "text": "hello"}


async def test_a_turn_is_accepted_with_one_delivery_for_each_peer(served: Served) -> None:
    status, body = await served.post("/v1/turns", TURN)
    assert status == 202
    assert body["turn_id"] == "t1"
    assert body["now"] == NOW
    (delivery,) = body["deliveries"]
    assert delivery == {
        "delivery": "d-0001-t1-a",
        "turn_id": "t1",
        "peer": ALICE,
        "state": "queued",
        "reason": "waits for the peer's next message: its reply token is spent",
        "earliest": None,
        "quota": {"left": 7, "of": 10, "ends_at": NOW + 3_600_000, "carried": 0},
        "share": {"used": 1, "of": 3, "rolls_at": NOW + 60_000},
        "not_taken": "",
    }


async def test_another_text_under_a_turn_id_is_a_conflict(served: Served) -> None:
    await served.post("/v1/turns", TURN)
    assert (await served.post("/v1/turns", TURN))[0] == 202
    status, body = await served.post("/v1/turns", {**TURN, "text": "other"})
    assert (status, body["error"]["code"]) == (409, "turn_conflict")


async def test_unknown_peer_comes_with_near_ones(served: Served) -> None:
    status, body = await served.post("/v1/turns", {**TURN, "to": "weixin:main:alicf@im.wechat"})
    assert (status, body["error"]["code"]) == (404, "unknown_peer")
    assert body["error"]["near"][0] == ALICE


REFUSED: list[tuple[Any, str, str]] = [
    (b"", "$", "not JSON"),
    (b"{", "$", "not JSON"),
    (b'{"to":"\xff\xfe"}', "$", "UTF-8"),
    (b"[" * 5000, "$", "not JSON"),
    (b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", "$", "nests"),
    (b'{"to": NaN, "text": "\\u0041"}', "$", "not JSON"),
    ([], "$", "object"),
    ({"to": ALICE, "session": "s1"}, "$", "exactly one"),
    ({"text": "x"}, "$", "exactly one"),
    ({"to": ALICE, "txt": "x"}, "$.txt", "did you mean 'text'"),
    ({"to": ALICE, "text": 3}, "$.text", "Expected `str`"),
    ({"to": ALICE, "origin": "cron"}, "$.origin", "one of inbound, scheduled, desktop, api"),
    ({"to": "a" * 600}, "$.to", "length <= 512"),
]


@pytest.mark.parametrize(("body", "path", "says"), REFUSED)
async def test_a_wrong_body_is_refused_with_its_place(served: Served, body: Any, path: str, says: str) -> None:
    status, answer = await served.post("/v1/turns", body)
    assert status == 400
    assert answer["error"]["path"] == path
    assert says in answer["error"]["message"]
    assert served.gateway.turns == {}


async def test_texts_are_cleaned_never_a_crash(served: Served) -> None:
    body = b'{"to":"weixin:main","turn_id":"t1","text":"a\\ud800b\\u0000c\\r\\nd [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}'
    assert (await served.post("/v1/turns", body))[0] == 202
    assert served.gateway.turns["t1"].text.startswith("a�bc\nd")


async def test_a_pair_of_surrogates_is_its_character(served: Served) -> None:
    await served.post("/v1/turns", b'{"to":"weixin:main","turn_id":"t1","text":"\\ud83d\\ude00\\udead"}')
    assert served.gateway.turns["t1"].text == "😀�"


async def test_a_text_may_be_large_and_not_larger(served: Served) -> None:
    most = {**TURN, "text": "界" * (TEXT_BYTES_MAX // 3)}
    assert (await served.post("/v1/turns", most))[0] == 202  # twice its bytes when escaped
    status, body = await served.post("/v1/turns", {**TURN, "turn_id": "t2", "text": "x" * (TEXT_BYTES_MAX + 1)})
    assert (status, body["error"]["code"], body["error"]["path"]) == (413, "too_large", "$.text")


async def test_a_body_beyond_its_limit_is_refused_before_it_is_read(served: Served) -> None:
    status, body = await served.post("/v1/bind", b"x" * 70_000)
    assert (status, body["error"]["code"]) == (413, "too_large")


async def test_a_chunked_body_beyond_its_limit_is_refused(served: Served) -> None:
    async def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 10_000

    headers = {**served.headers, "Content-Type": "application/json"}
    async with served.session.post(f"{served.url}/v1/bind", data=chunks(), headers=headers) as answer:
        assert answer.status == 413


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", "Basic correct-horse", "Bearer correct-horse-", "Bearer \xff"]
)
async def test_the_token_is_asked_for(served: Served, header: str) -> None:
    served.headers = {"Authorization": header} if header else {}
    for path in ("/v1/status", "/metrics", "/v1/nowhere"):
        status, body = await served.get(path)
        assert (status, body["error"]["code"]) == (401, "unauthorized")
    assert (await served.post("/v1/turns", TURN))[0] == 401
    assert served.gateway.turns == {}


async def test_health_and_readiness_are_open_on_loopback(served: Served) -> None:
    served.headers = {}
    assert await served.get("/health") == (200, {"ok": True, "version": "0.1.0", "instance": "i-1"})
    assert await served.get("/ready") == (200, {"ready": True, "reasons": []})
    served.gateway.is_ready = served.gateway.is_well = False
    assert (await served.get("/health"))[0] == 503
    assert await served.get("/ready") == (503, {"ready": False, "reasons": ["weixin:main needs a login"]})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_without_a_token_only_loopback(host: str) -> None:
    with pytest.raises(InsecureListener, match="needs a token"):
        HttpListener(FakeGateway(), Listen(host, 0), token=None, registry=CollectorRegistry())
    HttpListener(FakeGateway(), Listen(host, 0), token="t", registry=CollectorRegistry())


async def test_without_a_token_no_web_page_gets_through(serve: Serve) -> None:
    served = await serve(token=None)
    assert (await served.get("/v1/status"))[0] == 200
    assert (await served.get("/v1/status", Origin="https://evil.example"))[0] == 401
    assert (await served.get("/v1/status", Host="evil.example:8081"))[0] == 401  # DNS rebinding
    assert (await served.get("/v1/status", Host="[::1]:8081"))[0] == 200
    plain = {"Content-Type": "text/plain"}  # what a page may send without asking first
    assert (await served.post("/v1/turns", json.dumps(TURN).encode(), **plain))[0] == 400


async def test_busy_gateway_is_503_and_nothing_else(served: Served) -> None:
    served.gateway.failure = Busy()
    status, body = await served.post("/v1/turns", TURN)
    assert (status, body["error"]["code"]) == (503, "busy")
    served.gateway.failure = NeverFits()
    assert (await served.post("/v1/turns", TURN))[0] == 400


async def test_a_defect_is_500_and_visible_but_tells_no_stranger(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.gateway.failure = ZeroDivisionError("internal detail")
    status, body = await served.post("/v1/turns", TURN)
    assert (status, body["error"]["code"]) == (500, "broken")
    assert "internal detail" not in json.dumps(body)
    assert "/v1/turns failed" in caplog.text
    assert "hello" not in caplog.text


async def test_paths_and_methods(served: Served) -> None:
    status, body = await served.get("/v1/peer")
    assert (status, body["error"]["near"][0]) == (404, "/v1/peers")
    assert (await served.post("/v1/status", {}))[0] == 405
    assert (await served.get("/v1/bind"))[0] == 405
    assert (await served.post("/health", {}))[0] == 405
    assert (await served.get("/v1/backlog/drop"))[1]["error"]["code"] == "unknown_delivery"
    assert (await served.get("/v1/peers/"))[0] == 404


async def test_an_address_in_a_path_is_unescaped(served: Served) -> None:
    assert (await served.get("/v1/peers/weixin%3Amain%3Aalice%40im.wechat"))[1]["peer"] == ALICE
    assert (await served.get(f"/v1/peers/{ALICE}"))[1]["peer"] == ALICE
    assert (await served.get("/v1/peers/a%2Fb"))[0] == 404


@pytest.mark.parametrize("tail", ["d-0001%00", "%00d-0001", "d-0001%0A", "%ff", "%ED%A0%80", "%E2%80%8B", "d" * 513])
async def test_what_is_no_name_in_a_path_is_refused_and_never_another_one(served: Served, tail: str) -> None:
    await served.post("/v1/turns", TURN)
    status, body = await served.get(f"/v1/deliveries/{tail}")
    assert (status, body["error"]["code"], body["error"]["path"]) == (400, "bad_request", "*")


async def test_what_is_no_name_in_a_query_is_refused(served: Served) -> None:
    for query, path in (("peer=%00", "$.peer"), ("peer=a%0D", "$.peer"), ("account=" + "a" * 513, "$.account")):
        status, body = await served.get(f"/v1/{'peers' if 'account' in query else 'dead'}?{query}")
        assert (status, body["error"]["path"]) == (400, path)
    assert (await served.get("/v1/dead?p%00eer=x"))[0] == 400


async def test_a_field_twice_is_refused(served: Served) -> None:
    body = b'{"to":"weixin:main","turn_id":"t1","text":"one","text":"two"}'
    status, answer = await served.post("/v1/turns", body)
    assert (status, answer["error"]["path"], served.gateway.turns) == (400, "$.text", {})


async def test_queries_are_strict(served: Served) -> None:
    status, body = await served.get("/v1/ledger?kind=push&limit=5&free=true&since=1&peer=weixin:main")
    assert status == 200
    assert body == {"rows": [], "next": None}
    query: Any = served.gateway.orders[-1]
    assert (query.kind, query.limit, query.free, query.since, query.peer) == ("push", 5, True, 1, "weixin:main")
    for wrong, path in (("limit=0", "$.limit"), ("limit=x", "$.limit"), ("kin=push", "$.kin"), ("kind=a", "$.kind")):
        status, body = await served.get(f"/v1/ledger?{wrong}")
        assert (status, body["error"]["path"]) == (400, path)
    assert (await served.get("/v1/ledger?limit=1&limit=2"))[0] == 400
    assert (await served.get("/v1/status?x=1"))[0] == 400


@pytest.mark.parametrize("wait", ["-1", "nan", "inf", "x", "", "601"])
async def test_a_wait_has_bounds(served: Served, wait: str) -> None:
    await served.post("/v1/turns", TURN)
    assert (await served.get(f"/v1/deliveries/d-0001?wait={wait}"))[0] == 400


async def test_waiting_for_a_delivery(served: Served) -> None:
    await served.post("/v1/turns", TURN)
    waiting = asyncio.ensure_future(served.get("/v1/deliveries/d-0001?wait=30"))
    while not served.gateway.waits:
        await asyncio.sleep(0)
    await served.gateway.settle("d-0001-t1-a", "delivered")
    status, body = await waiting
    assert (status, body["state"]) == (200, "delivered")
    assert (await served.get("/v1/deliveries/d-0001"))[1]["state"] == "delivered"


async def test_ids_by_unique_prefix(served: Served) -> None:
    for number in "12":
        await served.post("/v1/turns", {**TURN, "turn_id": number})
    assert (await served.get("/v1/deliveries/d-0"))[1]["error"]["code"] == "ambiguous_id"
    assert (await served.get("/v1/deliveries/d-0002"))[0] == 200
    assert (await served.get("/v1/deliveries/zzz"))[0] == 404


async def test_too_many_waits_are_refused_and_others_are_not(serve: Serve) -> None:
    served = await serve(limits=Limits(waits=1))
    await served.post("/v1/turns", TURN)
    waiting = asyncio.ensure_future(served.get("/v1/deliveries/d-0001?wait=30"))
    while not served.gateway.waits:
        await asyncio.sleep(0)
    status, body = await served.get("/v1/deliveries/d-0001?wait=1")
    assert (status, body["error"]["code"]) == (429, "too_many")
    assert (await served.get("/v1/status"))[0] == 200
    await served.gateway.settle("d-0001-t1-a", "dropped")
    assert (await waiting)[1]["state"] == "dropped"


async def test_too_many_requests_at_once(serve: Serve) -> None:
    served = await serve(limits=Limits(requests=1))
    served.gateway.hold.clear()
    first = asyncio.ensure_future(served.post("/v1/turns", TURN))
    while served.listener._requests < 1:
        await asyncio.sleep(0)
    assert (await served.get("/v1/status"))[0] == 429
    assert (await served.get("/health"))[0] == 200
    served.gateway.hold.set()
    assert (await first)[0] == 202


async def _raw(served: Served, data: bytes) -> bytes:
    """Send bytes, read to the end of the connection."""
    reader, writer = await asyncio.open_connection(served.where.host, served.where.port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_too_many_connections_are_told_and_closed(serve: Serve) -> None:
    served = await serve(limits=Limits(connections=1))
    assert (await served.get("/v1/status"))[0] == 200  # the client keeps its connection
    answer = await _raw(served, b"")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"too many connections" in answer
    assert (await served.get("/v1/status"))[0] == 200


async def test_a_silent_connection_is_closed(serve: Serve) -> None:
    served = await serve(limits=Limits(idle_ms=50))
    assert await _raw(served, b"") == b""
    assert await _raw(served, b"GET /health HT") == b""


async def test_a_slow_body_is_refused(serve: Serve) -> None:
    served = await serve(limits=Limits(body_ms=50, linger_ms=50))
    head = b"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse\r\n"
    answer = await _raw(served, head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"too_slow"' in answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 TLS here\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: 1\r\n" % i for i in range(200)) + b"\r\n",
    ],
)
async def test_what_is_not_http_or_too_large_a_head_is_refused(served: Served, data: bytes) -> None:
    answer = await _raw(served, data)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert b'"bad_request"' in answer
    assert (await served.get("/health"))[0] == 200


async def test_a_compressed_body_is_refused(served: Served) -> None:
    status, body = await served.post("/v1/turns", b"\x1f\x8b", **{"Content-Encoding": "gzip"})
    assert status == 400
    assert "uncompressed" in body["error"]["message"]


async def test_every_order_reaches_the_gateway(served: Served) -> None:
    await served.post("/v1/turns", TURN)
    orders: list[tuple[str, dict[str, Any]]] = [
        ("/v1/bind", {"peer": ALICE, "session": "s2"}),
        ("/v1/unbind", {"peer": ALICE}),
        ("/v1/pause", {"scope": "weixin:main", "for_ms": 1000}),
        ("/v1/resume", {"scope": "weixin:main"}),
        ("/v1/backlog/flush", {"peer": ALICE}),
        ("/v1/backlog/drop", {"deliveries": ["d-0001"]}),
        ("/v1/dead/retry", {"deliveries": ["d-0001"]}),
        ("/v1/backlog/drop", {"deliveries": ["d-0001"]}),
        ("/v1/dead/discard", {"deliveries": ["d-0001"]}),
        ("/v1/accounts", {"account": "main", "action": "restart"}),
        ("/v1/access", {"peer": ALICE, "action": "grant"}),
        ("/v1/erase", {"peer": ALICE}),
    ]
    for path, order in orders:
        status, body = await served.post(path, order)
        assert (path, status) == (path, 200), body
        status, body = await served.post(path, {**order, "zzz": 1})
        assert (status, body["error"]["path"]) == (400, "$.zzz")
    assert len(served.gateway.orders) == len(orders)


async def test_everything_that_can_be_read(served: Served) -> None:
    await served.post("/v1/turns", TURN)
    for path in ("/v1/status", "/v1/backlog/d-0001", f"/v1/peers/{ALICE}", "/v1/deliveries/d-0001"):
        assert (await served.get(path))[0] == 200
    for path, key in (("/v1/peers", "peers"), ("/v1/backlog", "backlog"), ("/v1/accounts", "accounts")):
        assert (await served.get(path))[1][key]
    await served.post("/v1/backlog/drop", {"deliveries": ["d-0001"]})
    assert (await served.get("/v1/dead"))[1]["dead"][0]["fate"] == "dropped"
    assert (await served.get("/v1/dead/d-0001"))[1]["text"] == "hello"
    assert (await served.get(f"/v1/dead?peer={ALICE}"))[1]["dead"]
    assert (await served.get("/v1/peers?account=mian"))[1]["error"]["near"] == ["main"]


async def test_metrics_name_endpoints_not_addresses(served: Served) -> None:
    await served.get(f"/v1/peers/{ALICE}")
    await served.get("/v1/nowhere")
    async with served.session.get(f"{served.url}/metrics", headers=served.headers) as answer:
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain")
    assert 'replyledger_http_requests_total{endpoint="/v1/peers/*",status="200"} 1.0' in text
    assert 'endpoint="other",status="404"' in text
    assert "alice" not in text


async def test_closing_finishes_what_is_under_way(serve: Serve) -> None:
    served = await serve()
    served.gateway.hold.clear()
    under_way = asyncio.ensure_future(served.post("/v1/turns", TURN))
    while served.listener._requests < 1:
        await asyncio.sleep(0)
    closing = asyncio.ensure_future(served.listener.close())
    await asyncio.sleep(0)
    served.gateway.hold.set()
    assert (await under_way)[0] == 202
    await closing
    with pytest.raises(aiohttp.ClientConnectorError):
        await served.get("/health")


async def test_a_client_that_hangs_up_cancels_nothing(served: Served) -> None:
    served.gateway.hold.clear()
    under_way = asyncio.ensure_future(served.post("/v1/turns", TURN))
    while served.listener._requests < 1:
        await asyncio.sleep(0)
    under_way.cancel()
    await asyncio.gather(under_way, return_exceptions=True)
    served.gateway.hold.set()
    async with asyncio.timeout(5):
        while "t1" not in served.gateway.turns:
            await asyncio.sleep(0)


async def test_a_port_in_use_is_an_os_error(served: Served) -> None:
    second = HttpListener(FakeGateway(), served.where, token="t", registry=CollectorRegistry())
    with pytest.raises(OSError, match="address already in use"):
        await second.start()
    await second.close()


async def test_a_client_that_hangs_up_within_its_body_is_no_error_of_ours(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse\r\n"
    _, writer = await asyncio.open_connection(served.where.host, served.where.port)
    writer.write(head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    while served.listener._requests < 1:
        await asyncio.sleep(0)
    writer.close()
    async with asyncio.timeout(5):
        while served.listener._requests:
            await asyncio.sleep(0)
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
