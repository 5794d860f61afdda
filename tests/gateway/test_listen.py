from __future__ import annotations

import pytest

from actors.gateway.listen import Listen, is_loopback, parse_listen


@pytest.mark.parametrize("text", ["127.0.0.1:8081", "[::1]:8081", "localhost:0", "example.org:65535", "0.0.0.0:80"])
def test_reads_what_it_writes(text: str) -> None:
    assert str(parse_listen(text)) == text


def test_brackets_are_no_part_of_the_host() -> None:
    assert parse_listen("[::1]:1") == Listen("::1", 1)


@pytest.mark.parametrize(
    "text", ["", "8081", ":8081", "127.0.0.1", "127.0.0.1:65536", "::1:80", "a b:1", "h:-1", "http://h:1", "h:٣"]
)
def test_refuses_the_rest(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        (None, False),
    ],
)
def test_loopback(host: str | None, is_it: bool) -> None:
    assert is_loopback(host) is is_it
