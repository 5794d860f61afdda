"""Bad input over real connections: each is refused clearly, and a good neighbour in the same moment loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.e2e.asking import Answer, ask
from tests.e2e.gateway import Gateway
from tests.e2e.hand import Hand
from tests.e2e.phones import Person
from tests.e2e.stage import Stage, stage_in

TOKEN = "correct-horse-battery-staple"
HTTP_ENV = {"E2E_HTTP_TOKEN": TOKEN, "E2E_AGENT_TOKEN": "agents-" + TOKEN}
MB = 1_048_576


def guarded(gateway: Gateway) -> None:
    gateway.tables["http"]["token"] = "env:E2E_HTTP_TOKEN"
    gateway.tables["agents"]["token"] = "env:E2E_AGENT_TOKEN"


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that asks for tokens."""
    folder = tmp_path_factory.mktemp("fort")
    with stage_in(folder, guarded, **HTTP_ENV) as found:
        yield found


def turns(stage: Stage, raw: bytes | None = None, body: Any = None, **headers: str) -> Answer:
    return ask(stage.gateway.url, "POST", "/v1/turns", body, raw, **headers)


def good(stage: Stage, person: Person, turn_id: str) -> str:
    return str(stage.gateway.offer(person.address, "good", turn_id=turn_id)["delivery"])


