"""What is forgotten, and what not."""

from __future__ import annotations

from actors.agents.recent import Recent


def test_the_longest_unused_goes() -> None:
    kept: Recent[str, int] = Recent(2)
    kept.set("a", 1)
    kept.set("b", 2)
    assert kept.get("a") == 1
    kept.set("c", 3)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    assert len(kept) == 2


def test_dropped_is_gone() -> None:
    kept: Recent[str, int] = Recent(2)
    kept.set("a", 1)
    kept.drop("a")
    kept.drop("b")
    assert kept.get("a") is None
