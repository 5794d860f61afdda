"""Whether the facts beside the events say what the events say: keys, the directory of streams, the fence.

They are written in the same append as the events, but lie outside the chain. What the events prove of them is checked, both ways: nothing
is missing, and nothing is there that the log does not know. Caches (agenda, bindings, snapshots) are the matter of `replay --verify`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from events import codec
from events.base import Event, Millis
from events.bot import DAY_MS, MINUTE_MS, BotStarted
from events.peer import AddressForgotten, MessageReceived, TurnCompleted, TurnFailed, TurnStarted
from store.log import Reader
from store.records import Claim, Row
from store.verify import Finding

MESSAGES_MS: Final = 30 * DAY_MS
"""How long the fingerprint of a message is kept at least; the gateway forgets it after 35 days."""

TELLING: Final = frozenset(
    {"bot_started", "message_received", "turn_started", "turn_completed", "turn_failed", "address_forgotten"}
)
"""The types of events that prove something of the facts beside them."""

TRIES: Final = 3
"""How often keys are counted while a gateway writes."""


class Turn(msgspec.Struct, frozen=True):
    """What the key of a turn keeps; the directory of `actors.gateway.acceptance`."""

    streams: tuple[str, ...]
    inbound: bool = False


class Delivery(msgspec.Struct, frozen=True):
    """What the key of a delivery keeps. `text` is a fingerprint, which only the offer can be compared with."""

    stream: str
    turn: str
    text: str = ""
    body: str = ""


class Expected(msgspec.Struct, frozen=True):
    """A key that an event proves."""

    position: int
    stream: str
    source: str
    key: str
    inbound: bool = False
    turn: str = ""
    body: str = ""


async def untrue_facts(reader: Reader, now: Millis) -> AsyncIterator[Finding]:
    """What is wrong with the facts beside the events, at `now` (ms). Reads while a gateway writes."""
    check = _Facts(await reader.accounts_of(), now - MESSAGES_MS)
    position, counted = 0, list[tuple[str, str, int, int]]()
    for _ in range(TRIES):
        async for page in reader.rows(after=position):
            position = page[-1].position
            if not check.knows(page):  # a peer that is new since we began
                check.accounts = dict(await reader.accounts_of())
            for finding in [*check.directory(page), *await check.keys(reader, page)]:
                yield finding
        counted = await check.counts(reader)
        if await reader.position() == position:
            break
    for finding in [*await check.fence(reader), *await check.addresses(reader), *await check.messages(reader)]:
        yield finding
    for account, source, known, there in counted:
        if there != known:
            yield Finding(0, account, f"{there} {source} keys are there, and the events know of {known}")
            async for finding in _strangers(reader, account, source):
                yield finding


class _Facts:
    """What the events prove, gathered row by row."""

    def __init__(self, accounts: Mapping[str, str], since: Millis) -> None:
        self.accounts, self._since = dict(accounts), since
        self._seen: set[str] = set()  # streams
        self._turns: dict[str, set[int]] = defaultdict(set)  # account -> hashes of its turns' ids
        self._deliveries: Counter[str] = Counter()  # account -> how many
        self._heard: dict[str, list[Millis]] = defaultdict(list)  # stream -> when its young messages came
        self._forgotten: dict[
            str, bool
        ] = {}  # stream -> whether its address is gone; only of those that were heard or forgotten
        self._started: dict[str, tuple[Row, BotStarted]] = {}  # account -> its newest start

    def knows(self, page: Iterable[Row]) -> bool:
        """Whether the directory, as it was read, has every stream of a page."""
        return all(row.stream in self.accounts or row.stream in self._seen for row in page)

    def directory(self, page: Iterable[Row]) -> Iterator[Finding]:
        """Streams that the directory does not know, or gives to another account than their name."""
        for row in page:
            if row.stream in self._seen:
                continue
            self._seen.add(row.stream)
            account = self.accounts.get(row.stream)
            if account is None:
                yield Finding(row.position, row.stream, "the directory of streams does not know it")
            elif row.stream.startswith("bot-") and row.stream != f"bot-{account}":
                yield Finding(row.position, row.stream, f"the directory of streams gives it to {account}")

    async def keys(self, reader: Reader, page: Iterable[Row]) -> list[Finding]:
        """Keys that a page of events proves, and that are missing or say something else."""
        wanted: dict[tuple[str, str], list[Expected]] = defaultdict(list)
        for row in page:
            if row.type in TELLING:
                event = codec.decode(row.type, bytes(row.data))
                self._note(row, event)
                for one in _proves(row, event):
                    wanted[self.accounts.get(row.stream, ""), one.source].append(one)
        found: list[Finding] = []
        for (account, source), expected in wanted.items():
            values = await reader.values(account, source, [one.key for one in expected])
            found += [f for one in expected if (f := _differs(one, values.get(one.key), account)) is not None]
        return found

    def _note(self, row: Row, event: Event) -> None:
        account = self.accounts.get(row.stream, "")
        match event:
            case BotStarted():
                self._started[row.stream.removeprefix("bot-")] = (row, event)
            case MessageReceived():
                self._forgotten[row.stream] = False
                if event.sent_at > 0 and row.at >= self._since:
                    self._heard[row.stream].append(row.at)
            case AddressForgotten():
                self._forgotten[row.stream] = True
                self._heard.pop(row.stream, None)
            case TurnStarted():
                self._turns[account].add(hash(event.turn_id))
            case TurnCompleted() | TurnFailed():
                self._turns[account].add(hash(event.turn_id))
                self._deliveries[account] += 1
            case _:
                pass

    async def counts(self, reader: Reader) -> list[tuple[str, str, int, int]]:
        """(account, source, keys that the events know, keys that are there)."""
        found = []
        for account in sorted({*self.accounts.values(), *self._turns}):
            there = await reader.key_counts(account)
            found += [
                (account, "turn", len(self._turns[account]), there.get("turn", 0)),
                (account, "delivery", self._deliveries[account], there.get("delivery", 0)),
            ]
        return found

    async def fence(self, reader: Reader) -> list[Finding]:
        """The fence says what the newest start of each account says."""
        claims = {claim.account: claim for claim in await reader.claims()}
        found = [
            Finding(0, f"bot-{a}", "the fence knows it, and it never started") for a in claims.keys() - self._started
        ]
        for account, (row, event) in self._started.items():
            claim = claims.get(account)
            if claim is None or not _is_of(claim, row, event):
                said = f"epoch {claim.epoch} of {claim.instance or 'nobody'}" if claim else "nothing"
                what = f"the fence says {said}; its newest start is epoch {row.epoch} of {event.instance}"
                found.append(Finding(row.position, row.stream, what))
        return found

    async def addresses(self, reader: Reader) -> list[Finding]:
        """Whoever wrote has an address, until it is forgotten."""
        there: set[str] = set()
        for account in sorted(set(self.accounts.values())):
            there.update(row.stream for row in await reader.addresses(account))
        found = []
        for stream, forgotten in self._forgotten.items():
            if forgotten and stream in there:
                found.append(Finding(0, stream, "its address is there, and the log says that it was forgotten"))
            elif not forgotten and stream not in there:
                found.append(Finding(0, stream, "its address is gone, and the log does not say that it was forgotten"))
        return found

    async def messages(self, reader: Reader) -> list[Finding]:
        """Young messages are recognised if the channel delivers them again. Fingerprints of before schema 2 do not say whose they are:
        while such are there, what came before the newest of them is not looked at."""
        found = []
        for account in sorted(set(self.accounts.values())):
            unnamed_until = await reader.newest_key(account, "message", "content:", "")
            since = max(self._since, unnamed_until + MINUTE_MS if unnamed_until else 0)
            there = await reader.key_values(account, "message", "content:", since - MINUTE_MS)
            for stream in sorted(s for s in self._heard if self.accounts.get(s) == account):
                came = sum(1 for at in self._heard[stream] if at >= since)
                if there.get(stream, 0) < came:
                    missing = f"{came - there.get(stream, 0)} of {came} messages since {since}"
                    found.append(
                        Finding(0, stream, f"the fingerprints of {missing} are missing: they could come again")
                    )
            strangers = sorted(set(there) - self._seen - {""})
            found += [Finding(0, s, "fingerprints of messages name it, and it has no events") for s in strangers]
        return found


def _is_of(claim: Claim, row: Row, event: BotStarted) -> bool:
    return (claim.epoch, claim.instance, claim.replaces) == (row.epoch, event.instance, event.replaces)


def _proves(row: Row, event: Event) -> Iterator[Expected]:
    """The keys that were taken with an event."""
    match event:
        case TurnStarted():
            yield Expected(row.position, row.stream, "turn", event.turn_id, inbound=True)
        case TurnCompleted() | TurnFailed():
            body = event.body if isinstance(event, TurnCompleted) else event.error
            inbound = event.origin == "inbound"
            yield Expected(row.position, row.stream, "turn", event.turn_id, inbound=inbound)
            yield Expected(row.position, row.stream, "delivery", event.output, turn=event.turn_id, body=body)
        case _:
            return


def _differs(one: Expected, value: str | None, account: str) -> Finding | None:
    name = f"the {one.source} key {one.key} of {account or 'no account'}"
    if value is None:
        return Finding(one.position, one.stream, f"{name} is missing: the {one.source} could be accepted again")
    try:
        kept: Any = msgspec.json.decode(value, type=Turn if one.source == "turn" else Delivery)
    except msgspec.DecodeError:
        return Finding(one.position, one.stream, f"{name} holds nothing that can be read")
    if isinstance(kept, Turn):
        right = one.stream in kept.streams and kept.inbound == one.inbound
    else:
        right = (kept.stream, kept.turn) == (one.stream, one.turn) and kept.body in ("", one.body)
    return None if right else Finding(one.position, one.stream, f"{name} says something else than the log: {value}")


async def _strangers(reader: Reader, account: str, source: str) -> AsyncIterator[Finding]:
    """Keys that no event knows, looked for once their number is wrong."""
    accounts, known = await reader.accounts_of(), set[str]()
    async for page in reader.rows():
        for row in page:
            if row.type in TELLING and accounts.get(row.stream) == account:
                event = codec.decode(row.type, bytes(row.data))
                known.update(one.key for one in _proves(row, event) if one.source == source)
    after = ""
    while keys := await reader.keys_after(account, source, after):
        for key in keys:
            if key not in known:
                yield Finding(0, account, f"the {source} key {key} is there, and no event knows it")
        after = keys[-1]
