"""The repository's own rules, as a test: arrows between packages, what only one module may touch, sizes, documentation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = {"events": 0, "store": 1, "actors": 2, "scripts": 3}
MODULES = sorted(p for package in ORDER for p in (ROOT / package).rglob("*.py") if "node_modules" not in p.parts)

CLOCKS = {"actors/runtime/clock.py", "scripts/simulators/clock.py"}
"""The modules that may read time or entropy: the program's own, and the simulators' (which share nothing with it)."""

BANNED_IMPORTS = {"time", "random", "secrets", "uuid"}
BANNED_CALLS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "os.urandom", "os.getrandom"}
THREADS_OF_THEIR_OWN = {"actors/runtime/threaded.py", "actors/runtime/futures.py"}

LINES_MAX = 400
FUNCTION_LINES_MAX = 60


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in MODULES:
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, dotted(node.func)


def test_imports_go_down_only() -> None:
    for name, tree in trees():
        package = name.split("/")[0]
        for imported in imports(tree):
            other = imported.split(".")[0]
            assert ORDER.get(other, -1) <= ORDER[package], f"{name} imports {imported}, against the arrow"


def test_the_runtime_knows_nothing_of_the_project() -> None:
    for name, tree in trees():
        if name.startswith("actors/runtime/"):
            ours = [i for i in imports(tree) if i.split(".")[0] in ORDER and not i.startswith("actors.runtime")]
            assert not ours, f"{name} imports {ours}"


def test_the_vocabulary_is_pure() -> None:
    allowed = {"events", "msgspec", "collections", "typing", "hashlib", "re", "__future__"}
    for name, tree in trees():
        if name.startswith("events/"):
            others = {i.split(".")[0] for i in imports(tree)} - allowed
            assert not others, f"{name} imports {others}"


def test_simulators_share_no_codec_with_the_channels() -> None:
    for name, tree in trees():
        if name.startswith("scripts/simulators/"):
            shared = [i for i in imports(tree) if i.startswith(("actors", "events", "store"))]
            assert not shared, f"{name} imports {shared}: a shared misreading would hide on both sides"


def test_only_the_clocks_read_time_and_entropy() -> None:
    for name, tree in trees():
        if name in CLOCKS or name.startswith("scripts/bench/"):
            continue
        found = {i for i in imports(tree) if i.split(".")[0] in BANNED_IMPORTS}
        called = {c for _, c in calls(tree) if any(c == b or c.endswith(f".{b}") for b in BANNED_CALLS)}
        assert not found | called, f"{name} uses {found | called}; ask the clock or the ids"


def test_nobody_uses_proxies_or_blocking_asks() -> None:
    for name, tree in trees():
        if not name.startswith("actors/") or name in THREADS_OF_THEIR_OWN:
            continue
        proxied = [line for line, call in calls(tree) if call.endswith(".proxy")]
        assert not proxied, f"{name}:{proxied} makes a proxy; send messages"


def test_sql_is_never_formatted() -> None:
    words = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ")
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(v.value for v in node.values if isinstance(v, ast.Constant) and isinstance(v.value, str))
                assert not text.startswith(words), f"{name}:{node.lineno} formats SQL"


def test_no_error_is_swallowed() -> None:
    """A bare or a broad `except` reraises, returns, or at least does something with what it caught."""
    for name, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            assert node.type is not None, f"{name}:{node.lineno} has a bare except"
            broad = dotted(node.type) in ("Exception", "BaseException")
            silent = all(isinstance(s, ast.Pass | ast.Continue) for s in node.body)
            assert not (broad and silent), f"{name}:{node.lineno} swallows every error"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert text.count("\n") <= LINES_MAX, f"{path} has over {LINES_MAX} lines"
    assert ast.get_docstring(tree), f"{path} does not say what it is for"
    assert "TODO" not in text, f"{path} has a leftover"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno
            assert length <= FUNCTION_LINES_MAX, f"{path}:{node.lineno} {node.name} has {length} lines"


def test_the_top_level_holds_what_was_agreed() -> None:
    agreed = {
        "actors",
        "events",
        "scripts",
        "store",
        "tests",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "requirements.txt",
    }
    made = {"build", "dist", "demo-log", "state"}
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith(".") and not p.name.endswith(".egg-info")}
    assert found - made <= agreed, f"beyond what was agreed: {found - made - agreed}"


@pytest.mark.parametrize("package", ORDER)
def test_every_package_explains_itself(package: str) -> None:
    text = (ROOT / package / "README.md").read_text(encoding="utf-8")
    for room in sorted(p.name for p in (ROOT / package).iterdir() if p.is_dir() and (p / "__init__.py").exists()):
        assert room in text, f"{package}/README.md does not mention {room}/"
