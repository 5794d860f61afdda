"""Wall time held still, for tests of what the program reads from the machine's clock. Everything else is handed its time.

Only the wall clock is frozen: the boot clock, which freezegun does not know, runs on, so that moving the frozen time is a step.
No blocking ask in here: freezegun holds the monotonic clock as well, and pykka would wait without end.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory


class Frozen:
    """The wall clock in a test's hands."""

    def __init__(self, factory: FrozenDateTimeFactory) -> None:
        self._factory = factory

    def step(self, ms: int) -> None:
        """The wall clock is set, forward or back."""
        self._factory.move_to(self._factory.time_to_freeze + timedelta(milliseconds=ms))


@contextmanager
def frozen(at: str | int) -> Iterator[Frozen]:
    """The wall clock stands at a time (UTC unless it says otherwise, or ms); event loops go on."""
    given = datetime.fromtimestamp(at / 1_000, UTC) if isinstance(at, int) else at
    with freeze_time(given, real_asyncio=True) as factory:
        yield Frozen(factory)


@contextmanager
def zone(name: str) -> Iterator[None]:
    """The machine is in a time zone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


def utc_ms(text: str) -> int:
    """`2026-10-25T02:00:00.000Z` in ms, without the parser that is tested."""
    day, _, rest = text.removesuffix("Z").partition("T")
    clock, _, thousandths = rest.partition(".")
    seconds = time.strptime(f"{day} {clock or '00:00:00'} UTC", "%Y-%m-%d %H:%M:%S %Z")
    return calendar.timegm(seconds) * 1_000 + int(thousandths or 0)
