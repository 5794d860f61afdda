from __future__ import annotations

import pytest

from actors.gateway import errors
from actors.gateway.connections import refusal_body
from actors.gateway.errors import GatewayError, nearest
from events.errors import UnknownEventType
from store.errors import EventUnreadable, Fenced, LogBusy, LogClosed, LogFailed, LogUnreadable, StoreError


def _all(base: type[GatewayError]) -> list[type[GatewayError]]:
    return [base, *(c for s in base.__subclasses__() for c in _all(s))]


def test_every_refusal_has_a_code_of_its_own_and_a_message() -> None:
    kinds = _all(GatewayError)
    assert len({k.code for k in kinds}) == len(kinds)
    for kind in kinds:
        assert kind().message
        assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.BadRequest, 400),
        (errors.NeverFits, 400),
        (errors.Unauthorized, 401),
        (errors.UnknownPeer, 404),
        (errors.TurnConflict, 409),
        (errors.AmbiguousId, 409),
        (errors.TooLarge, 413),
        (errors.TooMany, 429),
        (errors.Busy, 503),
    ],
)
def test_status(kind: type[GatewayError], status: int) -> None:
    assert kind.status == status


def test_the_body_leaves_out_what_is_not_there() -> None:
    assert refusal_body(errors.Busy("no")) == {"error": {"code": "busy", "message": "no"}}
    whole = errors.BadRequest("no\ud800", path="$.a", near=["b"])
    partly = refusal_body(errors.Partly("t1", ["d1"], of=2, why="busy"))["error"]
    assert (partly["code"], partly["turn_id"], partly["deliveries"]) == ("partly", "t1", ("d1",))
    assert refusal_body(whole) == {"error": {"code": "bad_request", "message": "no�", "path": "$.a", "near": ["b"]}}


def test_nearest_ignores_case_and_gives_few() -> None:
    assert nearest("ALICE", ["alice", "bob"]) == ("alice",)
    assert nearest("zzz", ["alice", "bob"]) == ()
    assert len(nearest("aa", ["aab", "aac", "aad", "aae"])) == 3


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (LogFailed("a commit failed"), errors.LogLost, "unknown"),
        (EventUnreadable("peer-x", 1, position=1, why=UnknownEventType("no")), errors.LogLost, "unknown"),
        (LogBusy("the disk is full"), errors.Busy, "the disk is full"),
        (LogClosed(), errors.Stopping, "closed"),
        (Fenced("replaced"), errors.Stopping, "replaced"),
        (LogUnreadable("no answer"), errors.NotNow, "no answer"),
    ],
)
def test_what_an_error_of_the_log_comes_to(error: StoreError, kind: type[GatewayError], words: str) -> None:
    assert isinstance(error, errors.OF_LOG)
    refusal = errors.of_log(error)
    assert (type(refusal), refusal.status) == (kind, 503)
    assert words in refusal.message
