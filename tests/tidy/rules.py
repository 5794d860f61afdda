"""What no module may do: each rule is given a module and yields (line, what is wrong). `test_rules_bite.py` plants a fault for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from tests.tidy.source import ORDER, Module, chained, dotted, imports, literal, uses, words

Finding = tuple[int, str]
Rule = Callable[[Module], Iterator[Finding]]

CLOCKS = ("actors/runtime/clock.py", "scripts/simulators/clock.py")
"""The modules that may read time or entropy: the program's own, and the simulators' (which share nothing with it)."""

MEASURING = "scripts/bench/"
"""Measures real time; that is its purpose."""

TIME_AND_ENTROPY = {"time", "random", "secrets", "uuid"}
TIME_AND_ENTROPY_USES = re.compile(
    r"(.*\.)?(datetime\.(now|utcnow|today)|date\.today"
    r"|os\.(urandom|getrandom|times|clock_\w+)"
    r"|get_(running|event)_loop\.time|(.*\.)?_?loop\.time)"
)

RUNTIME = "actors/runtime/"
PURE_IMPORTS = {"events", "msgspec", "collections", "typing", "hashlib", "re", "__future__"}

SQL = re.compile(
    r"\b(SELECT\b.*\bFROM|INSERT\s+(OR\s+\w+\s+)?INTO|REPLACE\s+INTO|UPDATE\s+\w*\s*SET|UPDATE\s*$|DELETE\s+FROM"
    r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX|TRIGGER|VIEW)|ATTACH\s+DATABASE|WHERE\s)|^\s*(SELECT|INSERT|UPDATE|DELETE|PRAGMA)\s",
    re.DOTALL,
)
RUNS_SQL = {"execute", "executemany", "executescript", "write_rows", "find_rows"}

NUMBERED_PRAGMAS = ("PRAGMA application_id = ", "PRAGMA user_version = ")
"""SQLite takes no parameters in a PRAGMA; these end in a constant of the schema."""

WAITS_FOR_PYKKA = {"join_all", "ThreadingFuture", "ThreadingActor"}

BROAD = ("Exception", "BaseException")


def arrows(module: Module) -> Iterator[Finding]:
    """Imports go down only, and never to the tests."""
    for imported in imports(module.tree):
        other = imported.split(".")[0]
        if other == "tests" or ORDER.get(other, -1) > ORDER[module.package]:
            yield 0, f"imports {imported}, against the arrow"


def runtime_alone(module: Module) -> Iterator[Finding]:
    """The runtime knows nothing of the project."""
    if module.name.startswith(RUNTIME):
        for name in imports(module.tree):
            if name.split(".")[0] in ORDER and not name.startswith("actors.runtime"):
                yield 0, f"imports {name}"


def pure_vocabulary(module: Module) -> Iterator[Finding]:
    """The vocabulary reads no clock, no file, no network."""
    if module.package == "events":
        for name in {i.split(".")[0] for i in imports(module.tree)} - PURE_IMPORTS:
            yield 0, f"imports {name}"
        yield from ((line, "opens a file") for line, name in uses(module.tree) if name == "open")


def witnesses_share_nothing(module: Module) -> Iterator[Finding]:
    """A codec that a simulator shares with the channels would hide a misreading on both sides."""
    if module.name.startswith("scripts/simulators/"):
        for name in imports(module.tree):
            if name.split(".")[0] in ("actors", "events", "store"):
                yield 0, f"imports {name}"


def time_and_entropy(module: Module) -> Iterator[Finding]:
    """Only the clocks read time or entropy, called or handed on as a function."""
    if module.name in CLOCKS or module.name.startswith(MEASURING):
        return
    for name in imports(module.tree):
        if name.split(".")[0] in TIME_AND_ENTROPY:
            yield 0, f"imports {name}; ask the clock or the ids"
    for line, name in uses(module.tree):
        if TIME_AND_ENTROPY_USES.fullmatch(name):
            yield line, f"uses {name}; ask the clock or the ids"


def no_proxies(module: Module) -> Iterator[Finding]:
    """Messages, no proxies."""
    for line, name in uses(module.tree):
        if name.split(".")[-1] in ("proxy", "ActorProxy", "CallableProxy", "traversable") and "." in name:
            yield line, f"uses {name}; send messages"


def no_blocking_asks(module: Module) -> Iterator[Finding]:
    """Pykka's ask blocks unless told otherwise. Only the runtime sees pykka, and a reference is asked with `block=False`."""
    if not module.name.startswith((RUNTIME, MEASURING)):
        yield from ((0, f"imports {i}; ask a directory") for i in imports(module.tree) if i.split(".")[0] == "pykka")
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = chained(node.func)
        if name.rpartition(".")[2] in WAITS_FOR_PYKKA:
            yield node.lineno, f"{name} blocks"
        blocks = [k.value for k in node.keywords if k.arg == "block"]
        if _asks_a_reference(node) or (name.endswith(".ask") and blocks):
            told_not_to = [b for b in blocks if isinstance(b, ast.Constant) and b.value is False]
            if not told_not_to:
                yield node.lineno, f"{name} blocks"


