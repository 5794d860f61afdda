"""Numbers that measure time or size say in what: by their name (`wait_ms`, `part_bytes`), or in words beside them.

Instants (`at`, `now`, `due_at`, `until`) are ms since the epoch everywhere, as events/README.md says, and are not asked again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Module, dotted, words

Finding = tuple[int, str]

QUANTITIES = {
    *("wait", "age", "timeout", "delay", "duration", "period", "interval", "pause", "pace", "ttl", "elapsed"),
    *("lateness", "latency", "grace", "patience", "hold", "every", "after", "within", "remaining", "old"),
    *("size", "length", "weight", "memory"),
}
"""Words that say that a number is a time or a size."""

UNITS = {"ms", "s", "us", "ns", "minutes", "hours", "days", "bytes", "chars", "mib", "kib", "kb", "mb"}
COUNTS = {
    "count",
    "burst",
    "failures",
    "number",
    "max",
    "parts",
    "replies",
    "outputs",
    "turns",
    "rows",
    "lines",
    "events",
    "peers",
    "pages",
    "position",
}
"""A number of things has its unit in its name: `pages_after`. `after` alone is a position of the log."""

INSTANT = re.compile(r"(.*_)?(at|now|until|since)")
SAID = re.compile(
    r"\b(ms|milliseconds?|seconds?|minutes?|hours?|s|ns|bytes?|kB|MB|MiB|characters?|bits?|nanoseconds?|failures|rows)\b"
)
NUMBER = re.compile(r"\b(int|float)\b")
NOT_A_NUMBER = re.compile(
    r"\b(dict|list|tuple|set|frozenset|Callable|Mapping|Sequence|Iterable|Iterator|Counter|bool|str|bytes)\b"
)


def units(module: Module) -> Iterator[Finding]:
    """Public quantities say their unit, in their name, their docstring, or the comment beside them."""
    yield from _body(module, module.tree.body, "")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation and "float" in ast.unparse(node.annotation):
            name = node.arg if isinstance(node, ast.arg) else dotted(node.target)
            if INSTANT.fullmatch(name):
                yield node.lineno, f"{name} is an instant, so an int of ms"


def _body(module: Module, body: list[ast.stmt], doc: str) -> Iterator[Finding]:
    for number, node in enumerate(body):
        follows = body[number + 1] if number + 1 < len(body) else None
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _public(node.name):
                yield from _function(node, doc)
            case ast.ClassDef() if _public(node.name):
                yield from _body(module, node.body, ast.get_docstring(node) or "")
            case ast.AnnAssign(target=ast.Name(id=name)) if _is_number(node.annotation, node.value):
                if _unsaid(name, doc, _beside(module, node), _docstring(follows)):
                    yield node.lineno, f"{name} does not say its unit"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float() as value)):
                if not isinstance(value, bool) and _unsaid(name, doc, _beside(module, node), _docstring(follows)):
                    yield node.lineno, f"{name} does not say its unit"
            case _:
                pass


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, doc_of_class: str) -> Iterator[Finding]:
    doc = ast.get_docstring(node) or ""
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    for arg in every:
        if arg.arg == "size" and _is_many(node.returns):
            continue  # of a page: a number of what is returned
        if _is_number(arg.annotation) and _unsaid(arg.arg, doc, doc_of_class if node.name == "__init__" else ""):
            yield arg.lineno, f"{arg.arg} of {node.name} does not say its unit"
    if _is_number(node.returns) and _unsaid(node.name, doc):
        yield node.lineno, f"what {node.name} returns does not say its unit"


def _unsaid(name: str, *said: str) -> bool:
    parts = words(name)
    measured = name != "after" and bool(QUANTITIES & set(parts)) and not (UNITS | COUNTS) & set(parts)
    return measured and _public(name) and not any(map(SAID.search, said))


def _public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def _is_number(annotation: ast.expr | None, value: ast.expr | None = None) -> bool:
    """An int or a float, perhaps None; a bare `Final` goes by its value."""
    if annotation is None:
        return False
    text = ast.unparse(annotation)
    if text in ("Final", "ClassVar"):
        constant = value.value if isinstance(value, ast.Constant) else None
        return isinstance(constant, int | float) and not isinstance(constant, bool)
    return bool(NUMBER.search(text)) and not NOT_A_NUMBER.search(text)


def _is_many(annotation: ast.expr | None) -> bool:
    return annotation is not None and bool(
        re.search(r"\b(tuple|list|Sequence|Iterator|Page|History)\b", ast.unparse(annotation))
    )


def _docstring(node: ast.stmt | None) -> str:
    """The words under an attribute."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def _beside(module: Module, node: ast.stmt) -> str:
    """The comments on the lines of a statement."""
    lines = module.text.splitlines()[node.lineno - 1 : node.end_lineno]
    return " ".join(line.partition("#")[2] for line in lines)
