"""Data as TOML: what `config show` prints. Tables, strings, numbers, booleans and flat arrays. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(table: dict[str, Any]) -> str:
    """The TOML text of a table; keys whose value is None are left out."""
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in table.items():
        if value is not None and not isinstance(value, dict):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            inner = (*path, key)
            if any(not isinstance(v, dict) for v in value.values()):
                yield f"\n[{'.'.join(map(_key, inner))}]"
            yield from _lines(value, inner)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
