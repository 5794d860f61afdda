"""A default, once released, never changes its meaning: rows leave out what equals it."""

from __future__ import annotations

from tests.events.fields import FILE, lines, structs


def test_no_default_has_changed_and_each_new_one_is_written_down() -> None:
    written = FILE.read_text(encoding="utf-8").splitlines()
    code = lines()
    gone = [line for line in written if line not in code]
    new = [line for line in code if line not in written]
    assert not gone, f"old logs would be read differently: {gone}"
    assert not new, f"read these by eyes, then run `python -m tests.events.fields`: {new}"


def test_no_two_structs_share_a_name_in_the_file() -> None:
    names = [struct.__name__ for struct in structs()]
    assert len(names) == len(set(names))
    assert {"TurnCompleted", "PeerState", "Policy", "RequestStory", "Charge"} <= set(names)
