from __future__ import annotations

import inspect

import pytest

from actors.gateway import routes
from actors.gateway.api import Gateway
from actors.gateway.errors import BadRequest, UnknownEndpoint, WrongMethod
from tests.gateway.fake import FakeGateway


def test_no_endpoint_twice() -> None:
    assert len({(r.method, r.path) for r in routes.ROUTES}) == len(routes.ROUTES)


def test_every_method_of_the_port_can_be_asked() -> None:
    methods = {name for name, value in vars(Gateway).items() if inspect.iscoroutinefunction(value)}
    source = inspect.getsource(routes)
    assert {m for m in methods if f"gateway.{m}(" not in source} == {"health", "ready"}


@pytest.mark.parametrize(
    ("method", "path", "found", "tail"),
    [
        ("GET", "/v1/peers", "/v1/peers", ""),
        ("GET", "/v1/peers/a%3Ab", "/v1/peers/*", "a%3Ab"),
        ("POST", "/v1/dead/retry", "/v1/dead/retry", ""),
        ("GET", "/v1/dead/retry", "/v1/dead/*", "retry"),
    ],
)
def test_find(method: str, path: str, found: str, tail: str) -> None:
    route, rest = routes.find(method, path)
    assert (route.path, rest) == (found, tail)


@pytest.mark.parametrize("path", ["/", "", "/v1", "/v1/peers/", "/v1/peers/a/b", "/v1/peers/*x/y", "/V1/peers"])
def test_not_found(path: str) -> None:
    with pytest.raises(UnknownEndpoint):
        routes.find("GET", path)


def test_wrong_method_names_the_right_one() -> None:
    with pytest.raises(WrongMethod, match="takes GET or POST"):
        routes.find("PUT", "/v1/accounts")


@pytest.mark.parametrize("path", ["/v1/turns", "/v1/turns/dry-run"])
async def test_an_empty_turn_id_is_a_mistake_and_no_new_turn(path: str) -> None:
    route, _ = routes.find("POST", path)
    gateway = FakeGateway()
    call = routes.Call(body=b'{"to":"weixin:main","turn_id":"","text":"x"}')
    with pytest.raises(BadRequest, match="leave it out to get a new one") as refusal:
        await route.handler(gateway, call)
    assert refusal.value.path == "$.turn_id"
    await route.handler(gateway, routes.Call(body=b'{"to":"weixin:main","text":"x"}'))
