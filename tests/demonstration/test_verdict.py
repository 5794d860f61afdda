from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from events.stories import MessageStory
from events.streams import fingerprint
from scripts.demonstration.errors import Disagreement
from scripts.demonstration.stage import Phone
from scripts.demonstration.table import render
from scripts.demonstration.verb import judge
from scripts.demonstration.verdict import Told, Verdict, compare
from scripts.exits import ExitCode, code_of
from scripts.reading.audit import AuditRow
from scripts.simulators.weixin.ledgers import Accepted, Refused, Shown, Violation

SALT = b"a salt of sixteen"
DAY_MS = 86_400_000
TEXTS = ("echo: hello", "push one", "push two")
BOT, USER = "b@im.bot", "u@im.wechat"


def accepted(seq: int, text: str, **more: Any) -> Accepted:
    whole: dict[str, Any] = {"seq": seq, "at": 1_000 * seq, "bot": BOT, "user": USER, "client_id": f"c{seq}"}
    whole |= {"message_id": 100 + seq, "text": text, "bytes": len(text), "token": "t", "window": 1, "slot": seq}
    return Accepted(**(whole | {"shown": True} | more))


def shown(message_id: int, text: str, by: str = "bot") -> Shown:
    return Shown(at=1_000, bot=BOT, user=USER, by=by, text=text, message_id=message_id)


def row(seq: int, kind: Any, text: str, share: int, **more: Any) -> AuditRow:
    whole: dict[str, Any] = {"position": seq, "at": 1_000 * seq - 5, "peer": "weixin:main:u", "stream": "peer-1"}
    whole |= {"kind": kind, "turn_ids": (f"t{seq}",), "part": 1, "parts": 1, "window": 1, "window_opened_by": "m-1"}
    whole |= {"slot": seq, "slots": 10, "share": share, "shares": 3 if share else 0, "epoch": 1, "instance": "i-1"}
    whole |= {"request": f"r{seq}", "client_id": f"c{seq}", "message_id": str(100 + seq), "outcome": "confirmed"}
    whole |= {
        "charged": True,
        "bytes": len(text),
        "outcome_at": 1_000 * seq + 5,
        "failure": "",
        "code": 0,
        "lifted": "",
        "carried": 0,
    }
    return AuditRow(**(whole | more))


def message() -> MessageStory:
    return MessageStory(
        message="m-1", at=1_005, position=1, sent_at=1_000, not_before=900, total=5, body="b", window=1, generation=1
    )


def both() -> tuple[Phone, Told]:
    """A phone and a ledger that agree: an answer, two pushes, and a refused push."""
    phone = Phone(
        accepted=tuple(accepted(n, text) for n, text in enumerate(TEXTS, 1)),
        shown=(shown(1, "hello", by="user"), *(shown(100 + n, text) for n, text in enumerate(TEXTS, 1))),
        refused=(Refused(at=2_500, bot=BOT, user=USER, client_id="c9", code=-2, reason="token", text="no"),),
        left=7,
    )
    free = {"client_id": "c9", "request": "r9", "message_id": "", "outcome": "refused", "charged": False, "code": -2}
    told = Told(
        rows=(
            row(1, "answer", TEXTS[0], 0),
            row(2, "push", TEXTS[1], 1),
            row(2, "push", "no", 2, at=2_500, **free),
            row(3, "push", TEXTS[2], 2),
        ),
        digests={
            **{f"r{n}": fingerprint(SALT, text) for n, text in enumerate(TEXTS, 1)},
            "r9": fingerprint(SALT, "no"),
        },
        messages=(message(),),
        salts={f"r{n}": SALT for n in range(1, 10)},
        left=7,
        share_window_ms=DAY_MS,
    )
    return phone, told


def changed(rows: tuple[Any, ...], index: int, **changes: Any) -> tuple[Any, ...]:
    return (*rows[:index], msgspec.structs.replace(rows[index], **changes), *rows[index + 1 :])


