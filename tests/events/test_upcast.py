"""Old events in today's words: a renamed, a split and a removed field, over several steps."""

from __future__ import annotations

from typing import Any

import pytest

from events import bot, codec, upcast
from events.errors import CodecError, NewerEvent


def renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """The oldest form called the reason `why`."""
    return {("reason" if k == "why" else k): v for k, v in raw.items()}


def removed(raw: dict[str, Any]) -> dict[str, Any]:
    """A middle form had a mood."""
    return {k: v for k, v in raw.items() if k != "mood"}


def split(raw: dict[str, Any]) -> dict[str, Any]:
    """The oldest form had code and place in one."""
    if "what" not in raw:
        return raw
    code, where = raw["what"].split("@")
    return {"type": raw["type"], "code": int(code), "where": where}


def moved(raw: dict[str, Any]) -> dict[str, Any]:
    """An event whose tag was mistaken."""
    return {**raw, "type": "bot_stopped"}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"bot_stopped": (renamed, removed), "login_lost": (split,), "bot_halted": (moved,)}
    for tag, chain in known.items():
        monkeypatch.setitem(upcast.STEPS, tag, chain)  # type: ignore[arg-type]  # a dict when all is said


OLD: list[tuple[str, bytes, object]] = [
    ("bot_stopped", b'{"type":"bot_stopped","why":"tired","mood":"low"}', bot.BotStopped(reason="tired")),
    ("bot_stopped", b'{"type":"bot_stopped","reason":"tired","mood":"low"}', bot.BotStopped(reason="tired")),
    ("bot_stopped", b'{"type":"bot_stopped","reason":"tired"}', bot.BotStopped(reason="tired")),
    ("login_lost", b'{"type":"login_lost","what":"-14@poll"}', bot.LoginLost(code=-14, where="poll")),
    ("login_lost", b'{"type":"login_lost","code":-14}', bot.LoginLost(code=-14)),
    ("bot_halted", b'{"type":"bot_halted","reason":"old word"}', bot.BotStopped(reason="old word")),
]


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(("tag", "data", "event"), OLD)
def test_old_forms_are_read(tag: str, data: bytes, event: object) -> None:
    assert codec.decode(tag, data) == event


@pytest.mark.usefixtures("steps")
def test_other_events_are_left_alone() -> None:
    assert codec.decode("clock_stepped", b'{"type":"clock_stepped","step_ms":1}') == bot.ClockStepped(step_ms=1)


@pytest.mark.usefixtures("steps")
def test_a_newer_field_is_still_refused_by_name() -> None:
    with pytest.raises(NewerEvent, match="`wings`"):
        codec.decode("bot_stopped", b'{"type":"bot_stopped","wings":2}')


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(
    ("tag", "data"),
    [
        ("bot_stopped", b"{"),
        ("bot_stopped", b"[]"),
        ("bot_stopped", b'{"type":"bot_stopped","why":7}'),
        ("login_lost", b'{"type":"login_lost","what":"nonsense"}'),
    ],
)
def test_damage_in_an_old_form_is_a_codec_error(tag: str, data: bytes) -> None:
    with pytest.raises(CodecError):
        codec.decode(tag, data)


def test_today_nothing_is_old() -> None:
    """The first step comes with the first release that renames something, and with a golden log that needs it."""
    assert upcast.STEPS == {}


def test_steps_in_their_order() -> None:
    chain = {"x": (lambda raw: {**raw, "a": 1}, lambda raw: {**raw, "b": raw["a"] + 1})}
    assert upcast.upcast("x", {}, chain) == {"a": 1, "b": 2}
    assert upcast.upcast("y", {}, chain) == {}
