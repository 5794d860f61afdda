"""How a turn's result travels: to whoever asked, and from what a turn waited for back into the turn."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from typing import Any

from pykka._envelope import Envelope  # what pykka's own seam hands to an inbox

from actors.runtime.errors import ActorFailed, CompletionCancelled
from actors.runtime.futures import FutureLike


def answer(envelope: Envelope[Any], response: Any) -> None:
    """Give an asker the response, unless it has left."""
    reply: Any = envelope.reply_to
    if reply is not None and not reply.done():
        reply.set_result(response)


def answer_error(envelope: Envelope[Any], error: BaseException) -> bool:
    """Give an asker the error, as an exception it may safely handle; False if nobody waits."""
    reply: Any = envelope.reply_to
    if reply is None or reply.done():
        return False
    reply.set_exception(because(ActorFailed(type(error).__name__), error) if untellable(error) else error)
    return True


def untellable(error: BaseException) -> bool:
    """Tell whether an error would end or confuse the asker: SystemExit and the like, and what futures refuse to hold."""
    return not isinstance(error, Exception) or isinstance(error, StopIteration)


def because(refusal: Exception, cause: BaseException) -> Exception:
    """Return the refusal with its cause attached."""
    refusal.__cause__ = cause
    return refusal


def outcome(turn: Generator[Any, Any, Any], awaited: FutureLike) -> tuple[Callable[[Any], Any], Any]:
    """Return how the turn goes on: `send` with the result or `throw` with the error, never with a cancellation."""
    try:
        return turn.send, awaited.result()
    except (asyncio.CancelledError, concurrent.futures.CancelledError):
        return turn.throw, CompletionCancelled()
    except BaseException as error:  # noqa: BLE001 (the turn gets it)
        return turn.throw, error
