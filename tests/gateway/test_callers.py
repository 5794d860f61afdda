"""Tokens are compared in one place and in constant time; a web page is told apart from a program of this machine."""

from __future__ import annotations

import ast
import hmac
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway import callers
from actors.gateway.callers import is_local_program, is_token

ROOT = Path(__file__).parents[2]
SECRETS = ("token", "_token", "expected", "given", "secret", "_secret")


@given(
    st.text(st.characters(), max_size=30), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
)
def test_a_token_is_itself_alone(guess: str, token: str) -> None:
    assert is_token(token, token)
    assert is_token(guess, token) == (guess == token)


@pytest.mark.parametrize(
    "guess", ["", "\ud800", "a\udcffb", "a?b\x00", "a?", "A?B", "a?b ", "\uff41?b", "a?b" * 100_000]
)
def test_no_other_token_will_do(guess: str) -> None:
    assert not is_token(guess, "a?b")


def test_the_comparison_is_the_one_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        asked.append((left, right))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert not callers.is_token("a", "a")
    assert asked == [(b"a", b"a")]


def compared_tokens(tree: ast.AST) -> Iterator[int]:
    """Lines that compare something named as a secret, other than with None."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            continue
        if any(_name(side) in SECRETS for side in (node.left, *node.comparators)):
            yield node.lineno


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # given.encode(), secret.reveal()
        return _name(node.func.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_no_listener_compares_a_token_in_another_way() -> None:
    for planted in ("token == x", "x != self._token", "given.encode() == b", "given in tokens", "a is b or token < x"):
        assert list(compared_tokens(ast.parse(planted))) == [1], planted
    for path in (ROOT / "actors" / "gateway").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert list(compared_tokens(tree)) == [], path
        called = any(isinstance(n, ast.Attribute) and n.attr == "compare_digest" for n in ast.walk(tree))
        assert called == (path.name == "callers.py"), path


@pytest.mark.parametrize(
    ("headers", "local"),
    [
        ({"Host": ["127.0.0.1:8081"]}, True),
        ({"Host": ["localhost"]}, True),
        ({"Host": ["[::1]:8081"]}, True),
        ({"Host": ["[::1]"], "Sec-Fetch-Site": ["none"]}, True),  # typed into the browser by the user
        ({}, False),
        ({"Host": []}, False),
        ({"Host": [""]}, False),
        ({"Host": ["127.0.0.1", "evil.example"]}, False),
        ({"Host": ["evil.example:8081"]}, False),
        ({"Host": ["127.0.0.1.evil.example"]}, False),
        ({"Host": ["localhost.evil.example"]}, False),
        ({"Host": ["evil.example@127.0.0.1"]}, False),
        ({"Host": ["0.0.0.0:8081"]}, False),
        ({"Host": ["[::]:8081"]}, False),
        ({"Host": ["127.0.0.1"], "Origin": ["https://evil.example"]}, False),
        ({"Host": ["127.0.0.1"], "Origin": ["null"]}, False),
        ({"Host": ["127.0.0.1"], "Origin": ["http://127.0.0.1"]}, False),
        ({"Host": ["127.0.0.1"], "Sec-Fetch-Site": ["cross-site"]}, False),
        ({"Host": ["127.0.0.1"], "Sec-Fetch-Site": ["same-site"]}, False),
        ({"Host": ["127.0.0.1"], "Sec-Fetch-Site": ["same-origin"]}, False),
        ({"Host": ["127.0.0.1"], "Sec-Fetch-Site": ["none", "cross-site"]}, False),
    ],
)
def test_a_program_of_this_machine_and_a_web_page(headers: dict[str, list[str]], local: bool) -> None:
    assert is_local_program(lambda name: headers.get(name, [])) is local
