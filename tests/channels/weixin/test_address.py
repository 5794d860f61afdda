from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

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


@pytest.mark.parametrize(
    "host",
    ["evil.example%2f.weixin.qq.com", "evil.example%23.weixin.qq.com", "evil.example%00.weixin.qq.com",
     "evil.example;.weixin.qq.com", "evil.example,.weixin.qq.com", "evil.example`.weixin.qq.com",
     ".weixin.qq.com", "..weixin.qq.com", "-.weixin.qq.com", "sz.weixin.qq.com.", "weixin.qq.com", "a" * 64 + ".weixin.qq.com",
     "sz.weixin\u3002qq.com", "evil.example\uff0f.weixin.qq.com", "\u0435vil.weixin.qq.com", "sz.we\u0131xin.qq.com",
     "xn--vil-8cd.example", "sz.weixin.qq.com:0443", "sz.weixin.qq.com:", "sz.weixin.qq.com:\uff14\uff14\uff13",
     "u:p@sz.weixin.qq.com", "@sz.weixin.qq.com", "sz.weixin.qq.com#@evil.example", "sz.weixin.qq.com?@evil.example",
     "sz.weixin.qq.com\\@evil.example", "\u202esz.weixin.qq.com", "sz.weixin.qq.com\x00", "sz.weixin\t.qq.com",
     "127.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[::1%25lo]",
     "[::1].weixin.qq.com", "localhost", "localhost.", "own.example.", "own.example:444"],
)  # fmt: skip
def test_hosts_that_no_server_may_name(host: str) -> None:
    for configured in (DEFAULT_BASE_URL, "https://own.example", "https://own.example:8443"):
        with pytest.raises(BadBaseUrl):
            allowed_base_url(f"https://{host}", configured)
        with pytest.raises(BadBaseUrl):
            redirected(host, configured)


@pytest.mark.parametrize(
    "path", ["/..", "/../x", "/%2e%2e", "//evil.example", "/a b", "/a;b", "/.x", "/x?y", "/x#y", "/\u00e9"]
)
def test_paths_that_no_server_may_name(path: str) -> None:
    with pytest.raises(BadBaseUrl):
        allowed_base_url(f"https://sz.weixin.qq.com{path}", DEFAULT_BASE_URL)


HOSTS = st.text(st.sampled_from("az09.-:/@%[]#?\\ \u3002") | st.characters(), max_size=12)


@given(HOSTS, HOSTS)
def test_the_http_client_reads_the_host_that_was_allowed(before: str, after: str) -> None:
    """Whatever is allowed, the library that connects takes for a host of the rule."""
    for text in (
        f"https://{before}.weixin.qq.com{after}",
        f"https://own.example{after}",
        f"https://{before}own.example",
    ):
        try:
            found = URL(allowed_base_url(text, "https://own.example") + "/ilink/bot/x")
        except BadBaseUrl:
            continue
        assert found.host == "own.example" or str(found.host).endswith(".weixin.qq.com"), text
        assert (found.scheme, found.port, found.user) == ("https", 443, None)
        assert found.raw_path.endswith("/ilink/bot/x")
        assert found.raw_path == found.path


def test_redirect_hosts() -> None:
    assert redirected("sz.weixin.qq.com", DEFAULT_BASE_URL) == "https://sz.weixin.qq.com"
    assert redirected("127.0.0.1:7", LOCAL) == "http://127.0.0.1:7"
    for host in (
        "evil.example",
        "evil.example/sz.weixin.qq.com",
        "sz.weixin.qq.com@evil.example",
        "127.0.0.1:7",
        "sz.weixin.qq.com/x",
    ):
        with pytest.raises(BadBaseUrl):
            redirected(host, DEFAULT_BASE_URL)
