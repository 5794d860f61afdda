"""`replyledger replay`: quota and backlog rebuilt from the events alone.

Works with every cache dropped, and whether the gateway runs or not. `--verify` compares the log's caches with this fold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from actors.deciding.facts import carried, fact_of
from actors.deciding.gate import Lane, next_lane
from actors.deciding.view import Block, BotView
from actors.text.counts import counted
from events import quota
from events.backlog import Output
from events.base import Millis, Recorded
from events.bot import BotState
from events.peer_state import PeerState
from scripts.printing import Printer
from scripts.reading.names import Names, find_peer, read_names
from scripts.reading.world import World, events_of, fold, view_of
from store.log import Reader

IDS_SHOWN_MAX = 5
"""How many ids a line of text lists; JSON lists all."""


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where, and of whom. `until_position` 0 = the end; `now` is the instant for which quota and share are counted,
    None = that of the last event."""

    now: Millis | None = None
    peer: str = ""
    until_position: int = 0
    until: Millis | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An output that waits, in the order in which it leaves."""

    output: str
    turn_id: str
    accepted_at: Millis
    bytes: int
    start: int  # bytes of it that are settled already


class PeerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A peer as the events tell it at `now`. Times in ms; None = never, not known, or only by a new fact."""

    peer: str
    stream: str
    version: int
    position: int  # of the log, up to which was folded
    now: Millis
    session: str
    window: int
    window_opened_by: str
    window_ends_at: Millis | None
    window_open: bool
    quota_spent: int
    quota_of: int
    quota_carried: int  # of those spent, from before the message that opened the window
    share_spent: int
    share_of: int
    share_free_at: Millis | None
    token: bool
    remainders: tuple[Waiting, ...]
    answers: tuple[Waiting, ...]
    backlog: tuple[Waiting, ...]
    inbox: int  # messages that are no turn yet
    open_turn: str
    open_request: str
    dead: int
    blocked_by: str  # "" = the next lane may send
    blocked_until: Millis | None


async def replay(
    reader: Reader, options: ReplayOptions, printer: Printer, progress: Callable[[int], None] = lambda _: None
) -> World:
    """Print what the events say of each peer; returns the folded world."""
    names = await read_names(reader)
    stream = await find_peer(reader, names, options.peer) if options.peer else ""
    pages = events_of(reader, names, stream, until=options.until_position, by=options.until)
    world = await fold(pages, progress)
    now = world.at if options.now is None else options.now
    for name in sorted(world.peers, key=names.show):
        report, fact = report_of(world, names, name, now, printer.time)
        printer.row(report, describe(report, fact, printer))
    counts = f"{counted(len(world.peers), 'peer', 'peers')}, {counted(len(world.bots), 'bot', 'bots')}"
    printer.talk(f"{counts}, up to position {world.position}")
    return world


