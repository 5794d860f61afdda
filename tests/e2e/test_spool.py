"""What `send --spool` leaves is in the log sooner or later, or is listed with the reason why not; with real processes."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.phones import ClockSource, Login, Person, Phones
from tests.e2e.processes import eventually

DONE, FAILED, USAGE, WAITING = 0, 1, 2, 75
LOGIN = "replyledger login weixin --account main"


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[tuple[Gateway, Phones]]:
    """A configuration for a server that answers; nobody has logged in, and no gateway runs."""
    clock = ClockSource(tmp_path)
    phones = Phones(tmp_path, clock, Login())
    gateway = Gateway(tmp_path, phones.login, phones.url, clock.url)
    gateway.policy["pace"] = "0s"
    gateway.write()
    try:
        yield gateway, phones
        assert phones.rows("violations") == []
        assert "Traceback" not in "".join(child.err for child in gateway.children)
    finally:
        gateway.end()
        phones.child.end()
        clock.child.end()


def left(gateway: Gateway, turn_id: str, text: str, to: str = "weixin:main") -> Path:
    row = gateway.verb("send", "-t", to, "--turn-id", turn_id, "--spool", text, code=WAITING).row
    return Path(row["spooled"])


def spool_of(gateway: Gateway) -> Any:
    return gateway.verb("status").row["spool"]


def doctor(gateway: Gateway) -> list[dict[str, Any]]:
    return [row for row in gateway.run("--json", "doctor").rows if row["what"] == "spool"]


def taken_in(gateway: Gateway) -> bool:
    found: bool = gateway.get("/v1/status")["spool"]["waiting"] == 0
    return found


def test_turns_left_before_the_first_login_wait_for_it_over_starts_and_go_out_once(
    nobody: tuple[Gateway, Phones],
) -> None:
    gateway, phones = nobody
    first = left(gateway, "t-1", "one")
    ended = gateway.run("send", "-t", "weixin:main", "--turn-id", "t-2", "--spool", "two")
    assert ended.code == WAITING
    assert LOGIN in ended.err, "whoever leaves it is told what it waits for"
    (waits,) = doctor(gateway)
    assert "2 turns wait, for weixin:main: nobody has logged in yet" in waits["found"]
    assert waits["right"] == LOGIN

    for end in (signal.SIGKILL, signal.SIGTERM):
        gateway.start()
        assert first.exists()
        shown = spool_of(gateway)
        assert (shown["waiting"], shown["refused"]) == (2, 0)
        assert [f["turn_id"] for f in shown["files"]] == ["t-1", "t-2"]
        assert LOGIN in shown["files"][0]["reason"]
        assert gateway.child.err.count("stays in the spool") == 1
        gateway.child.signal(end)
        gateway.child.exited()
    gateway.start()

    refused = gateway.post("/v1/turns", {"to": "weixin:main", "turn_id": "t-3", "text": "three"})
    assert (refused.status, refused.body["error"]["code"]) == (503, "login_needed")
    assert "nobody has logged in to weixin:main yet" in refused.body["error"]["message"]
    ended = gateway.run("send", "-t", "weixin:main", "--turn-id", "t-3", "three")
    assert (ended.code, ended.out) == (FAILED, ""), "it was not accepted, and nothing keeps it"
    assert LOGIN in ended.err
    left(gateway, "t-3", "three")

    gateway.log_in()
    eventually(lambda: taken_in(gateway), "the spool is empty", 15)
    assert list(first.parent.iterdir()) == []
    owner = Person(phones, phones.login.user_id)
    owner.says("good morning")
    eventually(lambda: "three" in "".join(owner.reads), "pushed")
    (read,) = owner.reads
    assert read.index("one") < read.index("two") < read.index("three")
    for turn in ("t-1", "t-2", "t-3"):
        assert gateway.explain(turn)["state"] == "delivered"
    assert spool_of(gateway) == {"waiting": 0, "refused": 0, "files": []}
    gateway.sound()


def test_an_account_that_the_configuration_does_not_name_is_refused_at_once(nobody: tuple[Gateway, Phones]) -> None:
    gateway, _ = nobody
    for to, near in (
        ("weixin:mian", "weixin:main"),
        ("main", "weixin:main"),
        ("weixin:mani:ann@im.wechat", "weixin:main"),
    ):
        ended = gateway.run("send", "-t", to, "--spool", "hello")
        assert (ended.code, ended.out) == (USAGE, ""), ended
        assert f"did you mean {near!r}?" in ended.err
    assert not (gateway.state / "spool").exists()
    ended = gateway.run("send", "-t", "feishu:elsewhere", "--spool", "hello")
    assert ended.code == USAGE
    assert "it has: weixin:main" in ended.err


def test_what_is_refused_is_listed_with_its_reason_and_comes_back_by_its_name(nobody: tuple[Gateway, Phones]) -> None:
    gateway, phones = nobody
    gateway.log_in()
    friend = f"weixin:main:{phones.login.user_id}"
    stranger = left(gateway, "t-1", "secret news", "weixin:main:zoe@im.wechat")
    same, other = left(gateway, "t-2", "one"), left(gateway, "t-2", "another")
    damaged = left(gateway, "t-3", "half")
    damaged.write_bytes(damaged.read_bytes()[:20])
    gateway.start()
    eventually(lambda: taken_in(gateway), "all were looked at")
    assert not same.exists()
    expected = {
        str(stranger.with_suffix(".refused")): ("t-1", "weixin:main:zoe@im.wechat", "no peer has the address"),
        str(other.with_suffix(".refused")): ("t-2", "weixin:main", "another text"),
        str(damaged.with_suffix(".refused")): ("", "", ""),
    }

    def listed() -> None:
        shown, told = spool_of(gateway), [row["found"] for row in doctor(gateway)]
        assert (shown["refused"], {f["file"] for f in shown["files"]}) == (3, set(expected))
        for file in shown["files"]:
            turn_id, to, why = expected[file["file"]]
            assert (file["state"], file["turn_id"], file["to"]) == ("refused", turn_id, to)
            assert file["reason"]
            assert why in file["reason"]
            assert any(file["file"] in found and file["reason"] in found for found in told)

    listed()
    said = gateway.run("status").out
    assert "3 were refused" in said
    assert "rename NAME.refused to NAME.json" in said
    for file in expected:
        assert gateway.child.err.count(f"{file} was set aside") == 1
    assert "secret news" not in gateway.child.err
    gateway.restart()
    listed()
    assert "3 turns were refused earlier" in gateway.child.err
    assert "was set aside:" not in gateway.child.err

    gone = stranger.with_suffix(".refused")
    gone.write_bytes(gone.read_bytes().replace(b"weixin:main:zoe@im.wechat", friend.encode()))
    gone.rename(stranger)
    eventually(lambda: spool_of(gateway)["refused"] == 2 and taken_in(gateway), "the running gateway takes it in", 15)
    assert gateway.explain("t-1")["state"] == "queued"
    assert not stranger.exists()


def test_a_crash_between_the_log_and_the_removal_of_the_file_is_the_same_turn(nobody: tuple[Gateway, Phones]) -> None:
    gateway, phones = nobody
    gateway.log_in()
    path = left(gateway, "t-1", "once")
    copy = gateway.folder / "copy"
    shutil.copy(path, copy)
    gateway.start()
    assert taken_in(gateway)
    owner = Person(phones, phones.login.user_id)
    owner.says("hello")
    eventually(lambda: owner.reads == ["once"], "pushed")
    gateway.child.kill()
    shutil.copy(copy, path)
    gateway.start()
    assert taken_in(gateway)
    assert not path.exists()
    owner.says("and now?")
    left_over = gateway.offer("weixin:main", "twice", turn_id="t-2")
    assert gateway.receipt(left_over["delivery"])["state"] == "delivered"
    assert owner.reads == ["once", "twice"]
