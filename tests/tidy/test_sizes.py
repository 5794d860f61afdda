"""Modules and functions are short, and say what they are for; the folders hold what was agreed, and explain it."""

from __future__ import annotations

import ast

import pytest

from tests.tidy.source import ORDER, ROOT, Module, ours

LINES_MAX = 400
FUNCTION_LINES_MAX = 60

AGREED = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "requirements.txt", "tests", *ORDER}
MADE = {"build", "dist", "demo-log", "state"}
"""What running the program leaves behind; git ignores it."""


@pytest.mark.parametrize("module", ours(), ids=lambda m: m.name)
def test_modules_and_functions_are_short_and_say_what_they_are(module: Module) -> None:
    assert module.text.count("\n") <= LINES_MAX, f"{module.name} has over {LINES_MAX} lines"
    assert ast.get_docstring(module.tree), f"{module.name} does not say what it is for"
    assert "TODO" not in module.text, f"{module.name} has a leftover"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno
            assert length <= FUNCTION_LINES_MAX, f"{module.name}:{node.lineno} {node.name} has {length} lines"


def test_the_top_level_holds_what_was_agreed() -> None:
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith(".") and not p.name.endswith(".egg-info")}
    assert found - MADE <= AGREED, f"beyond what was agreed: {found - MADE - AGREED}"


@pytest.mark.parametrize("package", ORDER)
def test_every_package_explains_itself(package: str) -> None:
    text = (ROOT / package / "README.md").read_text(encoding="utf-8")
    for room in sorted(p.name for p in (ROOT / package).iterdir() if p.is_dir() and (p / "__init__.py").exists()):
        assert room in text, f"{package}/README.md does not mention {room}/"


def test_every_room_of_the_tests_is_told() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    rooms = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and not p.name.startswith((".", "_"))}
    assert not {room for room in rooms if f"`{room}/" not in text}, "tests/README.md does not tell of these rooms"