async def step(reader: Reader, options: ReplayOptions, printer: Printer, ask: Callable[[], Awaitable[str]]) -> World:
    """Go event by event: print each and what it makes of its peer, then `ask`; `q` ends it. Holds no transaction meanwhile."""
    names = await read_names(reader)
    stream = await find_peer(reader, names, options.peer) if options.peer else ""
    world = World()
    async for page in events_of(reader, names, stream, until=options.until_position, by=options.until):
        for recorded in page:
            world.apply(recorded)
            _print_step(world, names, recorded, printer)
            if (await ask()).strip().lower() == "q":
                return world
    return world


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One event and the peer after it; None for an event of a bot."""

    position: int
    at: Millis
    stream: str
    version: int
    type: str
    epoch: int
    cause: str
    event: object
    peer: PeerReport | None


def _print_step(world: World, names: Names, recorded: Recorded, printer: Printer) -> None:
    report, text = None, ""
    if recorded.stream in world.peers:
        report, fact = report_of(world, names, recorded.stream, recorded.at, printer.time)
        text = "\n" + describe(report, fact, printer)
    taken = Step(
        position=recorded.position,
        at=recorded.at,
        stream=recorded.stream,
        version=recorded.version,
        type=recorded.type,
        epoch=recorded.epoch,
        cause=recorded.cause,
        event=recorded.event,
        peer=report,
    )
    printer.row(taken, f"{recorded.position}  {printer.time(recorded.at)}  {recorded.type}{text}")


def report_of(
    world: World, names: Names, stream: str, now: Millis, show: Callable[[Millis], str]
) -> tuple[PeerReport, str]:
    """What the world says of a peer at `now`, and the sentence of what blocks it."""
    state = world.peers[stream]
    view = view_of(world.bots.get(names.bot_of(stream), BotState()), names.account_of(stream), stream, now)
    lane = next_lane(state, view, now)
    report = _report(state, view, lane, now)
    report = msgspec.structs.replace(report, peer=names.show(stream), stream=stream, position=world.position)
    return report, _sentence(lane, state, view, now, show)


def _report(state: PeerState, view: BotView, lane: Lane | Block, now: Millis) -> PeerReport:
    """All but the names and the position."""
    window, policy = state.window, view.policy
    block = lane if isinstance(lane, Block) else None
    return PeerReport(
        peer="",
        stream="",
        version=state.version,
        position=0,
        now=now,
        session=state.session,
        window=state.window_number,
        window_opened_by=window.message if window else "",
        window_ends_at=quota.window_ends_at(window, policy) if window else None,
        window_open=quota.window_open(window, view.generation, policy, now),
        quota_spent=quota.spent(state.charges, state.window_number) if window else 0,
        quota_of=policy.quota_replies,
        quota_carried=quota.carried(state.charges, state.window_number) if window else 0,
        share_spent=quota.share_used(state.charges, policy, now),
        share_of=policy.share_replies,
        share_free_at=quota.share_free_at(state.charges, policy, now),
        token=state.token is not None and state.token.generation == view.generation,
        remainders=_waiting(state.remainders),
        answers=_waiting(tuple(a for a in state.answers if a not in state.remainders)),
        backlog=_waiting(state.queue),
        inbox=len(state.inbox),
        open_turn=state.turn.turn_id if state.turn else "",
        open_request=state.request.request if state.request else "",
        dead=len(state.dead),
        blocked_by=block.reason if block else "",
        blocked_until=block.until if block else None,
    )


def _waiting(outputs: tuple[Output, ...]) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(output=o.output, turn_id=o.turn_id, accepted_at=o.accepted_at, bytes=o.total, start=o.start)
        for o in outputs
    )


def _sentence(lane: Lane | Block, state: PeerState, view: BotView, now: Millis, show: Callable[[Millis], str]) -> str:
    if isinstance(lane, Lane):
        return f"nothing blocks it: {lane.name} may leave" + (
            f" (enforce mode would wait: {lane.lifted})" if lane.lifted else ""
        )
    fact = fact_of(lane, state, view, now, show)
    return fact.what if lane.reason == "nothing_waits" else fact.sentence


def describe(report: PeerReport, fact: str, printer: Printer) -> str:
    """A report as a few lines of text."""
    return "\n".join(
        (
            f"{report.peer}  (at {printer.time(report.now)})",
            f"  quota     {report.quota_spent} of {report.quota_of} spent{carried(report.quota_carried)}; {_window(report, printer)}",
            f"  share     {report.share_spent} of {report.share_of} spent; {_share(report, printer)}",
            f"  token     {'known' if report.token else 'none'}",
            f"  backlog   {_list(report.backlog)}",
            f"  answers   {_list(report.answers)}; remainders {_list(report.remainders)}",
            f"  turn      {report.open_turn or 'none open'}; {counted(report.inbox, 'message waits', 'messages wait')}",
            f"  request   {report.open_request or 'none open'}",
            f"  blocked   {fact}",
        )
    )


def _window(report: PeerReport, printer: Printer) -> str:
    if report.window_ends_at is None:
        return "no window yet"
    ends = "ends" if report.window_open else "closed, its end was"
    return f"window {report.window}, opened by {report.window_opened_by}, {ends} {printer.time(report.window_ends_at)}"


def _share(report: PeerReport, printer: Printer) -> str:
    if report.share_free_at is None:
        return "rolls only with an outcome"
    return "free" if report.share_free_at <= report.now else f"rolls {printer.time(report.share_free_at)}"


def _list(waiting: tuple[Waiting, ...]) -> str:
    if not waiting:
        return "none"
    ids = ", ".join(w.output for w in waiting[:IDS_SHOWN_MAX])
    more = f" and {len(waiting) - IDS_SHOWN_MAX} more" if len(waiting) > IDS_SHOWN_MAX else ""
    return f"{len(waiting)} ({ids}{more})"
