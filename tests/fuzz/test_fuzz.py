"""Every parser of what comes from outside, with what is kept, with changes of it, and with what is very large. See `targets.py`."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz import searching
from tests.fuzz.shaping import MB, changed
from tests.fuzz.targets import CORPUS, TARGETS, Target, corpus

EXAMPLES, FEW = 250, 60
KEPT_BYTES_MAX = 12_000


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept_breaks_nothing(name: str) -> None:
    kept = corpus(name)
    assert kept, "a search begins with valid messages"
    for file, data in kept.items():
        assert len(data) <= KEPT_BYTES_MAX, f"{file}: keep small inputs"
        TARGETS[name].check(data)


def test_nothing_is_kept_for_a_target_that_is_gone() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_what_nearly_is_a_message_breaks_nothing(name: str) -> None:
    target = TARGETS[name]
    kept = list(corpus(name).values())

    @settings(max_examples=FEW if target.slow else EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(kept), st.integers(0, 1 << 32), st.binary(max_size=40))
    @example(b"", 0, b"")
    def check(message: bytes, seed: int, tail: bytes) -> None:
        target.check(changed(message, random.Random(seed), 200_000) + tail)

    check()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("size", [MB, MB + 1])
def test_what_is_very_large_breaks_nothing(name: str, size: int) -> None:
    if TARGETS[name].slow:
        size //= 64
    kept = list(corpus(name).values())
    for data in large(kept[0], size):
        TARGETS[name].check(data)


def large(message: bytes, size: int) -> Iterator[bytes]:
    """Inputs of about `size` bytes: one text, many lines, many members, many levels."""
    yield (b"x" * size)[:size]
    yield (message + b"\n") * (size // (len(message) + 1) // 8)
    yield json.dumps({"type": "completed", "turn_id": "t", "text": "x" * size, "result": "y" * 10}).encode()
    yield json.dumps({"ret": 0, "msgs": [{"from_user_id": "a"}] * (size // 64)}).encode()
    yield message.partition(b"\n")[0] + b"\n" + b'{"text":"' + b"\\u754c" * (size // 6) + b'"}'
    yield b'{"a":' * (size // 16)
    yield b"[" * (size // 8) + b"]" * (size // 8)


# --- the search itself ------------------------------------------------------------------------------------------------


def _planted(data: bytes) -> None:
    """A parser that takes a number where text is due for granted, deep inside of a message."""
    try:
        found = json.load(io.BytesIO(data))
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict) and found.get("ret") == 0 and isinstance(msgs := found.get("msgs"), list):
        for message in msgs:
            if isinstance(message, dict) and "context_token" in message:
                message["context_token"].strip()  # None has no such thing


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(TARGETS, "ilink_updates", Target(_planted))
    return "ilink_updates"


def test_chance_finds_a_planted_fault_and_makes_it_small(planted: str) -> None:
    fault = searching.by_chance(planted, seconds=60)
    assert fault is not None
    assert "has no attribute 'strip'" in fault.said
    assert len(fault.data) < 80, fault.data


def test_the_same_seed_makes_the_same_change() -> None:
    message = next(iter(corpus("http_request").values()))
    some: Callable[[int], bytes] = lambda seed: changed(message, random.Random(seed))  # noqa: E731 (a table of one line)
    assert [some(seed) for seed in range(200)] == [some(seed) for seed in range(200)]
    assert len({some(seed) for seed in range(200)}) > 100


@pytest.mark.skipif(
    not (searching.is_guided() or searching.is_possible()), reason="atheris has no wheel for this Python or machine"
)
def test_atheris_runs_a_target_and_finds_nothing() -> None:
    assert searching.is_guided(), searching.WITHOUT_ATHERIS
    fault, words = searching.guided("directives", 3)
    assert fault is None
    assert "number_of_executed_units" in words
