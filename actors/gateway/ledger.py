"""The ledger as the gateway shows it: requests with their charge and outcome, page by page."""

from __future__ import annotations

from actors.gateway import views
from actors.gateway.api import LedgerQuery
from actors.gateway.finding import Finder, delivery_key
from events.bot import BotStarted
from events.stories import RequestStory
from store.ledger import START, Entry, Place, Wanted
from store.log import Log

PAGE_EVENTS = 5_000

SCAN_MAX = 10_000
"""How many requests are looked at for one page; what is left is on the next."""


class Instances:
    """Which instance claimed which epoch, read once from the bots' streams and kept."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: dict[tuple[str, int], str] = {}
        self._read: dict[str, int] = {}  # account -> version of its bot's stream

    async def name(self, account: str, epoch: int) -> str:
        """The instance of an epoch, "" where the log does not know the account."""
        if (account, epoch) not in self._of:
            await self._learn(account)
        return self._of.get((account, epoch), "")

    async def _learn(self, account: str) -> None:
        while True:
            page = await self._log.read(f"bot-{account}", self._read.get(account, 0), PAGE_EVENTS)
            for r in page:
                if isinstance(r.event, BotStarted):
                    self._of[account, r.epoch] = r.event.instance
            if page:
                self._read[account] = page[-1].version
            if len(page) < PAGE_EVENTS:
                return


async def ledger_page(
    log: Log, finder: Finder, instances: Instances, query: LedgerQuery, streams: tuple[str, ...] | None
) -> views.LedgerPage:
    """A page; `streams` None = all peers."""
    wanted = Wanted(
        stream=streams[0] if streams and len(streams) == 1 else "",
        since=query.since,
        until=query.until,
        kinds=(query.kind,) if query.kind else (),
        results=(query.outcome,) if query.outcome else (),
        free=query.free,
    )
    if streams is not None and not streams:
        return views.LedgerPage(rows=(), next=None)
    after, scanned, rows = await _place(log, query.after), 0, list[views.LedgerRow]()
    while scanned < SCAN_MAX:
        entries = await log.requests(wanted, after, query.limit)
        for entry in entries:
            after = entry.place
            if streams is None or entry.stream in streams:
                rows.append(await _row(log, finder, entry, instances))
            if len(rows) == query.limit:
                return views.LedgerPage(rows=tuple(rows), next=after.position)
        scanned += len(entries)
        if len(entries) < query.limit:
            return views.LedgerPage(rows=tuple(rows), next=None)
    return views.LedgerPage(rows=tuple(rows), next=after.position)


async def _place(log: Log, position: int) -> Place:
    """Where a page goes on after a request's position."""
    if position == 0:
        return START
    async for events in log.page(after=position - 1, until=position, size=1):
        return Place(events[0].at, position)
    return Place(0, position)


async def _row(log: Log, finder: Finder, entry: Entry, instances: Instances) -> views.LedgerRow:
    story, place = entry.story, await finder.locate(entry.stream)
    account = place.life.spec.address.bot if place else ""
    return views.LedgerRow(
        position=story.position,
        at=story.at,
        peer=place.address if place else entry.stream,
        kind=story.kind,
        turn_ids=await _turns(log, story),
        part=story.part,
        parts=story.parts,
        window_opened_by=story.charge.opened_by,
        slot=story.charge.slot,
        slots=story.charge.slots,
        share=story.charge.share,
        shares=story.charge.shares,
        epoch=story.epoch,
        instance=await instances.name(account, story.epoch),
        request=story.request,
        client_id=story.client_id,
        message_id=story.message_id,
        outcome=story.result,
        charged=story.charged,
        bytes=story.total,
        carried=story.charge.carried,
    )


async def _turns(log: Log, story: RequestStory) -> tuple[str, ...]:
    """The turns whose outputs it carried."""
    found: list[str] = []
    for carried in story.carried:
        values = (await log.key("delivery", carried.output)).values()
        found.extend(delivery_key(carried.output, value).turn for value in values)
    return tuple(found)
