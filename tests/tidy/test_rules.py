"""Every rule, held against every module."""

from __future__ import annotations

import pytest

from tests.tidy.rules import RULES, Rule
from tests.tidy.source import ours
from tests.tidy.units import units


@pytest.mark.parametrize("rule", [*RULES, units], ids=lambda rule: rule.__name__)
def test_the_program_keeps_the_rule(rule: Rule) -> None:
    found = [f"{module.name}:{line} {what}" for module in ours() for line, what in rule(module)]
    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


def test_the_modules_are_found() -> None:
    """A rule over nothing would hold."""
    assert {m.package for m in ours()} == {"events", "store", "actors", "scripts"}
    assert len(ours()) > 100
