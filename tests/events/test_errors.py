"""An error without words of its own says what its class is for."""

from __future__ import annotations

import pytest

from events import errors
from events.errors import EventError

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, EventError)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_an_error_says_what_it_is(error: type[EventError]) -> None:
    assert str(error()) == (error.__doc__ or "").strip() != ""
    assert str(error("here")) == "here"
