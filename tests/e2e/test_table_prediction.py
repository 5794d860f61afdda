"""A row of the table: what is predicted is what the server counts, for bounds, for bytes and characters, for the whole corpus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.text.clean import clean, is_blank
from actors.text.split import parts
from tests.corpus import documents
from tests.e2e.gateway import Gateway
from tests.e2e.hand import Hand
from tests.e2e.phones import Person
from tests.e2e.stage import Stage, stage_in

MANY = 1000


def generous(gateway: Gateway) -> None:
    gateway.policy.update(quota_replies=MANY, share_replies=MANY - 1, answer_parts=MANY)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage_in(tmp_path_factory.mktemp("prediction"), generous) as found:
        found.phones.knobs(quota=MANY)
        yield found
        found.check()


@pytest.fixture
def agent(table: Stage) -> Iterator[Hand]:
    with Hand(table.gateway.agents_url) as hand:
        yield hand


def ask_for(table: Stage, agent: Hand, person: Person, text: str) -> list[dict[str, object]]:
    """Let the agent answer with `text`; the server's rows for it."""
    before = len(person.accepted)
    person.says("next")
    delivery = agent.answers(agent.takes(person.address), text)
    receipt = table.gateway.receipt(delivery)
    assert receipt["state"] == ("skipped" if is_blank(text) else "delivered"), receipt
    return person.accepted[before:]


@pytest.mark.parametrize(
    ("text", "sends"),
    [
        ("a" * 3999, 1),
        ("a" * 4000, 1),
        ("a" * 4001, 2),
        ("界" * 1333, 1),  # 3999 bytes
        ("界" * 1333 + "a", 1),  # 4000 bytes, 1334 characters
        ("界" * 1334, 2),  # 4002 bytes, fewer characters than 4000
        ("😀" * 1000, 1),  # 4000 bytes, 2000 UTF-16 units
        ("😀" * 1000 + "a", 2),
    ],
)
def test_bounds_of_answers_are_bytes(table: Stage, agent: Hand, text: str, sends: int) -> None:
    person = table.person()
    rows = ask_for(table, agent, person, text)
    assert len(rows) == len(parts(text, 4000)) == sends
    assert "".join(str(row["text"]) for row in rows) == text
    assert [r["parts"] for r in table.gateway.ledger(person.address)] == [sends] * sends


@pytest.mark.parametrize("text", ["a" * 4000, "a" * 4001, "界" * 1334, "short"])
def test_a_push_is_one_reply_as_its_rehearsal_says(table: Stage, agent: Hand, text: str) -> None:
    person = table.person()
    ask_for(table, agent, person, "hi")
    before = table.gateway.peer(person.address)
    rehearsal = table.gateway.post("/v1/turns/dry-run", {"to": person.address, "text": text})
    (forecast,) = rehearsal.body["forecasts"]
    assert (forecast["would"], forecast["replies"]) == ("send", 1)
    assert table.gateway.peer(person.address) == before

    assert table.gateway.receipt(table.gateway.offer(person.address, text)["delivery"])["state"] == "delivered"

    assert len(person.accepted) == 2
    after = table.settled(person)
    assert after["quota"]["left"] == forecast["quota_after"]["left"] == person.view["left"]
    assert after["share"]["used"] == forecast["share_after"]["used"] == 1


def test_every_document_of_the_corpus_costs_what_the_splitter_says(table: Stage, agent: Hand) -> None:
    person = table.person()
    longest = 0
    for document in documents():
        text = clean(document.text)
        if len(text.encode()) > 400_000:
            continue
        expected = [p.text for p in parts(text, 4000)] if not is_blank(text) else []
        rows = ask_for(table, agent, person, text)
        sent = [row["text"] for row in rows]
        assert len(sent) == len(expected), document.name
        assert sent == expected, document.name
        assert all(int(str(row["bytes"])) <= 4000 for row in rows), document.name
        longest = max(longest, len(sent))
    assert longest > 10
    ledger = sum(1 for row in table.gateway.ledger(person.address) if row["kind"] == "answer")
    assert ledger == min(1000, len(person.accepted))
