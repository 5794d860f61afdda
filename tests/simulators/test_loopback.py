from __future__ import annotations

import pytest

from scripts.simulators.errors import NotLoopbackError
from scripts.simulators.loopback import bind_loopback, is_loopback, url_of


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("localhost.example.org", False),
        ("", False),
        (None, False),
    ],
)
def test_loopback_addresses(host: str | None, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(NotLoopbackError):
        bind_loopback(host, 0)


def test_the_url_names_the_port_that_was_free() -> None:
    with bind_loopback("127.0.0.1", 0) as sock:
        assert url_of(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_taken_port_is_an_error() -> None:
    with bind_loopback("127.0.0.1", 0) as sock:
        sock.listen()
        with pytest.raises(OSError):
            bind_loopback("127.0.0.1", sock.getsockname()[1])
