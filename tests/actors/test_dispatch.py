"""From a lane to a request: merging, heads, parts, remainders, and the charge that the log keeps (delivery rules 3, 7, 9, 10)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors.deciding.commands import Operate
from actors.text.clean import clean
from actors.text.merge import MARKER, SEPARATOR
from actors.text.notices import notice
from actors.text.split import parts
from events.backlog import Output
from events.base import Origin
from events.bot import Policy
from events.peer import ChargeNote, OutputDropped, SendRequested, TurnCompleted
from events.streams import fingerprint
from store.records import SALT_BYTES
from tests.actors.one_peer import OnePeer
from tests.corpus import Document, documents
from tests.streams_builder import DAY, HOUR, MINUTE

PART = 4000
BETWEEN = len(SEPARATOR.encode())


def gathered(*texts: str, **policy: int) -> OnePeer:
    """Outputs that wait for a first message, which then comes."""
    peer = OnePeer(policy=Policy(**policy))
    for count, text in enumerate(texts, start=1):
        peer.accept(f"t{count}", text)
    peer.message()
    return peer


def last(peer: OnePeer) -> SendRequested:
    return peer.requests[-1]


def test_several_turns_are_merged_into_one_reply_in_time_order() -> None:
    peer = gathered("first", "second", "third")
    assert peer.said == [SEPARATOR.join(("first", "second", "third"))]
    assert [c.output for c in last(peer).carried] == [peer.of("t1"), peer.of("t2"), peer.of("t3")]
    assert (last(peer).kind, last(peer).part, last(peer).parts) == ("push", 1, 1)
    peer.ok()
    assert peer.state.queue == ()
    assert len(peer.state.charges) == 1


@pytest.mark.parametrize(("over", "carried"), [(-1, 2), (0, 2), (1, 1)])
def test_exactly_fitting_and_one_byte_over(over: int, carried: int) -> None:
    """The separator counts."""
    first = "a" * (PART - BETWEEN - 1000 + over)
    peer = gathered(first, "b" * 1000)
    assert len(last(peer).carried) == carried
    assert last(peer).total == (PART + over if carried == 2 else 1000)
    assert last(peer).left_out == (() if carried == 2 else (peer.of("t1"),))


@pytest.mark.parametrize(("size", "whole"), [(3999, True), (4000, True), (4001, False)])
def test_one_output_at_the_size_of_a_part(size: int, whole: bool) -> None:
    peer = gathered("é" * (size // 2) + "x" * (size % 2))
    assert last(peer).carried[0].whole == whole
    assert last(peer).carried[0].total == size, "bytes, not characters"
    assert last(peer).total <= PART
    assert peer.said[0].endswith(MARKER) != whole
    peer.ok()
    if not whole:
        dead = peer.dead("t1")
        assert (dead.fate, dead.output.start) == ("cut", last(peer).carried[0].end)
        peer.texts[dead.output.body].encode()[: dead.output.start].decode()  # cut on a character boundary


def test_the_oldest_are_left_out_first() -> None:
    peer = gathered("a" * 3000, "b" * 3000, "c" * 500)
    assert [c.output for c in last(peer).carried] == [peer.of("t2"), peer.of("t3")]
    assert last(peer).left_out == (peer.of("t1"),)


def test_a_newest_that_alone_is_too_long_leaves_all_others_out() -> None:
    peer = gathered("short", "b" * 5000)
    assert [c.output for c in last(peer).carried] == [peer.of("t2")]
    assert last(peer).left_out == (peer.of("t1"),)


def test_texts_that_are_gone_are_dropped_and_the_rest_goes() -> None:
    peer = OnePeer()
    for turn in ("t1", "t2"):
        peer.accept(turn, turn)
    peer.erased(peer.waiting("t1").body)
    peer.message()
    assert peer.fate("t1") == ("dropped", "text_gone")
    assert peer.said == ["t2"]


def test_when_every_text_is_gone_nothing_is_sent() -> None:
    peer = OnePeer()
    peer.accept("t1", "t1")
    peer.message()
    peer.refuse()
    peer.erased(peer.waiting("t1").body)
    peer.message()
    assert peer.fate("t1") == ("dropped", "text_gone")
    assert len(peer.sends) == 1


def test_an_answer_whose_text_is_gone() -> None:
    peer = OnePeer()
    peer.see(paused_until=None)
    peer.message()
    peer.finish("hello")
    peer.erased(peer.state.answers[0].body)
    peer.see(paused_until=0).look()
    assert [d.reason for d in peer.state.dead] == ["text_gone"]


def test_a_text_that_is_sent_as_it_is_keeps_its_salt_over_a_restart() -> None:
    """The request has the fingerprint of the body that is there, whoever put it there."""
    peer = OnePeer().met().see(paused_until=None)
    peer.accept("t1", "news")
    peer.see(paused_until=0).look()
    (output,) = [b for b, text in peer.texts.items() if text == "news"]
    request = last(peer)
    assert (request.body, request.digest) == (output, fingerprint(peer.salts[output], "news"))
    assert len(peer.salts[output]) == SALT_BYTES


def test_a_request_is_whole_in_itself() -> None:
    peer = gathered("first", "second")
    request = last(peer)
    assert request.digest == fingerprint(peer.salts[request.body], peer.said[0])
    assert request.total == len(peer.said[0].encode())
    assert peer.texts[request.body] == peer.said[0], "the rendered text is a body of its own"
    assert request.token == "k-1"
    assert peer.sends[0].token == "token 1"
    assert request.client_id == peer.sends[0].client_id != ""
    assert (request.login, request.policy) == (1, "p-1")
    assert request.charge == ChargeNote(window=1, opened_by="m-1", slot=1, slots=10, share=1, shares=3, carried=0)
    assert request.lifted == ""


def test_slots_and_shares_are_counted_in_the_charge() -> None:
    peer = OnePeer().met()
    peer.accept("t1", "one")
    assert last(peer).charge == ChargeNote(window=1, opened_by="m-1", slot=2, slots=10, share=1, shares=3, carried=0)
    peer.ok()
    peer.accept("t2", "two")
    assert last(peer).charge == ChargeNote(window=1, opened_by="m-1", slot=3, slots=10, share=2, shares=3, carried=0)
    peer.wait(MINUTE)
    peer.message()
    peer.finish("hi")
    peer.ok()
    assert last(peer).kind == "answer"
    assert last(peer).charge == ChargeNote(window=2, opened_by="m-2", slot=2, slots=10, carried=1), (
        "the open push moved over"
    )


def test_an_answer_in_parts_in_their_order() -> None:
    peer = OnePeer()
    peer.message()
    text = "\n\n".join(f"paragraph {n} " + "x" * 900 for n in range(12))
    peer.finish(text)
    expected = parts(text, PART)
    for number, part in enumerate(expected, start=1):
        assert (last(peer).part, last(peer).parts) == (number, len(expected))
        assert peer.said[-1] == part.text
        carried = last(peer).carried[0]
        assert (carried.start, carried.end) == (part.start, part.end)
        peer.ok()
    assert peer.state.answers == ()
    assert peer.state.dead == ()


def test_what_fits_the_quota_goes_and_the_rest_follows_the_next_message() -> None:
    peer = OnePeer(policy=Policy(part_bytes=64))
    peer.message()
    text = "x" * 64 * 14
    peer.finish(text)
    for _ in range(10):
        peer.ok()
    assert peer.state.request is None
    assert len(peer.sends) == 10
    peer.wait(HOUR)
    peer.message("and?")
    assert (last(peer).part, last(peer).parts, last(peer).remainder) == (11, 14, True)
    assert last(peer).charge.slot == 1
    peer.finish("and so on")
    for _ in range(4):
        peer.ok()
    assert [(r.part, r.remainder) for r in peer.requests[-5:]] == [
        (11, True),
        (12, True),
        (13, True),
        (14, True),
        (1, False),
    ]
    assert "".join(peer.said[:14]) == text


def test_remainders_leave_half_of_the_quota_to_the_new_answer() -> None:
    peer = OnePeer(policy=Policy(part_bytes=64, quota_replies=4))
    peer.message()
    peer.finish("x" * 64 * 9)
    for _ in range(4):
        peer.ok()
    peer.wait(HOUR)
    peer.message("and?")
    peer.ok()
    peer.ok()
    assert peer.state.request is None, "two of four are left to the answer"
    peer.finish("y" * 64 * 2)
    peer.ok()
    peer.ok()
    assert [r.remainder for r in peer.requests[4:]] == [True, True, False, False]


def test_an_answer_without_a_token_or_a_window_waits_and_never_becomes_a_push() -> None:
    peer = OnePeer()
    peer.message(token=False)
    peer.finish("hello")
    assert not peer.sends
    peer.accept("t1", "news")
    peer.message()
    assert (last(peer).kind, last(peer).remainder) == ("answer", True)
    peer.ok()
    assert last(peer).kind == "push"
    late = OnePeer()
    late.message()
    late.wait(DAY)
    late.finish("sorry, that took long")
    assert not late.sends
    late.message()
    assert last(late).kind == "answer"


def test_an_answer_uses_the_newest_token() -> None:
    peer = OnePeer()
    peer.message("one")
    peer.message("two")
    peer.finish("hello")
    assert peer.sends[-1].token == "token 2"


def test_a_policy_that_moves_the_bounds_loses_and_repeats_no_byte() -> None:
    peer = OnePeer(policy=Policy(part_bytes=64))
    peer.message()
    text = "".join(chr(0x4E00 + n) for n in range(200))
    peer.finish(text)
    peer.ok()
    peer.rule(part_bytes=100)
    while peer.state.request is not None:
        peer.ok()
    spans = [(r.carried[0].start, r.carried[0].end) for r in peer.requests]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text.encode())
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert "".join(peer.said) == text


def test_a_large_text_is_split_off_the_turn() -> None:
    peer = OnePeer()
    peer.message()
    peer.finish("word " * 20_000)
    assert any(need.splits for need in peer.fetched)
    assert last(peer).parts == 25
    peer.accept("t1", "y" * 200_000)
    peer.ok()
    assert last(peer).part == 2


def test_an_answer_that_is_sent_as_it_is_needs_no_second_body() -> None:
    peer = OnePeer()
    peer.message()
    decision = peer.finish("hello")
    assert [b.kind for b in decision.bodies] == ["output"]
    peer.ok()
    peer.message()
    decision = peer.finish("x" * 5000)
    assert [b.kind for b in decision.bodies] == ["output", "rendered"]


@pytest.mark.parametrize("document", [d for d in documents() if len(d.text) < 50_000][:60], ids=lambda d: d.name)
def test_the_prediction_equals_the_sends(document: Document) -> None:
    text = clean(document.text)
    count = len(parts(text, PART))
    peer = OnePeer(policy=Policy(quota_replies=max(1, count)))
    peer.message()
    peer.finish(text)
    while peer.state.request is not None:
        assert last(peer).total <= PART
        peer.ok()
    assert len(peer.sends) == count
    assert peer.state.answers == ()


def rest_of(peer: OnePeer, text: str, start: int, *, origin: Origin) -> None:
    """An operator brings back what comes after the first bytes of a text; those arrived."""
    body = f"b-{start}"
    peer.texts[body] = text
    total = len(text.encode())
    output = Output(
        output="d-1", turn_id="t1", body=body, total=total, accepted_at=peer.now, origin=origin, start=start
    )
    peer.record(
        TurnCompleted(turn_id="t1", output="d-1", origin=origin, body=body, total=total),
        OutputDropped(output=output, reason="operator"),
    )
    peer.do(Operate(what="retry", who="op"))


@pytest.mark.parametrize("origin", ["inbound", "scheduled"])
def test_a_rest_in_which_there_is_nothing_to_see_is_dropped_and_no_reply_is_spent(origin: Origin) -> None:
    peer = OnePeer().met()
    rest_of(peer, "seen\n  \n", 4, origin=origin)
    assert peer.types == ["operator_acted", "output_dropped"]
    assert (peer.fate("t1"), peer.state.waiting, len(peer.sends)) == (("cut", "blank"), 0, 1)


def test_bytes_are_counted_from_the_beginning_of_the_text_where_only_a_rest_is_pushed() -> None:
    peer = OnePeer(policy=Policy(part_bytes=64)).met()
    rest_of(peer, "seen" + "\n" * 100 + "x" * 20, 4, origin="scheduled")
    (carried,) = last(peer).carried
    assert carried.total == 124
    assert carried.end == 124
    assert 4 <= carried.start <= 104
    assert peer.said[-1].strip() == "x" * 20
    assert last(peer).body != "b-4", "it is not the text itself"


def test_parts_are_numbered_on_where_a_policy_moves_the_bounds() -> None:
    peer = OnePeer(policy=Policy(part_bytes=160))
    peer.message()
    peer.finish("a" * 400)
    peer.rule(part_bytes=64).ok()
    assert last(peer).carried[0].start == 160
    assert (last(peer).part, last(peer).parts) == (3, 6), "two parts of 64 bytes and a half are there, four are to come"
    peer.rule(part_bytes=80).ok()
    assert last(peer).carried[0].start == 224
    assert (last(peer).part, last(peer).parts) == (3, 5), "two parts of 80 bytes and most of one are there"
    assert (last(peer).remainder, last(peer).quote) == (False, "")


def test_an_answer_of_one_part_is_one_of_one() -> None:
    peer = OnePeer()
    peer.message()
    peer.finish("hello")
    assert (last(peer).part, last(peer).parts, last(peer).remainder, last(peer).notice) == (1, 1, False, "")


def test_a_notice_longer_than_a_part_is_cut() -> None:
    peer = OnePeer(policy=Policy(part_bytes=64), locale="en").see(agents=0)
    peer.message()
    peer.wait(MINUTE).look()
    whole = notice("waiting_for_agent", "en")
    assert len(whole) > 64
    assert len(peer.said[-1]) <= 64
    assert whole.startswith(peer.said[-1])
    assert (last(peer).kind, last(peer).notice, last(peer).carried) == ("notice", "waiting_for_agent", ())
    assert (last(peer).part, last(peer).parts, last(peer).remainder) == (1, 1, False)
