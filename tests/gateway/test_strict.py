from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway import api
from actors.gateway.errors import BadRequest
from actors.gateway.strict import choices, convert, decoded, unknown_fields
from actors.text.clean import clean
from actors.text.names import fault_of


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    width: int = 0


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner | None = None
    many: list[Inner] = []
    named: dict[str, Inner] = {}


@pytest.mark.parametrize(
    ("raw", "path", "key", "near"),
    [
        ({"iner": {}}, "$", "iner", ("inner",)),
        ({"inner": {"widht": 1}}, "$.inner", "widht", ("width",)),
        ({"many": [{}, {"zzz": 1}]}, "$.many[1]", "zzz", ()),
        ({"named": {"a": {"Width": 1}}}, "$.named.a", "Width", ("width",)),
    ],
)
def test_unknown_fields_are_named_with_their_place(raw: Any, path: str, key: str, near: tuple[str, ...]) -> None:
    (found,) = unknown_fields(raw, Outer)
    assert (found.path, found.key, found.near) == (path, key, near)


@pytest.mark.parametrize(
    "raw", [{}, {"inner": None}, {"inner": {"width": 1}}, {"many": 3}, [], None, {"named": {"a": 3}}]
)
def test_known_fields_and_other_faults_are_not_unknown(raw: Any) -> None:
    assert list(unknown_fields(raw, Outer)) == []


def test_choices_of_a_literal() -> None:
    assert choices(api.TurnOffer, "$.status") == ("completed", "degraded", "failed")
    assert choices(api.LedgerQuery, "$.kind") == ("answer", "push", "notice")
    assert choices(api.TurnOffer, "$.nowhere.at.all") == ()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_refusal(body: bytes) -> None:
    try:
        value = decoded(body)
    except BadRequest:
        return
    json.dumps(value).encode()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
        max_leaves=10,
    )
)
def test_any_value_is_an_offer_or_a_refusal(raw: Any) -> None:
    try:
        offer = convert(raw, api.TurnOffer)
    except BadRequest:
        return
    assert bool(offer.to) != bool(offer.session)


@given(st.text(alphabet=st.characters(), max_size=50))
def test_any_text_survives_escaping_and_comes_out_clean(text: str) -> None:
    body = json.dumps({"to": "weixin:main", "turn_id": "t1", "text": text}).encode()
    assert convert(decoded(body), api.TurnOffer).text == clean(text)


@given(st.text(alphabet=st.characters(), max_size=50))
def test_any_name_is_taken_as_it_is_or_refused(name: str) -> None:
    body = json.dumps({"session": "desk", "turn_id": name, "text": "hi"}).encode()
    if not fault_of(name):
        assert convert(decoded(body), api.TurnOffer).turn_id == name
        return
    with pytest.raises(BadRequest, match="is a name") as refusal:
        convert(decoded(body), api.TurnOffer)
    assert refusal.value.path == "$.turn_id"


ODD = {
    "NUL": "a\x00b",
    "control": "a\nb",
    "delete": "a\x7f",
    "C1": "a\x85b",
    "line separator": "a\u2028b",
    "half": "a\ud800",
    "reversed": "\udc00\ud800",
    "blank": " \u200b",
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    ("kind", "raw", "path"),
    [
        (api.TurnOffer, {"session": "s", "turn_id": "ODD", "text": "x"}, "$.turn_id"),
        (api.TurnOffer, {"session": "ODD", "text": "x"}, "$.session"),
        (api.TurnOffer, {"to": "ODD", "text": "x"}, "$.to"),
        (api.TurnOffer, {"to": "a", "origin": "ODD", "text": "x"}, "$.origin"),
        (api.DropOrder, {"deliveries": ["d-1", "ODD"]}, "$.deliveries[1]"),
        (api.BindOrder, {"peer": "p", "session": "ODD"}, "$.session"),
        (api.PauseOrder, {"scope": "ODD"}, "$.scope"),
        (api.AccountOrder, {"account": "ODD", "action": "stop"}, "$.account"),
        (api.EraseOrder, {"delivery": "ODD"}, "$.delivery"),
        (api.FlushOrder, {"peer": "p", "who": "ODD"}, "$.who"),
        (api.LedgerQuery, {"peer": "ODD"}, "$.peer"),
    ],
)
def test_what_is_no_name_is_refused_where_it_stands(kind: type[api.Request], raw: Any, path: str, odd: str) -> None:
    body = json.dumps(raw).replace("ODD", json.dumps(odd)[1:-1]).encode()
    with pytest.raises(BadRequest) as refusal:
        convert(decoded(body), kind)
    assert refusal.value.path == path
    assert fault_of(odd) in refusal.value.message


@pytest.mark.parametrize("key", ["te\x00xt", "te\ud800xt"])
def test_a_key_is_a_name_as_well(key: str) -> None:
    with pytest.raises(BadRequest, match="unknown field"):
        convert(decoded(json.dumps({"to": "a", key: "x"}).encode()), api.TurnOffer)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"to":"a","text":"x","to":"b"}', "$.to"),
        ('{"to":"a","to":"a"}', "$.to"),
        ('{"a":[{"b":1},{"b":1,"c":2,"b":1}]}', "$.a[1].b"),
        ('{"to":"a","\\u0074o":"b"}', "$.to"),
    ],
)
def test_a_field_that_is_given_twice_is_refused(body: str, path: str) -> None:
    with pytest.raises(BadRequest, match="given twice") as refusal:
        decoded(body.encode())
    assert refusal.value.path == path


@pytest.mark.parametrize(
    "body", [b"NaN", b'{"a":Infinity}', b'"a\nb"', b"\xef\xbb\xbf{}", b'"\xed\xa0\x80"', b"{}{}", b"1" * 5_000]
)
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(BadRequest, match="not JSON"):
        decoded(body)
