"""How the runtime tells of what went wrong: never with an error's text, which may quote a message."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Hashable

logger = logging.getLogger("replyledger.runtime")


def report(what: str, key: Hashable, error: BaseException, quiet: tuple[type[BaseException], ...] = ()) -> None:
    """Log the type and the stack of an error; its text, and one of `quiet` altogether, only at debug level. Keys are logged: let
    them be pseudonyms."""
    if not isinstance(error, quiet):
        stack = "".join(traceback.format_tb(error.__traceback__))
        logger.error("%s: actor %s, %s\n%s", what, key, type(error).__name__, stack)
    logger.debug("%s: actor %s", what, key, exc_info=error)
