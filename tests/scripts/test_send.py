from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from actors.gateway import views
from scripts.send import exit_code
from tests.gateway.fake import NOW, FakeGateway
from tests.scripts.console import Console, Ended

ALICE = "weixin:main:alice@im.wechat"


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["delivered"], 0),
        ([], 0),
        (["delivered", "queued"], 75),
        (["requested"], 75),
        (["queued", "dropped"], 1),
        (["unknown"], 1),
        (["unconfirmed"], 1),
        (["skipped"], 1),
        (["erased"], 1),
    ],
)
def test_exit_codes(states: list[views.State], code: int) -> None:
    assert exit_code(states) == code


async def test_what_waits_is_75_with_the_reason(console: Console) -> None:
    ended = await console.run("send", "-t", ALICE, "hello")
    assert ended.code == 75
    assert "queued: waits for the peer's next message" in ended.out
    assert "quota 7 of 10 left" in ended.out
    assert "share 1 of 3 used" in ended.out
    assert "UTC" in ended.out


async def test_json_has_the_receipt(console: Console, gateway: FakeGateway) -> None:
    ended = await console.run("send", "--json", "-t", ALICE, "--turn-id", "t1", "--origin", "scheduled", "hello")
    (row,) = ended.rows
    assert (ended.code, row["state"], row["peer"], row["turn_id"], row["origin"]) == (
        75,
        "queued",
        ALICE,
        "t1",
        "scheduled",
    )
    assert gateway.turns["t1"].text == "hello"


async def _settled(gateway: FakeGateway, running: Awaitable[Ended], state: views.State) -> Ended:
    task = asyncio.ensure_future(running)
    while not any(gateway.waits):
        await asyncio.sleep(0.01)
    await gateway.settle(next(iter(gateway.receipts)), state)
    return await task


@pytest.mark.parametrize(("state", "code"), [("delivered", 0), ("dropped", 1), ("unconfirmed", 1)])
async def test_waits_for_the_outcome(console: Console, gateway: FakeGateway, state: views.State, code: int) -> None:
    ended = await _settled(gateway, console.run("send", "-t", ALICE, "--wait", "30", "hello"), state)
    assert ended.code == code
    assert f"{state}: the channel confirmed it" in ended.out


async def test_what_can_leave_at_once_is_waited_for_shortly(console: Console, gateway: FakeGateway) -> None:
    gateway.earliest = NOW
    ended = await _settled(gateway, console.run("send", "-t", ALICE, "hello"), "delivered")
    assert ended.code == 0


async def test_a_session_reaches_its_peers(console: Console, gateway: FakeGateway) -> None:
    gateway.known["weixin:main:bob@im.wechat"] = "s1"
    ended = await console.run("send", "-s", "s1", "hello", "--json")
    assert [row["peer"] for row in ended.rows] == list(gateway.known)


async def test_dry_run_accepts_nothing(console: Console, gateway: FakeGateway) -> None:
    ended = await console.run("send", "-t", ALICE, "--dry-run", "hello")
    assert (ended.code, gateway.turns) == (75, {})
    assert "would wait" in ended.out
    assert "quota 7 of 10 -> 6 of 10 left" in ended.out
    gateway.earliest = NOW
    ended = await console.run("--json", "send", "-t", ALICE, "--dry-run", "hello")
    assert (ended.code, ended.rows[0]["would"], gateway.turns) == (0, "send", {})


async def test_text_from_standard_input_and_from_a_file(console: Console, gateway: FakeGateway) -> None:
    await console.run("send", "-t", ALICE, "--turn-id", "a", "-", stdin="\ufeffgrüß\r\ndich\x00".encode() + b"\xff")
    assert gateway.turns["a"].text == "grüß\ndich�"
    (console.folder / "text.txt").write_bytes(b"from a file")
    await console.run("send", "-t", ALICE, "--turn-id", "b", "-f", "text.txt")
    assert gateway.turns["b"].text == "from a file"
    await console.run("send", "-t", ALICE, "--turn-id", "c", "-f", "-", stdin=b"again")
    assert gateway.turns["c"].text == "again"


async def test_a_text_that_looks_like_an_option(console: Console, gateway: FakeGateway) -> None:
    await console.run("send", "-t", ALICE, "--turn-id", "a", "--", "--json")
    assert gateway.turns["a"].text == "--json"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["hello"], "exactly one of -t ADDRESS and -s SESSION"),
        (["-t", ALICE, "-s", "s1", "hello"], "exactly one of -t ADDRESS and -s SESSION"),
        (["-t", ALICE], "give the text as one of"),
        (["-t", ALICE, "-f", "x", "hello"], "give the text as one of"),
        (["-t", ALICE, "--wait", "-1", "hello"], "--wait"),
        (["-t", ALICE, "--origin", "cron", "hello"], "--origin"),
        (["-t", ALICE, "--from", "claude", "hello"], "reads a file or standard input"),
        (["-t", ALICE, "--turn-id", "", "hello"], "--turn-id is empty; is a variable unset"),
        (["-t", ALICE, "--turn-id", "t\n1", "hello"], "--turn-id holds the control character U+000A"),
        (["-t", ALICE, "--turn-id", "t\udcff", "hello"], "--turn-id holds half a character"),
        (["-t", ALICE, "--turn-id", " \u200b", "hello"], "--turn-id shows nothing"),
        (["-t", ALICE, "--turn-id", "t" * 257, "hello"], "length <= 256 ($.turn_id)"),
        (["-t", f"{ALICE}\x7f", "hello"], "--to holds the control character U+007F"),
        (["-s", "s\r1", "hello"], "--session holds the control character U+000D"),
        (["-s", "s" * 513, "--spool", "hello"], "length <= 512 ($.session)"),
    ],
)
async def test_usage(console: Console, gateway: FakeGateway, args: list[str], says: str) -> None:
    ended = await console.run("send", *args)
    assert (ended.code, ended.out, gateway.turns) == (2, "", {})
    assert says in ended.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["dead", "retry", "d-1", "d-2\n"], "ID... holds the control character U+000A"),
        (["dead", "show", ""], "ID is empty; is a variable unset?"),
        (["backlog", "list", "--peer", ""], "--peer is empty; is a variable unset?"),
        (["bind", "weixin:main", "de\x1bsk"], "SESSION holds the control character U+001B"),
        (["accounts", "stop", "ma\udc80in"], "ACCOUNT holds half a character"),
        (["explain", "t\t1"], "holds the control character U+0009"),
        (["audit", "--peer", "weixin:main\n"], "--peer holds the control character"),
    ],
)
async def test_names_of_all_verbs(console: Console, args: list[str], says: str) -> None:
    ended = await console.run(*args)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


