"""Generators that wait for futures, outside of actors: `value = yield future` suspends one until the future is done.

They run on the scheduler's thread, so that the seeded simulator runs them as production does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from actors.runtime.errors import CompletionCancelled
from actors.runtime.futures import FutureLike
from actors.runtime.scheduler import Scheduler

T = TypeVar("T")
Flow = Generator[FutureLike, Any, T]


def run(scheduler: Scheduler, flow: Flow[None]) -> None:
    """Run a flow, at once up to the first future it waits for. It handles its errors; one that it does not is a defect
    and leaves the turn in which it happened."""
    _step(scheduler, flow, partial(flow.send, None))


def _step(scheduler: Scheduler, flow: Flow[None], step: Callable[[], FutureLike]) -> None:
    try:
        awaited = step()
    except StopIteration:
        return
    awaited.add_done_callback(lambda ready: scheduler.call_soon(partial(_resume, scheduler, flow, ready)))


def _resume(scheduler: Scheduler, flow: Flow[None], ready: FutureLike) -> None:
    step: Callable[[], FutureLike]
    try:
        step = partial(flow.send, ready.result())
    except (asyncio.CancelledError, concurrent.futures.CancelledError):
        step = partial(flow.throw, CompletionCancelled())
    except Exception as error:  # noqa: BLE001 (the flow gets it)
        step = partial(flow.throw, error)
    _step(scheduler, flow, step)
