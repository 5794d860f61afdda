"""Events to bytes and back; golden logs of released versions; every event has a sample, a fold and a line in the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import events
from events import bot, codec, peer, peer_state
from events.base import Event
from events.errors import CodecError, NewerEvent, TextNotEncodable, UnknownEventType
from tests.events.golden import VERSIONS, expected, folded, lines

TAGS = sorted(codec.CLASSES)
README = Path(events.__file__).parent / "README.md"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_log_comes_to_the_same_states_for_ever(version: str) -> None:
    for (line, _, state), golden in zip(folded(version), expected(version), strict=True):
        assert state == golden, f"after {line.stream} {line.version} ({line.type})"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_event_is_written_as_it_was(version: str) -> None:
    """True of the newest version; an older log whose events need upcasting leaves this test, never the one above."""
    for line in lines(version):
        assert codec.encode(codec.decode(line.type, bytes(line.data))) == bytes(line.data)


def samples() -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for version in VERSIONS:
        for line, event, _ in folded(version):
            found.setdefault(line.type, []).append(event)
    return found


@pytest.mark.parametrize("tag", TAGS)
def test_every_event_has_a_golden_sample(tag: str) -> None:
    events_of_tag = samples()[tag]
    assert all(type(e) is codec.CLASSES[tag] for e in events_of_tag)
    assert all(codec.tag_of(e) == tag for e in events_of_tag)


FIXED = {
    ("send_requested", "op"),  # one value so far
    ("turn_started", "origin"),  # only inbound turns have a start of ours
}


@pytest.mark.parametrize("tag", TAGS)
def test_every_field_of_every_event_differs_from_its_default_in_some_sample(tag: str) -> None:
    """Otherwise a renamed field with a default would pass unseen."""
    every = (line for version in VERSIONS for line in lines(version))
    stored = {key for line in every if line.type == tag for key in msgspec.json.decode(line.data)}
    names = {f.encode_name for f in msgspec.structs.fields(codec.CLASSES[tag])}
    assert {n for n in names - stored if (tag, n) not in FIXED} == set()


@pytest.mark.parametrize("tag", TAGS)
def test_every_event_of_a_peer_has_a_fold_and_of_a_bot_a_case(tag: str) -> None:
    cls = codec.CLASSES[tag]
    assert (cls in peer_state.FOLDS) == (cls.__module__ == peer.__name__)
    assert cls.__module__ in (bot.__name__, peer.__name__)


@pytest.mark.parametrize("tag", TAGS)
def test_every_event_has_a_line_in_the_readme(tag: str) -> None:
    assert re.search(rf"^\| `{tag}` \| \S", README.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_readme_names_no_event_that_is_not() -> None:
    named = re.findall(r"^\| `([a-z_]+)` \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == TAGS


def test_tags_are_frozen_strings_and_not_derived_from_names() -> None:
    for tag, cls in codec.CLASSES.items():
        assert re.fullmatch(r"[a-z_]+", tag)
        assert cls.__struct_config__.tag_field == "type"


def test_a_policy_is_stored_whole() -> None:
    """Defaults may change; what a decision was taken under must not."""
    data = msgspec.json.decode(codec.encode(bot.PolicyChanged(policy=bot.Policy(), policy_id="p")))
    assert set(data["policy"]) == {f.name for f in msgspec.structs.fields(bot.Policy)}


def test_an_unknown_type_is_told_apart_from_damage() -> None:
    with pytest.raises(UnknownEventType, match="written by a newer one, or is not ours"):
        codec.decode("sent_by_pigeon", b'{"type":"sent_by_pigeon"}')


def test_a_newer_field_is_refused_by_name() -> None:
    with pytest.raises(NewerEvent, match="`wings`"):
        codec.decode("bot_stopped", b'{"type":"bot_stopped","wings":2}')


def test_a_newer_field_inside_is_refused_too() -> None:
    with pytest.raises(NewerEvent, match="`wings`"):
        codec.decode("policy_changed", b'{"type":"policy_changed","policy_id":"p","policy":{"wings":2}}')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b'{"type":"bot_stopped","reason":7}',
        b'{"type":"login_lost"}',
        b"\xff\xfe",
        b'{"reason":"x"}',
        None,
        7,
    ],
)
def test_damage_is_a_codec_error(data: bytes) -> None:
    """SQLite puts anything into any column of a damaged page."""
    with pytest.raises(CodecError) as caught:
        codec.decode("bot_stopped", data)
    assert type(caught.value) is CodecError
    assert "bot_stopped" in str(caught.value)


def test_a_row_that_lies_about_its_type_is_damage() -> None:
    with pytest.raises(CodecError, match="bot_started"):
        codec.decode("bot_started", b'{"type":"bot_stopped"}')


def test_lone_surrogates_are_refused_when_written() -> None:
    with pytest.raises(TextNotEncodable, match="bot_stopped"):
        codec.encode(bot.BotStopped(reason="\ud800"))


READ_FROZEN = """
from freezegun import freeze_time
with freeze_time("2028-02-29T23:59:59"):
    from events import codec
    from tests.events.golden import VERSIONS, lines
    first = [codec.decode(line.type, bytes(line.data)) for version in VERSIONS for line in lines(version)]
assert first == [codec.decode(line.type, bytes(line.data)) for version in VERSIONS for line in lines(version)]
print(len(first))
"""


def test_events_that_are_first_read_while_time_stands_still_are_read_well_for_ever() -> None:
    """A struct with a `datetime` would be spoilt by that for the rest of the process; no event has one."""
    done = subprocess.run(
        [sys.executable, "-c", READ_FROZEN],
        cwd=Path(events.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(len(lines(version)) for version in VERSIONS)
