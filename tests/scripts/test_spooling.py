"""The spool is taken in once; what is refused stays visible, and what cannot be taken now stays."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.gateway.api import TurnOffer
from events.peer import TurnCompleted
from scripts.asking import spool
from scripts.running.spooling import take_in
from store.memory import MemoryLog
from tests.gateway.stage import Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(MemoryLog())
    yield made
    await made.close()


def left(folder: Path, *texts: str, to: str = "weixin:main") -> list[Path]:
    return [spool.leave(folder, TurnOffer(to=to, turn_id=f"t-{t}", text=t)) for t in texts]


async def test_what_was_left_is_taken_in_once(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    assert await take_in(tmp_path, stage.service) == 0
    left(tmp_path, "one", "two")
    assert await take_in(tmp_path, stage.service) == 2
    assert spool.spooled(tmp_path) == ()
    assert await take_in(tmp_path, stage.service) == 0
    assert [e.turn_id for e in await stage.events(TurnCompleted)] == ["t-one", "t-two"]


async def test_a_file_whose_turn_is_in_the_log_already_is_settled(stage: Stage, tmp_path: Path) -> None:
    """The start before ended between the acceptance and the removal of the file."""
    await stage.account()
    await stage.offer("one", turn_id="t-one")
    left(tmp_path, "one")
    assert await take_in(tmp_path, stage.service) == 1
    assert spool.spooled(tmp_path) == ()
    assert len(await stage.events(TurnCompleted)) == 1


async def test_what_is_refused_or_damaged_is_set_aside_and_harms_no_neighbour(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account()
    (unknown,) = left(tmp_path, "lost", to="weixin:main:zoe@im.wechat")
    (damaged,) = left(tmp_path, "damaged")
    damaged.write_bytes(b"{")
    left(tmp_path, "good")
    with caplog.at_level(logging.ERROR):
        assert await take_in(tmp_path, stage.service) == 1
    assert sorted(p.suffix for p in spool.folder_of(tmp_path).iterdir()) == [".refused", ".refused"]
    assert unknown.with_suffix(".refused").exists()
    assert [r.getMessage().split(": ")[0] for r in caplog.records] == [
        f"{p.with_suffix('.refused')} was set aside" for p in sorted((unknown, damaged))
    ]
    assert "lost" not in caplog.text.replace(str(tmp_path), ""), "no texts in the logs"


async def test_what_cannot_be_taken_now_stays(stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await stage.account()
    await stage.lives["main"].stop("test")
    (path,) = left(tmp_path, "later")
    with caplog.at_level(logging.WARNING):
        assert await take_in(tmp_path, stage.service) == 0
    assert path.exists()
    assert "stays in the spool" in caplog.text
    await stage.lives["main"].start()
    assert await take_in(tmp_path, stage.service) == 1
