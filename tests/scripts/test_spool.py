from __future__ import annotations

from pathlib import Path

import pytest

from actors.gateway.api import TurnOffer
from scripts import files
from scripts.asking import spool
from scripts.exits import Failed


def _offer(number: int) -> TurnOffer:
    return TurnOffer(to="weixin:main", turn_id=f"t{number}", text="hé\n")


def test_turns_come_back_in_order_until_settled(tmp_path: Path) -> None:
    assert spool.spooled(tmp_path) == ()
    for number in range(3):
        spool.leave(tmp_path, _offer(number))
    waiting = spool.spooled(tmp_path)
    assert sorted(s.offer.turn_id for s in waiting if s.offer) == ["t0", "t1", "t2"]
    assert [s.path for s in waiting] == sorted(s.path for s in waiting)
    spool.settle(waiting[0])
    assert spool.spooled(tmp_path) == waiting[1:]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"to":"a","x":1}',
        b"\xff",
        b'{"text":"x"}',
        b'{"to":"a","text":"x"}',
        b'{"to":"a","turn_id":"t\\u0000","text":"x"}',
        b'{"to":"a","turn_id":"t","to":"b","text":"x"}',
    ],
)
def test_a_damaged_file_says_what_is_wrong_and_can_be_set_aside(tmp_path: Path, data: bytes) -> None:
    path = spool.leave(tmp_path, _offer(0))
    path.write_bytes(data)
    (found,) = spool.spooled(tmp_path)
    assert found.offer is None
    assert found.problem
    assert found.lasting
    aside = spool.set_aside(found, found.problem)
    assert (spool.spooled(tmp_path), aside.read_bytes()) == ((), data)
    assert spool.refused(tmp_path) == [aside]
    assert spool.why_refused(aside).reason == found.problem


def test_why_a_turn_was_refused_is_kept_beside_it_without_its_text(tmp_path: Path) -> None:
    path = spool.leave(tmp_path, _offer(0))
    (taken,) = spool.spooled(tmp_path)
    aside = spool.set_aside(taken, "no such peer")
    seen = spool.why_refused(aside)
    assert (seen.reason, seen.turn_id, seen.to, seen.state) == ("no such peer", "t0", "weixin:main", "refused")
    assert b"h\xc3\xa9" not in path.with_suffix(".why").read_bytes()
    assert path.with_suffix(".why").stat().st_mode & 0o777 == 0o600
    path.with_suffix(".why").unlink()
    assert spool.why_refused(aside).reason == "the reason was not kept"
    assert (spool.why_refused(aside).turn_id, spool.why_refused(aside).to) == ("t0", "weixin:main")


def test_a_refused_turn_comes_back_by_its_name(tmp_path: Path) -> None:
    path = spool.leave(tmp_path, _offer(0))
    (taken,) = spool.spooled(tmp_path)
    spool.set_aside(taken, "no such peer").rename(path)
    assert spool.spooled(tmp_path) == (taken,)
    spool.settle(taken)
    assert list(path.parent.iterdir()) == [], "and leaves nothing behind"


def test_a_file_that_cannot_be_read_now_says_nothing_of_what_it_holds(tmp_path: Path) -> None:
    path = spool.leave(tmp_path, _offer(0))
    path.unlink()
    path.mkdir()
    (found,) = spool.spooled(tmp_path)
    assert (found.offer, found.lasting) == (None, False)
    assert "it cannot be read: Is a directory" in found.problem


def test_a_file_of_another_name_does_not_disturb_the_order(tmp_path: Path) -> None:
    ahead = spool.leave(tmp_path, _offer(0))
    ahead.rename(ahead.with_name(f"900000000000000-{ahead.name[-13:]}"))
    (ahead.parent / "zz.json").write_bytes(
        (ahead.parent / ahead.with_name(f"900000000000000-{ahead.name[-13:]}").name).read_bytes()
    )
    spool.leave(tmp_path, _offer(1))
    names = [p.name for p in spool.waiting(tmp_path)]
    assert [n[:15] for n in names[:2]] == ["900000000000000", "900000000000001"]


def test_the_spool_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "FILES_MAX", 2)
    spool.leave(tmp_path, _offer(0))
    spool.leave(tmp_path, _offer(1))
    with pytest.raises(Failed, match="holds 2 turns already; nothing was left"):
        spool.leave(tmp_path, _offer(2))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    with pytest.raises(Failed, match="nothing was left there"):
        spool.leave(tmp_path, _offer(0))


def test_a_folder_that_cannot_be_read_is_never_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    for look in (spool.waiting, spool.refused, spool.spooled):
        with pytest.raises(OSError, match="Not a directory"):
            look(tmp_path)
    assert spool.forget(tmp_path, turn_id="t1") == spool.Forgotten(0, (tmp_path / "spool",))


def test_files_are_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.json"
    files.write_private(path, b"one")
    files.write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["c.json"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_what_a_link_points_to_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"another's")
    elsewhere.chmod(0o644)
    for target in (elsewhere, tmp_path / "nothing"):
        link = tmp_path / "login.json"
        link.symlink_to(target)
        files.write_private(link, b"secret")
        assert not link.is_symlink()
        assert link.read_bytes() == b"secret"
        assert link.stat().st_mode & 0o777 == 0o600
        link.unlink()
    assert elsewhere.read_bytes() == b"another's"
    assert not (tmp_path / "nothing").exists()


def test_turns_left_within_one_instant_keep_their_order(tmp_path: Path) -> None:
    for number in range(20):
        spool.leave(tmp_path, TurnOffer(to="weixin:main", turn_id=f"t{number}", text="x"))
    assert [s.offer.turn_id for s in spool.spooled(tmp_path) if s.offer] == [f"t{number}" for number in range(20)]


def test_what_is_for_somebody_who_was_erased_goes_also_what_was_set_aside_or_left_in_part(tmp_path: Path) -> None:
    spool.leave(tmp_path, TurnOffer(to="weixin:main:ann", turn_id="t1", text="secret"))
    spool.leave(tmp_path, TurnOffer(session="desk", turn_id="t2", text="secret"))
    spool.leave(tmp_path, TurnOffer(to="weixin:main:ben", turn_id="t3", text="for ben"))
    spool.leave(tmp_path, TurnOffer(to="weixin:main", turn_id="t4", text="secret"))
    spool.set_aside(spool.spooled(tmp_path)[-1], "no peer has the address weixin:main")
    drafted = spool.leave(tmp_path, TurnOffer(to="weixin:main:ann", turn_id="t5", text="secret"))
    drafted.rename(drafted.with_name(f".{drafted.name}.0123"))
    damaged = spool.leave(tmp_path, _offer(6))
    damaged.write_bytes(b"{")
    found = spool.forget(tmp_path, to=("weixin:main:ann", "weixin:main"), session="desk")
    assert found == spool.Forgotten(4, (damaged,))
    assert [s.offer.turn_id for s in spool.spooled(tmp_path) if s.offer] == ["t3"]
    assert spool.forget(tmp_path, to=("weixin:main:ben",), turn_id="t9").gone == 0, "of one turn only that one"
    assert not list(spool.folder_of(tmp_path).glob("*.why"))
    assert spool.forget(tmp_path, turn_id="t3").gone == 1
    assert spool.forget(tmp_path / "none", turn_id="t3") == spool.Forgotten(0, ())
