"""Times as people write and read them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.moments import POSITION_MAX, parse_moment, parse_until, show_moment, show_span
from tests.frozen import zone

NOW = 1_750_000_000_000  # 2025-06-15 15:06:40 UTC
SHANGHAI = timezone(timedelta(hours=8), "CST")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1750000000123", 1_750_000_000_123),
        ("2025-06-15T15:06:40+00:00", NOW),
        ("2025-06-15T15:06:40Z", NOW),
        ("2025-06-15T23:06:40+08:00", NOW),
        ("2025-06-15 23:06:40", NOW),  # in the zone given
        ("2025-06-15", NOW - (23 * 3_600_000 + 6 * 60_000 + 40_000)),
        ("2h ago", NOW - 7_200_000),
        ("2h", NOW - 7_200_000),
        ("1d 2h ago", NOW - 93_600_000),
        ("90 min ago", NOW - 5_400_000),
        ("1.5h", NOW - 5_400_000),
        ("250ms", NOW - 250),
        ("1w", NOW - 604_800_000),
        (" 30s ", NOW - 30_000),
    ],
)
def test_parse(text: str, expected: int) -> None:
    assert parse_moment(text, NOW, SHANGHAI) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "ago",
        "2 moons ago",
        "2025-13-01",
        "-5",
        "2h later",
        "99999-01-01",
        "9" * 400,
        "9" * 400 + "h",
        "١h2",
    ],
)
def test_what_is_not_a_time_is_refused_and_told_how(text: str) -> None:
    with pytest.raises(ValueError, match="write 2026-05-01T09:00"):
        parse_moment(text, NOW, UTC)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-29 01:30", "2026-03-29T00:30+00:00"),
        ("2026-03-29 02:30", "2026-03-29T00:30+00:00"),  # no clock showed it: 01:30 or 03:30
        ("2026-03-29 03:00", "2026-03-29T01:00+00:00"),
        ("2026-10-25 02:30", "2026-10-25T00:30+00:00"),  # clocks showed it twice
        ("2026-10-25 03:00", "2026-10-25T02:00+00:00"),
    ],
)
def test_a_time_that_is_two_or_none_is_the_earlier_one_that_may_be_meant(text: str, expected: str, local: bool) -> None:
    """On every Python: their own choices differ."""
    with zone("Europe/Berlin"):
        assert parse_moment(text, NOW, None if local else ZoneInfo("Europe/Berlin")) == parse_moment(expected, NOW)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31 23:59:59"])
@pytest.mark.parametrize("name", ["Asia/Shanghai", "America/New_York", "UTC"])
def test_a_time_beyond_the_calendar_is_refused_like_any_other_that_is_none(text: str, name: str) -> None:
    with zone(name), pytest.raises(ValueError, match="write 2026-05-01T09:00"):
        parse_moment(text, NOW)


def test_until_is_a_position_or_a_time() -> None:
    assert parse_until("17", NOW) == (17, None)
    assert parse_until(str(POSITION_MAX - 1), NOW) == (POSITION_MAX - 1, None)
    assert parse_until(str(POSITION_MAX), NOW) == (0, POSITION_MAX)
    assert parse_until("1h ago", NOW) == (0, NOW - 3_600_000)


def test_show_names_the_zone() -> None:
    assert show_moment(NOW, UTC) == "2025-06-15 15:06:40 UTC"
    assert show_moment(NOW, SHANGHAI) == "2025-06-15 23:06:40 CST (+08:00)"
    assert show_moment(NOW, timezone(timedelta(hours=-3))) == "2025-06-15 12:06:40 -03:00"
    assert show_moment(10**18, UTC) == f"{10**18} ms"


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(-5, "0 ms"), (0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (310_000, "5 min 10 s"), (3_600_000, "1 h"),
     (86_400_000, "24 h"), (90_061_000, "25 h 1 min"), (172_800_000, "2 d"), (183_600_000, "2 d 3 h")],
)  # fmt: skip
def test_span(ms: int, expected: str) -> None:
    assert show_span(ms) == expected


@given(st.integers(0, 4_000_000_000).map(lambda s: s * 1000))
def test_what_is_shown_can_be_read_again(at: int) -> None:
    """100 examples, to the second."""
    assert parse_moment(show_moment(at, UTC).replace(" UTC", "+00:00"), NOW) == at
