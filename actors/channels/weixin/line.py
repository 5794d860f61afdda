"""The line that the ways out of an account share: one session with the server, held under one epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.channels.weixin.calls import Calls
from actors.ports import Fence, LoginGone
from actors.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Line:
    """What may be said to the server, for which account, while it is ours; and who hears that it is ours, or logged in, no more."""

    calls: Calls
    account: str  # `CHANNEL:ACCOUNT`, for the log
    fence: Fence
    clock: Clock
    on_lost: Callable[[LoginGone], None]
    on_fenced: Callable[[], None]