@pytest.mark.parametrize(
    ("raw", "status", "path"),
    [
        (b"", 400, "$"),
        (b"{", 400, "$"),
        (b"[]", 400, "$"),
        (b'{"to": 1, "text": "x"}', 400, "$.to"),
        (b'{"to": "weixin:main", "text": "x", "origin": "moon"}', 400, "$.origin"),
        (b'{"to": "weixin:main", "txt": "x"}', 400, "$.txt"),
        (b'{"to": "weixin:main", "session": "s", "text": "x"}', 400, "$"),
        (b'{"text": "x"}', 400, "$"),
        (b'{"to": "nonsense", "text": "x"}', 400, "$.to"),
        (b'{"to": "weixin:main", "text": "\xff\xfe"}', 400, "$"),
        (b'{"to": "weixin:main", "turn_id": "t\\u0000", "text": "x"}', 400, "$.turn_id"),
        (b'{"to": "weixin:main", "turn_id": "\\ud800", "text": "x"}', 400, "$.turn_id"),
        (b'{"to": "weixin:main\\u0000", "text": "x"}', 400, "$.to"),
        (b'{"session": "a\\nb", "text": "x"}', 400, "$.session"),
        (b'{"to": "weixin:main", "text": "x", "text": "y"}', 400, "$.text"),
        (b'{"to": "weixin:main", "text": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "$"),
        (b'{"to": "weixin:main:nobody@im.wechat", "text": "x"}', 404, "$.to"),
        (b'{"session": "nowhere", "text": "x"}', 404, "$.session"),
        (b'{"to": "weixin:main", "text": "x", "origin": "inbound"}', 400, "$.origin"),
    ],
)
def test_malformed_turns_are_refused_with_the_path_of_the_fault(
    play: Stage, raw: bytes, status: int, path: str
) -> None:
    position = play.gateway.get("/v1/status")["position"]
    answer = turns(play, raw)
    assert answer.status == status, answer
    assert answer.body["error"]["message"]
    assert answer.body["error"].get("path", "$").startswith(path)
    assert play.gateway.get("/v1/status")["position"] == position


def test_an_unknown_peer_is_answered_with_near_ones(play: Stage) -> None:
    guest = play.guest()
    answer = turns(play, body={"to": guest.address.replace("im.wechat", "im.wecaht"), "text": "x"})
    assert answer.status == 404
    assert guest.address in answer.body["error"]["near"]
    ended = play.gateway.run("send", "-t", guest.address.replace("im.wechat", "im.wecaht"), "x")
    assert ended.code == 1
    assert guest.address in ended.err


def test_the_same_turn_id_with_another_text_is_a_conflict(play: Stage) -> None:
    guest = play.guest()
    good(play, guest, f"{guest.id}-c")
    answer = turns(play, body={"to": guest.address, "turn_id": f"{guest.id}-c", "text": "other"})
    assert answer.status == 409
    ended = play.gateway.run("send", "-t", guest.address, "--turn-id", f"{guest.id}-c", "other")
    assert ended.code == 1
    play.answered(guest, 2)
    assert guest.reads == ["echo: hello", "good"]


def test_a_text_over_1_mb_is_too_large_and_one_of_1_mb_is_not(play: Stage, tmp_path: Path) -> None:
    guest = play.guest()
    for size, status in ((MB + 1, 413), (3 * MB, 413)):
        answer = turns(play, body={"to": guest.address, "text": "x" * size})
        assert answer.status == status, answer.status
    answer = turns(play, body={"to": guest.address, "text": "界" * (MB // 3), "turn_id": f"{guest.id}-mb"})
    assert answer.status == 202, answer
    receipt = play.gateway.receipt(answer.body["deliveries"][0]["delivery"])
    assert receipt["state"] == "delivered"
    assert receipt["delivered_bytes"] < receipt["bytes"]
    large = tmp_path / "large.txt"
    large.write_bytes(b"y" * (MB + 1))
    ended = play.gateway.run("send", "-t", guest.address, "-f", str(large))
    assert ended.code == 1
    assert str(MB) in ended.err


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("NUL", '"a\\u0000b"', "ab"),
        ("lone surrogate", '"a\\ud800b"', "a\ufffdb"),
        ("reversed pair", '"\\udc00\\ud800"', "\ufffd\ufffd"),
        ("whole pair", '"\\ud83d\\ude00"', "😀"),
    ],
)
def test_half_characters_and_nul_bytes_never_reach_the_phone(play: Stage, name: str, text: str, shown: str) -> None:
    guest = play.guest()
    answer = turns(play, f'{{"to": "{guest.address}", "text": {text}}}'.encode())
    if answer.status == 400:
        assert answer.body["error"]["path"] == "$.text", name
        return
    assert answer.status == 202, answer
    assert play.gateway.receipt(answer.body["deliveries"][0]["delivery"])["state"] == "delivered"
    assert guest.reads[-1].replace("\ufffd", "") == shown.replace("\ufffd", "")
    assert "\x00" not in guest.reads[-1]
    guest.reads[-1].encode()


def test_a_file_that_is_no_utf8_is_sent_readably_or_refused(play: Stage, tmp_path: Path) -> None:
    guest = play.guest()
    odd = tmp_path / "odd.txt"
    odd.write_bytes(b"caf\xe9 \x00 \xff end")
    ended = play.gateway.run("send", "-t", guest.address, "-f", str(odd), "--wait", "10")
    assert ended.code == 0, ended
    assert "2 places in the text are no UTF-8" in ended.err
    assert guest.reads[-1].startswith("caf")
    assert guest.reads[-1].endswith("end")
    assert "\x00" not in guest.reads[-1]


def test_a_stream_with_broken_lines_names_them_and_sends_the_rest(play: Stage) -> None:
    guest = play.guest()
    stream = b'not json\n{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s","uuid":"U"}\n\xff\n'
    ended = play.gateway.run(
        "send",
        "-t",
        guest.address,
        "--from",
        "claude",
        "--wait",
        "10",
        "-",
        stdin=stream.replace(b"U", guest.id.encode()),
    )
    assert ended.code == 0, ended
    assert "line 1" in ended.err
    assert "line 3" in ended.err
    assert guest.reads[-1] == "fine"


def test_a_stream_that_ends_early_is_a_failed_turn(play: Stage) -> None:
    guest = play.guest()
    ended = play.gateway.run(
        "send", "-t", guest.address, "--from", "codex", "-", stdin=b'{"type":"thread.started","thread_id":"th-1"}\n'
    )
    assert ended.code == 1, ended
    play.silent(guest, sends=1)


def test_odd_words_from_the_chat_reach_the_agent_clean_and_are_answered(play: Stage) -> None:
    person = play.person()
    for number, text in enumerate(("a\x00b", "\u202eevil", "é" * 3000, "  "), start=1):
        person.says(text)
        play.answered(person, number)
    assert all("\x00" not in text for text in person.reads)


def test_bad_neighbours_harm_nobody(play: Stage) -> None:
    guests = [play.guest(f"hi {n}") for n in range(3)]
    bad = [
        b"{",
        b"\xff" * 100,
        b'{"to":"' + b"x" * 60_000 + b'","text":"x"}',
        b'{"to":"weixin:main","text":"' + b"z" * 2 * MB + b'"}',
    ]

    def offer(number: int) -> int:
        guest = guests[number % 3]
        if number % 2:
            return turns(play, bad[number % len(bad)]).status
        body = {"to": guest.address, "text": f"n{number}", "turn_id": f"{guest.id}-nb-{number}"}
        return turns(play, body=body).status

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(offer, range(30)))
    assert {s for n, s in enumerate(statuses) if n % 2 == 0} == {202}
    assert {s for n, s in enumerate(statuses) if n % 2} <= {400, 413}
    for number in range(0, 30, 2):
        story = play.gateway.explain(f"{guests[number % 3].id}-nb-{number}") if number % 10 == 0 else {"state": "-"}
        assert story["state"] in ("-", "delivered", "queued", "dropped", "requested")
    play.gateway.sound()


# --- agents -------------------------------------------------------------------------------------------------------


def test_malformed_frames_are_answered_with_errors_and_the_connection_stays(play: Stage) -> None:
    frames = [
        ("{", "$"),
        ("[1]", "$"),
        ('{"type":"hullo"}', "$.type"),
        ('{"type":"completed","turn_id":1,"text":"x"}', "$.turn_id"),
        ('{"type":"completed","turn_id":"t-unknown","text":"x"}', ""),
        ('{"type":"completed","turn_id":"own","text":"x","to":"weixin:main:nobody@im.wechat"}', "$.to"),
        ('{"type":"completed","turn_id":"own","text":"x","extra":1}', "$.extra"),
        ('{"type":"completed","turn_id":"o\\u0000wn","text":"x","to":"weixin:main"}', "$.turn_id"),
        ('{"type":"completed","turn_id":"own","turn_id":"own","text":"x","to":"weixin:main"}', "$.turn_id"),
        (json.dumps({"type": "completed", "turn_id": "own", "to": "weixin:main", "text": "x" * (MB + 1)}), "$.text"),
    ]
    with Hand(play.gateway.agents_url, name="clumsy", sessions=["of-nobody"]) as agent:
        for frame, path in frames:
            agent.say_raw(frame)
            error = agent.hear("error")
            assert error["message"], frame[:60]
            assert error.get("path", "").startswith(path), (frame[:60], error)
        guest = play.guest()
        agent.say(type="completed", turn_id=f"{guest.id}-own", text="still here", to=guest.address, origin="desktop")
        agent.hear("receipt", turn_id=f"{guest.id}-own")
        play.answered(guest, 2)
        assert guest.reads[-1] == "still here"


# --- tokens -------------------------------------------------------------------------------------------------------


def test_without_the_right_token_nothing_is_answered(fort: Stage) -> None:
    url = fort.gateway.url
    for header in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer " + TOKEN[:-1]},
    ):
        answer = ask(url, "GET", "/v1/peers", None, None, **header)
        assert answer.status == 401, (header, answer)
        assert TOKEN not in json.dumps(answer.body)
        assert ask(url, "POST", "/v1/turns", {"to": "weixin:main", "text": "x"}, None, **header).status == 401
    assert ask(url, "GET", "/v1/peers", Authorization=f"Bearer {TOKEN}").status == 200
    assert ask(url, "GET", "/health").status == 200

    wrong = fort.gateway.run("status", E2E_HTTP_TOKEN="not-the-one-either")
    assert wrong.code not in (0, 69), wrong
    assert "not-the-one-either" not in wrong.err + wrong.out
    assert fort.gateway.run("status").code == 78
    assert fort.gateway.run("status", **HTTP_ENV).code == 0


def test_an_agent_without_the_right_token_is_not_let_in(fort: Stage) -> None:

    with pytest.raises(InvalidStatus) as refusal, connect(fort.gateway.agents_url + "?token=wrong", proxy=None):
        pass
    assert refusal.value.response.status_code == 401
    agent = fort.echo(env={"REPLYLEDGER_AGENT_TOKEN": HTTP_ENV["E2E_AGENT_TOKEN"]})
    assert agent.running
    assert HTTP_ENV["E2E_AGENT_TOKEN"] not in fort.gateway.child.err
