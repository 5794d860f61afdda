from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.configuration.values import Duration, parse_duration, parse_secret, parse_url


@given(st.integers(0, 10**12 - 1))
def test_a_duration_reads_as_it_is_written(ms: int) -> None:
    assert parse_duration(str(Duration(ms))) == ms


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("24h", 86_400_000), ("30d", 2_592_000_000)]
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms
    assert str(Duration(ms)) == text


@pytest.mark.parametrize(
    "value", ["", "h", "1H", "-1h", "1h30m", " 1h", "1e3s", "٣h", 1.5, True, None, [], "9" * 13 + "s"]
)
def test_no_durations(value: object) -> None:
    with pytest.raises(ValueError, match="unit"):
        parse_duration(value)


@given(st.text() | st.integers() | st.none())
def test_a_secret_is_never_repeated(value: object) -> None:
    said = ""
    try:
        assert parse_secret(value) == value
    except ValueError as error:
        said = str(error)
    assert not isinstance(value, str) or len(value) < 8 or value not in said


@pytest.mark.parametrize("text", ["https://a.example", "https://a.example/x/", "http://127.0.0.1:9", "http://[::1]:9"])
def test_urls(text: str) -> None:
    assert parse_url(text) == text.rstrip("/")


@pytest.mark.parametrize(
    "value", ["", "a", "ftp://a", "https://", "https://u:p@a", "https://a?x=1", "http://a", "https://a b", 3]
)
def test_no_urls(value: object) -> None:
    with pytest.raises(ValueError, match=r"URL|http"):
        parse_url(value)
