"""A whole stage: clock, Weixin server, gateway, agents, each a process; and what must hold whenever a test ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.gateway import Gateway
from tests.e2e.phones import ClockSource, Login, Person, Phones
from tests.e2e.processes import Child, eventually

PEOPLE = tuple(f"u{number:02}@im.wechat" for number in range(60))
"""Users whom the configuration lets talk to the bot; each test takes its own."""

HOLD_MS = 35_000
"""How long the server holds a poll."""

SPENT = ("confirmed", "unconfirmed", "unknown", "open")


class Stage:
    """What a module of tests plays on."""

    def __init__(self, folder: Path, configure: Callable[[Gateway], None], *, frozen: bool = False) -> None:
        self.folder = folder
        self.login = Login()
        self.children: list[Child] = []
        self.clock = ClockSource(folder, frozen=frozen)
        self.children.append(self.clock.child)
        self.phones = Phones(folder, self.clock, self.login)
        self.children.append(self.phones.child)
        self.gateway = Gateway(folder, self.login, self.phones.url, self.clock.url)
        self.gateway.account["access"] = ["owner", *PEOPLE]
        self.gateway.policy["pace"] = "0s"
        configure(self.gateway)
        self.gateway.write()
        self.gateway.log_in()
        self._names = itertools.chain(PEOPLE)
        self._numbers = itertools.count(1)
        self.cast: list[Person] = []

    # --- who is there ---------------------------------------------------------------------------------------------

    def person(self) -> Person:
        """Somebody who has not written yet."""
        name = next(self._names)
        self.phones.post("users", user=name)
        person = Person(self.phones, name)
        self.cast.append(person)
        return person

    def guest(self, text: str = "hello") -> Person:
        """Somebody who wrote once and was answered by the echo agent: one reply of the window is spent."""
        person = self.person()
        person.says(text)
        self.answered(person, 1)
        return person

    def owner(self) -> Person:
        return Person(self.phones, self.login.user_id)

    def echo(self, *options: str, env: dict[str, str] | None = None) -> Child:
        """An echo agent that is welcome."""
        name = f"echo{next(self._numbers)}"
        args = ["scripts.agents.echo", "--url", self.gateway.agents_url, "--name", name, *options]
        child = Child(name, args, self.folder, **(env or {}))
        self.children.append(child)
        child.announced()
        return child

    def doomed(self, trap: str) -> Child:
        """A gateway in the place of the one that runs; it will kill or stop itself: see `tests.e2e.killing`."""
        gateway = self.gateway
        gateway.child.kill()
        args = ["tests.e2e.killing", trap, "run", "--json", "--config", str(gateway.config)]
        gateway.children.append(Child(f"doomed{len(gateway.children)}", args, self.folder))
        gateway.child.announced()
        return gateway.child

    # --- what happens ---------------------------------------------------------------------------------------------

    def answered(self, person: Person, sends: int) -> list[dict[str, Any]]:
        """Once the server took so many sends to a person, and the gateway knows of each; the server's rows."""
        found = eventually(lambda: len(person.accepted) >= sends and person.accepted, f"{sends} sends to {person.id}")
        self.settled(person)
        return found or []

    def settled(self, person: Person) -> Any:
        """The peer's view, once nothing is in flight."""
        address = person.address
        look = self.gateway.peer
        return eventually(lambda: (v := look(address)) and not v["open_request"] and v, f"{address} settled")

    def later(self, ms: int) -> int:
        """Let time pass, by a jump that everybody has heard of and acted on; the new time."""
        return self.at(self.clock.now + ms)

    def at(self, now: int) -> int:
        """Jump to an instant. Over a long jump the gateway knows that what it sent before was long ago: a poll that it knows to
        have ended late has brought nothing, and the next one is held."""
        if now - self.clock.now <= 2 * HOLD_MS:
            return self._jump(now)
        self._jump(now - HOLD_MS - 1_000)
        self.phones.until(holding=1)
        polls = self.phones.counters()["polls"]
        self._jump(now)
        self.phones.until(polls=polls + 1, holding=1)
        return now

    def _jump(self, now: int) -> int:
        self.clock.set(now)
        self.phones.until(now=now)
        self.gateway.now_is(now)
        return now

    def mark(self) -> None:
        """Let the log know what time it is: an event of now, for whoever reads it when no clock answers any more."""
        for verb in ("pause", "resume"):
            assert self.gateway.post(f"/v1/{verb}", {"scope": self.owner().address}).status == 200

    def silent(self, person: Person, sends: int, refusals: int = 0) -> None:
        """Nothing is under way to a person, and the server has seen exactly so many attempts."""
        view = self.settled(person)
        assert view["open_request"] == ""
        assert len(person.accepted) == sends, person.accepted
        assert len(person.refused) == refusals, person.refused

    # --- what must hold -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """No request that a faithful client never makes, and one count of replies on both sides."""
        if not self.phones.child.running:
            return  # it took what it wrote down with it
        assert self.phones.rows("violations") == []
        if self.gateway.children and self.gateway.child.running:
            for person in self.cast:
                self.agree(person)

    def agree(self, person: Person) -> None:
        """The gateway's ledger is the server's list of accepted messages, up to the rows it marks unknown."""
        if not any(p["peer"] == person.address for p in self.gateway.get("/v1/peers")["peers"]):
            assert person.accepted == []
            return
        accepted = person.accepted  # asked first: what is accepted afterwards is none of this check's business
        rows = {row["client_id"]: row for row in self.gateway.ledger(person.address, free=True)}
        taken = {row["client_id"]: row for row in accepted}
        assert len(taken) == len(accepted), "a client id was used twice"
        for client_id, row in taken.items():
            assert rows[client_id]["outcome"] in SPENT, rows[client_id]
            assert rows[client_id]["message_id"] in ("", str(row["message_id"]))
            assert rows[client_id]["bytes"] == row["bytes"]
        for client_id, row in rows.items():
            assert client_id in taken or row["outcome"] in ("refused", "not_sent", "unknown", "open"), row
        for window in person.view["windows"]:
            assert window["over"] == 0, "sends beyond the quota"
        pushes = sorted(taken[c]["at"] for c, row in rows.items() if row["kind"] == "push" and c in taken)
        share = self.gateway.policy.get("share_replies", 3)
        for first, last in zip(pushes, pushes[share:], strict=False):
            assert last - first > 86_400_000, "more pushes in 24 h than the share"

    def logs(self) -> Iterator[tuple[str, str]]:
        """(name, everything it printed) of each gateway process."""
        for child in self.gateway.children:
            yield child.name, "".join(child.out) + child.err

    def calm(self) -> None:
        """No gateway met anything that it had not foreseen."""
        for name, text in self.logs():
            for word in ("Traceback", 'File "', "never awaited", "never retrieved", "unforeseen"):
                assert word not in text, f"{name}: {text}"

    def end(self) -> None:
        self.gateway.end()
        for child in reversed(self.children):
            child.end()


@contextmanager
def stage_in(
    folder: Path, configure: Callable[[Gateway], None] = lambda _: None, *, frozen: bool = False, **env: str
) -> Iterator[Stage]:
    """A stage with a gateway that runs."""
    stage: Stage | None = None
    try:
        stage = Stage(folder, configure, frozen=frozen)
        stage.gateway.start(**env)
        yield stage
        stage.calm()
    finally:
        if stage is not None:
            stage.end()
