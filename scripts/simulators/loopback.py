"""Loopback only: where a simulator may listen, and who may control it."""

from __future__ import annotations

import ipaddress
import socket

from scripts.simulators.errors import NotLoopbackError


def is_loopback(host: str | None) -> bool:
    """Tell whether `host` (an address or `localhost`) can only be reached from this machine."""
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_loopback(host: str, port: int) -> socket.socket:
    """Return a listening-ready socket bound to `host:port` (port 0: any free one); `NotLoopbackError` for other hosts."""
    if not is_loopback(host):
        raise NotLoopbackError(f"refusing to listen on {host!r}: a simulator listens on loopback only")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the base URL of a server that listens on `sock`."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
