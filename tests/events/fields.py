"""The defaults of every field of what events/ writes down or tells, as lines: `STRUCT.FIELD = VALUE`.

A log leaves out what equals a default, so that another default would give old logs another meaning. Written anew, and read by eyes,
when a field joins: `python -m tests.events.fields`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import msgspec

import events
from events.base import Event, Part

FILE = Path(__file__).parent / "golden" / "defaults.txt"


def structs() -> Iterator[type[msgspec.Struct]]:
    """Every struct of events/ that a log or a history is made of, by name."""
    for file in sorted(Path(events.__path__[0]).glob("*.py")):
        module = importlib.import_module(f"events.{file.stem}")
        own = (
            found for _, found in sorted(vars(module).items()) if getattr(found, "__module__", "") == module.__name__
        )
        yield from (found for found in own if _is_shape(found))


def _is_shape(found: object) -> TypeGuard[type[msgspec.Struct]]:
    if not isinstance(found, type) or not issubclass(found, msgspec.Struct) or found in (Event, Part):
        return False
    return not found.__name__.startswith("_")


def lines() -> list[str]:
    """What stands in the file, as the code has it."""
    return [
        f"{struct.__name__}.{field.name} = {field.default!r}"
        for struct in structs()
        for field in msgspec.structs.fields(struct)
        if field.default is not msgspec.NODEFAULT
    ]


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
