"""Where a listener listens: `HOST:PORT`, and whether only this machine can reach it. Pure."""

from __future__ import annotations

import ipaddress
import re

import msgspec

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")
PORT_MAX = 65_535


class Listen(msgspec.Struct, frozen=True):
    """A host (address or name, without brackets) and a port; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> Listen:
    """Read `HOST:PORT` or `[IPV6]:PORT`. Raises ValueError."""
    found = _LISTEN.fullmatch(text)
    if not found or int(found["port"]) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8081 or [::1]:8081")
    return Listen(found["v6"] or found["host"], int(found["port"]))


def is_loopback(host: str | None) -> bool:
    """Whether a host (an address, or `localhost`) can be reached from this machine only."""
    if not host:
        return False
    name = host.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
