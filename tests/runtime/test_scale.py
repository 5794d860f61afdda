"""Sanity at size; the figures are the benchmark's business, these bounds are only far off."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from actors.runtime.actor import Actor
from actors.runtime.clock import stopwatch_ns
from actors.runtime.directory import Directory
from actors.runtime.scheduler import LoopScheduler


class Small(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message: Any) -> int:
        self.count += message
        return self.count


async def test_an_idle_actor_is_cheap() -> None:
    directory = Directory(LoopScheduler(), lambda key: Small())
    keys = [f"peer-{number}" for number in range(1_000)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for key in keys:
        directory.tell(key, 1)
    assert await directory.ask(keys[-1], 1) == 2
    gc.collect()
    each = (tracemalloc.get_traced_memory()[0] - before) / len(keys)
    tracemalloc.stop()
    assert each < 1_500
    await directory.stop_all()


@pytest.mark.slow
async def test_a_hundred_thousand_actors() -> None:
    directory = Directory(LoopScheduler(), lambda key: Small(), live_max=100_000)
    started = stopwatch_ns()
    for message in (1, 2):
        for number in range(100_000):
            directory.tell(number, message)
    for number in (0, 50_000, 99_999):
        assert await directory.ask(number, 3) == 6
    assert len(directory.live()) == 100_000
    await directory.stop_all()
    assert len(directory) == 0
    assert stopwatch_ns() - started < 60e9
