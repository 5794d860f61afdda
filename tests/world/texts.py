"""Whether an event tells the truth of its texts: each is in the log, under a salt of its own, with the fingerprint that the event has."""

from __future__ import annotations

from events.base import Event
from events.streams import fingerprint
from scripts.reading.texts import told_texts
from store.records import SALT_BYTES
from tests.world.disk import Disk


def untrue_texts(event: Event, disk: Disk) -> list[str]:
    """What is wrong with the texts that an event speaks of."""
    wrong = []
    for told in told_texts(event):
        salt = disk.salts.get(told.body, b"")
        if len(salt) != SALT_BYTES:
            wrong.append(f"{told.what} has no salt of its own")
        elif told.digest and fingerprint(salt, disk.bodies[told.body]) != told.digest:
            wrong.append(f"{told.what} has another fingerprint than its event")
    return wrong
