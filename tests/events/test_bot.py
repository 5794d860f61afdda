"""The fold of a bot's life, event by event."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from events.bot import (
    BotEvent,
    BotStarted,
    BotState,
    BotStopped,
    ClockStepped,
    CursorAdvanced,
    LoginCompleted,
    LoginLost,
    Policy,
    PolicyChanged,
    SendingPaused,
    SendingResumed,
    evolve,
    paused_until,
)

T = 1_750_000_000_000
ANN, BEN = "peer-ann", "peer-ben"

BEFORE = BotState(
    version=7,
    at=T,
    epoch=1,
    instance="one",
    running=True,
    generation=1,
    owner=ANN,
    credentials="fp",
    login_lost=-14,
    cursor="c",
    poll_started_at=T - 2,
    poll_ended_at=T - 1,
    paused=((ANN, None), ("", T + 9)),
)

FOLDED: list[tuple[BotEvent, dict[str, Any]]] = [
    (BotStarted(instance="two", replaces="one"), {"epoch": 2, "instance": "two"}),
    (BotStarted(instance="two", simulated=True), {"epoch": 2, "instance": "two", "simulated": True}),
    (BotStopped(reason="x"), {"running": False}),
    (PolicyChanged(policy=Policy(part_bytes=99), policy_id="p"), {"policy": Policy(part_bytes=99), "policy_id": "p"}),
    (
        LoginCompleted(generation=2, owner=BEN, credentials="new"),
        {"generation": 2, "owner": BEN, "credentials": "new", "login_lost": None, "cursor": ""},
    ),
    (LoginCompleted(generation=1, owner=ANN, credentials="fp"), {"login_lost": None}),
    (LoginLost(code=-3, where="send"), {"login_lost": -3}),
    (
        CursorAdvanced(cursor="d", poll_started_at=T, poll_ended_at=T + 5),
        {"cursor": "d", "poll_started_at": T, "poll_ended_at": T + 5},
    ),
    (SendingPaused(scope=BEN, until=T + 1), {"paused": (*BEFORE.paused, (BEN, T + 1))}),
    (SendingPaused(scope=ANN, until=T + 1), {"paused": (("", T + 9), (ANN, T + 1))}),
    (SendingResumed(scope=ANN), {"paused": (("", T + 9),)}),
    (SendingResumed(scope=BEN), {}),
    (ClockStepped(step_ms=90_000), {"clock_steps": 1}),
]


@pytest.mark.parametrize(("event", "changes"), FOLDED, ids=lambda e: type(e).__name__)
def test_each_event_changes_what_it_says_and_nothing_else(event: BotEvent, changes: dict[str, Any]) -> None:
    after = evolve(BEFORE, event, version=8, at=T + 3, epoch=2)
    assert after == msgspec.structs.replace(BEFORE, **{"version": 8, "at": T + 3, **changes})


def test_every_event_is_in_the_table() -> None:
    assert {type(e) for e, _ in FOLDED} == set(BotEvent.__args__)


def test_a_log_that_was_once_simulated_stays_so() -> None:
    state = evolve(BotState(), BotStarted(instance="one", simulated=True), version=1, at=T, epoch=1)
    assert evolve(state, BotStarted(instance="two"), version=2, at=T, epoch=2).simulated


PAUSES: list[tuple[str, tuple[tuple[str, int | None], ...], int | None]] = [
    ("none", (), 0),
    ("somebody else", ((BEN, None),), 0),
    ("the account, until resumed", (("", None),), None),
    ("the account, until", (("", T + 5),), T + 5),
    ("the peer and the account: the later", (("", T + 5), (ANN, T + 9)), T + 9),
    ("the peer until, the account until resumed", (("", None), (ANN, T + 9)), None),
    ("over", (("", T),), 0),
    ("one over, one not", (("", T), (ANN, T + 1)), T + 1),
]


@pytest.mark.parametrize(("paused", "until"), [row[1:] for row in PAUSES], ids=[row[0] for row in PAUSES])
def test_how_long_a_peer_is_paused(paused: tuple[tuple[str, int | None], ...], until: int | None) -> None:
    assert paused_until(BotState(paused=paused), ANN, T) == until
