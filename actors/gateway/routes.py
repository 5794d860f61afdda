"""The endpoints: from a decoded call to a question to the gateway, and to the answer's struct. Knows nothing of sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar
from urllib.parse import unquote

import msgspec

from actors.gateway import api
from actors.gateway.api import Gateway
from actors.gateway.errors import BadRequest, TooLarge, UnknownEndpoint, WrongMethod, nearest
from actors.gateway.strict import checked_name, convert, decoded
from actors.gateway.views import FINAL, Receipt
from actors.text.clean import text_bytes
from store.records import TEXT_BYTES_MAX

TURN_BODY_BYTES_MAX = 2 * TEXT_BYTES_MAX + 65_536
"""A text of TEXT_BYTES_MAX may be escaped; two bytes for one is what escaped CJK takes."""

BODY_BYTES_MAX = 65_536
"""The largest body of the other endpoints: IDS_MAX ids of the longest kind."""

TAIL = "*"
"""How a refusal names what stands in the place of a path's `*`."""

TAIL_CHARS_MAX = 512
"""The longest name in a path, as in a body."""

WAIT_SLICE_MS = 1_000
"""How often a waiting request looks whether its client is still there."""

T = TypeVar("T", bound=api.Request)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request after authentication: its parts, undecoded; the tail is a name already."""

    tail: str = ""  # what stands in the place of the path's `*`
    query: dict[str, str] = {}
    body: bytes = b""
    gone: Callable[[], bool] = lambda: False  # whether the client has hung up, or the listener closes


Handler = Callable[[Gateway, Call], Awaitable[object]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. A path that ends in `*` takes one more segment, such as an id."""

    method: str
    path: str
    handler: Handler
    status: int = 200
    body_bytes_max: int = 0
    waits: bool = False  # may stay open for long


