from __future__ import annotations

import json

import pytest

from actors.channels.weixin import shapes
from actors.ports import SendOrder

INFO = shapes.BaseInfo(bot_agent="Replyledger/1.0")
BASE = {"channel_version": "2.4.9", "bot_agent": "Replyledger/1.0"}


@pytest.mark.parametrize(("version", "number"), [("2.4.9", 132105), ("2.4.6", 132102), ("2.2.0", 131584)])
def test_client_version_numbers(version: str, number: int) -> None:
    assert shapes.client_version_number(version) == number


def test_headers() -> None:
    assert shapes.get_headers() == {"iLink-App-Id": "bot", "iLink-App-ClientVersion": "132105"}
    assert shapes.post_headers("tok", 7) == {
        "Content-Type": "application/json",
        "AuthorizationType": "ilink_bot_token",
        "Authorization": "Bearer tok",
        "X-WECHAT-UIN": "Nw==",
        **shapes.get_headers(),
    }
    assert "Authorization" not in shapes.post_headers("", 7)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (shapes.updates_request("Ck", INFO), {"get_updates_buf": "Ck", "base_info": BASE}),
        (shapes.updates_request("", INFO), {"get_updates_buf": "", "base_info": BASE}),
        (shapes.config_request("u", "c", INFO), {"ilink_user_id": "u", "context_token": "c", "base_info": BASE}),
        (shapes.config_request("u", "", INFO), {"ilink_user_id": "u", "base_info": BASE}),
        (
            shapes.typing_request("u", "t", True, INFO),
            {"ilink_user_id": "u", "typing_ticket": "t", "status": 1, "base_info": BASE},
        ),
        (
            shapes.typing_request("u", "t", False, INFO),
            {"ilink_user_id": "u", "typing_ticket": "t", "status": 2, "base_info": BASE},
        ),
        (shapes.notify_request(INFO), {"base_info": BASE}),
        (shapes.qr_request(()), {"local_token_list": []}),
        (shapes.qr_request(tuple("abcdefghijkl")), {"local_token_list": list("abcdefghij")}),
    ],
)
def test_bodies(body: bytes, expected: dict[str, object]) -> None:
    assert json.loads(body) == expected


def test_a_send_without_a_token_leaves_the_field_out() -> None:
    order = SendOrder(request="r", stream="s", peer="u", text="t", token="", client_id="c", leave_by=0)
    body = json.loads(shapes.send_request(order, INFO))
    assert "context_token" not in body["msg"]
    assert body["base_info"] == BASE
