"""The anchor of the replay: the `eventsourcing` library, in an interpreter that has it. Imports nothing of this project.

`python eventsourcing_side.py EVENTS.jsonl DATABASE` stores the events of the file (one JSON array a line: stream, version, at, type,
fields) with the library's SQLite recorder and its default mapper, prints how many, and then, for each line on standard input,
pulls the whole log, decodes and folds it, and prints the ns that this took. Its fold is small: it counts, and keeps the last event.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

PAGE = 250
"""Notifications of one pull, as many as our pages have events; the library's own default of 10 would be much slower."""


def camel(tag: str) -> str:
    """The name of an event's class."""
    return "".join(word.capitalize() for word in tag.split("_"))


def apply(event: Any, aggregate: Any) -> None:
    """Fold one event."""
    tag = type(event).__name__
    aggregate.counts[tag] = aggregate.counts.get(tag, 0) + 1
    aggregate.last = event


class Side:
    """The library's application and the classes of its events."""

    def __init__(self, database: str) -> None:
        domain = importlib.import_module("eventsourcing.domain")
        application = importlib.import_module("eventsourcing.application")
        env = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": database}
        self._app: Any = application.Application(env)
        self._topic = importlib.import_module("eventsourcing.utils").get_topic
        self._base: Any = domain.Aggregate
        self._module = sys.modules[__name__]
        self._peer = self._publish("Peer", (self._base,), {"counts": None, "last": None})

    def _publish(self, name: str, bases: tuple[Any, ...], names: dict[str, Any]) -> Any:
        """A class that the library finds again by its topic."""
        made = type(name, bases, {**names, "__module__": __name__, "__qualname__": name})
        setattr(self._module, name, made)
        return made

    def _class(self, tag: str, first: bool) -> Any:
        name = camel(tag) + ("Created" if first else "")
        known = getattr(self._module, name, None)
        if known is not None:
            return known
        if not first:
            return self._publish(name, (self._base.Event,), {"apply": apply})
        created = self._base.Created

        def mutate(event: Any, aggregate: Any) -> Any:
            aggregate = created.mutate(event, aggregate)
            aggregate.counts = {}
            apply(event, aggregate)
            return aggregate

        return self._publish(name, (created,), {"mutate": mutate})

    def store(self, path: str) -> int:
        """Take the events of a file in."""
        stored: list[Any] = []
        count = 0
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                stored.append(self._app.mapper.to_stored_event(self._event(*json.loads(line))))
                count += 1
                if len(stored) == PAGE:
                    self._app.recorder.insert_events(stored)
                    stored = []
        self._app.recorder.insert_events(stored)
        return count

    def _event(self, stream: str, version: int, at: int, tag: str, fields: dict[str, Any]) -> Any:
        made = self._class(tag, version == 1)
        event = object.__new__(made)
        event.__dict__.update(
            fields,
            originator_id=uuid5(NAMESPACE_URL, stream),
            originator_version=version,
            timestamp=datetime.fromtimestamp(at / 1000, tz=UTC),
        )
        if version == 1:
            event.__dict__["originator_topic"] = self._topic(self._peer)
        return event

    def pull(self) -> int:
        """Read, decode and fold the whole log; how many events."""
        aggregates: dict[UUID, Any] = {}
        after, count = 0, 0
        to_event = self._app.mapper.to_domain_event
        while found := self._app.recorder.select_notifications(after + 1, PAGE):
            for notification in found:
                event = to_event(notification)
                aggregates[event.originator_id] = event.mutate(aggregates.get(event.originator_id))
            after = found[-1].id
            count += len(found)
        return count


def main(path: str, database: str) -> None:
    """Store once, then pull once for each line of standard input."""
    side = Side(database)
    print(side.store(path), flush=True)  # noqa: T201 - the protocol with the benchmark
    for _ in sys.stdin:
        started = time.perf_counter_ns()
        count = side.pull()
        print(json.dumps([time.perf_counter_ns() - started, count]), flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    sys.modules.setdefault("eventsourcing_side", sys.modules["__main__"])
    os.umask(0o077)
    main(sys.argv[1], sys.argv[2])
