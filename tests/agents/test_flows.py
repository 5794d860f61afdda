"""Generators that wait outside of actors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.runtime.errors import CompletionCancelled
from actors.runtime.flows import Flow, run
from actors.runtime.futures import Slot
from actors.runtime.scheduler import LoopScheduler, SimScheduler


def test_it_runs_up_to_what_it_waits_for_and_on() -> None:
    scheduler, slot, seen = SimScheduler(1), Slot(), []

    def flow() -> Flow[None]:
        seen.append("begun")
        seen.append((yield slot))

    run(scheduler, flow())
    assert seen == ["begun"]
    slot.set_result(7)
    assert seen == ["begun"]  # whoever fills the slot is not made to wait
    scheduler.run_ready()
    assert seen == ["begun", 7]


@pytest.mark.parametrize(
    ("fill", "expected"),
    [(lambda slot: slot.set_exception(KeyError("x")), KeyError), (lambda slot: slot.cancel(), CompletionCancelled)],
)
def test_an_error_is_raised_where_it_waits(fill: Any, expected: type[Exception]) -> None:
    scheduler, slot, seen = SimScheduler(1), Slot(), []

    def flow() -> Flow[None]:
        try:
            yield slot
        except Exception as error:
            seen.append(type(error))

    run(scheduler, flow())
    fill(slot)
    scheduler.run_ready()
    assert seen == [expected]


def test_a_defect_leaves_the_turn() -> None:
    scheduler, slot = SimScheduler(1), Slot()

    def flow() -> Flow[None]:
        yield slot
        raise ZeroDivisionError

    run(scheduler, flow())
    slot.set_result(None)
    with pytest.raises(ZeroDivisionError):
        scheduler.run_ready()


async def test_on_the_loop_a_cancelled_task_is_told() -> None:
    scheduler, seen = LoopScheduler(), asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(asyncio.Event().wait())

    def flow() -> Flow[None]:
        try:
            yield task
        except CompletionCancelled as error:
            seen.set_result(error)

    run(scheduler, flow())
    task.cancel()
    async with asyncio.timeout(5):
        await seen
    scheduler.close()
