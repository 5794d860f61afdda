"""Which servers an account may talk to. Pure.

A server may send a client elsewhere, so a stolen answer could send it, and its token, anywhere: only the configured host, Weixin's own
hosts, and, where the configured host is this machine, this machine are allowed.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from actors.channels.errors import BadBaseUrl

DEFAULT_BASE_URL = "https://ilinkai.weixin.qq.com"
_WEIXIN = ".weixin.qq.com"


def base_url(text: str) -> str:
    """A configured server address, without the slash at its end. Raises BadBaseUrl if it is none, or is not encrypted."""
    parts = _split(text)
    if parts.scheme != "https" and not _is_loopback(parts):
        raise BadBaseUrl("the server's address must begin with https://")
    return _plain(parts)


def allowed_base_url(text: str, configured: str) -> str:
    """A server address that a server named, if an account configured with `configured` may use it. Raises BadBaseUrl otherwise."""
    parts, home = _split(text), _split(configured)
    if _is_loopback(home) and _is_loopback(parts):
        return _plain(parts)
    own = parts.netloc == home.netloc and parts.scheme == home.scheme
    weixin = parts.scheme == "https" and (parts.hostname or "").endswith(_WEIXIN) and parts.port in (None, 443)
    if not (own or weixin):
        raise BadBaseUrl(f"the server named a host that this account may not talk to: {parts.hostname}")
    return _plain(parts)


def redirected(host: str, configured: str) -> str:
    """The address behind a bare `redirect_host`. Raises BadBaseUrl if it is not allowed."""
    scheme = "http" if _is_loopback(_split(configured)) else "https"
    return allowed_base_url(f"{scheme}://{host}", configured)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise BadBaseUrl("the server's address cannot be read") from None
    extra = parts.query or parts.fragment or "@" in parts.netloc or "\\" in text or port == 0
    if parts.scheme not in ("http", "https") or not parts.hostname or extra or not text.isprintable():
        raise BadBaseUrl("the server's address must be like https://host[:port][/path]")
    return parts


def _plain(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _is_loopback(parts: SplitResult) -> bool:
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
