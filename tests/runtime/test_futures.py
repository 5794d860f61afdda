from __future__ import annotations

import asyncio

import pykka
import pytest

from actors.runtime.futures import RefReply, Slot


def test_a_slot_is_filled_once() -> None:
    slot = Slot()
    assert not slot.done()
    for read in (slot.result, slot.exception):
        with pytest.raises(asyncio.InvalidStateError):
            read()
    slot.set_result(1)
    assert (slot.done(), slot.result(), slot.exception(), slot.cancelled()) == (True, 1, None, False)
    with pytest.raises(asyncio.InvalidStateError):
        slot.set_result(2)
    with pytest.raises(asyncio.InvalidStateError):
        slot.set_exception(OSError())
    assert slot.result() == 1
    assert slot.cancel() is False


def test_a_slot_may_hold_an_error_or_a_cancellation() -> None:
    failed, cancelled = Slot(), Slot()
    error = OSError()
    failed.set_exception(error)
    assert failed.exception() is error
    with pytest.raises(OSError):
        failed.result()
    assert cancelled.cancel() is True
    assert cancelled.cancelled()
    with pytest.raises(asyncio.CancelledError):
        cancelled.result()


def test_callbacks_are_called_once_each_before_and_after() -> None:
    slot, seen = Slot(), []
    slot.add_done_callback(lambda done: seen.append(("a", done)))
    slot.add_done_callback(lambda done: seen.append(("b", done)))
    slot.set_result(None)
    slot.add_done_callback(lambda done: seen.append(("c", done)))
    assert seen == [("a", slot), ("b", slot), ("c", slot)]


def test_a_slot_can_be_delegated_to() -> None:
    slot = Slot()
    waiting = slot.__await__()
    assert next(waiting) is slot
    slot.set_result(3)
    with pytest.raises(StopIteration) as end:
        next(waiting)
    assert end.value.value == 3


def test_a_ref_reply_speaks_pykka() -> None:
    reply = RefReply()
    reply.set(1)
    assert reply.get() == 1
    failed = RefReply()
    failed.set_exception((OSError, OSError(), None))
    with pytest.raises(OSError):
        failed.get()
    dead = RefReply()
    dead.set_exception()
    with pytest.raises(pykka.ActorDeadError):
        dead.get()
