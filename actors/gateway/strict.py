"""Strict reading of what comes from outside: clean texts, names as they are or not at all, no unknown fields, no field twice, errors that
name the place and the nearest name.

Works on decoded data (dict, list, str, ...) and msgspec struct types. Pure.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec

from actors.gateway.errors import BadRequest, nearest
from actors.text.clean import clean
from actors.text.names import fault_of

T = TypeVar("T")
DecodeHook = Callable[[type, Any], Any]

TEXT = {"text": True}

Text = Annotated[str, msgspec.Meta(extra=TEXT)]
"""A field that holds what somebody wrote, and is cleaned. Every other string is a name."""

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
    hints = typing.get_type_hints(struct, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


def _struct_in(kind: Any) -> type | None:
    """The struct of `Struct`, `Struct | None` or `Annotated[Struct, ...]`."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if typing.get_origin(kind) is Annotated:
        return _struct_in(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next((s for s in map(_struct_in, typing.get_args(kind)) if s), None)
    return None


def _argument(kind: Any, index: int) -> Any:
    if typing.get_origin(kind) is Annotated:
        return _argument(typing.get_args(kind)[0], index)
    arguments = typing.get_args(kind)
    return arguments[index] if index < len(arguments) else None


class _Repeated(dict[str, Any]):
    """An object that names a key twice; `key` is the first of them."""

    key = ""


def decoded(body: bytes) -> Any:
    """The value of a JSON text, its strings as they are: `convert` knows which are texts. Raises BadRequest, also where an object
    names a key twice (whoever reads the first one and whoever reads the last would read two different requests)."""
    try:
        value = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not JSON: it is no UTF-8 at byte {error.start}", path="$") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}", path="$") from None
    _check_shape(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    repeated = _Repeated(found)
    repeated.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return repeated


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_shape(value: object, path: str = "$", depth: int = 0) -> None:
    """Raises BadRequest beyond NESTING_MAX, and where a key is there twice."""
    if not isinstance(value, dict | list):
        return
    if depth > NESTING_MAX:
        raise BadRequest(f"the body nests deeper than {NESTING_MAX} levels", path="$")
    if isinstance(value, _Repeated):
        raise BadRequest(f"the field {shortened(value.key)!r} is given twice", path=shortened(f"{path}.{value.key}"))
    for name, below in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(below, dict | list):
            _check_shape(below, f"{path}.{name}" if isinstance(name, str) else f"{path}[{name}]", depth + 1)


def convert(raw: Any, kind: type[T], *, strict: bool = True) -> T:
    """Data as a struct: a `Text` in it is cleaned, every other string is a name and stays as it is. Raises BadRequest with the path of
    the first field that is wrong, also where a name is none (`actors.text.names`)."""
    for unknown in unknown_fields(raw, kind):
        raise BadRequest(str(unknown), path=shortened(f"{unknown.path}.{unknown.key}"), near=unknown.near)
    readable = _with_strings(raw, kind, "$")
    try:
        return msgspec.convert(readable, kind, strict=strict)
    except msgspec.ValidationError as error:
        message, path = split_path(str(error))
        raise BadRequest(shortened(with_choices(message, kind, path)), path=shortened(path)) from None


def checked_name(name: str, path: str) -> str:
    """The same name. Raises BadRequest where it cannot be one."""
    fault = fault_of(name)
    if fault:
        raise BadRequest(f"this is a name, and {fault}; names are taken as they are, or not at all", path=path)
    return name


def _with_strings(raw: Any, kind: Any, path: str) -> Any:
    """The same data: texts clean, everything else checked to be a name."""
    if isinstance(raw, str):
        return clean(raw) if _is_text(kind) else checked_name(raw, shortened(path))
    if isinstance(raw, list):
        return [_with_strings(value, _argument(kind, 0), f"{path}[{index}]") for index, value in enumerate(raw)]
    if isinstance(raw, dict):
        struct = _struct_in(kind)
        known = _known(struct) if struct else {}
        return {key: _with_strings(value, known.get(key), f"{path}.{key}") for key, value in raw.items()}
    return raw


def _is_text(kind: Any) -> bool:
    return any(isinstance(meta, msgspec.Meta) and meta.extra == TEXT for meta in getattr(kind, "__metadata__", ()))


def shortened(text: str) -> str:
    """What a refusal repeats of a text that somebody else wrote: clean, and not all of it."""
    return clean(text if len(text) <= REPEATED_CHARS_MAX else f"{text[:REPEATED_CHARS_MAX]}…")


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
