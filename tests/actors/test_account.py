"""What a bot and its peers share."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
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


# --- addresses that the log forgets -------------------------------------------------------------------------------------


@pytest.fixture
async def account() -> AsyncIterator[Account]:
    scheduler = LoopScheduler(clock=ManualClock())
    nothing: Any = None
    hub: Any = SimpleNamespace(agents=0)
    view = BotView(account="weixin:main", epoch=1, policy=Policy())
    yield Account(Address("weixin", "main"), scheduler=scheduler, log=nothing, hub=hub, view=view)
    scheduler.close()


async def test_a_forgotten_address_is_known_no_more(account: Account) -> None:
    stream = account.stream_of("ben")
    account.leaves(stream)
    assert account.known("ben") == stream, "not before the log has forgotten it"
    account.left(stream)
    assert (account.known("ben"), account.peer_of(stream), account.has(stream)) == (None, "", False)
    assert account.address_of(stream) == stream
    assert account.stream_of("ben") != stream


async def test_an_address_that_the_log_has_again_stays_known(account: Account) -> None:
    """A poll's append was behind the one that forgot it, and its result came first."""
    stream = account.stream_of("ben")
    account.leaves(stream)
    account.stays(stream)
    account.know(stream, "ben")
    account.left(stream)
    assert account.known("ben") == stream


async def test_the_result_of_the_poll_comes_last(account: Account) -> None:
    stream = account.stream_of("ben")
    account.leaves(stream)
    account.left(stream)
    account.stays(stream)
    account.know(stream, "ben")
    assert account.stream_of("ben") == stream


async def test_only_the_person_who_is_logged_in_is_pinned(account: Account) -> None:
    account.know("peer-ann", "ann@im.wechat")
    account.owner, account.logged_in = "ann@im.wechat", True
    assert account.view_of("peer-ann", 0).pinned
    assert not account.view_of("peer-unknown", 0).pinned
    account.logged_in = False
    assert not account.view_of("peer-ann", 0).pinned
