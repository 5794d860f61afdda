"""The spool is taken in once; what is refused stays visible, and what cannot be taken now stays and is taken in later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.api import TurnOffer
from actors.gateway.errors import NoLogin, PeerElsewhere, SessionElsewhere, UnknownPeer
from events.peer import OutputDropped, SessionBound, TurnCompleted
from scripts.asking import spool
from scripts.running import spooling
from scripts.running.spooling import Spooling
from store.errors import LogBusy, LogFailed
from store.memory import MemoryLog
from store.records import AddressRow, Batch, Binding, Write
from tests.gateway.stage import ANN, BEN, Login, Stage, credentials


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(MemoryLog())
    yield made
    await made.close()


async def take_in(folder: Path, gateway: Any) -> int:
    return await Spooling(folder, gateway).take_in()


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
    assert sorted(p.suffix for p in spool.folder_of(tmp_path).iterdir()) == [".refused", ".refused", ".why", ".why"]
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


# --- before the first login -----------------------------------------------------------------------------------------


def nobody() -> Login:
    login = Login()
    login.kept = None
    return login


async def log_in(stage: Stage, name: str = "main") -> None:
    """What `replyledger login` does with a gateway that runs."""
    stage.logins[name].kept = credentials(token=f"login-{name}")
    await stage.lives[name].stop("restart by test")
    await stage.lives[name].start()


async def test_before_the_first_login_a_turn_is_refused_and_told_what_to_run(stage: Stage) -> None:
    await stage.account(login=nobody())
    for to in ("weixin:main", f"weixin:main:{BEN}"):
        with pytest.raises(
            NoLogin, match=r"nobody has logged in to weixin:main yet.*replyledger login weixin --account main"
        ):
            await stage.offer("news", to)
    assert await stage.events(TurnCompleted) == []
    await log_in(stage)
    with pytest.raises(UnknownPeer, match=BEN):
        await stage.offer("news", f"weixin:main:{BEN}")
    assert (await stage.offer("news")).deliveries[0].state == "queued"


async def test_what_was_left_before_the_first_login_waits_for_it_and_is_taken_in_with_it(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account(login=nobody())
    paths = left(tmp_path, "one", "two", "three")
    gate = Spooling(tmp_path, stage.service)
    with caplog.at_level(logging.WARNING, "replyledger.spool"):
        for _ in range(3):
            assert await gate.take_in() == 0
    assert len(caplog.records) == 1, "said once, however many wait for the same and however often they are looked at"
    assert spool.waiting(tmp_path) == paths
    view = gate.view()
    assert (view.waiting, view.refused) == (3, 0)
    assert {(f.state, f.to) for f in view.files} == {("waiting", "weixin:main")}
    assert all("nobody has logged in to weixin:main yet" in f.reason for f in view.files)
    assert [f.turn_id for f in view.files] == ["t-one", "t-two", "t-three"]
    await log_in(stage)
    assert await gate.take_in() == 3
    assert gate.view().files == ()
    assert [e.turn_id for e in await stage.events(TurnCompleted)] == ["t-one", "t-two", "t-three"]


async def test_another_account_does_not_wait_for_it(stage: Stage, tmp_path: Path) -> None:
    await stage.account(login=nobody())
    await stage.account("side")
    left(tmp_path, "later")
    left(tmp_path, "now", to="weixin:side")
    assert await take_in(tmp_path, stage.service) == 1
    assert [e.turn_id for e in await stage.events(TurnCompleted)] == ["t-now"]
    assert len(spool.waiting(tmp_path)) == 1


async def test_an_account_that_was_logged_out_of_takes_turns_for_whom_it_knows(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    await stage.lives["main"].stop("logout")
    stage.logins["main"].kept = None
    await stage.lives["main"].start()
    left(tmp_path, "one")
    assert await take_in(tmp_path, stage.service) == 1


async def test_it_goes_on_looking_while_the_gateway_runs(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "LOOK_MS", 600_000)
    await stage.account(login=nobody())
    gate = Spooling(tmp_path, stage.service)
    left(tmp_path, "one")
    await gate.take_in()
    gate.start()
    await log_in(stage)
    gate.look()
    await stage.until(lambda: not spool.waiting(tmp_path))
    await gate.stop()
    monkeypatch.setattr(spooling, "LOOK_MS", 1)
    gate.start()
    left(tmp_path, "two")
    await stage.until(lambda: not spool.waiting(tmp_path))
    await gate.stop()
    assert [e.turn_id for e in await stage.events(TurnCompleted)] == ["t-one", "t-two"]


async def test_it_ends_also_when_news_come_at_that_moment(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    for _ in range(20):
        gate = Spooling(tmp_path, stage.service)
        gate.start()
        await asyncio.sleep(0)
        gate.look()
        async with asyncio.timeout(5):
            await gate.stop()


# --- other ways in which a file could be lost -----------------------------------------------------------------------


async def test_the_account_of_another_gateway_on_the_same_folder_is_left_to_it(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    (path,) = left(tmp_path, "for the other", to="weixin:other")
    gate = Spooling(tmp_path, stage.service)
    assert await gate.take_in() == 0
    assert path.exists()
    (shown,) = gate.view().files
    assert (shown.state, shown.to) == ("waiting", "weixin:other")
    assert "the configuration has no account weixin:other" in shown.reason
    with pytest.raises(PeerElsewhere) as refused:
        await stage.offer("x", "weixin:mian")
    assert refused.value.near[0] == "weixin:main"
    await stage.account("other")
    assert await gate.take_in() == 1


async def test_so_is_a_session_whose_peers_are_the_other_gateways(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    stream, bot = "peer-" + "0" * 32, "weixin:other"
    claim = await stage.log.claim(bot, "i-other", 1)
    bound = Binding(stream=stream, session="theirs")
    await stage.log.append(
        Batch(
            account=bot,
            epoch=claim.epoch,
            at=1,
            writes=(Write(stream, 0, (SessionBound(session="theirs", who="test"),)),),
            addresses=(AddressRow(stream=stream, peer=BEN),),
            bindings=(bound,),
        )
    )
    path = spool.leave(tmp_path, TurnOffer(session="theirs", turn_id="t-1", text="x"))
    unknown = spool.leave(tmp_path, TurnOffer(session="nobodys", turn_id="t-2", text="x"))
    with pytest.raises(SessionElsewhere):
        await stage.service.accept_turn(TurnOffer(session="theirs", turn_id="t-3", text="x"))
    assert await take_in(tmp_path, stage.service) == 0
    assert path.exists()
    assert unknown.with_suffix(".refused").exists()


async def test_two_gateways_on_one_folder_take_a_turn_in_once(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    left(tmp_path, *"abcdef")
    left(tmp_path, "nobody", to="weixin:main:zoe@im.wechat")
    one, two = Spooling(tmp_path, stage.service), Spooling(tmp_path, stage.service)
    await asyncio.gather(one.take_in(), two.take_in())
    assert spool.waiting(tmp_path) == []
    assert len(spool.refused(tmp_path)) == 1
    assert sorted(e.turn_id for e in await stage.events(TurnCompleted)) == [f"t-{t}" for t in "abcdef"]
    assert one.view().waiting == two.view().waiting == 0


async def test_a_turn_id_twice_is_one_turn_and_with_another_text_it_is_refused_with_its_reason(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.account()
    for text in ("news", "news", "other news"):
        spool.leave(tmp_path, TurnOffer(to="weixin:main", turn_id="t-1", text=text))
    gate = Spooling(tmp_path, stage.service)
    assert await gate.take_in() == 2
    (shown,) = gate.view().files
    assert (shown.state, shown.turn_id, shown.to) == ("refused", "t-1", "weixin:main")
    assert "another text" in shown.reason
    assert len(await stage.events(TurnCompleted)) == 1


async def test_a_turn_id_that_went_to_somebody_else_is_not_taken_for_delivered(stage: Stage, tmp_path: Path) -> None:
    line = await stage.account(access=("all",))
    await line.hear("hello", peer=BEN)
    for to in ("weixin:main", f"weixin:main:{BEN}"):
        spool.leave(tmp_path, TurnOffer(to=to, turn_id="t-1", text="news"))
    gate = Spooling(tmp_path, stage.service)
    assert await gate.take_in() == 1
    (shown,) = gate.view().files
    assert (shown.state, shown.to) == ("refused", f"weixin:main:{BEN}")
    assert shown.reason == f"turn t-1 was accepted before, for weixin:main:{ANN}; a turn goes out once"


async def test_an_old_file_is_as_good_as_a_new_one(stage: Stage, tmp_path: Path) -> None:
    """An output's age counts from its acceptance: what is left in the spool does not expire there."""
    await stage.account()
    for path in left(tmp_path, "one", "two"):
        path.rename(path.with_name(f"{1:015d}-{path.name[-13:]}"))
    stage.advance(90 * 86_400_000)
    assert await take_in(tmp_path, stage.service) == 2
    assert await stage.events(OutputDropped) == []