async def test_a_text_that_was_not_taken_is_told(console: Console, gateway: FakeGateway) -> None:
    gateway.state, gateway.not_taken = "delivered", "the text that was sent now was not taken"
    ended = await console.run("send", "--json", "-t", ALICE, "hello")
    (row,) = ended.rows
    assert (ended.code, row["state"], row["not_taken"]) == (0, "delivered", gateway.not_taken)
    assert f"{row['delivery']}: {gateway.not_taken}" in ended.err
    gateway.not_taken = ""
    ended = await console.run("send", "--json", "-t", ALICE, "hello")
    assert (ended.rows[0]["not_taken"], ended.err) == ("", "")


async def test_two_empty_streams_are_two_turns_that_failed(console: Console, gateway: FakeGateway) -> None:
    for _ in range(2):
        await console.run("send", "-t", ALICE, "--from", "claude", "-", stdin=b"")
    assert [turn.status for turn in gateway.turns.values()] == ["failed", "failed"]


async def test_an_id_in_a_stream_that_is_no_name_is_told_and_replaced(console: Console, gateway: FakeGateway) -> None:
    stream = (
        b'{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s1","uuid":"u\\u00001"}\n'
    )
    ended = await console.run("send", "-t", ALICE, "--from", "claude", "-", stdin=stream)
    assert "line 1: its uuid holds a NUL; it is not used" in ended.err
    (turn_id,) = gateway.turns
    assert turn_id.startswith("claude-")


async def test_failures_are_1(console: Console, gateway: FakeGateway) -> None:
    ended = await console.run("send", "-t", "weixin:main:alicf@im.wechat", "hello")
    assert ended.code == 1
    assert f"near: {ALICE}" in ended.err
    await console.run("send", "-t", ALICE, "--turn-id", "t1", "hello")
    ended = await console.run("send", "-t", ALICE, "--turn-id", "t1", "other")
    assert ended.code == 1
    assert "another text" in ended.err
    assert (await console.run("send", "-t", ALICE, "-f", "nowhere.txt")).code == 1
    big = await console.run("send", "-t", ALICE, "-", stdin=b"x" * 1_048_577)
    assert (big.code, len(gateway.turns)) == (1, 1)


async def test_no_gateway_is_69(lonely: Console) -> None:
    ended = await lonely.run("send", "-t", ALICE, "hello")
    assert (ended.code, ended.out) == (69, "")
    assert "start it with `replyledger run`" in ended.err


async def test_spool_leaves_a_private_file_with_a_turn_id(lonely: Console) -> None:
    ended = await lonely.run("send", "-t", ALICE, "--spool", "--json", "hello")
    (row,) = ended.rows
    assert ended.code == 75
    path = Path(row["spooled"])
    assert path.parent == lonely.folder / "state" / "spool"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    offer = json.loads(path.read_bytes())
    assert (offer["to"], offer["text"]) == (ALICE, "hello")
    assert offer["turn_id"] == row["turn_id"] != ""


async def test_spool_is_not_used_while_a_gateway_runs(console: Console, gateway: FakeGateway) -> None:
    await console.run("send", "-t", ALICE, "--spool", "hello")
    assert len(gateway.turns) == 1
    assert not (console.folder / "state").exists()


CLAUDE: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "session_id": "s1"},
    {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s1", "uuid": "u-1"},
]


async def test_turns_of_an_agents_stream(console: Console, gateway: FakeGateway) -> None:
    stream = b"".join(json.dumps(line).encode() + b"\n" for line in CLAUDE) + b"not json\n"
    ended = await console.run("send", "--from", "claude", "-", "--json", stdin=stream)
    assert ended.code == 75, ended.err
    (turn,) = gateway.turns.values()
    assert (turn.session, turn.text, turn.status) == ("s1", "done", "completed")
    assert "line 3" in ended.err
    again = await console.run("send", "--from", "claude", "-", "--json", stdin=stream)
    assert [r["delivery"] for r in again.rows] == [r["delivery"] for r in ended.rows]
    empty = await console.run("send", "--from", "codex", "-t", ALICE, "-", stdin=b"")
    assert empty.code in (1, 75)
