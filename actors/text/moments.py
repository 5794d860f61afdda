"""Times as people write and read them. Inside the program a time is `int` milliseconds since the Unix epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from events.base import Millis

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*(ms|min|s|m|h|d|w)", re.IGNORECASE)
_AGO = re.compile(rf"(?:{_SPAN.pattern}\s*)+(?:ago)?", re.IGNORECASE)

POSITION_MAX = 10**11
"""A bare number below this is a position of the log, from here on a time in ms (1973 and later)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment(text: str, now: Millis, zone: tzinfo | None = None) -> Millis:
    """Read `2026-05-01T09:00+08:00`, `2026-05-01 09:00` (in `zone`, None = local), `2h ago`, `1d 2h`, `now` or ms. Raises ValueError."""
    given = text.strip()
    if given == "now":
        return now
    if given.isdecimal() and len(given) < 19:
        return int(given)
    if _AGO.fullmatch(given):
        return now - sum(round(float(n) * _UNITS_MS[unit.lower()]) for n, unit in _SPAN.findall(given))
    try:
        return _absolute(datetime.fromisoformat(given), zone)
    except (ValueError, OverflowError):  # the second: beyond the years 1 to 9999 once it is in UTC
        raise ValueError(
            f"{text!r} is not a time; write 2026-05-01T09:00, 2026-05-01T09:00+08:00, `2h ago` or milliseconds"
        ) from None


def _absolute(moment: datetime, zone: tzinfo | None) -> Millis:
    if moment.tzinfo is not None:
        return _ms(moment)
    # An hour comes twice, or never, when clocks are put back or forward: the earlier of the two that may be meant.
    both = [moment.replace(fold=fold) for fold in (0, 1)]
    return min(_ms(one.replace(tzinfo=zone) if zone else one.astimezone()) for one in both)


def _ms(moment: datetime) -> Millis:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_until(text: str, now: Millis, zone: tzinfo | None = None) -> tuple[int, Millis | None]:
    """Read a position or a time: (position, None) or (0, time). Raises ValueError."""
    given = text.strip()
    if given.isdecimal() and int(given) < POSITION_MAX:
        return int(given), None
    return 0, parse_moment(given, now, zone)


def show_moment(at: Millis, zone: tzinfo | None = None) -> str:
    """`2026-05-01 09:00:00 CST (+08:00)`: in `zone` (None = local), which is named."""
    try:
        moment = (_EPOCH + timedelta(milliseconds=at)).astimezone(zone)
    except (OverflowError, ValueError):
        return f"{at} ms"  # a damaged or hostile time still has to be shown
    name, offset = moment.tzname() or "", moment.isoformat()[-6:]
    named = (
        name if name == "UTC" else offset if name.startswith(("+", "-", "UTC")) or not name else f"{name} ({offset})"
    )
    return f"{moment:%Y-%m-%d %H:%M:%S} {named}"


def show_span(ms: Millis) -> str:
    """`2 d 3 h`, `24 h`, `5 min 10 s`, `800 ms`: the two largest units; days from two on."""
    if ms < 1_000:
        return f"{max(0, ms)} ms"
    pieces: list[str] = []
    days = () if ms < 2 * 86_400_000 else (("d", 86_400_000),)
    for unit, size in (*days, ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        count, ms = divmod(ms, size)
        if count:
            pieces.append(f"{count} {unit}")
    return " ".join(pieces[:2])
