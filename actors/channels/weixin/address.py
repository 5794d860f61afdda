"""Which servers an account may talk to. Pure.

A server may send a client elsewhere, so a stolen answer could send it, and its token, anywhere: only the configured host and port,
Weixin's own hosts over https at their usual port, and, where the configured host is this machine, this machine are allowed.
What is read here is read again by the HTTP client, so an address is made of few characters: what two readers could take for two
hosts is none.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from actors.channels.errors import BadBaseUrl

DEFAULT_BASE_URL = "https://ilinkai.weixin.qq.com"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_WEIXIN = re.compile(rf"(?:{_LABEL}\.)+weixin\.qq\.com")
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?")


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
    weixin = parts.scheme == "https" and _WEIXIN.fullmatch(parts.hostname or "") and parts.port in (None, 443)
    if not (own or weixin):
        raise BadBaseUrl(f"the server named a host that this account may not talk to: {parts.hostname}")
    return _plain(parts)


def redirected(host: str, configured: str) -> str:
    """The address behind a bare `redirect_host`, which has no path. Raises BadBaseUrl if it is not allowed."""
    if "/" in host:
        raise BadBaseUrl("the server redirects to what is no host")
    scheme = "http" if _is_loopback(_split(configured)) else "https"
    return allowed_base_url(f"{scheme}://{host}", configured)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise BadBaseUrl("the server's address cannot be read") from None
    host = parts.netloc.removesuffix(f":{port}")
    plain = _HOST.fullmatch(host) and _PATH.fullmatch(parts.path) and not (parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not plain or port == 0 or not text.isprintable():
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
