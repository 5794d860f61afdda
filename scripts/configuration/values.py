"""Values of the configuration that TOML has no type for: durations, references to secrets, listeners, URLs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from actors.gateway.listen import Listen, is_loopback, parse_listen

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_NUMBER = re.compile(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Duration(int):
    """A length of time in ms, written as `24h`, `15m`, `30s`, `500ms` or `30d`."""

    __slots__ = ()

    def __str__(self) -> str:
        if self == 0:
            return "0s"
        for unit in ("d", "h", "m", "s"):
            if self % _UNITS_MS[unit] == 0 and (unit != "d" or self > _UNITS_MS["d"]):
                return f"{self // _UNITS_MS[unit]}{unit}"
        return f"{int(self)}ms"


def parse_duration(value: object) -> Duration:
    """Read a duration. Raises ValueError, which says what is wrong with the unit or the number."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        return Duration(int(found[1]) * _UNITS_MS[found[2]])
    raise ValueError(_wrong_duration(value))


def _wrong_duration(value: object) -> str:
    like = 'write a whole number and a unit, such as "24h"; units are ms, s, m, h, d'
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'the duration {value} has no unit; {like} (perhaps "{value}s"?)'
    number = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if number is None:
        return f"{str(value)[:40]!r} is not a duration; {like}"
    if not number[2]:
        return f"the duration {value!r} has no unit; {like}"
    if number[2] not in _UNITS_MS:
        return f"the duration {value!r} has the unit {number[2]!r}, which is not known; {like}"
    return f"the duration {value!r} is not a whole number without spaces; {like}"


class SecretRef(str):
    """Where a secret is, `env:NAME` or `file:PATH`. Never the secret itself."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """`env` or `file`."""
        return self.partition(":")[0]

    @property
    def name(self) -> str:
        """The name of the variable, or the path as written."""
        return self.partition(":")[2]


def parse_secret(value: object) -> SecretRef:
    """Read `env:NAME` or `file:PATH`. Raises ValueError, which never repeats the value: it may be a secret."""
    kind, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if (kind == "file" and name) or (kind == "env" and _VARIABLE.fullmatch(name)):
        return SecretRef(f"{kind}:{name}")
    if kind == "env" and colon:
        raise ValueError("after env: comes the name of an environment variable, such as env:REPLYLEDGER_HTTP_TOKEN")
    raise ValueError("secrets are not written here; name where it is: env:NAME or file:PATH")


class Url(str):
    """An http(s) URL without a trailing slash; plain http is for loopback only."""

    __slots__ = ()

    @property
    def host(self) -> str:
        """The host, without brackets and port."""
        return urlsplit(self).hostname or ""


def parse_url(value: object) -> Url:
    """Read a base URL. Raises ValueError."""
    text = value if isinstance(value, str) else ""
    parts = urlsplit(text)
    if parts.port == 0 or parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in text):
        raise ValueError(f"{str(value)[:80]!r} is not a URL such as https://host or http://127.0.0.1:9000")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("a base URL has no user, query or fragment")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError(
            f"plain http would show tokens and texts to everybody on the way to {parts.hostname}; use https"
        )
    return Url(text.rstrip("/"))


class ListenAt(str):
    """`HOST:PORT`."""

    __slots__ = ()

    @property
    def place(self) -> Listen:
        """The host and the port."""
        return parse_listen(self)


def parse_listen_at(value: object) -> ListenAt:
    """Read `HOST:PORT`. Raises ValueError."""
    return ListenAt(parse_listen(value if isinstance(value, str) else f"{value}"))


_READERS: dict[type, Callable[[object], Any]] = {
    Duration: parse_duration,
    SecretRef: parse_secret,
    Url: parse_url,
    ListenAt: parse_listen_at,
}
_SCHEMAS: dict[type, dict[str, Any]] = {
    Duration: {"type": "string", "pattern": f"^{_DURATION.pattern}$", "description": "a duration, such as 24h"},
    SecretRef: {
        "type": "string",
        "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$",
        "description": "env:NAME or file:PATH",
    },
    Url: {"type": "string", "format": "uri", "description": "http (loopback only) or https"},
    ListenAt: {"type": "string", "pattern": "^.+:[0-9]+$", "description": "HOST:PORT"},
}


def decode(kind: type, value: Any) -> Any:
    """The hook of msgspec that reads these types."""
    return _READERS[kind](value)


def encode(value: Any) -> Any:
    """The hook of msgspec that writes them: the form in which they are read."""
    return str(value)


def schema(kind: type) -> dict[str, Any]:
    """Their JSON schema."""
    return _SCHEMAS[kind]
