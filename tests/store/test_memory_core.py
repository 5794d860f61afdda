from __future__ import annotations

import pytest

from events.errors import TextNotEncodable
from store import memory_queries as queries
from store.errors import VersionConflict
from store.memory_core import Journal, MemoryCore
from store.prepare import prepare
from store.records import AddressRow, AgendaRow, Binding, Key
from tests.store.conftest import ANNA, BEN, BOT, batch, body, write


def contents(core: MemoryCore) -> tuple[object, ...]:
    return (
        list(core.rows),
        list(core.recorded),
        {s: list(e) for s, e in core.by_stream.items() if e},
        dict(core.bodies),
        dict(core.held),
        dict(core.agenda),
        dict(core.bindings),
        dict(core.claims),
        dict(core.facts.tips),
        dict(core.facts.keys),
        dict(core.facts.streams),
        dict(core.facts.peers),
        dict(core.meta),
    )


def test_a_crash_takes_back_what_was_not_committed() -> None:
    core = MemoryCore()
    core.claim(BOT, "one", 1)
    anna = AddressRow(stream=ANNA, peer="anna")
    core.append(batch(write(), bodies=(body("old"),), addresses=(anna,), agenda=(AgendaRow(stream=ANNA, due_at=5),)))
    core.commit()
    before = contents(core)
    core.append(
        batch(
            write(),
            write(BEN),
            bodies=(body("new"),),
            keys=(Key(source="turn", key="t"),),
            agenda=(AgendaRow(stream=ANNA),),
            wake=(AgendaRow(stream=BEN, due_at=3),),
            bindings=(Binding(stream=ANNA, session="s"),),
            erase=("old",),
            forget=(ANNA,),
            addresses=(AddressRow(stream=BEN, peer="anna"),),
        )
    )
    assert contents(core) != before
    core.crash()
    assert contents(core) == before
    again = core.append(batch(write(expected=1)))
    assert again.recorded[0].version == 2
    assert queries.taken(core, BOT, "turn", ["t"]) == frozenset()


def test_a_refusal_changes_nothing() -> None:
    core = MemoryCore()
    core.claim(BOT, "one", 1)
    before = contents(core)
    with pytest.raises(VersionConflict):
        core.append(batch(write(), write(BEN, 5), bodies=(body("b"),)))
    with pytest.raises(TextNotEncodable):
        core.append(batch(write(), cause="\ud800"))
    assert contents(core) == before


def test_groups_isolate() -> None:
    core = MemoryCore()
    core.claim(BOT, "one", 1)
    outcomes = core.append_group([prepare(batch(write(expected=n))) for n in (0, 0, 1)])
    assert [type(o).__name__ for o in outcomes] == ["Appended", "VersionConflict", "Appended"]


def test_claims_are_durable_at_once() -> None:
    core = MemoryCore()
    core.claim(BOT, "one", 1)
    core.crash()
    assert queries.epoch(core, BOT) == 1
    assert len(queries.read(core, f"bot-{BOT}", 0, 0)) == 1


def test_the_journal_undoes_in_reverse() -> None:
    journal, table, rows = Journal(), {"a": 1}, [1]
    journal.put(table, "a", 2)
    journal.put(table, "b", 3)
    journal.drop(table, "a")
    journal.drop(table, "none")
    journal.put(table, "a", 4)
    journal.extend(rows, [2, 3])
    journal.undo()
    assert table == {"a": 1}
    assert rows == [1]
    journal.put(table, "a", 9)
    journal.keep()
    journal.undo()
    assert table == {"a": 9}
