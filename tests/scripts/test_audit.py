"""The rows of the ledger: what each spent reply bought."""

from __future__ import annotations

import csv
import io

import pytest

from events import peer
from scripts.errors import Ambiguous, NotFound
from scripts.reading.audit import AuditOptions, audit
from tests.scripts.reading import Paper, log_of
from tests.streams_builder import ANN, BEN, HOUR, MINUTE, NOON, Streams


def day() -> Streams:
    """Ann: an answer, a push, a refused push, an unknown. Ben: a push under the second epoch."""
    s = Streams().start("one").message("m1").begin("t1", "m1").complete("t1", origin="inbound", total=50)
    s.request("r1", "t1", kind="answer").ok("r1").wait(HOUR)
    s.complete("t2").complete("t3").request("r2", "t2", "t3", share=1).ok("r2").wait(HOUR)
    s.complete("t4").request("r3", "t4", share=2).fail("r3").wait(MINUTE).message("m2")
    s.request("r4", "t4", share=2).unknown("r4").wait(HOUR)
    s.start("two").message("m3", stream=BEN).complete("t5", stream=BEN)
    return s.request("r5", "t5", stream=BEN, share=1).ok("r5", stream=BEN, message_id="")


async def rows(options: AuditOptions) -> list[dict[str, object]]:
    paper = Paper(json=True)
    count = await audit(await log_of(day()), options, paper)
    assert count == len(paper.rows)
    return paper.rows


async def test_one_row_for_each_charged_reply() -> None:
    found = await rows(AuditOptions())
    assert [row["request"] for row in found] == ["r1", "r2", "r4", "r5"]
    assert found[1] == {
        "position": 13,
        "at": NOON + HOUR,
        "peer": "weixin:main:user-a@im.wechat",
        "stream": ANN,
        "kind": "push",
        "turn_ids": ["t2", "t3"],
        "part": 1,
        "parts": 1,
        "window": 1,
        "window_opened_by": "m1",
        "slot": 2,
        "slots": 10,
        "share": 1,
        "shares": 3,
        "epoch": 1,
        "instance": "one",
        "request": "r2",
        "client_id": "c-r2",
        "message_id": "m-r2",
        "outcome": "confirmed",
        "charged": True,
        "bytes": 200,
        "carried": None,
        "outcome_at": NOON + HOUR,
        "failure": "",
        "code": 0,
        "lifted": "",
    }


async def test_the_instance_is_that_of_the_epoch() -> None:
    assert [(row["epoch"], row["instance"]) for row in await rows(AuditOptions())][-2:] == [(1, "one"), (2, "two")]


FILTERS: list[tuple[AuditOptions, list[str]]] = [
    (AuditOptions(free=True), ["r1", "r2", "r3", "r4", "r5"]),
    (AuditOptions(peer="weixin:main:user-b@im.wechat"), ["r5"]),
    (AuditOptions(peer="user-b@im.wechat"), ["r5"]),
    (AuditOptions(peer=BEN), ["r5"]),
    (AuditOptions(peer="weixin:main"), ["r1", "r2", "r4"]),
    (AuditOptions(since=NOON + HOUR), ["r2", "r4", "r5"]),
    (AuditOptions(until=NOON + HOUR), ["r1"]),
    (AuditOptions(kinds=("answer",)), ["r1"]),
    (AuditOptions(outcomes=("unknown", "unconfirmed")), ["r4", "r5"]),
    (AuditOptions(outcomes=("refused",)), []),
    (AuditOptions(outcomes=("refused",), free=True), ["r3"]),
]


@pytest.mark.parametrize(("options", "expected"), FILTERS)
async def test_filters(options: AuditOptions, expected: list[str]) -> None:
    assert [row["request"] for row in await rows(options)] == expected


async def test_text_names_the_zone_the_slot_the_share_and_what_is_free() -> None:
    paper = Paper()
    await audit(await log_of(day()), AuditOptions(free=True), paper)
    lines = paper.text.splitlines()
    assert "2025-06-15 16:06:40 UTC" in lines[1]
    assert "slot 2/10 of m1  share 1/3" in lines[1]
    assert "refused blocked -2 (free)" in lines[2]
    assert paper.talked == "4 charged, 1 free\n"
    assert "secret-token" not in paper.text


async def test_csv_has_a_header_and_disarms_formulas() -> None:
    paper = Paper()
    streams = Streams().start().message("m1").complete("=cmd()").request("r1", "=cmd()").ok("r1")
    await audit(await log_of(streams), AuditOptions(csv=True), paper)
    (row,) = csv.DictReader(io.StringIO(paper.text))
    assert (row["turn_ids"], row["slot"], row["outcome"]) == ("'=cmd()", "1", "confirmed")


async def test_what_was_carried_is_counted_and_the_last_column() -> None:
    streams = Streams().start().message("m1").complete("t1").request("r1", "t1", carried_before=4).ok("r1")
    text, table, as_json = Paper(), Paper(), Paper(json=True)
    await audit(await log_of(streams), AuditOptions(), text)
    assert "slot 1/10 (4 carried from before the message) of m1" in text.text
    await audit(await log_of(streams), AuditOptions(csv=True), table)
    head, row = csv.reader(io.StringIO(table.text))
    assert (head[-1], row[-1]) == ("carried", "4")
    assert head[-2] == "lifted", "columns that were there before stand where they stood"
    await audit(await log_of(streams), AuditOptions(), as_json)
    assert as_json.rows[0]["carried"] == 4


async def test_an_unknown_that_was_resolved_counts_as_what_it_was() -> None:
    streams = day().add(ANN, peer.UnknownResolved(request="r4", delivered=False, who="ann"))
    paper = Paper(json=True)
    await audit(await log_of(streams), AuditOptions(), paper)
    assert [row["request"] for row in paper.rows] == ["r1", "r2", "r5"]


async def test_a_peer_that_is_not_there_or_not_unique() -> None:
    log = await log_of(day())
    with pytest.raises(NotFound, match=r"near ones: .*weixin:main:user-a@im\.wechat"):
        await audit(log, AuditOptions(peer="weixin:main:user-x@im.wechat"), Paper())
    with pytest.raises(Ambiguous, match=r"user-a@im\.wechat, weixin:main:user-b"):
        await audit(log, AuditOptions(peer="weixin:main:user-"), Paper())
