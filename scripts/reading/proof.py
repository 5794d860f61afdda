"""Whether the log is as it was written, and whether its caches say what its events say."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from actors.peer import agenda_of
from actors.text.counts import counted
from events.base import Millis, Recorded
from events.bot import BotState
from events.peer import SessionBound, SessionUnbound
from scripts.errors import Misused
from scripts.printing import Printer
from scripts.reading.facts import untrue_facts
from scripts.reading.names import read_names
from scripts.reading.texts import changed_texts
from scripts.reading.world import World, view_of
from store.caches import AgendaOf, compare
from store.chain import Root, parse_root
from store.log import Reader
from store.records import AgendaRow, Binding
from store.verify import Finding, verify


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """One root over every stream's last digest."""

    root: str
    position: int


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification came to. `extends` None = no root was given to compare with."""

    sound: bool
    rows: int
    streams: int
    root: str
    extends: bool | None
    findings: int


def root_of(text: str) -> Root | None:
    """A published root, None where nothing was given. Raises Misused."""
    try:
        return parse_root(text) if text else None
    except ValueError as error:
        raise Misused(f"--against: {error}") from None


async def print_head(reader: Reader, printer: Printer) -> None:
    """Print the root over the log as it is."""
    root = await reader.root()
    printer.row(Head(root=str(root), position=root.position), str(root))


async def print_proof(reader: Reader, against: Root | None, now: Millis, printer: Printer) -> bool:
    """Recompute every digest; print what was found, and whether all is well. Raises nothing for what it finds."""
    verdict = await verify(reader, against)
    for finding in verdict.findings:
        printer.row(finding, f"position {finding.position}, {finding.stream}: {finding.what}")
    # Events that can be believed tell what must be true beside them.
    changed = 0
    if verdict.count == 0:
        changed += await _print_findings(changed_texts(reader), printer)
        changed += await _print_findings(untrue_facts(reader, now), printer)
    if verdict.count > len(verdict.findings):
        printer.talk(f"and {verdict.count - len(verdict.findings)} more findings")
    proof = Proof(
        sound=verdict.sound and not changed,
        rows=verdict.rows,
        streams=verdict.streams,
        root=str(verdict.root),
        extends=verdict.extends,
        findings=verdict.count + changed,
    )
    printer.row(proof, _verdict_text(proof))
    return proof.sound


async def _print_findings(findings: AsyncIterator[Finding], printer: Printer) -> int:
    """Print what was found beside the chain, and count it."""
    count = 0
    async for finding in findings:
        count += 1
        place = f"position {finding.position}, {finding.stream}" if finding.position else finding.stream
        printer.row(finding, f"{place}: {finding.what}")
    return count


def _verdict_text(proof: Proof) -> str:
    extends = {
        None: "",
        True: "; it extends the published root",
        False: "; it does NOT extend the published root: events before it are missing or were changed",
    }[proof.extends]
    found = (
        "every digest fits, every text that has a fingerprint and was not erased is as it was, and so are the facts beside the events"
        if proof.findings == 0
        else f"{proof.findings} findings"
    )
    return f"{counted(proof.rows, 'event', 'events')} in {counted(proof.streams, 'stream', 'streams')}, {found}{extends}\n{proof.root}"


async def print_differences(reader: Reader, printer: Printer) -> int:
    """Compare agenda, bindings and heads with the events; print where they differ, and return how often."""
    names = await read_names(reader)
    differences = await compare(reader, await cache_fold(reader, comparing=True))
    for one in differences:
        printer.row(one, f"{names.show(one.stream)}: {one.cache} says {one.stored}, the events say {one.rebuilt}")
    return len(differences)


async def cache_fold(reader: Reader, *, comparing: bool = False) -> AgendaOf:
    """What the caches should say of a stream, by its events and its bot's as they are now. What the log does not know is taken
    so that nothing is woken too late; when `comparing`, so that nothing right is called wrong."""
    names = await read_names(reader)
    bots = {f"bot-{account}": await _bot(reader, f"bot-{account}") for account in names.accounts}

    def rebuilt(stream: str, events: tuple[Recorded, ...]) -> tuple[AgendaRow, Binding | None]:
        if stream.startswith("bot-"):
            return AgendaRow(stream=stream), None
        bot = bots.get(names.bot_of(stream), BotState())
        return _rebuilt(stream, events, names.account_of(stream), bot, agents=int(comparing))

    return rebuilt


async def _bot(reader: Reader, stream: str) -> BotState:
    world = World()
    for recorded in await reader.read(stream):
        world.apply(recorded)
    return world.bots.get(stream, BotState())


def _rebuilt(
    stream: str, events: tuple[Recorded, ...], account: str, bot: BotState, *, agents: int
) -> tuple[AgendaRow, Binding | None]:
    world = World()
    for recorded in events:
        world.apply(recorded)
    state = world.peers.get(stream)
    if state is None:
        return AgendaRow(stream=stream), None
    view = msgspec.structs.replace(view_of(bot, account, stream, state.at), agents=agents)
    bound = any(isinstance(r.event, SessionBound | SessionUnbound) for r in events)
    binding = Binding(stream=stream, session=state.session) if bound else None
    return agenda_of(stream, state, view, state.at), binding