def verdict(phone: Phone, told: Told) -> Verdict:
    return compare(phone, told, TEXTS)


def test_they_agree() -> None:
    found = verdict(*both())
    assert found.agrees
    assert [bool(p.row) for p in found.pairs] == [False, True, True, True, True]  # in order of time, the message first
    judge(found)


Meddle = Callable[[Phone, Told], tuple[Phone, Told]]


def on_phone(**changes: Callable[[Phone], Any]) -> Meddle:
    return lambda p, t: (msgspec.structs.replace(p, **{name: new(p) for name, new in changes.items()}), t)


def in_ledger(**changes: Callable[[Told], Any]) -> Meddle:
    return lambda p, t: (p, msgspec.structs.replace(t, **{name: new(t) for name, new in changes.items()}))


PLANTED: dict[str, tuple[Meddle, str]] = {
    "a message that the server never took": (on_phone(accepted=lambda p: p.accepted[:2]), "the server never took"),
    "a message beside the ledger": (
        on_phone(accepted=lambda p: (*p.accepted, accepted(4, "ghost"))),
        "that the ledger does not have",
    ),
    "a line that the phone does not show": (on_phone(shown=lambda p: p.shown[:-1]), "the phone shows nothing"),
    "a line from nowhere": (
        on_phone(shown=lambda p: (*p.shown, shown(777, "ghost"))),
        "that the server never took, at 1000",
    ),
    "another text on the way": (
        on_phone(accepted=lambda p: changed(p.accepted, 1, text="push 0ne")),
        "text: the phone says",
    ),
    "another text on the phone": (
        on_phone(shown=lambda p: changed(p.shown, 2, text="push 0ne")),
        "shown text: the phone says push 0ne",
    ),
    "other bytes": (on_phone(accepted=lambda p: changed(p.accepted, 1, bytes=9)), "bytes: the phone says 9"),
    "another message id": (
        in_ledger(rows=lambda t: changed(t.rows, 1, message_id="55")),
        "message id: the phone says 102, the ledger 55",
    ),
    "another slot": (
        in_ledger(rows=lambda t: changed(t.rows, 1, slot=3)),
        "slot of the quota: the phone says 2, the ledger 3",
    ),
    "a charge that the server does not make": (
        on_phone(accepted=lambda p: changed(p.accepted, 1, slot=0)),
        "slot of the quota: the phone says 0",
    ),
    "another place in the share": (
        in_ledger(rows=lambda t: changed(t.rows, 3, share=1)),
        "place in the share: the phone says 2, the ledger 1",
    ),
    "another time": (in_ledger(rows=lambda t: changed(t.rows, 0, at=DAY_MS)), "time: the phone says"),
    "a charge called free": (
        in_ledger(rows=lambda t: changed(t.rows, 1, charged=False, outcome="not_sent")),
        "that the ledger calls free",
    ),
    "another order": (
        on_phone(accepted=lambda p: (p.accepted[0], p.accepted[2], p.accepted[1])),
        "in another order",
    ),
    "a refusal that the server does not know": (on_phone(refused=lambda _: ()), "does not have"),
    "a refusal that the ledger does not know": (
        in_ledger(rows=lambda t: (*t.rows[:2], t.rows[3])),
        "the server refused a send that the ledger does not have",
    ),
    "another code": (on_phone(refused=lambda p: changed(p.refused, 0, code=-1)), "code of the refusal"),
    "a refused text that differs": (on_phone(refused=lambda p: changed(p.refused, 0, text="yes")), "text: "),
    "a message of the user less": (in_ledger(messages=lambda _: ()), "message of the user"),
    "a message of the user more": (
        in_ledger(messages=lambda t: (*t.messages, t.messages[0])),
        "that the phone has not sent",
    ),
    "a message of other length": (on_phone(shown=lambda p: changed(p.shown, 0, text="hi")), "bytes of the message"),
    "another rest of the quota": (on_phone(left=lambda _: 8), "replies left in the window: the phone says 8"),
    "a broken rule": (
        on_phone(violations=lambda _: (Violation(at=1, endpoint="send", rule="uin", detail=""),)),
        "the client broke rule uin",
    ),
    "a flaw of the log": (in_ledger(flaws=lambda _: ("the chain is broken",)), "the chain is broken"),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_each_planted_difference_is_found_and_is_loud(plant: str) -> None:
    meddle, said = PLANTED[plant]
    found = verdict(*meddle(*both()))
    assert any(said in difference for difference in found.differences), found.differences
    with pytest.raises(Disagreement, match="PHONE AND LEDGER DISAGREE") as raised:
        judge(found)
    assert code_of(raised.value) == ExitCode.FAILED


def test_what_the_ledger_calls_unknown_may_have_arrived_or_not() -> None:
    phone, told = both()
    unsure = msgspec.structs.replace(told, rows=changed(told.rows, 3, outcome="unknown", message_id=""))
    assert verdict(phone, unsure).agrees
    lost = msgspec.structs.replace(phone, accepted=phone.accepted[:2], shown=phone.shown[:-1])
    assert compare(lost, unsure, TEXTS[:2]).agrees


def test_more_than_the_share_is_found_even_where_both_count_it() -> None:
    phone, told = both()
    texts = (*TEXTS, "push three", "push four")
    more: dict[str, Any] = {"accepted": tuple(accepted(n, text) for n, text in enumerate(texts, 1))}
    more["shown"] = (phone.shown[0], *(shown(100 + n, text) for n, text in enumerate(texts, 1)))
    rows = (*told.rows, row(4, "push", texts[3], 3), row(5, "push", texts[4], 4))
    digests = {**told.digests, **{f"r{n}": fingerprint(SALT, texts[n - 1]) for n in (4, 5)}}
    found = compare(
        msgspec.structs.replace(phone, **more), msgspec.structs.replace(told, rows=rows, digests=digests), texts
    )
    assert found.differences == ("request r5: more than 3 pushes in one rolling window",)


def test_the_share_rolls() -> None:
    phone, told = both()
    late = msgspec.structs.replace(phone, accepted=changed(phone.accepted, 2, at=2_000 + DAY_MS))
    rolled = msgspec.structs.replace(told, rows=changed(told.rows, 3, at=1_990 + DAY_MS, share=1))
    assert verdict(late, rolled).agrees
    early = msgspec.structs.replace(phone, accepted=changed(phone.accepted, 2, at=1_000 + DAY_MS))
    assert not verdict(early, rolled).agrees


@pytest.mark.parametrize(("texts", "said"), [(TEXTS[:2], "one too many"), ((*TEXTS, "more"), "never showed 'more'")])
def test_the_day_itself_is_expected(texts: tuple[str, ...], said: str) -> None:
    assert said in compare(*both(), texts).differences[0]


def test_the_table_stands_side_by_side_and_points_at_differences() -> None:
    phone, told = both()
    lines = render(verdict(phone, told), terminal=False, color=False).splitlines()
    answer = next(line for line in lines if "< echo: hello" in line)
    assert "[reply 1]" in answer
    assert "answer confirmed: slot 1 of 10" in answer
    assert answer.endswith("same")
    assert any("share 2 of 3" in line for line in lines)
    assert any("(refused, -2: no)" in line and "free, code -2" in line for line in lines)
    lost = msgspec.structs.replace(phone, accepted=phone.accepted[:2])
    wrong = render(verdict(lost, told), terminal=False, color=False).splitlines()
    assert any("(nothing)" in line and line.endswith("DIFFERS") for line in wrong)


def test_the_table_cannot_be_commanded_by_texts() -> None:
    phone, told = both()
    evil = msgspec.structs.replace(phone, accepted=changed(phone.accepted, 0, text="\x1b[2J[bold]x[/bold]"))
    out = io.StringIO(render(verdict(evil, told), terminal=False, color=False)).read()
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out
