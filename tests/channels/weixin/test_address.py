from __future__ import annotations

import pytest

from actors.channels.errors import BadBaseUrl
from actors.channels.weixin.address import DEFAULT_BASE_URL, allowed_base_url, base_url, redirected

LOCAL = "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (DEFAULT_BASE_URL, DEFAULT_BASE_URL),
        ("https://a.example:8443/x/ ", "https://a.example:8443/x"),
        ("http://localhost:1", "http://localhost:1"),
        ("http://[::1]:1/", "http://[::1]:1"),
        ("http://127.9.9.9", "http://127.9.9.9"),
    ],
)
def test_addresses(text: str, plain: str) -> None:
    assert base_url(text) == plain


@pytest.mark.parametrize(
    "text",
    ["", "a.example", "http://a.example", "ftp://a.example", "https://", "https://u:p@a.example", "https://a?x=1",
     "https://a#x", "https://a:0", "https://a:99999", "https://[::1", "https://a\nb", "https://a\\b"],
)  # fmt: skip
def test_no_addresses(text: str) -> None:
    with pytest.raises(BadBaseUrl):
        base_url(text)


@pytest.mark.parametrize(
    ("text", "configured", "allowed"),
    [
        (DEFAULT_BASE_URL, DEFAULT_BASE_URL, True),
        ("https://sz.ilinkai.weixin.qq.com", DEFAULT_BASE_URL, True),
        ("https://sz.weixin.qq.com:443", "https://own.example", True),
        ("https://own.example/api", "https://own.example", True),
        ("http://127.0.0.1:1", LOCAL, True),
        ("http://localhost:1", LOCAL, True),
        (DEFAULT_BASE_URL, LOCAL, True),
        ("http://sz.weixin.qq.com", DEFAULT_BASE_URL, False),
        ("https://sz.weixin.qq.com:444", DEFAULT_BASE_URL, False),
        ("https://weixin.qq.com.evil.example", DEFAULT_BASE_URL, False),
        ("https://evilweixin.qq.com", DEFAULT_BASE_URL, False),
        ("https://u@sz.weixin.qq.com", DEFAULT_BASE_URL, False),
        ("https://own.example:444", "https://own.example", False),
        ("http://127.0.0.1:9000", DEFAULT_BASE_URL, False),
        ("http://10.0.0.1", LOCAL, False),
        ("https://evil.example", LOCAL, False),
    ],
)
def test_servers_that_a_server_may_name(text: str, configured: str, allowed: bool) -> None:
    if allowed:
        assert allowed_base_url(text, configured)
    else:
        with pytest.raises(BadBaseUrl):
            allowed_base_url(text, configured)


def test_redirect_hosts() -> None:
    assert redirected("sz.weixin.qq.com", DEFAULT_BASE_URL) == "https://sz.weixin.qq.com"
    assert redirected("127.0.0.1:7", LOCAL) == "http://127.0.0.1:7"
    for host in ("evil.example", "evil.example/sz.weixin.qq.com", "sz.weixin.qq.com@evil.example", "127.0.0.1:7"):
        with pytest.raises(BadBaseUrl):
            redirected(host, DEFAULT_BASE_URL)
