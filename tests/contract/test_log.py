"""What every store promises."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from events.base import Event
from events.bot import BotStarted
from events.errors import TextNotEncodable
from events.peer import SessionBound
from store.chain import GENESIS, link_row
from store.errors import (
    AddressTaken,
    AppendRefused,
    DuplicateKey,
    Fenced,
    LogClosed,
    OtherDays,
    TextTooLarge,
    VersionConflict,
)
from store.log import Log
from store.records import ANY, TEXT_BYTES_MAX, AddressRow, AgendaRow, Batch, Binding, Body, Kept, Key, Start, Write

BOT = "weixin:main"
OTHER = "weixin:second"
ANNA = "peer-aaaaaaaaaaaaaaaa"
BEN = "peer-bbbbbbbbbbbbbbbb"
EVENT: Event = SessionBound(session="s")


def batch(*writes: Write, epoch: int = 1, at: int = 100, account: str = BOT, **rest: Any) -> Batch:
    return Batch(account=account, epoch=epoch, at=at, writes=writes, **rest)


def write(stream: str = ANNA, expected: int = ANY, count: int = 1) -> Write:
    return Write(stream, expected, (EVENT,) * count)


def body(name: str, text: str = "hello", at: int = 100, stream: str = ANNA) -> Body:
    return Body(id=name, stream=stream, kind="inbound", text=text, at=at)


@pytest.fixture
async def claimed(log: Log) -> Log:
    await log.claim(BOT, "one", 50)
    return log


async def contents(log: Log) -> list[Any]:
    return [row async for page in log.rows() for row in page]


# --- append and read


async def test_envelope_of_an_append(claimed: Log) -> None:
    appended = await claimed.append(batch(write(count=2), write(BEN), cause="m-1"))
    assert [(r.position, r.stream, r.version) for r in appended.recorded] == [(2, ANNA, 1), (3, ANNA, 2), (4, BEN, 1)]
    assert {(r.type, r.at, r.epoch, r.cause) for r in appended.recorded} == {("session_bound", 100, 1, "m-1")}
    assert await claimed.read(ANNA) == appended.recorded[:2]
    assert await claimed.position() == 4


async def test_time_never_goes_back_within_a_stream(claimed: Log) -> None:
    await claimed.append(batch(write(), at=500))
    late = await claimed.append(batch(write(), write(BEN), at=400))
    assert [(r.stream, r.at) for r in late.recorded] == [(ANNA, 500), (BEN, 400)]


async def test_stored_bytes_are_chained_per_stream(claimed: Log) -> None:
    await claimed.append(batch(write(count=2), write(BEN), write(ANNA)))
    digests: dict[str, bytes] = {}
    for row in await contents(claimed):
        digests[row.stream] = link_row(digests.get(row.stream, GENESIS), row)
        assert row.digest == digests[row.stream]
    assert {h.stream: h.digest for h in await claimed.heads()} == digests


async def test_reading_after_a_version_with_a_limit(claimed: Log) -> None:
    await claimed.append(batch(write(count=5)))
    assert [r.version for r in await claimed.read(ANNA, after=2)] == [3, 4, 5]
    assert [r.version for r in await claimed.read(ANNA, after=1, limit=2)] == [2, 3]
    assert await claimed.read("peer-cccccccccccccccc") == ()


async def test_read_from_the_events_on_that_took_a_key(claimed: Log) -> None:
    for number in range(6):
        at = 100 * (number // 2)  # two batches an instant: those of the key's own instant are all there
        keys = (Key(source="turn", key=f"t{number}", value="x"),)
        await claimed.append(batch(write(), at=at, keys=keys))
    await claimed.append(batch(write(BEN), at=900, keys=(Key(source="turn", key="ben", value="x"),)))
    found = {key: await claimed.read_since_key(ANNA, "turn", key) for key in ("t0", "t2", "t3", "t5", "none", "ben")}
    assert {key: [r.version for r in rows] for key, rows in found.items()} == {
        "t0": [1, 2, 3, 4, 5, 6],
        "t2": [3, 4, 5, 6],
        "t3": [3, 4, 5, 6],
        "t5": [5, 6],
        "none": [1, 2, 3, 4, 5, 6],
        "ben": [],
    }
    assert await claimed.read_since_key("peer-cccccccccccccccc", "turn", "t0") == ()
    assert await claimed.read_since_key(ANNA, "delivery", "t5") == await claimed.read(ANNA)


async def test_pages_in_commit_order(claimed: Log) -> None:
    await claimed.append(batch(write(count=7)))
    pages = [[r.position for r in page] async for page in claimed.page(size=3)]
    assert pages == [[1, 2, 3], [4, 5, 6], [7, 8]]
    assert [[r.position for r in page] async for page in claimed.page(after=2, until=5, size=2)] == [[3, 4], [5]]
    assert [[r.position for r in page] async for page in claimed.rows(after=6)] == [[7, 8]]


async def test_position_at_a_time(claimed: Log) -> None:
    for at in (100, 200, 300):
        await claimed.append(batch(write(), at=at))
    assert [await claimed.position_at(at) for at in (0, 50, 100, 299, 300, 999)] == [0, 1, 2, 3, 4, 4]


async def test_empty_batch_and_empty_write(claimed: Log) -> None:
    assert (await claimed.append(batch())).recorded == ()
    assert (await claimed.append(batch(write(count=0)))).recorded == ()
    assert await claimed.position() == 1
    assert [h.stream for h in await claimed.heads()] == [f"bot-{BOT}"]


async def test_a_batch_without_events_still_carries_the_rest(claimed: Log) -> None:
    await claimed.append(batch(bodies=(body("b1"),), keys=(Key(source="turn", key="t1", value="v"),)))
    assert await claimed.bodies(["b1"]) == {"b1": "hello"}
    assert await claimed.key("turn", "t1") == {BOT: "v"}


# --- versions


async def test_versions_are_checked_and_any_never_fails(claimed: Log) -> None:
    await claimed.append(batch(write(expected=0)))
    with pytest.raises(VersionConflict) as caught:
        await claimed.append(batch(write(expected=0)))
    assert (caught.value.stream, caught.value.expected, caught.value.actual) == (ANNA, 0, 1)
    with pytest.raises(VersionConflict):
        await claimed.append(batch(write(expected=2)))
    await claimed.append(batch(write(expected=ANY)))
    await claimed.append(batch(write(expected=2)))
    assert len(await claimed.read(ANNA)) == 3


async def test_two_writes_to_one_stream_in_a_batch(claimed: Log) -> None:
    await claimed.append(batch(write(expected=0, count=2), write(expected=2), write(expected=ANY)))
    assert [r.version for r in await claimed.read(ANNA)] == [1, 2, 3, 4]


async def test_of_concurrent_decisions_on_one_version_one_wins(claimed: Log) -> None:
    results = await asyncio.gather(
        *[claimed.append(batch(write(expected=0))) for _ in range(20)], return_exceptions=True
    )
    assert sum(not isinstance(r, BaseException) for r in results) == 1
    assert sum(isinstance(r, VersionConflict) for r in results) == 19
    assert len(await claimed.read(ANNA)) == 1


# --- isolation within a group


async def test_a_refused_batch_leaves_nothing_and_harms_no_neighbour(claimed: Log) -> None:
    await claimed.append(batch(write(BEN), keys=(Key(source="turn", key="old", value="first"),)))
    bad = batch(
        write(ANNA, 0),
        write(BEN, 0),
        bodies=(body("bad"),),
        keys=(Key(source="turn", key="bad"),),
        agenda=(AgendaRow(stream=ANNA, due_at=1),),
        addresses=(AddressRow(stream=ANNA, peer="anna"),),
        bindings=(Binding(stream=ANNA, session="s"),),
    )
    doubled = batch(write(ANNA), keys=(Key(source="turn", key="old", value="second"),), bodies=(body("doubled"),))
    group = [batch(write(BEN), bodies=(body(f"b{i}"),)) for i in range(5)]
    mixed = [group[0], bad, group[1], doubled, group[2], batch(write(), epoch=9), group[3], group[4]]
    results = await asyncio.gather(*[claimed.append(b) for b in mixed], return_exceptions=True)
    kinds = [type(r).__name__ for r in results]
    assert kinds == ["Appended", "VersionConflict", "Appended", "DuplicateKey", "Appended", "Fenced"] + ["Appended"] * 2
    assert await claimed.read(ANNA) == ()
    assert len(await claimed.read(BEN)) == 6
    assert set(await claimed.bodies(["bad", "doubled", *[f"b{i}" for i in range(5)]])) == {f"b{i}" for i in range(5)}
    assert await claimed.key("turn", "bad") == {}
    assert await claimed.agenda(BOT) == ()
    assert await claimed.addresses(BOT) == ()
    assert await claimed.bindings() == ()
    assert [r.position for r in await contents(claimed)] == list(range(1, 8))


async def test_batches_see_the_ones_before_them_in_their_group(claimed: Log) -> None:
    same_key = Key(source="turn", key="t", value="winner")
    results = await asyncio.gather(
        claimed.append(batch(write(ANNA, 0), keys=(same_key,), addresses=(AddressRow(stream=ANNA, peer="p"),))),
        claimed.append(batch(write(ANNA, 1))),
        claimed.append(batch(write(BEN), keys=(Key(source="turn", key="t", value="loser"),))),
        claimed.append(batch(write(BEN), addresses=(AddressRow(stream=BEN, peer="p"),))),
        claimed.append(batch(bodies=(body("x", stream=BEN),))),
        claimed.append(batch(bodies=(body("x", stream=BEN),))),
        return_exceptions=True,
    )
    kinds = [type(r).__name__ for r in results]
    assert kinds == ["Appended", "Appended", "DuplicateKey", "AddressTaken", "Appended", "AppendRefused"]
    assert isinstance(results[2], DuplicateKey)
    assert results[2].value == "winner"


async def test_what_no_log_can_hold_is_refused_before_its_turn(claimed: Log) -> None:
    for wrong in (
        batch(write(), at=-1),
        batch(write(), at=2**63),
        batch(agenda=(AgendaRow(stream=ANNA, due_at=2**70),)),
    ):
        with pytest.raises(ValueError, match="no number"):
            await claimed.append(wrong)
    for wrong in (
        batch(bodies=(body("b", "\ud800"),)),
        batch(keys=(Key(source="turn", key="\udfff"),)),
        batch(Write(ANNA, ANY, (SessionBound(session="\ud800"),))),
    ):
        with pytest.raises(TextNotEncodable):
            await claimed.append(wrong)
    assert await claimed.position() == 1


# --- the fence


async def test_claims_count_up_and_say_whom_they_replace(log: Log) -> None:
    assert await log.epoch(BOT) == 0
    first = await log.claim(BOT, "one", 10, Start(program="1.0", boot="b", boot_ms=7))
    second = await log.claim(BOT, "two", 20)
    other = await log.claim(OTHER, "two", 30)
    assert [(c.epoch, c.instance, c.replaces, c.claimed_at) for c in (first, second, other)] == [
        (1, "one", "", 10),
        (2, "two", "one", 20),
        (1, "two", "", 30),
    ]
    assert await log.claims() == (second, other)
    assert (await log.epoch(BOT), await log.epoch(OTHER)) == (2, 1)
    started = await log.read(f"bot-{BOT}")
    assert [r.event for r in started] == [
        BotStarted(instance="one", program="1.0", boot="b", boot_ms=7),
        BotStarted(instance="two", replaces="one"),
    ]
    assert [r.epoch for r in started] == [1, 2]


async def test_an_older_or_unknown_epoch_is_fenced(log: Log) -> None:
    with pytest.raises(Fenced):
        await log.append(batch(write()))
    await log.claim(BOT, "one", 10)
    await log.append(batch(write()))
    await log.claim(BOT, "two", 10)
    for epoch in (0, 1, 3):
        with pytest.raises(Fenced):
            await log.append(batch(write(), epoch=epoch))
    await log.append(batch(write(), epoch=2))


async def test_takeovers_under_concurrent_appends(log: Log) -> None:
    """After a claim returned no append of an older epoch gets in."""
    epoch = (await log.claim(BOT, "i0", 1)).epoch
    stop = False

    async def producer(number: int) -> None:
        while not stop:
            with contextlib.suppress(Fenced):
                await log.append(batch(write(f"peer-{number:016x}"), epoch=epoch))
            await asyncio.sleep(0)

    producers = [asyncio.create_task(producer(n)) for n in range(8)]
    for n in range(200):
        epoch = (await log.claim(BOT, f"i{n + 1}", 1)).epoch
        for _ in range(n % 7):
            await asyncio.sleep(0)
        if n % 10 == 0:
            await log.append(batch(write(), epoch=epoch))
    stop = True
    await asyncio.gather(*producers)
    current = 0
    for row in await contents(log):
        current += row.type == "bot_started"
        assert row.epoch == current
    assert current == 201


async def test_a_simulated_run_marks_the_log_for_ever_and_none_goes_on_in_other_days(log: Log) -> None:
    assert (await log.meta())["simulated"] == "0"
    await log.claim(BOT, "one", 10, Start(simulated=True))
    before = await contents(log)
    for account in (BOT, OTHER):
        with pytest.raises(OtherDays, match="a log of simulated days, which cannot go on in real ones"):
            await log.claim(account, "two", 10)
    assert (await contents(log), [c.epoch for c in await log.claims()]) == (before, [1])
    await log.claim(OTHER, "two", 10, Start(simulated=True))
    assert (await log.meta())["simulated"] == "1"


async def test_a_log_of_real_days_is_never_marked_simulated(claimed: Log) -> None:
    before = await contents(claimed)
    for account in (BOT, OTHER):
        with pytest.raises(OtherDays, match="a log of real days, which cannot go on in simulated ones"):
            await claimed.claim(account, "two", 60, Start(simulated=True))
    assert (await contents(claimed), (await claimed.meta())["simulated"]) == (before, "0")
    assert (await claimed.claim(BOT, "two", 60)).epoch == 2


async def test_two_first_starts_in_different_days_cannot_both_have_the_log(log: Log) -> None:
    starts = (Start(), Start(simulated=True))
    found = await asyncio.gather(
        *(log.claim(f"weixin:a{n}", "i", 1, start) for n, start in enumerate(starts)), return_exceptions=True
    )
    assert [isinstance(one, OtherDays) for one in found] == [False, True]


async def test_meta(log: Log) -> None:
    meta = await log.meta()
    assert meta["schema"] == "2"
    assert meta["created_at"] == "7"
    assert bytes.fromhex(meta["salt"]) == log.salt


async def test_streams_belong_to_one_account(claimed: Log) -> None:
    await claimed.claim(OTHER, "one", 10)
    await claimed.append(batch(write()))
    with pytest.raises(AppendRefused, match=BOT):
        await claimed.append(batch(write(), account=OTHER))
    await claimed.append(batch(write(BEN), account=OTHER))
    owners = {f"bot-{BOT}": BOT, f"bot-{OTHER}": OTHER, ANNA: BOT, BEN: OTHER}
    assert await claimed.accounts_of() == owners


# --- keys


async def test_keys_are_unique_per_account_and_source(claimed: Log) -> None:
    await claimed.claim(OTHER, "one", 10)
    await claimed.append(batch(keys=(Key(source="turn", key="t", value="a"),)))
    await claimed.append(batch(keys=(Key(source="message", key="t", value="b"),)))
    await claimed.append(batch(account=OTHER, keys=(Key(source="turn", key="t", value="c"),)))
    with pytest.raises(DuplicateKey) as caught:
        await claimed.append(batch(write(), keys=(Key(source="turn", key="new"), Key(source="turn", key="t"))))
    assert (caught.value.source, caught.value.key, caught.value.value) == ("turn", "t", "a")
    assert await claimed.key("turn", "t") == {BOT: "a", OTHER: "c"}
    assert await claimed.key("turn", "new") == {}


async def test_a_key_twice_in_a_batch(claimed: Log) -> None:
    with pytest.raises(DuplicateKey):
        await claimed.append(batch(keys=(Key(source="turn", key="t"), Key(source="turn", key="t"))))


async def test_taken_and_prefix(claimed: Log) -> None:
    names = [f"k{i:03}" for i in range(300)]
    await claimed.append(batch(keys=tuple(Key(source="message", key=k, value=k.upper()) for k in names)))
    assert await claimed.taken(BOT, "message", [*names[:250], "none"]) == frozenset(names[:250])
    assert await claimed.taken(OTHER, "message", names) == frozenset()
    assert await claimed.key_prefix("message", "k01", 3) == tuple((BOT, k, k.upper()) for k in names[10:13])
    assert await claimed.key_prefix("message", "x") == ()
    assert len(await claimed.key_prefix("message", "")) == 20


async def test_pruning_keys(claimed: Log) -> None:
    await claimed.append(batch(at=100, keys=(Key(source="message", key="old"), Key(source="turn", key="old"))))
    await claimed.append(batch(at=200, keys=(Key(source="message", key="new"),)))
    for source in ("turn", "delivery"):
        with pytest.raises(ValueError, match="for ever"):
            await claimed.prune_keys(BOT, source, 999)
    assert await claimed.prune_keys(BOT, "message", 200) == 1
    assert await claimed.taken(BOT, "message", ["old", "new"]) == {"new"}
    assert await claimed.key("turn", "old") == {BOT: ""}
    await claimed.append(batch(keys=(Key(source="message", key="old"),)))


# --- bodies


async def test_body_size_is_measured_in_bytes(claimed: Log) -> None:
    fits = "é" * (TEXT_BYTES_MAX // 2)
    await claimed.append(batch(bodies=(body("fits", fits),)))
    with pytest.raises(TextTooLarge):
        await claimed.append(batch(write(), bodies=(body("over", fits + "x"),)))
    assert await claimed.bodies(["fits", "over"]) == {"fits": fits}
    assert await claimed.read(ANNA) == ()


async def test_bodies_are_never_replaced(claimed: Log) -> None:
    await claimed.append(batch(bodies=(body("b", "first"),)))
    with pytest.raises(AppendRefused, match="already"):
        await claimed.append(batch(write(), bodies=(body("b", "second"),)))
    with pytest.raises(AppendRefused, match="already"):
        await claimed.append(batch(bodies=(body("c"), body("c"))))
    assert await claimed.bodies(["b", "c"]) == {"b": "first"}


async def test_odd_texts_come_back_as_they_were(claimed: Log) -> None:
    texts = {"nul": "a\0b", "empty": "", "emoji": "👩‍👩‍👧", "lines": "\r\n\u2028", "digits": "0012"}
    await claimed.append(batch(bodies=tuple(body(k, t) for k, t in texts.items())))
    assert await claimed.bodies(texts) == texts


async def test_a_salt_is_kept_with_its_text_and_goes_with_it(claimed: Log) -> None:
    salted = Body(id="own", stream=ANNA, kind="output", text="no", at=1, salt=b"sixteen bytes :)")
    await claimed.append(batch(bodies=(salted, body("common"))))
    assert await claimed.kept(["own", "common", "unknown"]) == {
        "own": Kept("no", b"sixteen bytes :)"),
        "common": Kept("hello", claimed.salt),
    }
    await claimed.append(batch(erase=("own",)))
    assert await claimed.kept(["own"]) == {}


@pytest.mark.parametrize("salt", [b"short", b"x" * 17])
async def test_a_salt_of_another_length_is_refused(claimed: Log, salt: bytes) -> None:
    with pytest.raises(ValueError, match="salt"):
        await claimed.append(batch(bodies=(Body(id="b", stream=ANNA, kind="output", text="no", at=1, salt=salt),)))


async def test_expired_and_erased(claimed: Log) -> None:
    for at, name in ((300, "c"), (100, "a"), (200, "b"), (100, "a2")):
        await claimed.append(batch(bodies=(body(name, at=at),)))
    assert await claimed.expired(BOT, 300) == ((ANNA, "a"), (ANNA, "a2"), (ANNA, "b"))
    assert await claimed.expired(BOT, 300, limit=1) == ((ANNA, "a"),)
    assert await claimed.expired(OTHER, 300) == ()
    await claimed.append(batch(write(), erase=("a", "unknown")))
    assert await claimed.expired(BOT, 300) == ((ANNA, "a2"), (ANNA, "b"))
    assert await claimed.bodies(["a"]) == {}


async def test_an_account_cannot_erase_for_another(claimed: Log) -> None:
    await claimed.claim(OTHER, "one", 10)
    await claimed.append(batch(bodies=(body("mine"),)))
    await claimed.append(batch(account=OTHER, erase=("mine",)))
    assert await claimed.bodies(["mine"]) == {"mine": "hello"}


# --- caches


async def test_agenda_rows_replace_and_blank_ones_go(claimed: Log) -> None:
    open_row = AgendaRow(stream=ANNA, open_epoch=1)
    late, soon = AgendaRow(stream=BEN, due_at=900, waiting=2), AgendaRow(stream=BEN, due_at=300, turn_open=True)
    await claimed.append(batch(agenda=(open_row, late)))
    assert await claimed.agenda(BOT) == (late, open_row)
    await claimed.append(batch(agenda=(soon, AgendaRow(stream=ANNA))))
    assert await claimed.agenda(BOT) == (soon,)
    assert await claimed.agenda(OTHER) == ()


@pytest.mark.parametrize(
    ("row", "due_at", "expected"),
    [
        (None, 50, AgendaRow(stream=ANNA, due_at=50, waiting=1)),
        (None, None, AgendaRow(stream=ANNA, waiting=1)),
        (AgendaRow(stream=ANNA, due_at=90), 50, AgendaRow(stream=ANNA, due_at=50, waiting=1)),
        (AgendaRow(stream=ANNA, due_at=40, waiting=3), 50, AgendaRow(stream=ANNA, due_at=40, waiting=3)),
        (AgendaRow(stream=ANNA, open_epoch=1), 50, AgendaRow(stream=ANNA, due_at=50, open_epoch=1, waiting=1)),
        (
            AgendaRow(stream=ANNA, due_at=40, turn_open=True),
            None,
            AgendaRow(stream=ANNA, due_at=40, waiting=1, turn_open=True),
        ),
    ],
)
@pytest.mark.parametrize("together", [False, True])
async def test_a_wake_only_makes_earlier(
    claimed: Log, row: AgendaRow | None, due_at: int | None, expected: AgendaRow, together: bool
) -> None:
    rows = (row,) if row else ()
    wake = (AgendaRow(stream=ANNA, due_at=due_at, open_epoch=77, waiting=99, turn_open=True),)
    if together:
        await asyncio.gather(claimed.append(batch(agenda=rows)), claimed.append(batch(wake=wake)))
    else:
        await claimed.append(batch(agenda=rows))
        await claimed.append(batch(wake=wake))
    assert await claimed.agenda(BOT) == (expected,)


async def test_agenda_after_wake_in_a_later_batch_of_the_group_wins(claimed: Log) -> None:
    row = AgendaRow(stream=ANNA, due_at=500)
    await asyncio.gather(
        claimed.append(batch(wake=(AgendaRow(stream=ANNA, due_at=5),))), claimed.append(batch(agenda=(row,)))
    )
    assert await claimed.agenda(BOT) == (row,)


async def test_bindings(claimed: Log) -> None:
    await claimed.append(batch(bindings=(Binding(stream=ANNA, session="s1"), Binding(stream=BEN, session="s2"))))
    await claimed.append(batch(bindings=(Binding(stream=ANNA, session=""), Binding(stream=BEN, session="s3"))))
    assert await claimed.bindings() == ((BOT, Binding(stream=BEN, session="s3")),)


async def test_addresses_first_one_wins(claimed: Log) -> None:
    anna = AddressRow(stream=ANNA, peer="anna@im", name="Anna")
    await claimed.append(batch(addresses=(anna,)))
    await claimed.append(batch(addresses=(AddressRow(stream=ANNA, peer="anna@im", name="Other"),)))
    with pytest.raises(AddressTaken) as caught:
        await claimed.append(batch(write(BEN), addresses=(AddressRow(stream=BEN, peer="anna@im"),)))
    assert (caught.value.stream, caught.value.known) == (BEN, ANNA)
    with pytest.raises(AddressTaken):
        await claimed.append(batch(addresses=(AddressRow(stream=ANNA, peer="ben@im"),)))
    await claimed.append(batch(addresses=(AddressRow(stream=BEN, peer="ben@im"),)))
    assert await claimed.addresses(BOT) == (anna, AddressRow(stream=BEN, peer="ben@im"))
    assert await claimed.read(BEN) == ()


async def test_the_same_peer_of_another_account(claimed: Log) -> None:
    await claimed.claim(OTHER, "one", 10)
    await claimed.append(batch(addresses=(AddressRow(stream=ANNA, peer="p"),)))
    await claimed.append(batch(account=OTHER, addresses=(AddressRow(stream=BEN, peer="p"),)))
    assert await claimed.addresses(OTHER) == (AddressRow(stream=BEN, peer="p"),)


async def test_a_forgotten_address(claimed: Log) -> None:
    await claimed.append(batch(write(), addresses=(AddressRow(stream=ANNA, peer="p", name="Anna"),)))
    await claimed.append(batch(forget=(ANNA, "peer-cccccccccccccccc")))
    assert await claimed.addresses(BOT) == ()
    assert (await claimed.accounts_of())[ANNA] == BOT
    await asyncio.gather(
        claimed.append(batch(addresses=(AddressRow(stream=BEN, peer="p"),))),
        claimed.append(batch(forget=(BEN,))),
        claimed.append(batch(addresses=(AddressRow(stream=ANNA, peer="p"),))),
    )
    assert await claimed.addresses(BOT) == (AddressRow(stream=ANNA, peer="p"),)


async def test_an_account_cannot_forget_for_another(claimed: Log) -> None:
    await claimed.claim(OTHER, "one", 10)
    await claimed.append(batch(addresses=(AddressRow(stream=ANNA, peer="p"),)))
    with pytest.raises(AppendRefused, match="stream of"):
        await claimed.append(batch(account=OTHER, forget=(ANNA,)))


# --- keys that go with a peer


def message_key(name: str, stream: str, source: str = "message") -> Key:
    return Key(source=source, key=name, value=stream)


async def test_keys_that_name_a_stream_are_deleted_with_it(claimed: Log) -> None:
    await claimed.claim(OTHER, "one", 10)
    mine = (message_key("content:1", ANNA), message_key("id:1", ""), message_key("content:2", BEN))
    await claimed.append(batch(keys=(*mine, message_key("t", ANNA, "turn"))))
    await claimed.append(batch(account=OTHER, keys=(message_key("content:1", ANNA),)))
    await claimed.append(batch(unkey=(ANNA,)))
    assert await claimed.taken(BOT, "message", ["content:1", "id:1", "content:2"]) == {"id:1", "content:2"}
    assert await claimed.taken(BOT, "turn", ["t"]) == {"t"}
    assert await claimed.taken(OTHER, "message", ["content:1"]) == {"content:1"}


async def test_keys_that_are_deleted_and_taken_within_a_group(claimed: Log) -> None:
    key = message_key("content:1", ANNA)
    told = await asyncio.gather(
        claimed.append(batch(keys=(key,))),
        claimed.append(batch(keys=(message_key("content:2", ANNA),), unkey=(ANNA,))),
        claimed.append(batch(keys=(key,))),
        claimed.append(batch(keys=(key,))),
        return_exceptions=True,
    )
    assert [type(t).__name__ for t in told] == ["Appended", "Appended", "Appended", "DuplicateKey"]
    assert await claimed.taken(BOT, "message", ["content:1", "content:2"]) == {"content:1"}


# --- follow, close


async def test_follow_shows_what_is_committed(claimed: Log) -> None:
    await claimed.append(batch(write()))
    seen: list[int] = []

    async def follow() -> None:
        async for page in claimed.follow(1):
            seen.extend(r.position for r in page)
            if len(seen) >= 4:
                return

    follower = asyncio.create_task(follow())
    for _ in range(3):
        await claimed.append(batch(write(BEN)))
    await asyncio.wait_for(follower, 10)
    assert seen == [2, 3, 4, 5]


async def test_follow_ends_when_the_log_is_closed(claimed: Log) -> None:
    async def follow() -> None:
        async for _ in claimed.follow(0):
            pass

    follower = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await claimed.close()
    with pytest.raises(LogClosed):
        await asyncio.wait_for(follower, 10)


async def test_closed_log_refuses(claimed: Log) -> None:
    await claimed.close()
    await claimed.close()
    for call in (claimed.append(batch(write())), claimed.read(ANNA), claimed.claim(BOT, "x", 1)):
        with pytest.raises(LogClosed):
            await call


async def test_closing_waits_for_what_is_in_flight(claimed: Log) -> None:
    appends = [asyncio.create_task(claimed.append(batch(write()))) for _ in range(50)]
    await asyncio.sleep(0)
    await claimed.close()
    results = await asyncio.gather(*appends)
    assert sorted(r.recorded[0].version for r in results) == list(range(1, 51))


async def test_a_cancelled_caller_does_not_take_the_append_back(claimed: Log) -> None:
    append = asyncio.create_task(claimed.append(batch(write())))
    await asyncio.sleep(0)
    append.cancel()
    await asyncio.gather(append, return_exceptions=True)
    await claimed.append(batch(write(BEN)))
    assert len(await claimed.read(ANNA)) == 1


async def test_many_streams_in_one_group(claimed: Log) -> None:
    writes = [
        batch(write(f"peer-{n:016x}", 0), agenda=(AgendaRow(stream=f"peer-{n:016x}", due_at=n),)) for n in range(700)
    ]
    await asyncio.gather(*[claimed.append(b) for b in writes])
    await asyncio.gather(*[claimed.append(batch(write(f"peer-{n:016x}", 1))) for n in range(700)])
    assert {h.version for h in await claimed.heads() if h.stream.startswith("peer-")} == {2}
    assert [r.due_at for r in await claimed.agenda(BOT)] == list(range(700))
