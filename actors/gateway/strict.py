"""Strict reading of what comes from outside: clean texts, no unknown fields, errors that name the place and the nearest name.

Works on decoded data (dict, list, str, ...) and msgspec struct types. Pure.
"""

from __future__ import annotations

import contextlib
import json
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec

from actors.gateway.errors import BadRequest, nearest
from actors.text.clean import clean

T = TypeVar("T")
DecodeHook = Callable[[type, Any], Any]

NESTING_MAX = 32
"""How deep arrays and objects may lie in each other. (Our deepest request has two levels.)"""

REPEATED_CHARS_MAX = 300
"""How much a refusal repeats of a key or a value; a client could be made to read megabytes of its own otherwise."""


class UnknownField(msgspec.Struct, frozen=True):
    """A key that a struct does not have."""

    path: str  # of the object that holds it, as `$.policy`
    key: str
    near: tuple[str, ...]

    def __str__(self) -> str:
        hint = f"; did you mean {self.near[0]!r}?" if self.near else ""
        return f"unknown field {self.key!r}{hint}"


def unknown_fields(raw: object, kind: Any, path: str = "$") -> Iterator[UnknownField]:
    """Every key of decoded data that the type does not know, depth first."""
    struct = _struct_in(kind)
    if isinstance(raw, dict) and struct is not None:
        yield from _in_struct(raw, struct, path)
    elif isinstance(raw, dict):
        for key, value in raw.items():
            yield from unknown_fields(value, _argument(kind, 1), f"{path}.{key}")
    elif isinstance(raw, list):
        for index, value in enumerate(raw):
            yield from unknown_fields(value, _argument(kind, 0), f"{path}[{index}]")


def _in_struct(raw: dict[str, Any], struct: type, path: str) -> Iterator[UnknownField]:
    known = _known(struct)
    for key, value in raw.items():
        if key in known:
            yield from unknown_fields(value, known[key], f"{path}.{key}")
        else:
            yield UnknownField(path, shortened(key), nearest(key, known))


@cache
def _known(struct: type) -> dict[str, Any]:
    """The fields of a struct and their types, by the names they have outside."""
    hints = typing.get_type_hints(struct)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


def _struct_in(kind: Any) -> type | None:
    """The struct of `Struct`, `Struct | None` or `Annotated[Struct, ...]`."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next((s for s in map(_struct_in, typing.get_args(kind)) if s), None)
    return None


def _argument(kind: Any, index: int) -> Any:
    arguments = typing.get_args(kind)
    return arguments[index] if index < len(arguments) else None


def json_value(body: bytes) -> Any:
    """The value of a JSON text, every string in it clean. Raises BadRequest."""
    try:
        return cleaned(msgspec.json.decode(body))
    except (msgspec.DecodeError, RecursionError) as error:
        return _with_lone_surrogates(body, error)


def _with_lone_surrogates(body: bytes, error: Exception) -> Any:
    """A JSON text may escape a lone surrogate, which UTF-8 cannot carry; it becomes U+FFFD. Anything else is refused."""
    if b"\\u" in body:
        with contextlib.suppress(ValueError, RecursionError):
            return cleaned(json.loads(body, parse_constant=_no_constant))
    raise BadRequest(f"the body is not JSON: {error}", path="$") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def cleaned(value: Any, depth: int = 0) -> Any:
    """The same data with each of its strings clean. Raises BadRequest beyond NESTING_MAX."""
    if isinstance(value, str):
        return clean(value)
    if depth > NESTING_MAX:
        raise BadRequest(f"the body nests deeper than {NESTING_MAX} levels", path="$")
    if isinstance(value, list):
        return [cleaned(v, depth + 1) for v in value]
    if isinstance(value, dict):
        return {clean(k): cleaned(v, depth + 1) for k, v in value.items()}
    return value


def convert(raw: Any, kind: type[T], *, strict: bool = True) -> T:
    """Data as a struct. Raises BadRequest with the path of the first field that is wrong."""
    for unknown in unknown_fields(raw, kind):
        raise BadRequest(str(unknown), path=f"{unknown.path}.{unknown.key}", near=unknown.near)
    try:
        return msgspec.convert(raw, kind, strict=strict)
    except msgspec.ValidationError as error:
        message, path = split_path(str(error))
        raise BadRequest(shortened(with_choices(message, kind, path)), path=shortened(path)) from None


def shortened(text: str) -> str:
    """What a refusal repeats of a text that somebody else wrote."""
    return text if len(text) <= REPEATED_CHARS_MAX else f"{text[:REPEATED_CHARS_MAX]}…"


def split_path(message: str) -> tuple[str, str]:
    """What msgspec complains about, and the path it names (`$` if none)."""
    text, at, path = message.rpartition(" - at `")
    return (text, path.rstrip("`")) if at else (message, "$")


def choices(kind: Any, path: str) -> tuple[str, ...]:
    """The values that the field at a path (`$.a.b`) may have, if it is one of a few."""
    for name in path.split(".")[1:]:
        struct = _struct_in(kind)
        kind = typing.get_type_hints(struct).get(name.partition("[")[0]) if struct else None
    return tuple(_literals(kind))


def _literals(kind: Any) -> Iterator[str]:
    if typing.get_origin(kind) is typing.Literal:
        yield from map(str, typing.get_args(kind))
    else:
        for argument in typing.get_args(kind):
            yield from _literals(argument)


def with_choices(message: str, kind: Any, path: str) -> str:
    """A complaint about a value that is none of a few, with the few."""
    known = choices(kind, path) if message.startswith("Invalid enum value") else ()
    return f"{message}; it is one of {', '.join(known)}" if known else message
