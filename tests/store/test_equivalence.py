"""The twins hold the same after the same: random batches, in random groups."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from events.peer import SessionBound, SessionReset
from store import memory_queries, queries
from store.core import Outcome, SqliteCore
from store.memory_core import MemoryCore
from store.prepare import prepare
from store.records import ANY, AddressRow, AgendaRow, Appended, Batch, Binding, Body, Key, Start, Write
from store.sqlite import connect

ACCOUNTS = ("weixin:a", "weixin:b")
STREAMS = tuple(f"peer-{c * 16}" for c in "abcd")
START = Start(program="p", simulated=True, boot="b", boot_ms=3)
FEW = tuple("xyz")

streams = st.sampled_from(STREAMS)
times = st.integers(0, 50)
agenda_rows = st.builds(
    AgendaRow,
    stream=streams,
    due_at=st.none() | times,
    open_epoch=st.none() | st.integers(0, 3),
    waiting=st.integers(0, 2),
    turn_open=st.booleans(),
)
event = st.sampled_from((SessionBound(session="s"), SessionReset(who="é")))


def several(of: st.SearchStrategy, most: int = 2) -> st.SearchStrategy:
    return st.lists(of, max_size=most).map(tuple)


batches = st.builds(
    Batch,
    account=st.sampled_from(ACCOUNTS),
    epoch=st.sampled_from((1, 1, 1, 2)),
    at=times,
    cause=st.sampled_from(("", "c")),
    writes=several(
        st.builds(
            Write,
            streams,
            st.sampled_from((ANY, ANY, 0, 1, 2, 3)),
            st.lists(event, max_size=2).map(tuple),
        )
    ),
    bodies=several(
        st.builds(
            Body,
            id=st.sampled_from(FEW),
            stream=streams,
            kind=st.just("inbound"),
            text=st.text(max_size=3, alphabet=st.characters(exclude_categories=("Cs",))),
            at=times,
            salt=st.sampled_from((b"", b"0123456789abcdef")),
        ),
        1,
    ),
    keys=several(
        st.builds(
            Key, source=st.sampled_from(("turn", "message")), key=st.sampled_from(FEW), value=st.sampled_from(FEW)
        ),
        1,
    ),
    agenda=several(agenda_rows, 1),
    wake=several(agenda_rows, 1),
    addresses=several(st.builds(AddressRow, stream=streams, peer=st.sampled_from(FEW), name=st.sampled_from(FEW)), 1),
    bindings=several(st.builds(Binding, stream=streams, session=st.sampled_from(("", "s", "t"))), 1),
    erase=several(st.sampled_from(FEW), 1),
    forget=several(streams, 1),
    unkey=several(st.sampled_from(FEW), 1),
)
groups = st.lists(st.lists(batches, min_size=1, max_size=4), min_size=1, max_size=8)


def told(outcome: Outcome) -> object:
    return outcome if isinstance(outcome, Appended) else (type(outcome).__name__, str(outcome))


def everything(module, source, ids: tuple[str, ...]) -> list[object]:
    return [
        module.page(source, 0, 0, 1000),
        module.row_page(source, 0, 1000),
        module.position(source),
        module.heads(source),
        module.claims(source),
        module.bindings(source),
        module.accounts_of(source),
        module.bodies(source, ids),
        module.kept(source, ids),
        [module.position_at(source, at) for at in (0, 50)],
        [module.key(source, s, k) for s in ("turn", "message") for k in FEW],
        [module.key_prefix(source, s, "", 20) for s in ("turn", "message")],
        [module.agenda(source, a) for a in ACCOUNTS],
        [module.addresses(source, a) for a in ACCOUNTS],
        [module.expired(source, a, at, 10) for a in ACCOUNTS for at in (20, 99)],
        [module.read(source, s, 1, 2) for s in STREAMS],
    ]


@pytest.mark.timeout(400)  # each example makes a log in a file, which a busy disk makes slow
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(groups, st.lists(st.integers(0, 8), max_size=2))
def test_random_groups(history: list[list[Batch]], claims_at: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sqlite = connect(Path(folder) / "log.db", salt=b"0123456789abcdef")
        sqlite.connection.execute("PRAGMA synchronous=OFF")  # what is durable is another test's matter
        try:
            live_through(sqlite, MemoryCore(salt=b"0123456789abcdef"), history, claims_at)
        finally:
            sqlite.connection.close()


def unique(history: list[list[Batch]]) -> tuple[list[list[Batch]], tuple[str, ...]]:
    """The same history with every body under an id of its own, as the ids of a gateway are, and every erasure of the newest."""
    newest: dict[str, str] = {}
    groups = []
    for group in history:
        groups.append([])
        for batch in group:
            named = {body.id: f"{body.id}{len(newest)}{sum(map(len, groups))}" for body in batch.bodies}
            newest.update(named)
            bodies = tuple(replace(body, id=named[body.id]) for body in batch.bodies)
            erase = tuple(newest.get(one, one) for one in batch.erase)
            groups[-1].append(replace(batch, bodies=bodies, erase=erase))
    return groups, tuple({body.id for group in groups for batch in group for body in batch.bodies})


def live_through(sqlite: SqliteCore, memory: MemoryCore, history: list[list[Batch]], claims_at: list[int]) -> None:
    for core in (sqlite, memory):
        core.claim(ACCOUNTS[0], "i", 1, START)
        core.claim(ACCOUNTS[1], "i", 1, START)
    history, ids = unique(history)
    for number, group in enumerate(history):
        if number in claims_at:
            assert sqlite.claim(ACCOUNTS[0], "j", 9, START) == memory.claim(ACCOUNTS[0], "j", 9, START)
        outcomes = [[told(o) for o in core.append_group([prepare(b) for b in group])] for core in (sqlite, memory)]
        assert outcomes[0] == outcomes[1]
    assert sqlite.prune_keys(ACCOUNTS[0], "message", 25) == memory.prune_keys(ACCOUNTS[0], "message", 25)
    assert everything(queries, sqlite.connection, ids) == everything(memory_queries, memory, ids)
    assert queries.meta(sqlite.connection) == memory.meta
