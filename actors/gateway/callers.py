"""Who calls a listener: whether a token is the token, and whether this is a program of this machine or a web page. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence

from actors.gateway.listen import is_loopback

Headers = Callable[[str], Sequence[str]]
"""Every value of a header, by its name."""


def is_token(given: str, token: str) -> bool:
    """Whether it is the token, in a time that does not tell how much of it is right. Half characters equal nothing."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def is_local_program(headers: Headers) -> bool:
    """Whether a request is addressed to this machine and no web page made it.

    A browser can be made to call here by any page it shows. It says so: in `Origin` when a page posts or opens a WebSocket, in
    `Sec-Fetch-Site` whatever a page asks for, and in `Host`, where a name was rebound to this machine.
    """
    hosts = headers("Host")
    from_page = bool(headers("Origin")) or any(site != "none" for site in headers("Sec-Fetch-Site"))
    return len(hosts) == 1 and is_loopback(_host_of(hosts[0])) and not from_page


def _host_of(header: str) -> str:
    return header.rpartition("]")[0].removeprefix("[") if header.startswith("[") else header.partition(":")[0]
