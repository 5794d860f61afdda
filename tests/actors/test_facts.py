"""What people read of something that waits: one sentence for every reason, the same in every verb."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from actors.deciding.facts import fact_of
from actors.deciding.view import Block, BotView, Reason
from actors.gateway.receipts import Room
from events.bot import Policy
from events.peer_state import Message, OpenTurn, PeerState, Token
from events.quota import Charge, Window
from scripts.reading.replay import _sentence
from tests.streams_builder import ACCOUNT, ANN, DAY, HOUR, NOON, SECOND

WINDOW = Window(number=1, message="m-1", opened_at=NOON - HOUR, generation=1)
TURN = OpenTurn(
    turn_id="t-1", message=Message(message="m-1", body="b", at=NOON, sent_at=NOON), session="", started_at=NOON
)
MET = PeerState(window=WINDOW, token=Token(body="k", message="m-1", generation=1))


def spent(number: int, kind: str = "answer", at: int = NOON - HOUR) -> tuple[Charge, ...]:
    return tuple(
        Charge(request=f"r-{n}", kind=kind, requested_at=at, settled_at=at, window=1)  # type: ignore[arg-type] # a kind
        for n in range(number)
    )


def show(at: int) -> str:
    """Hours after noon."""
    return f"{(at - NOON) / HOUR:g} h"


VIEW = BotView(account=ACCOUNT, epoch=1, generation=1, policy=Policy(), agents=1)
CASES: list[tuple[Reason, int | None, dict[str, object], dict[str, object], str]] = [
    ("nothing_waits", None, {}, {}, "nothing waits; it waits until there is a next output"),
    (
        "open_request",
        None,
        {},
        {},
        "request another is open, and a peer has one at a time; it waits until the outcome of that request is known",
    ),
    (
        "no_login",
        None,
        {},
        {},
        "nobody has ever logged in to the account; it waits until somebody runs `replyledger login weixin --account main`",
    ),
    (
        "login_lost",
        None,
        {},
        {},
        "the channel says that the login is gone; it waits until somebody runs `replyledger login weixin --account main`",
    ),
    ("paused", None, {}, {}, "sending is paused; it waits until somebody runs `replyledger resume`"),
    (
        "paused",
        NOON + HOUR,
        {},
        {},
        "sending is paused until 1 h; it waits until that time comes, or somebody runs `replyledger resume`",
    ),
    (
        "no_token",
        None,
        {"window": None, "token": None},
        {},
        "the peer has not written yet, so no context token is there; it waits until the peer's first message brings one",
    ),
    (
        "no_token",
        None,
        {"token": None},
        {},
        "no context token is left; it waits until the peer's next message brings one",
    ),
    (
        "no_token",
        None,
        {},
        {"generation": 2},
        "the context token belongs to an older login; it waits until the peer's next message brings a new one",
    ),
    (
        "retry_later",
        NOON + HOUR,
        {},
        {},
        "the last try provably never left; it waits until the next try is due, at 1 h",
    ),
    (
        "window_closed",
        None,
        {"window": None},
        {},
        "the peer has not written yet, so no window is open; it waits until the peer's first message opens one",
    ),
    (
        "window_closed",
        None,
        {"window": msgspec.structs.replace(WINDOW, opened_at=NOON - DAY + 20 * SECOND)},
        {},
        "the window that message m-1 opened ended at 0 h; it waits until the peer's next message opens a new one",
    ),
    (
        "quota_spent",
        None,
        {"charges": spent(10)},
        {},
        (
            "the quota of the window that message m-1 opened is spent: 10 of 10; it waits until the peer's next message opens a new"
            " window"
        ),
    ),
    (
        "share_spent",
        NOON + 2 * HOUR,
        {"charges": spent(3, "push")},
        {},
        "the share of pushes is spent: 3 of 3 in 24 h; it waits until the share rolls at 2 h, inside the open window",
    ),
    (
        "share_spent",
        None,
        {"charges": spent(3, "push")},
        {},
        (
            "the share of pushes is spent: 3 of 3 in 24 h; it waits until the peer writes after 23 h (when the share rolls, the window"
            " of the last message will have ended)"
        ),
    ),
    (
        "reserved_for_answers",
        None,
        {"charges": spent(9), "turn": TURN},
        {},
        (
            "the last reply of the window is kept for the answer that the peer waits for; it waits until that answer is given, or the"
            " peer's next message opens a new window"
        ),
    ),
    (
        "reserved_for_answers",
        None,
        {"charges": spent(8), "turn": TURN, "inbox": (TURN.message,)},
        {},
        (
            "the last 2 replies of the window are kept for the 2 answers that the peer waits for; it waits until those answers are"
            " given, or the peer's next message opens a new window"
        ),
    ),
    (
        "reserved_for_answers",
        None,
        {"charges": spent(5)},
        {},
        "remainders have used their half of this window's quota; it waits until the peer's next message opens a new window",
    ),
    (
        "held_until_message",
        None,
        {},
        {},
        (
            "an earlier part was refused, or nobody can say whether it arrived; later parts hold to keep the order; it waits until the"
            " peer's next message is there"
        ),
    ),
    ("pace", NOON, {}, {}, "the account paces its sends; it waits until its place comes at 0 h"),
]


@pytest.mark.parametrize(("reason", "until", "state", "view", "sentence"), CASES)
def test_every_reason_reads_as_a_sentence_and_every_verb_says_the_same(
    reason: Reason, until: int | None, state: dict[str, object], view: dict[str, object], sentence: str
) -> None:
    peer, bot, block = (
        msgspec.structs.replace(MET, **state),
        msgspec.structs.replace(VIEW, **view),
        Block(reason, until),
    )
    fact = fact_of(block, peer, bot, NOON, show)
    assert fact.sentence == sentence
    room = Room(address="weixin:main:ann", stream=ANN, state=peer, view=bot, now=NOON, show=show)
    assert room.sentence(block) == sentence, "status, backlog, send"
    if reason != "nothing_waits":
        assert _sentence(block, peer, bot, NOON, show) == sentence, "replay"


def test_every_reason_is_read_here() -> None:
    assert {case[0] for case in CASES} == set(get_args(Reason))