async def test_a_file_written_in_part_is_not_looked_at(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    (path,) = left(tmp_path, "one")
    whole = path.read_bytes()
    draft = path.rename(path.with_name(f".{path.name}.0123"))
    draft.write_bytes(whole[:10])
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(whole[:10])
    assert await take_in(tmp_path, stage.service) == 0
    assert (draft.exists(), hidden.exists(), spool.refused(tmp_path)) == (True, True, [])


async def test_what_cannot_be_read_now_stays_and_is_told(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account()
    (path,) = left(tmp_path, "one")
    data = path.read_bytes()
    path.unlink()
    path.mkdir()
    gate = Spooling(tmp_path, stage.service)
    left(tmp_path, "two")
    assert await gate.take_in() == 1, "and harms no neighbour"
    assert [(f.state, f.reason) for f in gate.view().files] == [("waiting", "it cannot be read: Is a directory")]
    path.rmdir()
    path.write_bytes(data)
    assert await gate.take_in() == 1


async def test_a_file_that_cannot_be_removed_is_told_and_its_turn_goes_out_once(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    await stage.account()
    left(tmp_path, "one")
    left(tmp_path, "lost", to="weixin:main:zoe@im.wechat")
    gate = Spooling(tmp_path, stage.service)
    with monkeypatch.context() as patch:
        patch.setattr(spool, "settle", refuses)
        patch.setattr(spool, "set_aside", refuses)
        for _ in range(2):
            await gate.take_in()
        reasons = [f.reason for f in gate.view().files]
        assert "is in the log, but its file cannot be removed: Permission denied" in reasons[0]
        assert "cannot be set aside: Permission denied" in reasons[1]
    await gate.take_in()
    assert (gate.view().waiting, gate.view().refused) == (0, 1)
    assert len(await stage.events(TurnCompleted)) == 1


async def test_a_refused_turn_is_offered_again_under_its_old_name(stage: Stage, tmp_path: Path) -> None:
    line = await stage.account(access=("all",))
    (path,) = left(tmp_path, "news", to=f"weixin:main:{BEN}")
    gate = Spooling(tmp_path, stage.service)
    assert await gate.take_in() == 0
    assert "no peer has the address" in gate.view().files[0].reason
    await line.hear("hello", peer=BEN)
    path.with_suffix(".refused").rename(path)
    assert await gate.take_in() == 1
    assert list(spool.folder_of(tmp_path).iterdir()) == []


async def test_a_log_that_takes_nothing_now_loses_no_file(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.account()
    paths = left(tmp_path, "one", "two")
    gate = Spooling(tmp_path, stage.service)

    async def busy(*_: object) -> None:
        raise LogBusy("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(stage.log, "key", busy)
        assert await gate.take_in() == 0
        assert spool.waiting(tmp_path) == paths
    assert await gate.take_in() == 2


async def test_a_log_that_failed_ends_the_process_and_loses_no_file(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.account()
    told: list[BaseException] = []
    gate = Spooling(tmp_path, stage.service, told.append)
    gate.start()
    paths = left(tmp_path, "one")

    async def failed(*_: object) -> None:
        raise LogFailed("a commit failed")

    monkeypatch.setattr(stage.log, "key", failed)
    gate.look()
    await stage.until(lambda: told)
    monkeypatch.undo()
    await gate.stop()
    assert spool.waiting(tmp_path) == paths


async def test_a_defect_at_one_turn_keeps_it_and_harms_no_neighbour(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account()
    (first, _) = left(tmp_path, "secret", "two")
    accept = stage.service.accept_turn

    async def trips(offer: TurnOffer, agent: str = "") -> Any:
        if offer.text == "secret":
            raise ZeroDivisionError
        return await accept(offer, agent)

    monkeypatch.setattr(stage.service, "accept_turn", trips)
    gate = Spooling(tmp_path, stage.service)
    assert await gate.take_in() == 1
    assert spool.waiting(tmp_path) == [first]
    assert "ZeroDivisionError" in gate.view().files[0].reason


async def test_what_was_not_looked_at_yet_counts_as_waiting(stage: Stage, tmp_path: Path) -> None:
    await stage.account()
    gate = Spooling(tmp_path, stage.service)
    (path,) = left(tmp_path, "one")
    view = gate.view()
    assert (view.waiting, [(f.file, f.reason) for f in view.files]) == (
        1,
        [(str(path), "it is looked at within seconds")],
    )
    await gate.take_in()
    assert gate.view().waiting == 0


async def test_a_folder_that_cannot_be_read_is_told_once_and_taken_in_once_it_can(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account()
    left(tmp_path, "one")
    folder = spool.folder_of(tmp_path)
    away = folder.rename(tmp_path / "away")
    folder.write_text("a file")
    gate = Spooling(tmp_path, stage.service)
    with caplog.at_level(logging.WARNING, "replyledger.spool"):
        for _ in range(2):
            assert await gate.take_in() == 0
        gate.start()
        await gate.stop()
    assert [r.getMessage() for r in caplog.records if r.name == "replyledger.spool"] == [
        f"{folder} cannot be read, so nothing of it is taken in: Not a directory"
    ]
    assert [(f.file, f.reason) for f in gate.view().files] == [
        (str(folder), "the folder cannot be read: Not a directory")
    ]
    folder.unlink()
    away.rename(folder)
    assert await gate.take_in() == 1


async def test_earlier_refusals_are_told_once_at_the_start(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.account()
    left(tmp_path, "lost", to="weixin:main:zoe@im.wechat")
    await take_in(tmp_path, stage.service)
    gate = Spooling(tmp_path, stage.service)
    with caplog.at_level(logging.WARNING, "replyledger.spool"):
        await gate.take_in()
        gate.start()
        await gate.stop()
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        f"1 turn was refused earlier and set aside in {spool.folder_of(tmp_path)}; `replyledger status` lists them"
    ]
