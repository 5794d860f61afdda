"""The repository's modules as trees, and the names in them resolved through their imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
ORDER = {"events": 0, "store": 1, "actors": 2, "scripts": 3}
"""The packages; each may import itself and what stands below it."""


class Module(msgspec.Struct, frozen=True):
    """A module: `name` is its path from the root, as in `actors/peer.py`."""

    name: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.partition("/")[0]


def module(name: str, text: str) -> Module:
    """A module from its text."""
    return Module(name, text, ast.parse(text))


def paths(*packages: str) -> list[Path]:
    """The modules of packages, in order."""
    found = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return sorted(path for path in found if "node_modules" not in path.parts)


@cache
def modules(*packages: str) -> tuple[Module, ...]:
    """The modules of packages, read once."""
    return tuple(module(str(p.relative_to(ROOT)), p.read_text(encoding="utf-8")) for p in paths(*packages))


def ours() -> tuple[Module, ...]:
    """Every module of the program; no test."""
    return modules(*ORDER)


def imports(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a tree imports, at the top and within functions, by statement or by a constant name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func) in (
            "__import__",
            "import_module",
            "importlib.import_module",
        ):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a chain of attributes; what is computed in front of it is left out, as in `.c` of `f().c`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


class Names:
    """What the names of a module stand for: `now` is `datetime.datetime.now` after `from datetime import datetime as d; d.now`."""

    def __init__(self, tree: ast.Module) -> None:
        self._aliases: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom) and node.module:
                self._aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def of(self, node: ast.expr) -> str:
        """The full name of a chain."""
        head, dot, rest = chained(node).partition(".")
        return f"{self._aliases.get(head, head)}{dot}{rest}"


def chained(node: ast.expr) -> str:
    """As `dotted`, and through calls: `f(x).c` is `f.c`."""
    if isinstance(node, ast.Attribute):
        return f"{chained(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return chained(node.func)
    return node.id if isinstance(node, ast.Name) else ""


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, full name) of every attribute and name that is read, called or not; calls on the way are left out."""
    names = Names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.lineno, names.of(node)


def literal(node: ast.expr) -> str:
    """The constant text within an expression that makes a string: f-string, `%`, `+`, `.format(…)`, `.join(…)`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    if isinstance(node, ast.BinOp):
        return literal(node.left) + literal(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return literal(node.func.value)
    return ""


def words(name: str) -> list[str]:
    """The words of a name: `maxWait_ms` has max, wait, ms."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
