"""Stages: a fresh one for a test, or one for a module whose tests bring their own people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stage import Stage, stage_in


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage of the test's own."""
    with stage_in(tmp_path) as found:
        yield found
        found.check()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage for a module, with an echo agent."""
    with stage_in(tmp_path_factory.mktemp("house")) as found:
        found.echo()
        yield found


@pytest.fixture
def play(house: Stage) -> Iterator[Stage]:
    """The module's stage; after the test its own people are counted, and no knob stays turned."""
    house.cast.clear()
    yield house
    house.phones.calm()
    house.check()