class WaitQuery(api.Request, frozen=True, kw_only=True):
    """How long to wait for a delivery to settle, in seconds."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=api.WAIT_MS_MAX / 1000)] = 0


class PeerQuery(api.Request, frozen=True, kw_only=True):
    """Whose; "" = all."""

    peer: api.NameOrNone = ""


class AccountQuery(api.Request, frozen=True, kw_only=True):
    """Of which account; "" = all."""

    account: api.NameOrNone = ""


class NoQuery(api.Request, frozen=True, kw_only=True):
    """An endpoint that takes no parameters."""


def _offer(call: Call) -> api.TurnOffer:
    raw = decoded(call.body)
    if (
        isinstance(raw, dict) and raw.get("turn_id") == ""
    ):  # an unset variable: a new id would make each repetition a new turn
        raise BadRequest("`turn_id` is empty; leave it out to get a new one", path="$.turn_id")
    offer = convert(raw, api.TurnOffer)
    size = text_bytes(offer.text)
    if size > TEXT_BYTES_MAX:
        raise TooLarge(f"the text has {size} bytes, at most {TEXT_BYTES_MAX} are taken", path="$.text")
    return offer


def _query(call: Call, kind: type[T]) -> T:
    return convert(call.query, kind, strict=False)


async def _turn(gateway: Gateway, call: Call) -> object:
    return await gateway.accept_turn(_offer(call))


async def _dry_run(gateway: Gateway, call: Call) -> object:
    return await gateway.dry_run(_offer(call))


async def _delivery(gateway: Gateway, call: Call) -> Receipt:
    """Waits in slices, so that a client that hung up does not keep its place until the end of its wait."""
    wait = _query(call, WaitQuery).wait
    if wait != wait:  # noqa: PLR0124 (NaN is within no bounds, and passes them)
        raise BadRequest("`wait` is a number of seconds", path="$.wait")
    left = int(wait * 1000)
    while True:
        slice_ms = min(left, WAIT_SLICE_MS)
        receipt = await gateway.delivery(call.tail, slice_ms)
        left -= slice_ms
        if left <= 0 or receipt.state in FINAL or call.gone():
            return receipt


async def _peers(gateway: Gateway, call: Call) -> object:
    return {"peers": await gateway.peers(_query(call, AccountQuery).account)}


async def _backlog(gateway: Gateway, call: Call) -> object:
    return {"backlog": await gateway.backlog(_query(call, PeerQuery).peer)}


async def _dead(gateway: Gateway, call: Call) -> object:
    return {"dead": await gateway.dead(_query(call, PeerQuery).peer)}


async def _ledger(gateway: Gateway, call: Call) -> object:
    return await gateway.ledger(_query(call, api.LedgerQuery))


async def _retry(gateway: Gateway, call: Call) -> object:
    return {"deliveries": await gateway.retry(convert(decoded(call.body), api.RetryOrder))}


async def _accounts(gateway: Gateway, call: Call) -> object:
    _query(call, NoQuery)
    return {"accounts": await gateway.accounts()}


async def _status(gateway: Gateway, call: Call) -> object:
    _query(call, NoQuery)
    return await gateway.status()


def _get(path: str, handler: Handler, *, waits: bool = False) -> Route:
    return Route(method="GET", path=path, handler=handler, waits=waits)


def _one(path: str, ask: Callable[[Gateway, str], Awaitable[object]]) -> Route:
    """An endpoint that shows the one thing its path names."""

    async def handler(gateway: Gateway, call: Call) -> object:
        _query(call, NoQuery)
        return await ask(gateway, call.tail)

    return _get(path, handler)


def _post(path: str, kind: type[T], do: Callable[[Gateway, T], Awaitable[object]]) -> Route:
    """An endpoint that carries out an order."""

    async def handler(gateway: Gateway, call: Call) -> object:
        return await do(gateway, convert(decoded(call.body), kind))

    return Route(method="POST", path=path, handler=handler, body_bytes_max=BODY_BYTES_MAX)


ROUTES: tuple[Route, ...] = (
    Route(method="POST", path="/v1/turns", handler=_turn, status=202, body_bytes_max=TURN_BODY_BYTES_MAX),
    Route(method="POST", path="/v1/turns/dry-run", handler=_dry_run, body_bytes_max=TURN_BODY_BYTES_MAX),
    _get("/v1/deliveries/*", _delivery, waits=True),
    _get("/v1/status", _status),
    _get("/v1/peers", _peers),
    _one("/v1/peers/*", lambda gateway, tail: gateway.peer(tail)),
    _get("/v1/ledger", _ledger),
    _get("/v1/backlog", _backlog),
    _one("/v1/backlog/*", lambda gateway, tail: gateway.waiting(tail)),
    _post("/v1/backlog/flush", api.FlushOrder, lambda gateway, order: gateway.flush(order)),
    _post("/v1/backlog/drop", api.DropOrder, lambda gateway, order: gateway.drop(order)),
    _get("/v1/dead", _dead),
    _one("/v1/dead/*", lambda gateway, tail: gateway.dead_one(tail)),
    Route(method="POST", path="/v1/dead/retry", handler=_retry, body_bytes_max=BODY_BYTES_MAX),
    _post("/v1/dead/discard", api.DiscardOrder, lambda gateway, order: gateway.discard(order)),
    _post("/v1/bind", api.BindOrder, lambda gateway, order: gateway.bind(order)),
    _post("/v1/unbind", api.UnbindOrder, lambda gateway, order: gateway.unbind(order)),
    _post("/v1/pause", api.PauseOrder, lambda gateway, order: gateway.pause(order)),
    _post("/v1/resume", api.ResumeOrder, lambda gateway, order: gateway.resume(order)),
    _get("/v1/accounts", _accounts),
    _post("/v1/accounts", api.AccountOrder, lambda gateway, order: gateway.account(order)),
    _post("/v1/access", api.AccessOrder, lambda gateway, order: gateway.access(order)),
    _post("/v1/erase", api.EraseOrder, lambda gateway, order: gateway.erase(order)),
)

OPEN_PATHS = ("/health", "/ready")
"""What a client on this machine may ask without a token."""

PATHS = tuple(dict.fromkeys((*OPEN_PATHS, "/metrics", *(r.path for r in ROUTES))))


def tail_of(segment: str) -> str:
    """The name that a still escaped segment of a path stands for. Raises BadRequest."""
    try:
        tail = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("the name in the path is no UTF-8", path=TAIL) from None
    if len(tail) > TAIL_CHARS_MAX:
        raise BadRequest(f"the name in the path is longer than {TAIL_CHARS_MAX} characters", path=TAIL)
    return checked_name(tail, TAIL)


def find(method: str, path: str) -> tuple[Route, str]:
    """The endpoint of a method and a still escaped path, and what stands in its `*`, escaped as well.
    Raises UnknownEndpoint, WrongMethod."""
    head, _, last = path.rpartition("/")
    matches = [r for r in ROUTES if r.path == path] or [r for r in ROUTES if last and r.path == f"{head}/*"]
    if not matches:
        raise UnknownEndpoint(f"there is no endpoint {path[:200]}", near=nearest(path[:200], PATHS))
    for route in matches:
        if route.method == method:
            return route, last if route.path.endswith("*") else ""
    starred = [r for r in ROUTES if r.path == f"{head}/*" and r.method == method]
    if starred:  # the id is a word that also is a verb, such as `drop`
        return starred[0], last
    raise WrongMethod(f"{path[:200]} takes {' or '.join(sorted({r.method for r in matches}))}")
