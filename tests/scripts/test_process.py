"""A whole gateway in the test's own process: how it starts, what it obeys, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.api import AccountOrder, TurnOffer
from actors.gateway.views import StatusView
from actors.ports import Credentials, LoginGone
from actors.runtime.scheduler import LoopScheduler
from events.bot import BotStarted, BotStopped
from scripts import run as run_module
from scripts.asking import spool
from scripts.asking.client import PORT_FILE
from scripts.configuration.config import Config, load
from scripts.exits import ConfigRefused, ExitCode, Failed, Replaced
from scripts.exits import LoginGone as LoginGoneStop
from scripts.running import offline as offline_module
from scripts.running import process as process_module
from scripts.running.offline import OfflineAsker
from scripts.running.process import changed_by_restart
from store.errors import LogBusy, LogFailed, LogUnreadable
from store.records import Start
from store.sqlite import SqliteLog
from tests.scripts.gateway_here import GatewayHere


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayHere:
    made = GatewayHere(tmp_path, monkeypatch)
    made.log_in()
    return made


async def terminate(task: asyncio.Task[ExitCode]) -> ExitCode:
    os.kill(os.getpid(), signal.SIGTERM)
    return await asyncio.wait_for(task, 20)


async def events_of(here: GatewayHere) -> list[Any]:
    log = await SqliteLog.open(here.log)
    try:
        return [r.event async for page in log.page() for r in page]
    finally:
        await log.close()


async def test_a_term_ends_it_and_the_log_says_so(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await here.start(monkeypatch)
    assert here.life.state == "running"
    port = int((here.state / PORT_FILE).read_text())
    assert port > 0
    assert await terminate(task) is ExitCode.DONE
    run_module._end(ExitCode.DONE)
    found = await events_of(here)
    assert [e.reason for e in found if isinstance(e, BotStopped)] == ["stopped"]
    assert here.line.links[0].outlet.closed
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


async def test_a_newer_instance_ends_it_with_79(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await here.start(monkeypatch)
    other = await SqliteLog.open(here.log)
    await other.claim("weixin:main", "i-newer", here.stage.clock.now())
    code = await asyncio.wait_for(task, 20)
    await other.close()
    assert code is ExitCode.REPLACED
    with pytest.raises(Replaced) as end:
        run_module._end(code)
    assert end.value.code == 79
    found = await events_of(here)
    assert [e for e in found if isinstance(e, BotStopped)] == [], "only its own is released"
    assert len([e for e in found if isinstance(e, BotStarted)]) == 2


async def test_only_the_last_replaced_account_ends_it(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    here.path.write_text(here.path.read_text() + '[accounts.other]\nchannel = "weixin"\n')
    task = await here.start(monkeypatch)
    rival = await SqliteLog.open(here.log)
    await rival.claim("weixin:main", "i-newer", here.stage.clock.now())
    await here.until(lambda: here.life.state == "fenced")
    assert not task.done()
    ready = await here.process.service.ready()
    assert ready.reasons[0] == "weixin:main: fenced (a newer instance has claimed this account)"
    await rival.claim("weixin:other", "i-newer", here.stage.clock.now())
    code = await asyncio.wait_for(task, 20)
    await rival.close()
    assert code is ExitCode.REPLACED


async def test_a_lost_login_ends_it_with_77_where_that_is_wanted(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write(account='login_lost = "exit"')
    task = await here.start(monkeypatch)
    here.line.incoming.put_nowait(LoginGone(code=-14, where="poll"))
    code = await asyncio.wait_for(task, 20)
    assert code is ExitCode.LOGIN_LOST
    with pytest.raises(LoginGoneStop) as end:
        run_module._end(code)
    assert end.value.code == 77


async def test_a_lost_login_is_otherwise_visible_and_no_end(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await here.start(monkeypatch)
    here.line.incoming.put_nowait(LoginGone(code=-14, where="poll"))
    await here.until(lambda: here.life.state == "login_lost")
    assert not (await here.process.service.ready()).ready
    assert not task.done()
    here.log_in(Credentials(token="login-2", base_url="http://127.0.0.1:1", user_id="ann@im.wechat"))
    await here.until(lambda: here.life.state == "running")
    assert await terminate(task) is ExitCode.DONE


async def test_a_login_that_appears_while_it_runs_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = GatewayHere(tmp_path, monkeypatch)
    task = await here.start(monkeypatch)
    assert here.life.state == "login_needed"
    file = here.state / "accounts" / "main.json"
    file.parent.mkdir()
    file.write_text('{"token": "half')  # somebody is still copying it
    await here.until(lambda: "is no login" in here.life.reason)
    here.log_in()
    await here.until(lambda: here.life.state == "running")
    assert await terminate(task) is ExitCode.DONE


async def test_a_log_that_fails_ends_it_with_1_and_everything_is_released(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = await here.start(monkeypatch)

    def fail(_prepared: object) -> None:
        raise LogFailed("the disk is gone")

    here.process.log._core.append_group = fail
    with pytest.raises(LogFailed):
        await here.process.service.accept_turn(TurnOffer(to="weixin:main", text="news"))
    code = await asyncio.wait_for(task, 20)
    assert code is ExitCode.FAILED
    with pytest.raises(Failed, match="the log failed") as end:
        run_module._end(code)
    assert end.value.code == 1
    assert here.line.links[0].outlet.closed
    assert "the log failed, so this process ends" in caplog.text


async def test_a_second_term_ends_it_at_once(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(run_module.os, "_exit", ended.append)
    task = await here.start(monkeypatch)
    stop = asyncio.Event()
    here.line.links[0].outlet.close = stop.wait
    os.kill(os.getpid(), signal.SIGTERM)
    await here.until(lambda: here.process.service.stopping)
    os.kill(os.getpid(), signal.SIGTERM)
    await here.until(lambda: ended)
    stop.set()
    await asyncio.wait_for(task, 20)
    assert ended == [1]


# --- HUP --------------------------------------------------------------------------------------------------------------


async def hup(here: GatewayHere, caplog: pytest.LogCaptureFixture, said: str = "the configuration was reread") -> None:
    count = caplog.text.count(said)
    os.kill(os.getpid(), signal.SIGHUP)
    await here.until(lambda: caplog.text.count(said) > count)


async def test_a_hup_changes_policy_and_access(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    here.write(policy="share_replies = 1")
    task = await here.start(monkeypatch)
    await here.line.hear("hello")
    service = here.process.service
    for text in ("one", "two"):
        accepted = await service.accept_turn(TurnOffer(to="weixin:main", text=text))
    assert (await service.delivery(accepted.deliveries[0].delivery)).state == "queued"
    here.write(policy="share_replies = 2", account='access = ["owner", "ben@im.wechat"]', top='locale = "en"')
    await hup(here, caplog)
    receipt = await service.delivery(accepted.deliveries[0].delivery, 10_000)
    assert (receipt.state, receipt.share.of) == ("delivered", 2)
    assert here.life.account.allows("ben@im.wechat")
    assert here.life.account.view.locale == "en"
    assert await terminate(task) is ExitCode.DONE


async def test_a_hup_with_a_broken_file_changes_nothing_and_one_with_a_stopped_account_is_obeyed(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    task = await here.start(monkeypatch)
    good = here.path.read_text()
    here.path.write_text("nonsense = [")
    await hup(here, caplog, "the configuration was not reread")
    assert here.life.state == "running"
    here.path.write_text(good.replace('"1h"', '"2h"'))
    await here.process.service.account(AccountOrder(account="main", action="stop"))
    await hup(here, caplog)
    await here.process.service.account(AccountOrder(account="main", action="start"))
    assert here.life.account.view.policy.notice_after_ms == 7_200_000
    assert await terminate(task) is ExitCode.DONE


def test_what_only_a_restart_changes_is_named(here: GatewayHere) -> None:
    before = load(here.path)
    text = (
        here.path.read_text().replace("[accounts.main]", "[accounts.other]").replace("accounts.main", "accounts.other")
    )
    here.path.write_text(text.replace('[http]\nlisten = "127.0.0.1:0"', '[http]\nlisten = "127.0.0.1:1"'))
    assert sorted(changed_by_restart(before, load(here.path))) == [
        "[http] was changed",
        "account main was removed",
        "account other was added",
    ]
    assert list(changed_by_restart(before, before)) == []


# --- starts -----------------------------------------------------------------------------------------------------------


async def test_what_was_spooled_is_taken_in_by_the_start(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.leave(here.state, TurnOffer(to="weixin:main", turn_id="t1", text="left"))
    task = await here.start(monkeypatch)
    assert spool.spooled(here.state) == ()
    again = await here.process.service.accept_turn(TurnOffer(to="weixin:main", turn_id="t1", text="left"))
    assert again.repeated
    assert await terminate(task) is ExitCode.DONE


async def test_a_port_in_use_takes_nothing_away_from_who_runs(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        here.path.write_text(
            here.path.read_text().replace('[http]\nlisten = "127.0.0.1:0"', f'[http]\nlisten = "127.0.0.1:{port}"')
        )
        with pytest.raises(Failed, match="cannot listen") as end:
            await here.start(monkeypatch)
    assert end.value.code == 1
    assert await events_of(here) == [], "no account was claimed"


async def test_an_open_listener_without_a_token_is_refused(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    here.path.write_text(
        here.path.read_text().replace('[http]\nlisten = "127.0.0.1:0"', '[http]\nlisten = "0.0.0.0:0"')
    )
    with pytest.raises(ConfigRefused):
        await here.start(monkeypatch)


async def test_a_login_that_is_none_refuses_the_start(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    (here.state / "accounts" / "main.json").write_text("{}")
    with pytest.raises(ConfigRefused, match="is no login") as end:
        await here.start(monkeypatch)
    assert end.value.code == 78


async def test_a_file_that_is_no_log_is_refused(here: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    here.log.write_bytes(b"a diary" * 1_000)
    with pytest.raises(Failed) as end:
        await here.start(monkeypatch)
    assert end.value.code == 1
    assert here.log.read_bytes() == b"a diary" * 1_000


# --- the supervisor ---------------------------------------------------------------------------------------------------


async def test_a_supervisor_hears_ready_watchdog_and_stopping(
    here: GatewayHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        task = await here.start(monkeypatch)
        heard: list[str] = []

        async def listen(until: str) -> None:
            async with asyncio.timeout(10):
                while not heard or heard[-1] != until:
                    data = await asyncio.get_running_loop().sock_recv(supervisor, 4096)
                    heard.append(data.decode())

        await listen("READY=1\nSTATUS=weixin:main running")
        await listen("WATCHDOG=1")
        await terminate(task)
        await listen("STOPPING=1")


async def test_a_log_that_does_not_answer_is_told_and_the_watchdog_goes_on(
    here: GatewayHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "4000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    task = await here.start(monkeypatch)
    real, asked = here.process.log.position, 0

    async def once_in_vain() -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise LogUnreadable("the disk does not answer")
        return await real()

    here.process.log.position = once_in_vain
    await here.until(lambda: asked > 1)
    assert "the log does not answer" in caplog.text
    assert await terminate(task) is ExitCode.DONE


# --- a log that cannot be used ------------------------------------------------------------------------------------------


async def test_a_start_waits_for_a_log_that_takes_nothing_and_says_so_once(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("actors.life.CLAIM_RETRY_MS", 1)
    claim, tries = SqliteLog.claim, 0

    async def locked(log: SqliteLog, *args: Any, **more: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise LogBusy("database is locked")
        return await claim(log, *args, **more)

    monkeypatch.setattr(SqliteLog, "claim", locked)
    task = await here.start(monkeypatch)
    assert (tries, here.life.state, here.process.service.log_trouble) == (4, "running", "")
    said = [r.getMessage() for r in caplog.records if "the log takes" in r.getMessage()]
    assert said == [
        "the log takes nothing right now: database is locked; it is tried again",
        "the log takes appends again",
    ]
    assert await terminate(task) is ExitCode.DONE
    assert len([e for e in await events_of(here) if isinstance(e, BotStarted)]) == 1
    entered = [r.getMessage() for r in caplog.records if r.getMessage().startswith("account weixin:main")]
    assert entered == [f"account weixin:main: {state}" for state in ("starting", "running", "stopped (stopped)")]


async def test_a_log_that_fails_is_told_once_however_many_find_out(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = await here.start(monkeypatch)

    def fail(_prepared: object) -> None:
        raise LogFailed("the disk is gone")

    here.process.log._core.append_group = fail
    offers = [here.process.service.accept_turn(TurnOffer(to="weixin:main", text=f"news {n}")) for n in range(5)]
    assert {type(e) for e in await asyncio.gather(*offers, return_exceptions=True)} == {LogFailed}
    assert await asyncio.wait_for(task, 20) is ExitCode.FAILED
    loud = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert [(r.levelname, r.exc_info) for r in loud] == [("CRITICAL", None)], caplog.text


async def test_a_hup_that_asks_for_an_exit_is_obeyed_while_the_login_is_lost_already(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await here.start(monkeypatch)
    here.line.incoming.put_nowait(LoginGone(code=-14, where="poll"))
    await here.until(lambda: here.life.state == "login_lost")
    here.write(account='login_lost = "exit"')
    os.kill(os.getpid(), signal.SIGHUP)
    assert await asyncio.wait_for(task, 20) is ExitCode.LOGIN_LOST


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody makes the log one of simulated days after a start found it empty, which is for days of any kind."""
    open_log = process_module.open_log

    async def opened(config: Config, scheduler: LoopScheduler) -> SqliteLog:
        log = await open_log(config, scheduler)
        await log.claim("weixin:main", "i-simulated", 1, Start(simulated=True))
        return log

    monkeypatch.setattr(process_module, "open_log", opened)
    monkeypatch.setattr(offline_module, "open_log", opened)


async def claimed_by(here: GatewayHere) -> set[str]:
    log = await SqliteLog.open(here.log)
    try:
        return {c.instance for c in await log.claims()}
    finally:
        await log.close()


@pytest.mark.usefixtures("overtaken")
async def test_a_first_start_overtaken_by_one_in_other_days_ends_with_78(
    here: GatewayHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigRefused, match="a log of simulated days, which cannot go on in real ones"):
        await here.start(monkeypatch)
    assert await claimed_by(here) == {"i-simulated"}


@pytest.mark.usefixtures("overtaken")
async def test_so_does_an_order_offline(here: GatewayHere) -> None:
    ask = OfflineAsker(load(here.path))
    with pytest.raises(ConfigRefused, match="a log of simulated days, which cannot go on in real ones"):
        await asyncio.to_thread(ask.get, StatusView, "/v1/status")
    assert await claimed_by(here) == {"i-simulated"}
