from __future__ import annotations

import msgspec
import pytest

from scripts.simulators.errors import UnknownNameError
from scripts.simulators.weixin.knobs import Fault, Switchboard


def test_a_knob_stays_or_counts_down() -> None:
    board = Switchboard()
    board.set({"quota": 3})
    board.set({"quota": 1}, times=2)
    assert [board.use("quota") for _ in range(4)] == [1, 1, 3, 3]


def test_looking_uses_nothing_up() -> None:
    board = Switchboard()
    board.set({"quota": 1}, times=1)
    assert [board.look("quota"), board.look("quota"), board.use("quota"), board.look("quota")] == [1, 1, 1, 10]


@pytest.mark.parametrize("values", [{"quotas": 3}, {"Quota": 3}])
def test_unknown_names_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(UnknownNameError, match="quota"):
        Switchboard().set(values)


@pytest.mark.parametrize("values", [{"quota": "three"}, {"delivery": "sometimes"}, {"quota": 2, "echo": 1}])
def test_wrong_values_change_nothing(values: dict[str, object]) -> None:
    board = Switchboard()
    with pytest.raises(msgspec.ValidationError):
        board.set(values)
    assert board.look("quota") == 10


def test_reset_and_clear() -> None:
    board = Switchboard()
    board.set({"quota": 1, "echo": True})
    board.set({"quota": 2}, times=1)
    board.reset(["quota"])
    assert (board.look("quota"), board.look("echo")) == (10, True)
    board.add(Fault(where="any", kind="http"))
    board.clear()
    assert (board.look("echo"), board.strike("send", "u")) == (False, None)


def test_faults_strike_where_whom_and_how_often() -> None:
    board = Switchboard()
    board.add(Fault(where="send", kind="ret", skip=1, times=2, user="u"))
    board.add(Fault(where="any", kind="http", times=None))
    struck = [board.strike(where, user) for where, user in [("send", "u")] * 4 + [("send", "v"), ("poll", "")]]
    assert [fault.kind if fault else None for fault in struck] == ["http", "ret", "ret", "http", "http", "http"]