def no_await_on_pykka(module: Module) -> Iterator[Finding]:
    """A pykka future blocks the thread when it is awaited, at once or by a name that it was given."""
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        asked = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and _asks_a_reference(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Await) and (_asks_a_reference(node.value) or dotted(node.value) in asked):
                yield node.lineno, "awaits a future of pykka, which blocks the thread"


def _asks_a_reference(node: ast.expr) -> bool:
    """Whether this is `REF.ask(…)`: of something named as a reference, or just begun."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "ask"):
        return False
    last = chained(node.func.value).rpartition(".")[2].strip("_")
    return words(last)[-1:] == ["ref"] or last in ("begin", "start")


def no_formatted_sql(module: Module) -> Iterator[Finding]:
    """SQL is constant; values are parameters."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.expr):
            continue
        given = node.args if isinstance(node, ast.Call) and chained(node.func).rpartition(".")[2] in RUNS_SQL else []
        for made in [a for a in given if _is_made(a)] + [node] * (_is_made(node) and bool(SQL.search(literal(node)))):
            if not literal(made).startswith(NUMBERED_PRAGMAS):
                yield made.lineno, f"formats SQL: {literal(made)[:40]!r}"


def _is_made(node: ast.expr) -> bool:
    """Whether a string is put together when the program runs."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod) and not _is_constant(node) and bool(literal(node))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "format" and bool(literal(node))
    return isinstance(node, ast.JoinedStr)


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, ast.Constant)


def no_numbered_parameters(module: Module) -> Iterator[Finding]:
    """`?1` given a sequence is a DeprecationWarning in Python 3.12.0 to 3.12.3: name them, or use `?`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"[=<>(,] ?\?\d", node.value):
            yield node.lineno, "numbers its parameters"


def no_swallowed_errors(module: Module) -> Iterator[Finding]:
    """No bare except; a broad one does something with what it caught."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            yield from _handler(node)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("suppress"):
            broad = [dotted(a) for a in node.args if dotted(a) in BROAD]
            yield from ((node.lineno, f"suppresses every {name}") for name in broad)


def _handler(node: ast.ExceptHandler) -> Iterator[Finding]:
    if node.type is None:
        yield node.lineno, "has a bare except"
        return
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    silent = all(isinstance(s, ast.Pass | ast.Continue) or _is_ellipsis(s) for s in node.body)
    if silent and any(dotted(c) in BROAD for c in caught):
        yield node.lineno, "swallows every error"


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


RULES: tuple[Rule, ...] = (
    arrows,
    runtime_alone,
    pure_vocabulary,
    witnesses_share_nothing,
    time_and_entropy,
    no_proxies,
    no_blocking_asks,
    no_await_on_pykka,
    no_formatted_sql,
    no_numbered_parameters,
    no_swallowed_errors,
)
