"""What a bot and its peers share."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from actors.account import Account
from actors.deciding.view import BotView, Reason
from actors.runtime.clock import ManualClock
from actors.runtime.scheduler import LoopScheduler
from events.bot import Policy
from events.streams import Address

STREAM = "peer-0123456789abcdef0123456789abcdef"

HELD: tuple[Reason | None, bool] = ("share_spent", True)
ANSWER: tuple[Reason | None, bool] = ("open_request", True)
PUSH: tuple[Reason | None, bool] = ("open_request", False)
CLOSED: tuple[Reason | None, bool] = ("window_closed", True)
EMPTY: tuple[Reason | None, bool] = (None, False)


@pytest.mark.parametrize(
    ("steps", "warnings"),
    [
        ([HELD], 1),
        ([HELD, HELD], 1),
        ([HELD, ANSWER, HELD], 1),
        ([HELD, CLOSED, ANSWER, HELD], 1),
        ([HELD, PUSH, EMPTY, HELD], 2),
        ([HELD, PUSH, HELD], 2),
        ([HELD, EMPTY, HELD], 2),
        ([ANSWER, EMPTY], 0),
    ],
)
async def test_a_spent_share_is_warned_of_once_until_a_push_leaves(
    steps: list[tuple[Reason | None, bool]], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = LoopScheduler(clock=ManualClock())
    nothing: Any = None
    view = BotView(account="weixin:main", epoch=1, policy=Policy())
    account = Account(Address("weixin", "main"), scheduler=scheduler, log=nothing, hub=nothing, view=view)
    with caplog.at_level(logging.WARNING):
        for reason, pushes_wait in steps:
            account.note_block(STREAM, reason, pushes_wait=pushes_wait)
    scheduler.close()
    assert account.share_warnings == len(caplog.records) == warnings
    assert account.blocked.get(STREAM) == steps[-1][0]
