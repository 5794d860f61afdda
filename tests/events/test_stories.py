"""What stories say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from events.history import history
from events.streams import delivery_id
from tests.streams_builder import ANN, Streams


def pushed(**more: Any) -> Streams:
    return Streams().start().message("hi").complete("t1", total=100).request("r1", ("t1", 0, 60), **more)


SHARES: list[tuple[Callable[[], Streams], bool]] = [
    (lambda: pushed(share=1), True),
    (lambda: pushed(share=1).ok("r1"), True),
    (lambda: pushed(share=1).unknown("r1"), True),
    (lambda: pushed(share=1).fail("r1"), False),
    (lambda: pushed(kind="answer").ok("r1"), False),
    (lambda: pushed(kind="notice").ok("r1"), False),
    (lambda: pushed(kind="answer").fail("r1"), False),
]


@pytest.mark.parametrize(("build", "counted"), SHARES)
def test_only_pushes_that_are_charged_spend_the_share(build: Callable[[], Streams], counted: bool) -> None:
    assert history(build().of(ANN)).requests["r1"].share_counted is counted


@pytest.mark.parametrize(
    ("build", "cut"),
    [
        (lambda: pushed().ok("r1"), True),
        (pushed, False),
        (lambda: pushed().ok("r1", message_id=""), False),
        (lambda: Streams().start().message("hi").complete("t1").request("r1", "t1").ok("r1"), False),
    ],
    ids=["a part of it arrived", "nothing arrived yet", "nobody knows", "all of it arrived"],
)
def test_an_output_is_cut_when_only_a_part_of_it_was_delivered(build: Callable[[], Streams], cut: bool) -> None:
    assert history(build().of(ANN)).outputs[delivery_id(ANN, "t1")].cut is cut
