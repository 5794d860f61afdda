from __future__ import annotations

import pytest

from events.errors import TextNotEncodable
from events.peer import SessionBound
from store.errors import TextTooLarge
from store.limits import BATCH_BYTES_MAX
from store.prepare import prepare
from store.records import ANY, TEXT_BYTES_MAX, AddressRow, AgendaRow, Batch, Binding, Body, Key, Write


def batch(**rest: object) -> Batch:
    return Batch(account="weixin:main", epoch=1, at=5, **rest)  # type: ignore[arg-type]


def body(text: str = "x", **rest: object) -> Body:
    fields = {"id": "b", "stream": "peer-a", "kind": "inbound", "text": text, "at": 1, **rest}
    return Body(**fields)  # type: ignore[arg-type]


def test_events_are_encoded_once_and_streams_listed() -> None:
    event = SessionBound(session="s")
    prepared = prepare(
        batch(
            writes=(Write("peer-a", 0, (event, event)),),
            wake=(AgendaRow(stream="peer-b", due_at=1),),
            bindings=(Binding(stream="peer-c", session="s"),),
            addresses=(AddressRow(stream="peer-d", peer="p"),),
            bodies=(body(stream="peer-e"),),
            forget=("peer-f",),
        )
    )
    assert prepared.encoded == [[("session_bound", b'{"type":"session_bound","session":"s"}')] * 2]
    assert set(prepared.streams) == {f"peer-{c}" for c in "abcde"}
    assert prepared.body_bytes == (1,)


LONE = "\ud800"


@pytest.mark.parametrize(
    "wrong",
    [
        batch(bodies=(body(LONE),)),
        batch(bodies=(body(id=LONE),)),
        batch(cause=LONE),
        batch(writes=(Write(LONE, ANY, ()),)),
        batch(keys=(Key(source="turn", key="k", value=LONE),)),
        batch(addresses=(AddressRow(stream="peer-a", peer="p", name=LONE),)),
        batch(bindings=(Binding(stream="peer-a", session=LONE),)),
        batch(erase=(LONE,)),
        batch(forget=(LONE,)),
        batch(wake=(AgendaRow(stream=LONE),)),
    ],
)
def test_text_that_utf8_cannot_carry(wrong: Batch) -> None:
    with pytest.raises(TextNotEncodable):
        prepare(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        Batch(account="weixin:main", epoch=1, at=-1),
        Batch(account="weixin:main", epoch=1, at=2**63),
        batch(agenda=(AgendaRow(stream="peer-a", due_at=2**63),)),
        batch(wake=(AgendaRow(stream="peer-a", due_at=-5),)),
        batch(agenda=(AgendaRow(stream="peer-a", waiting=-1),)),
        batch(bodies=(body(at=-1),)),
    ],
)
def test_numbers_that_no_log_can_hold(wrong: Batch) -> None:
    with pytest.raises(ValueError, match="no number"):
        prepare(wrong)


def test_sizes() -> None:
    prepare(batch(bodies=(body("x" * TEXT_BYTES_MAX),)))
    with pytest.raises(TextTooLarge, match=str(TEXT_BYTES_MAX + 1)):
        prepare(batch(bodies=(body("x" * (TEXT_BYTES_MAX + 1)),)))
    with pytest.raises(TextTooLarge, match="commit"):
        prepare(batch(bodies=tuple(body("x" * TEXT_BYTES_MAX) for _ in range(BATCH_BYTES_MAX // TEXT_BYTES_MAX))))
