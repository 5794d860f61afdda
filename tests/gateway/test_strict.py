from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway import api
from actors.gateway.errors import BadRequest
from actors.gateway.strict import choices, convert, json_value, unknown_fields


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
        value = json_value(body)
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
def test_any_text_survives_escaping(text: str) -> None:
    assert "\x00" not in json_value(json.dumps(text).encode())
