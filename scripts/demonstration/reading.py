"""The ledger, replayed from a copy of the log alone: no cache of the gateway, and no gateway, is asked."""

from __future__ import annotations

from pathlib import Path

from events.history import HistoryFold
from events.peer import SendRequested
from events.stories import MessageStory
from scripts.demonstration.verdict import Told
from scripts.reading.audit import AuditOptions, ledger
from scripts.reading.names import read_names
from scripts.reading.replay import report_of
from scripts.reading.world import World
from store.backup import backup
from store.reader import SqliteReader
from store.verify import verify


async def read_copy(log: Path, copy: Path) -> Told:
    """Copy the log, close the eyes to everything else, and fold the copy."""
    await backup(log, copy)
    reader = await SqliteReader.open(copy)
    try:
        return await _told(reader)
    finally:
        await reader.close()


async def _told(reader: SqliteReader) -> Told:
    world, past, digests, salts = World(), HistoryFold(), {}, {}
    async for page in reader.page():
        for recorded in page:
            world.apply(recorded)
            if recorded.stream.startswith("peer-"):
                past.apply(recorded)
            if isinstance(recorded.event, SendRequested):
                event = recorded.event
                digests[event.request] = event.digest
                kept = (await reader.kept((event.body,))).get(event.body)
                salts[event.request] = kept.salt if kept else b""
    (stream,) = world.peers  # the demo has one user
    names = await read_names(reader)
    report, _ = report_of(world, names, stream, world.at, str)
    policy = world.bots[names.bot_of(stream)].policy
    messages: tuple[MessageStory, ...] = tuple(past.history().messages.values())
    return Told(
        rows=tuple(await ledger(reader, AuditOptions(free=True))),
        digests=digests,
        messages=messages,
        salts=salts,
        left=report.quota_of - report.quota_spent if report.window_open else 0,
        share_window_ms=policy.share_window_ms,
        flaws=await _flaws(reader),
    )


async def _flaws(reader: SqliteReader) -> tuple[str, ...]:
    found = await verify(reader)
    flaws = [f"the log's chain is broken at position {f.position}: {f.what}" for f in found.findings]
    if (await reader.meta())["simulated"] != "1":
        flaws.append("the log does not say that its clock was simulated")
    return tuple(flaws)
