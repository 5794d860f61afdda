"""Names of accounts, peers and streams, and ids that follow from them."""

from __future__ import annotations

import pytest

from events.errors import BadAddress, BadStreamName
from events.streams import (
    PEER_ID_CHARS_MAX,
    Address,
    bot_stream,
    category,
    delivery_id,
    fingerprint,
    parse_address,
    peer_stream,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("weixin:main", Address("weixin", "main")),
        ("weixin:main:o9cq80AbC@im.wechat", Address("weixin", "main", "o9cq80AbC@im.wechat")),
        ("feishu:team-1:oc_1:thread:2", Address("feishu", "team-1", "oc_1:thread:2")),
        ("weixin:main:王", Address("weixin", "main", "王")),
        ("weixin:main:" + "x" * PEER_ID_CHARS_MAX, Address("weixin", "main", "x" * PEER_ID_CHARS_MAX)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text
    assert bot_stream(address) == f"bot-{address.channel}:{address.account}"


@pytest.mark.parametrize(
    "text",
    ["", "weixin", "weixin:", ":main", "Weixin:main", "weixin:Main", "wei xin:main", "-x:main", "weixin:main: a",
     "weixin:main:a\x00", "weixin:main:a\n", "weixin:main:" + "x" * (PEER_ID_CHARS_MAX + 1), "w" * 41 + ":main"],
)  # fmt: skip
def test_what_is_no_address_says_so(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_address(text)


def test_peer_streams_are_pseudonyms() -> None:
    assert peer_stream("0123456789abcdef") == "peer-0123456789abcdef"
    for bad in ("", "abc", "0123456789ABCDEF", "x" * 16, "0" * 65, "0123456789abcdef\n"):
        with pytest.raises(BadStreamName):
            peer_stream(bad)


def test_categories() -> None:
    assert category("bot-weixin:main") == "bot"
    assert category(peer_stream("0" * 16)) == "peer"
    for bad in ("", "bot", "bot-", "cat-x", "-x", "peer"):
        with pytest.raises(BadStreamName):
            category(bad)


def test_the_same_turn_is_the_same_delivery() -> None:
    assert delivery_id("peer-a", "t1") == delivery_id("peer-a", "t1")
    assert len({delivery_id("peer-a", "t1"), delivery_id("peer-b", "t1"), delivery_id("peer-a", "t2")}) == 3
    assert delivery_id("peer-a", "\ud800").startswith("d-")


def test_fingerprints_need_the_salt() -> None:
    assert fingerprint(b"s", "x") == fingerprint(b"s", "x")
    assert len({fingerprint(b"s", "x"), fingerprint(b"t", "x"), fingerprint(b"s", "y")}) == 3
    assert len(fingerprint(b"s" * 80, "\ud800")) == 32
