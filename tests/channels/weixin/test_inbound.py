from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.channels.weixin import inbound, wire
from actors.channels.weixin.wire import Updates
from actors.ports import Inbound

PEER = "o9cq80AbC@im.wechat"
MEDIA = {"encrypt_query_param": "q", "aes_key": "k", "encrypt_type": 1}


def text_item(text: Any) -> dict[str, Any]:
    return {"type": 1, "text_item": {"text": text}}


def read(*messages: Any) -> inbound.Read:
    updates = wire.parse_updates(200, json.dumps({"ret": 0, "msgs": list(messages)}).encode())
    assert isinstance(updates, Updates)
    return inbound.read(updates)


def one(items: Any, **fields: Any) -> Inbound:
    (message,) = read({"from_user_id": PEER, "item_list": items, **fields}).messages
    return message


def test_the_example_of_the_notes() -> None:
    message = {
        "seq": 7,
        "message_id": 7497484083968569736,
        "from_user_id": PEER,
        "to_user_id": "a1b2c3d4e5f6@im.bot",
        "client_id": "wx-1",
        "create_time_ms": 1_790_000_000_000,
        "message_type": 1,
        "message_state": 2,
        "context_token": "AARzJWexample",
        "item_list": [text_item("hello")],
    }
    assert read(message).messages == (
        Inbound(
            peer=PEER,
            message_id="7497484083968569736",
            sent_at=1_790_000_000_000,
            text="hello",
            token="AARzJWexample",
        ),
    )


@pytest.mark.parametrize(
    ("items", "text", "contents"),
    [
        ([text_item("a")], "a", ("text",)),
        ([text_item("a"), text_item("b\r\nc\x00")], "a\nb\nc", ("text", "text")),
        ([text_item("half \ud83d")], "half �", ("text",)),
        ([{"type": 2, "image_item": {}}, text_item("see")], "[image]\nsee", ("image", "text")),
        ([{"type": 3, "voice_item": {"text": "spoken"}}], "spoken", ("voice",)),
        ([{"type": 3, "voice_item": {"text": ""}}], "[voice]", ("voice",)),
        ([{"type": 3}], "[voice]", ("voice",)),
        ([{"type": 4, "file_item": {"file_name": "a b.pdf"}}], "[file: a b.pdf]", ("file",)),
        ([{"type": 4, "file_item": {"file_name": "a\nb"}}], "[file]", ("file",)),
        ([{"type": 4, "file_item": None}], "[file]", ("file",)),
        ([{"type": 5, "video_item": {}}], "[video]", ("video",)),
        ([{"type": "1", "text_item": {"text": "a"}}], "a", ("text",)),
        ([{"type": 77}], "[unknown]", ("unknown",)),
        ([{}], "[unknown]", ("unknown",)),
        ([7, text_item("a")], "[unknown]\na", ("unknown", "text")),
        ([{"type": 1, "text_item": "a"}], "", ("text",)),
        ([text_item(5)], "", ("text",)),
        ([], "[unknown]", ("unknown",)),
        (None, "[unknown]", ("unknown",)),
        ("x", "[unknown]", ("unknown",)),
    ],
)
def test_items(items: Any, text: str, contents: tuple[str, ...]) -> None:
    message = one(items)
    assert (message.text, message.contents) == (text, contents)


def test_media_keep_their_keys() -> None:
    message = one([{"type": 2, "image_item": {"media": MEDIA, "aeskey": "ab"}}, text_item("a"), {"type": 5}])
    assert [json.loads(m) for m in message.media] == [{"media": MEDIA, "aeskey": "ab"}]


def test_a_medium_that_cannot_be_kept_is_still_named() -> None:
    for image in ({"media": "x" * 20_000}, {"media": "\ud83d"}):
        message = one([{"type": 2, "image_item": image}])
        assert (message.text, message.media) == ("[image]", ())


@pytest.mark.parametrize(
    ("reference", "quote"),
    [
        ({"svr_id": 7497484083968569736}, "7497484083968569736"),
        ({"svr_id": "7497484083968569736", "message_item": None}, "7497484083968569736"),
        ({"svr_id": 0, "message_item": {"msg_id": 12}}, "12"),
        ({"message_item": {"text_item": {"text": "old"}}}, ""),
        ({"message_item": 5}, ""),
        ("x", ""),
    ],
)
def test_quotes(reference: Any, quote: str) -> None:
    assert one([{**text_item("a"), "ref_msg": reference}]).quote == quote


@pytest.mark.parametrize(
    ("fields", "message_id", "sent_at", "token"),
    [
        ({}, "", 0, ""),
        ({"message_id": 0, "create_time_ms": 0, "context_token": None}, "", 0, ""),
        ({"message_id": "12", "create_time_ms": "1790000000000"}, "12", 1_790_000_000_000, ""),
        ({"message_id": -5, "create_time_ms": -5, "context_token": 5}, "", 0, ""),
        ({"message_id": 2**64, "create_time_ms": 2**60, "context_token": "a\nb"}, "", 0, ""),
        ({"message_id": 7.4e18, "create_time_ms": "soon"}, "", 0, ""),
        ({"message_id": 2**64 - 1, "create_time_ms": 1.5}, str(2**64 - 1), 0, ""),
    ],
)
def test_fields_that_are_missing_or_odd(fields: dict[str, Any], message_id: str, sent_at: int, token: str) -> None:
    message = one([text_item("a")], **fields)
    assert (message.message_id, message.sent_at, message.token) == (message_id, sent_at, token)


def test_one_bad_message_loses_no_other() -> None:
    good = {"from_user_id": PEER, "item_list": [text_item("good")]}
    bot = {"from_user_id": "b@im.bot", "message_type": 2, "item_list": [text_item("echo")]}
    old_bot = {"from_user_id": "b@im.bot", "item_list": [text_item("echo")]}
    result = read(good, None, bot, {"from_user_id": ""}, old_bot, {"from_user_id": "a\u202eb"}, [], good)
    assert [m.text for m in result.messages] == ["good", "good"]
    assert (result.echoes, result.malformed) == (2, 4)


def test_case_of_a_peer_is_kept() -> None:
    assert one([text_item("a")], from_user_id="AbC@im.wechat").peer == "AbC@im.wechat"


def test_long_texts_and_many_items_are_cut() -> None:
    assert one([text_item("x" * 300_000)]).text == "x" * 200_000 + "\n[...]"
    message = one([text_item("x")] * 100)
    assert (len(message.contents), message.text[-7:]) == (65, "x\n[...]")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([1, 2, 3, 4, 5, PEER]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text_item", "text", "image_item", "voice_item", "file_item", "ref_msg", "svr_id"]
            ),
            inner,
        )
    ),
    max_leaves=15,
)


@given(st.lists(st.fixed_dictionaries({}, optional={"from_user_id": st.just(PEER) | JSON, "message_id": JSON,
    "create_time_ms": JSON, "message_type": JSON, "context_token": JSON, "item_list": JSON}), max_size=5))  # fmt: skip
def test_every_message_is_accounted_for(messages: list[dict[str, object]]) -> None:
    result = inbound.read(Updates(messages=tuple(messages), not_messages=0, cursor="", hold_ms=1))
    assert len(result.messages) + result.echoes + result.malformed == len(messages)
    for message in result.messages:
        assert message.peer
        assert message.contents
        (message.peer + message.text + message.token + message.quote + "".join(message.media)).encode()
