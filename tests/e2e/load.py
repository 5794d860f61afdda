"""Clients and people who go on while gateways come and go, and what must hold afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from tests.e2e.phones import MINUTE, Person
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage


def offer(stage: Stage, person: Person, text: str, turn_id: str) -> Any:
    """What a client sees: the answer, or None because the gateway was gone."""
    try:
        return stage.gateway.post("/v1/turns", {"to": person.address, "text": text, "turn_id": turn_id})
    except (OSError, HTTPException):
        return None


class Load:
    """Clients that offer turns until each is acknowledged, and people who write, whatever happens to the gateway."""

    def __init__(self, stage: Stage, people: list[Person]) -> None:
        self.stage, self.people = stage, people
        self.acknowledged: dict[str, str] = {}  # turn id -> delivery
        self.said: list[tuple[Person, str]] = []
        self.over = threading.Event()
        self.jobs: list[Future[None]] = []

    def offers(self, number: int) -> None:
        person, count = self.people[number], 0
        while not self.over.is_set():
            turn_id = f"{person.id}-load-{count}"
            seen = offer(self.stage, person, f"<{turn_id}>", turn_id)
            if seen is None or seen.status == 503:
                self.over.wait(0.05)  # the gateway is gone, or starts: ask again, with the same id
                continue
            assert seen.status == 202, seen
            self.acknowledged[turn_id] = seen.body["deliveries"][0]["delivery"]
            count += 1
            if count % 4 == 0:
                text = f"said {person.id} {count}"
                person.says(text)
                self.said.append((person, text))
            self.over.wait(0.01)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the body runs, so does the load; its failures are the body's."""
        with ThreadPoolExecutor(len(self.people)) as pool:
            self.jobs = [pool.submit(self.offers, n) for n in range(len(self.people))]
            try:
                yield
            finally:
                self.over.set()
                for job in self.jobs:
                    job.result()

    def goes_on(self) -> None:
        """Return after a few more acknowledgements."""
        goal = len(self.acknowledged) + len(self.people)
        eventually(lambda: len(self.acknowledged) >= goal or any(j.done() for j in self.jobs), "the load goes on")
        assert not any(job.done() for job in self.jobs), "a client gave up"

    def check(self) -> None:
        """Everything that was acknowledged is in the log; nothing was sent, and nobody answered, twice."""
        stage = self.stage
        stage.later(MINUTE)
        for person in self.people:
            stage.settled(person)
        for turn_id, delivery in self.acknowledged.items():
            assert stage.gateway.receipt(delivery, 0)["turn_id"] == turn_id
        for person in self.people:
            texts = "\n".join(row["text"] for row in person.accepted)
            for turn_id in (t for t in self.acknowledged if t.startswith(person.id)):
                assert texts.count(f"<{turn_id}>") <= 1, f"{turn_id} was sent twice"
        for person in self.people:
            self._all_answered(person)

    def _all_answered(self, person: Person) -> None:
        """Every message has one answer, except those whose answer nobody can say anything of."""
        stage = self.stage
        eventually(lambda: not stage.gateway.peer(person.address)["open_turn"], f"no turn of {person.id} is open")
        stage.settled(person)
        said = [text for who, text in self.said if who is person]
        sent = [row["text"] for row in person.accepted]
        counts = [sent.count(f"echo: {text}") for text in said]
        assert max(counts, default=0) <= 1, "a message was answered twice"
        rows = stage.gateway.ledger(person.address)
        unknown = sum(1 for row in rows if row["kind"] == "answer" and row["outcome"] == "unknown")
        waiting = sum(
            1 for b in stage.gateway.get("/v1/backlog")["backlog"] for w in b["waiting"] if w["lane"] != "push"
        )
        assert counts.count(0) <= unknown + waiting, f"{counts.count(0)} messages without an answer, {unknown} unknown"
