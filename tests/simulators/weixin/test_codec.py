from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.simulators.weixin.codec import Reply, read_cursor, read_object, read_uin, write, write_cursor


@given(st.integers(min_value=0, max_value=1 << 40))
def test_cursors_come_back(position: int) -> None:
    assert read_cursor(write_cursor(position)) == position


@pytest.mark.parametrize(
    "cursor", ["", "not base64!", base64.b64encode(b"\x0a\x05sim:" + b"9" * 5000).decode(), "Ck1leGFtcGxl"]
)
def test_other_cursors_are_not_ours(cursor: str) -> None:
    assert read_cursor(cursor) is None


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (b"0", 0),
        (b"4294967295", 4294967295),
        (b"4294967296", None),
        (b"9" * 5000, None),
        (b"-1", None),
        (b"007", None),
        (b"", None),
        (b"\x00\x00\x00\x07", None),  # the number's bytes instead of its text
    ],
)
def test_uin(plain: bytes, expected: int | None) -> None:
    assert read_uin(base64.b64encode(plain).decode()) == expected


def test_uin_that_is_no_base64() -> None:
    assert read_uin("1234567") is None


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'"x"', b"{", b"\xff\xfe"])
def test_what_is_no_object(body: bytes) -> None:
    assert read_object(body) is None


def test_ids_are_bare_numbers_and_unset_is_left_out() -> None:
    assert write(Reply(ret=0, message_id=2**64 - 1)) == b'{"ret":0,"message_id":18446744073709551615}'
    assert write(Reply()) == b"{}"
