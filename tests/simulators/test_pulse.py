from __future__ import annotations

import asyncio

from scripts.simulators.pulse import Pulse


async def test_a_beat_right_after_next_is_not_missed() -> None:
    pulse = Pulse()
    coming = pulse.next()
    pulse.beat()
    await asyncio.wait_for(coming, 1)


async def test_until_looks_again_at_each_beat() -> None:
    pulse, seen = Pulse(), []
    waiting = asyncio.create_task(pulse.until(lambda: len(seen) >= 2))
    for number in range(2):
        await asyncio.sleep(0)
        assert not waiting.done()
        seen.append(number)
        pulse.beat()
    assert await waiting


async def test_until_gives_up_after_its_time() -> None:
    assert not await Pulse().until(lambda: False, timeout_ms=1)


async def test_who_stops_waiting_leaves_nothing_behind() -> None:
    pulse = Pulse()
    assert not await pulse.until(lambda: False, timeout_ms=1)
    await asyncio.sleep(0)
    assert not pulse._waiting


async def test_nobody_waits_after_the_close() -> None:
    pulse = Pulse()
    waiting = asyncio.create_task(pulse.until(lambda: False))
    await asyncio.sleep(0)
    pulse.close()
    assert not await asyncio.wait_for(waiting, 1)
    assert not await pulse.until(lambda: False)
    await asyncio.wait_for(pulse.next(), 1)
