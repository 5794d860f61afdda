"""The shape of a result to come, and the one that needs no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Protocol

import pykka

from actors.runtime.errors import WouldBlock


class FutureLike(Protocol):
    """What a turn may `yield` and an ask returns: the method names of `asyncio.Future`."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> Any:
        """Call `fn(self)` when done; soon, if it is done already."""

    def done(self) -> bool:
        """Tell whether a result, an error or a cancellation is there."""

    def result(self) -> Any:
        """Return the result or raise the error."""

    def set_result(self, result: Any, /) -> None:
        """Make it done with a result."""

    def set_exception(self, error: BaseException, /) -> None:
        """Make it done with an error."""

    def cancel(self) -> bool:
        """Make it done as cancelled; False if it was done already."""

    def __await__(self) -> Generator[Any, Any, Any]: ...


class Slot:
    """A FutureLike without a loop: callbacks run inside `set_result`, so they must only note and schedule."""

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], object]] | None = None
        self._done = False
        self._error: BaseException | None = None
        self._value: Any = None

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn(self)` when done; at once, if it is done already."""
        if self._done:
            fn(self)
        elif self._callbacks is None:
            self._callbacks = [fn]
        else:
            self._callbacks.append(fn)

    def done(self) -> bool:
        """Tell whether a result, an error or a cancellation is there."""
        return self._done

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        return isinstance(self._error, asyncio.CancelledError)

    def result(self) -> Any:
        """Return the result or raise the error; `InvalidStateError` while there is none."""
        if not self._done:
            raise asyncio.InvalidStateError("the slot is still empty")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self) -> BaseException | None:
        """Return the error, None if it went well; `InvalidStateError` while there is no outcome."""
        if not self._done:
            raise asyncio.InvalidStateError("the slot is still empty")
        return self._error

    def set_result(self, result: Any, /) -> None:
        """Make it done with a result."""
        self._settle(result, None)

    def set_exception(self, error: BaseException, /) -> None:
        """Make it done with an error."""
        self._settle(None, error)

    def cancel(self) -> bool:
        """Make it done as cancelled; False if it was done already."""
        if self._done:
            return False
        self.set_exception(asyncio.CancelledError())
        return True

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._done:
            raise asyncio.InvalidStateError("the slot is filled already")
        self._done, self._value, self._error = True, value, error
        callbacks, self._callbacks = self._callbacks, None
        for fn in callbacks or ():
            fn(self)

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self._done:
            yield self
        return self.result()


class RefReply(pykka.Future[Any]):
    """The reply of `ActorRef.ask(block=False)`: reads like a pykka future, but refuses to block."""

    def __init__(self) -> None:
        super().__init__()
        self.slot = Slot()

    def get(self, *, timeout: float | None = None) -> Any:
        """Return the reply if it is there, else raise WouldBlock: blocking would stop the thread that answers.

        `timeout` (seconds) is pykka's, and nothing is waited for.
        """
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        if not self.slot.done():
            raise WouldBlock()
        return self.slot.result()

    def done(self) -> bool:
        """Tell whether the reply is there."""
        return self.slot.done()

    def set(self, value: Any = None) -> None:
        """Answer, by pykka's name."""
        self.slot.set_result(value)

    def set_result(self, value: Any) -> None:
        """Answer, by asyncio's name."""
        self.slot.set_result(value)

    def set_exception(self, exc_info: Any = None) -> None:
        """Answer with an error: an exception, or pykka's triple."""
        error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
        self.slot.set_exception(error or pykka.ActorDeadError("the actor has stopped"))
