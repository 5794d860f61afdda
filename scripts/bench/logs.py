"""Logs to measure on, built once in a run: an empty one, a deep one, and copies for subject and anchor."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from events import bot
from events.base import Millis
from scripts.bench.streams import ACCOUNT, BOT, SALT
from store.core import SqliteCore
from store.errors import AppendRefused
from store.prepare import prepare
from store.records import ANY, Batch, Write
from store.sqlite import connect

GROUP = 256
"""Batches of a commit while a log is built."""


def build(path: Path, batches: Iterable[Batch], at: Millis) -> Path:
    """A new log with an account, a login and these batches. Not durable while it is built; whole and checkpointed after."""
    core = open_core(path, at)
    core.connection.execute("PRAGMA synchronous = OFF")
    left = iter(batches)
    while group := list(islice(left, GROUP)):
        for outcome in core.append_group([prepare(batch) for batch in group]):
            if isinstance(outcome, AppendRefused):
                raise outcome
    close(core)
    return path


def open_core(path: Path, at: Millis) -> SqliteCore:
    """A connection with the gateway's own pragmas; a new log gets its account at epoch 1."""
    new = not path.exists()
    core = connect(path, salt=SALT, at=at)
    if new:
        core.claim(ACCOUNT.bot, "bench", at)
        policy = bot.PolicyChanged(policy=bot.Policy(), policy_id="0123456789abcdef")
        login = bot.LoginCompleted(generation=1)
        core.append(Batch(account=ACCOUNT.bot, epoch=1, at=at, writes=(Write(BOT, ANY, (policy, login)),)))
    return core


def close(core: SqliteCore) -> None:
    """Checkpoint and close, so that one file holds everything."""
    core.checkpoint()
    core.connection.close()


def copy(path: Path, name: str) -> Path:
    """A closed log once more, beside it."""
    target = path.with_name(name)
    shutil.copyfile(path, target)
    return target
