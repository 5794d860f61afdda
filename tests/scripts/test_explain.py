"""`explain` names the blocking or the deciding fact of each situation that the product must handle, and what would free it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from actors.deciding.view import Block
from actors.text import notices
from events import bot, peer
from events.bot import Policy
from events.streams import delivery_id
from scripts.asking import sends
from scripts.errors import Ambiguous, NotFound
from scripts.reading.explain import Story, explain
from tests.scripts.reading import Paper, log_of
from tests.streams_builder import ANN, BEN, BOT, DAY, HOUR, MINUTE, NOON, SECOND, Streams


async def told(streams: Streams, given: str, now: int | None = None, **more: Any) -> Story:
    paper = Paper()
    (story,) = await explain(await log_of(streams), given, paper, streams.now if now is None else now, **more)
    assert paper.text == "\n".join(story.sentences) + "\n"
    assert "secret-token" not in paper.text
    return story


def begun() -> Streams:
    return (
        Streams()
        .start()
        .message("m1")
        .begin("t0", "m1")
        .complete("t0", origin="inbound")
        .request("r0", "t0", kind="answer")
        .ok("r0")
    )


def pushes(count: int) -> Streams:
    """So many pushes, an hour apart, have spent as much of the share."""
    s = begun()
    for n in range(1, count + 1):
        s.wait(HOUR).complete(f"t{n}").request(f"r{n}", f"t{n}", share=n).ok(f"r{n}")
    return s


def rolled() -> Streams:
    """The share is spent, the peer writes in the evening, and the share rolls inside that window."""
    s = pushes(3).wait(HOUR).complete("t4").wait(8 * HOUR).message("m2").begin("t5", "m2")
    s.complete("t5", origin="inbound").request("r5", "t5", kind="answer").ok("r5")
    s.now = NOON + HOUR + DAY
    return s.request("r4", "t4", share=3).ok("r4")


def stale() -> Streams:
    s = begun().wait(HOUR).complete("t1").request("r1", "t1", share=1).fail("r1")
    return s.add(ANN, peer.ContextTokenDropped(body="k-m1", reason="refused"))


def merged() -> Streams:
    s = (
        Streams()
        .start()
        .complete("t1")
        .wait(MINUTE)
        .complete("t2")
        .wait(MINUTE)
        .complete("t3")
        .wait(HOUR)
        .message("m1")
    )
    return s.request("r1", "t1", "t2", "t3", share=1, cause="m1").ok("r1")


def long_push() -> Streams:
    return begun().complete("t1", total=9000).request("r1", ("t1", 0, 3997), share=1).ok("r1")


def long_answer(slots: int = 2) -> Streams:
    s = Streams().start(policy=Policy(quota_replies=slots)).message("m1").begin("t1", "m1")
    s.complete("t1", origin="inbound", total=10_000)
    for n, (start, end) in enumerate(((0, 4000), (4000, 8000)), 1):
        s.request(f"r{n}", ("t1", start, end), kind="answer", part=n, parts=3).ok(f"r{n}")
    return s


def killed() -> Streams:
    s = begun().wait(HOUR).complete("t1").request("r1", "t1", share=1).wait(MINUTE).start("two")
    return s.unknown("r1", reason="stopped")


def alone() -> Streams:
    """A message while no agent is connected."""
    return Streams().start().message("m1").begin("t1", "m1", agent="")


def offered() -> Streams:
    s = alone().wait(31 * SECOND).request("n1", kind="notice").ok("n1").wait(HOUR)
    s.add(ANN, peer.TurnHandedOver(turn_id="t1", agent="first")).wait(MINUTE)
    s.add(ANN, peer.TurnHandedOver(turn_id="t1", agent="second")).wait(SECOND)
    return s.complete("t1", origin="inbound").request("r1", "t1", kind="answer").ok("r1")


def kept_for_an_answer() -> Streams:
    s = Streams().start(policy=Policy(quota_replies=2)).message("m1").begin("t1", "m1")
    return s.complete("t2").request("r2", "t2", share=1).ok("r2").complete("t3")


def flooded() -> Streams:
    return Streams().start().complete("t1").wait(MINUTE).complete("t21").drop("t1", "backlog_full")


def in_flight() -> Streams:
    return (
        begun().wait(HOUR).complete("t1").request("r1", "t1", share=1).wait(SECOND).message("m2").wait(SECOND).ok("r1")
    )


# situation, the stream, what is asked, the state, the blocking fact, what the story must say
Row = tuple[str, Callable[[], Streams], str, str, str, list[str]]
TABLE: list[Row] = [
    (
        "a scheduled job completes in the bound session",
        lambda: pushes(1),
        "t1",
        "delivered",
        "",
        ["scheduled turn t1", "as a push", "because nothing blocked it", "slot 2 of 10", "share 1 of 3"],
    ),
    (
        "a desktop turn in the bound session",
        lambda: begun().complete("t1", origin="desktop").request("r1", "t1", share=1).ok("r1"),
        "t1",
        "delivered",
        "",
        ["desktop turn t1", "as a push", "delivered, whole"],
    ),
    (
        "an inbound message",
        begun,
        "t0",
        "delivered",
        "",
        ["from message m1", "never pushed as well", "as an answer", "slot 1 of 10", "delivered, whole"],
    ),
    (
        "several turns finish while nothing can be sent",
        merged,
        "t1",
        "delivered",
        "",
        [
            "it waited 1 h 2 min: the peer has not written yet, so no context token is there;",
            "until, at 2025-06-15 16:08:40 UTC, message m1 brought",
            f"merged with {delivery_id(ANN, 't2')}, {delivery_id(ANN, 't3')} into one reply",
            "because message m1 brought a new context token",
            "share 1 of 3",
        ],
    ),
    (
        "the share is spent",
        lambda: pushes(3).wait(HOUR).complete("t4"),
        "t4",
        "queued",
        "share_spent",
        ["the share of pushes is spent: 3 of 3 in 24 h", "the peer writes after 2025-06-16 16:06:40 UTC"],
    ),
    (
        "the share is spent, and rolls inside an open window",
        lambda: pushes(3).wait(HOUR).complete("t4").wait(8 * HOUR).message("m2"),
        "t4",
        "queued",
        "share_spent",
        ["the share rolls at 2025-06-16 16:06:40 UTC, inside the open window"],
    ),
    (
        "the share has rolled",
        rolled,
        "t4",
        "delivered",
        "",
        ["it waited 21 h: the share of pushes is spent", "because the share rolled", "window that message m2 opened"],
    ),
    (
        "no context token is known",
        lambda: Streams().start().complete("t1"),
        "t1",
        "queued",
        "no_token",
        ["the peer has not written yet, so no context token is there. That ends when the peer's first message brings one"],
    ),
    (
        "a send fails on a stale token",
        stale,
        "t1",
        "queued",
        "no_token",
        [
            "request r1",
            "It spent nothing",
            "refused with the token it had, which was dropped",
            "no context token is left. That ends when the peer's next message brings one",
        ],
    ),
    (
        "after a stale token, the next message",
        lambda: stale().wait(HOUR).message("m2").request("r2", "t1", share=1).ok("r2"),
        "t1",
        "delivered",
        "",
        ["it waited 1 h: no context token is left", "in request r2, because message m2 brought a new context token"],
    ),
    (
        "one output longer than a part",
        long_push,
        "t1",
        "delivered",
        "",
        ["bytes 0 to 3997 of 9000", "cut: 3997 of 9000 bytes arrived", "dead retry", "/more"],
    ),
    (
        "a failed turn",
        lambda: begun().add(ANN, peer.TurnFailed(turn_id="t1", output=delivery_id(ANN, "t1"), origin="scheduled")),
        "t1",
        "skipped",
        "",
        ["ended as failed", "skipped", "the turn failed"],
    ),
    (
        "a degraded turn with text",
        lambda: begun().complete("t1", status="degraded").request("r1", "t1", share=1).ok("r1"),
        "t1",
        "delivered",
        "",
        ["ended as degraded", "delivered, whole"],
    ),
    (
        "a blank text",
        lambda: begun().complete("t1", total=0).skip("t1", "blank"),
        "t1",
        "skipped",
        "",
        ["It was skipped at", "its text is blank."],
    ),
    (
        "an origin that is not pushed",
        lambda: begun().complete("t1", origin="desktop").skip("t1", "origin_excluded"),
        "t1",
        "skipped",
        "",
        ["push_origins"],
    ),
    (
        "a push while an answer is open",
        kept_for_an_answer,
        "t3",
        "queued",
        "reserved_for_answers",
        ["the last reply of the window is kept for the answer that the peer waits for", "when that answer is given"],
    ),
    (
        "an answer longer than the quota has left",
        long_answer,
        "t1",
        "queued",
        "quota_spent",
        ["part 1 of 3 (bytes 0 to 4000 of 10000)", "part 2 of 3", "spent: 2 of 2", "the peer's next message opens a new"],
    ),
    (
        "its remainder after the next message",
        lambda: long_answer().wait(HOUR).message("m2").request("r3", ("t1", 8000, 10_000), kind="answer", part=3, parts=3).ok("r3"),
        "t1",
        "delivered",
        "",
        ["it waited 1 h: the quota of the window that message m1 opened is spent", "because message m2 opened a new window"],
    ),
    (
        "a message arrives while a send is in flight: the send",
        in_flight,
        "r1",
        "confirmed",
        "",
        ["in flight when message m2 reached the channel, so it counts against window 2"],
    ),
    (
        "a message arrives while a send is in flight: the message",
        in_flight,
        "m2",
        "",
        "",
        ["It opened window 2", "1 reply was carried into its window, because the channel may count them there: r1."],
    ),
    (
        "an older instance after a newer one started",
        lambda: begun().wait(HOUR).start("two"),
        "one",
        "",
        "",
        ["as epoch 1", "Instance two (epoch 2) claimed", "one is fenced, and can neither append nor send"],
    ),
    (
        "kill -9 between request and outcome: the output",
        killed,
        "t1",
        "unknown",
        "",
        [
            "Nobody can say whether it arrived (the gateway ended before its answer was there, known",
            "instance two (epoch 2) closed it at its start",
            "never sent again",
        ],
    ),
    (
        "kill -9 between request and outcome: the request",
        killed,
        "r1",
        "unknown",
        "",
        ["by instance one (epoch 1)", "charged", "Instance two (epoch 2) took the account over"],
    ),
    (
        "two triggers at once",
        lambda: begun().complete("t1").complete("t2").request("r1", "t1", share=1),
        "t2",
        "queued",
        "open_request",
        ["request r1 is open, and a peer has one at a time", "That ends when the outcome of that request is known"],
    ),
    ("the 21st output", flooded, "t1", "dropped", "", ["newer outputs pushed it out of the backlog", "dead retry"]),
    (
        "an output over an hour old",
        lambda: Streams().start().complete("t1").complete("t2").wait(HOUR).drop("t1", "expired"),
        "t1",
        "dropped",
        "",
        ["it waited longer than the backlog's age, and a newer output was there", "dead retry"],
    ),
    (
        "left out of a merge",
        lambda: begun().complete("t1").complete("t2").request("r1", "t2", left_out=("t1",), share=1).ok("r1").drop("t1", "merged_out"),
        "t1",
        "dropped",
        "",
        ["it did not fit beside newer outputs into the one message that was delivered"],
    ),
    (
        "4000 bytes",
        lambda: begun().complete("t1", total=4000).request("r1", "t1", share=1).ok("r1"),
        "t1",
        "delivered",
        "",
        ["4000 bytes", "delivered, whole"],
    ),
    (
        "a message with no agent connected",
        alone,
        "t1",
        "open",
        "",
        ["No agent has it: it waits until one connects"],
    ),
    (
        "the same message, asked by the channel's id",
        alone,
        "channel-m1",
        "",
        "",
        ["It became turn t1", "No agent has it"],
    ),
    (
        "an agent dies in the turn",
        offered,
        "t1",
        "delivered",
        "",
        [
            "Agent first got it",
            "Agent second got it",
            "offered again under the same turn id",
            "told once that it waits, at 2025-06-15 15:07:11 UTC (request n1",
        ],
    ),
    (
        "a peer with waiting outputs after a restart",
        lambda: pushes(3).wait(HOUR).complete("t4").wait(8 * HOUR).message("m2").start("two"),
        "t4",
        "queued",
        "share_spent",
        ["the share rolls at 2025-06-16 16:06:40 UTC"],
    ),
    (
        "paused",
        lambda: begun().add(BOT, bot.SendingPaused(who="ann")).complete("t1"),
        "t1",
        "queued",
        "paused",
        ["sending is paused", "replyledger resume"],
    ),
    (
        "resumed",
        lambda: (
            begun().add(BOT, bot.SendingPaused(who="ann")).complete("t1").wait(HOUR).add(BOT, bot.SendingResumed(who="ann"))
            .request("r1", "t1", share=1).ok("r1")
        ),
        "t1",
        "delivered",
        "",
        ["it waited 1 h: sending is paused", "because sending was resumed"],
    ),
    (
        "the login is lost",
        lambda: begun().add(BOT, bot.LoginLost(code=-14, where="send")).complete("t1"),
        "t1",
        "queued",
        "login_lost",
        ["the login is gone", "replyledger login"],
    ),
    (
        "the window is closed",
        lambda: begun().wait(DAY).complete("t1"),
        "t1",
        "queued",
        "window_closed",
        ["the window that message m1 opened ended at 2025-06-16 15:06:19 UTC"],
    ),
    (
        "a part was refused, the later ones hold",
        lambda: (
            Streams().start().message("m1").begin("t1", "m1").complete("t1", origin="inbound", total=9000)
            .request("r1", ("t1", 0, 4000), kind="answer", parts=3).unknown("r1")
        ),
        "t1",
        "queued",
        "held_until_message",
        ["later parts hold to keep the order", "next message"],
    ),
    (
        "it never left, and is tried again",
        lambda: begun().complete("t1").request("r1", "t1").fail("r1", "not_sent", code=0, retry_at=NOON + MINUTE),
        "t1",
        "queued",
        "retry_later",
        ["provably never left", "the next try is due, at 2025-06-15 15:07:40 UTC"],
    ),
    (
        "observe mode",
        lambda: pushes(3).complete("t4").request("r4", "t4", share=4, lifted="share_spent").ok("r4"),
        "t4",
        "delivered",
        "",
        ["observe mode; enforce mode would have waited: share_spent"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "given", "state", "blocked", "says"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
async def test_story(build: Callable[[], Streams], given: str, state: str, blocked: str, says: list[str]) -> None:
    story = await told(build(), given)
    text = " ".join(story.sentences)
    assert (story.state, story.blocked_by) == (state, blocked)
    for words in says:
        assert words in text


async def test_one_trigger_one_request() -> None:
    assert (await told(pushes(1), "t1")).requests == ("r1",)


async def test_an_id_by_its_unique_beginning_and_of_every_sort() -> None:
    streams = pushes(1)
    output = delivery_id(ANN, "t1")
    for given, found in ((output[:8], output), ("c-r1", "r1"), ("m-r1", "r1"), ("channel-m", "m1"), ("m1", "m1")):
        assert (await told(streams, given)).id == found


async def test_an_exact_id_wins_over_longer_ones() -> None:
    streams = begun().complete("t1").complete("t10")
    assert (await told(streams, "t1")).id == "t1"


async def test_the_same_turn_in_two_peers_is_told_twice() -> None:
    streams = begun().complete("t1").message("m9", stream=BEN).complete("t1", stream=BEN)
    paper = Paper(json=True)
    stories = await explain(await log_of(streams), "t1", paper, streams.now)
    assert [row["stream"] for row in paper.rows] == [ANN, BEN] == [s.stream for s in stories]


async def test_what_is_not_there_or_not_unique() -> None:
    log = await log_of(pushes(2))
    with pytest.raises(NotFound, match="nothing in the log is called 'zz'"):
        await explain(log, "zz", Paper(), NOON)
    with pytest.raises(Ambiguous, match="'t' begins t0, t1, t2"):
        await explain(log, "t", Paper(), NOON)
    with pytest.raises(NotFound, match="an id is needed"):
        await explain(log, "", Paper(), NOON)


async def test_an_argument_that_is_no_text() -> None:
    with pytest.raises(NotFound, match="is not text"):
        await explain(await log_of(begun()), "t\udc80", Paper(), NOON)


async def test_bytes_that_only_look_like_an_id_are_not_one() -> None:
    streams = begun().add(ANN, peer.SessionBound(session="t1-session"))
    with pytest.raises(NotFound):
        await explain(await log_of(streams), "t1-s", Paper(), NOON)


async def test_an_id_with_quotes_and_signs() -> None:
    assert (await told(begun().complete('a"\\ü\n'), 'a"\\ü')).id == 'a"\\ü\n'


async def test_the_gate_that_names_the_block_can_be_another() -> None:
    story = await told(begun().complete("t1"), "t1", blocking=lambda *_: Block("pace", NOON + SECOND))
    assert (story.blocked_by, story.blocked_until) == ("pace", NOON + SECOND)


async def test_an_expired_text_is_said_and_the_delivery_stays() -> None:
    streams = pushes(1).wait(DAY).add(ANN, peer.BodyErased(bodies=("b-t1",), reason="expired"))
    story = await told(streams, "t1")
    assert story.state == "delivered"
    assert story.sentences[-1] == "Its text was erased at 2025-06-16 16:06:40 UTC."


async def test_what_an_operator_dropped_and_put_back_is_told() -> None:
    streams = (
        Streams().start().message("m1", token=False).complete("t1").wait(SECOND).drop("t1", "operator").wait(SECOND)
    )
    streams.add(ANN, peer.OperatorActed(who="cli:me", what="retry", outputs=(streams.output("t1"),)))
    text = "\n".join((await told(streams, "t1")).sentences)
    assert "until, at 2025-06-15 15:06:41 UTC, an operator dropped it" in text
    assert "An operator put it back by `dead retry`" in text


async def test_of_a_message_that_came_again_it_is_told() -> None:
    streams = Streams().start().message("m1")
    (written,) = [r.event.sent_at for r in streams.of(ANN) if isinstance(r.event, peer.MessageReceived)]
    streams.wait(SECOND).add(ANN, peer.DuplicateSuppressed(reason="same_id", body="b-again", sent_at=written))
    text = "\n".join((await told(streams, "m1")).sentences)
    assert "The channel delivered it once more, at 2025-06-15 15:06:41 UTC; that opened no window" in text


def test_every_notice_is_told_by_what_it_says() -> None:
    assert set(sends.NOTICES) == set(get_args(notices.Notice))
    for locale in ("en", "zh-CN"):
        for name in get_args(notices.Notice):
            assert notices.notice(name, locale, 3).strip()
