"""The causal story of a turn, an output, a request, a message or an instance, in plain sentences. Pure.

Every sentence says one thing that the log proves. Of what waits it names the one fact that blocks it and what would free it.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.deciding.chat import NOT_FOR_PEERS
from actors.deciding.facts import DROPPED, SKIPPED
from actors.text.counts import counted
from actors.text.moments import show_span
from events.base import Millis
from events.bot import BotStarted, BotStopped
from events.peer_sends import TURN_WAITS
from events.stories import MessageStory, OutputStory, RequestStory, TurnStory
from scripts.asking.sends import carried_into, outcome, slot, spent
from scripts.reading.case import Case, listed
from scripts.reading.waiting import Spell, freed


def tell_turn(case: Case, turn: TurnStory | None, outputs: tuple[OutputStory, ...]) -> Iterator[str]:
    """How a turn began, who had it, how it ended; the outputs follow."""
    show = case.show
    if turn is None:
        return
    if turn.message:
        yield f"Turn {turn.turn_id} began at {show(turn.at)}, from message {turn.message} of {case.peer}."
        yield from _agents(case, turn)
    match turn.status:
        case "open":
            yield "It is open: its answer is still to come."
        case "cancelled":
            yield f"It was cancelled at {show(turn.ended_at or turn.at)} by {turn.who or 'its sender'}; nothing is sent for it."
        case _:
            ended = show(turn.ended_at or turn.at)
            what = f"{turn.origin} turn" if not turn.message else "turn"
            tail = f" for {case.peer}" if not turn.message else ""
            yield f"The {what} {turn.turn_id} ended as {turn.status} at {ended}{tail}{_by(turn)}."
    if turn.origin == "inbound" and outputs:
        yield "It answers a message, so it is answered by the inbound path and never pushed as well."


def _by(turn: TurnStory) -> str:
    """Whose ending counted, as half a sentence."""
    if not turn.ended_by:
        return ""
    holder = turn.agents[-1][1] if turn.agents else ""
    return f", by agent {turn.ended_by}" + ("" if holder == turn.ended_by else ", which had had it before")


def _agents(case: Case, turn: TurnStory) -> Iterator[str]:
    show = case.show
    if not turn.agents and turn.status == "open":
        yield "No agent has it: it waits until one connects."
    for number, (at, agent) in enumerate(turn.agents):
        waited = f" after {show_span(at - turn.at)}" if at - turn.at >= 1_000 else ""
        again = ", offered again under the same turn id" if number else ""
        if agent:
            yield f"Agent {agent} got it at {show(at)}{waited}{again}."
        else:
            yield f"That agent did not come back; since {show(at)} it waited for the next one."
    told = [
        r
        for r in case.told.requests.values()
        if r.kind == "notice" and r.notice in ("", TURN_WAITS) and turn.at <= r.at <= (turn.ended_at or case.now)
    ]
    for notice in told[:1]:
        yield f"Its sender was told once that it waits, at {show(notice.at)} (request {notice.request}, slot {slot(notice)})."


def tell_output(case: Case, story: OutputStory) -> Iterator[str]:
    """Acceptance, each wait with its fact, each request, and the end."""
    show = case.show
    kind = "an answer" if story.lane == "answer" else "a push"
    yield (
        f"Delivery {story.output} of turn {story.turn_id} ({story.origin}, {counted(story.total, 'byte', 'bytes')}) was accepted at"
        f" {show(story.accepted_at)} for {case.peer}, as {kind}."
    )
    watch, spells = case.watch(story.output)
    yield from _tell_course(case, story, spells)
    if story.fate == "queued":
        yield case.block_now(story.output, watch)[2]
    else:
        yield from _tell_end(case, story)
    if story.body_erased_at is not None:
        yield f"Its text was erased at {show(story.body_erased_at)}."


def _tell_course(case: Case, story: OutputStory, spells: tuple[Spell, ...]) -> Iterator[str]:
    """Waits and requests in the order of their times."""
    lines: list[tuple[Millis, int, str]] = []
    closed = [s for s in spells if s.over]  # one that lasts is told as what blocks it
    lines += [(s.start, 0, _waited(case, s)) for s in closed]
    lines += [(w.at, 0, f"{_AGAIN[w.why]} at {case.show(w.at)}.") for w in story.waits if w.why in _AGAIN]
    for name in story.requests:
        request = case.told.requests[name]
        lines += [(request.at, 1, line) for line in _tell_sent(case, story, request, closed)]
    yield from (text for _, _, text in sorted(lines, key=lambda line: line[:2]))


_AGAIN = {"retry": "An operator put it back by `dead retry`", "more": "The peer asked for it with /more"}


def _waited(case: Case, spell: Spell) -> str:
    return (
        f"From {case.show(spell.start)} it waited {show_span(spell.ms)}: {spell.fact.what};"
        f" until, at {case.show(spell.end)}, {freed(spell)}."
    )


def _tell_sent(case: Case, story: OutputStory, request: RequestStory, spells: list[Spell]) -> Iterator[str]:
    last = next((s for s in reversed(spells) if s.end <= request.at), None)
    why = f"because {freed(last)}" if last and request.at - last.end < 60_000 else "because nothing blocked it"
    carried = next(c for c in request.carried if c.output == story.output)
    others = [c.output for c in request.carried if c.output != story.output]
    together = f", merged with {listed(others)} into one reply" if others else ""
    part = f", part {request.part} of {request.parts}" if request.parts > 1 else ""
    whole = (
        "" if carried.start == 0 and carried.whole else f" (bytes {carried.start} to {carried.end} of {carried.total})"
    )
    yield f"It left at {case.show(request.at)} in request {request.request}{part}{whole}{together}, {why}."
    if request.left_out:
        yield f"Left out beside it, because one part has no room for more: {listed(list(request.left_out))}."
    yield f"{spent(request)} {outcome(case, request)}"


def _tell_end(case: Case, story: OutputStory) -> Iterator[str]:
    since, again = case.show(story.at), _again(story)
    dropped = DROPPED.get(story.reason, story.reason)
    match story.fate:
        case "skipped":
            yield f"It was skipped at {since}: {SKIPPED.get(story.reason, story.reason)}{again}."
        case "dropped":
            yield f"It was dropped at {since}: {dropped}{again}."
        case "erased":
            yield f"Its text was {'erased' if story.reason == 'erased' else 'too old and erased'} at {since}, before it left."
        case "delivered" if story.cut:
            why = f" ({dropped})" if story.reason else ", for a push is one part at most"
            yield f"It is delivered, cut: {story.delivered_bytes} of {counted(story.total, 'byte', 'bytes')} arrived{why}{again}."
        case "delivered":
            yield "It is delivered, whole."
        case "unconfirmed" | "unknown":
            yield f"It is {story.fate}, listed by `dead list`{again}."
        case "requested" | "queued":
            yield "It is on its way."


def _again(story: OutputStory) -> str:
    """How its text can still be had, as half a sentence; nothing of it is left once it was erased."""
    if story.body_erased_at is not None or not story.body or story.reason == "blank":
        return ""
    in_the_chat = story.fate in ("dropped", "delivered") and story.reason not in NOT_FOR_PEERS
    by = f"`replyledger dead retry {story.output}`" + (" or /more in the chat" if in_the_chat else "")
    return f"; its text can be had by {by}"


_REFUSED = {
    "not_allowed": "its sender may not talk to the bot",
    "too_many_wait": "too many messages of its sender waited behind it",
}
_WORDS = {"more": "/more", "reset": "/reset", "cancel": "/cancel"}


def tell_message(case: Case, story: MessageStory) -> Iterator[str]:
    """What a peer's message opened, brought and became."""
    yield f"Message {story.message} of {case.peer} ({counted(story.total, 'byte', 'bytes')}) was received at {case.show(story.at)}."
    charged = [r for r in case.told.requests.values() if r.charge.window == story.window and r.charged]
    token = " and brought a context token" if story.token else ", but brought no context token"
    replies = counted(len(charged), "reply was", "replies were")
    yield f"It opened window {story.window}{token}; {replies} charged to that window."
    for request in charged:
        share = f", share {request.charge.share} of {request.charge.shares}" if request.charge.shares else ""
        yield f"Slot {slot(request)}{share}: {request.kind} {request.request} at {case.show(request.at)}, {request.result}."
    yield from _carried_replies(case, story)
    if story.duplicates:
        times = "once" if len(story.duplicates) == 1 else f"{len(story.duplicates)} times"
        at = listed([case.show(at) for at in story.duplicates])
        yield f"The channel delivered it {times} more, at {at}; that opened no window and started no turn."
    if story.refused:
        yield f"It went no further: {_REFUSED.get(story.refused, story.refused)}."
    elif story.command:
        yield f"It was a word to the gateway itself: {_WORDS.get(story.command, story.command)}."
    elif story.turn_id:
        yield f"It became turn {story.turn_id}."
    else:
        yield "It waits to become a turn: one turn of a peer is open at a time."


def _carried_replies(case: Case, story: MessageStory) -> Iterator[str]:
    if carried := carried_into(case, story):
        replies = counted(len(carried), "reply was", "replies were")
        yield f"{replies} carried into its window, because the channel may count them there: {listed(list(carried))}."
        yield (
            f"The channel cannot have had it before {case.show(story.not_before)}; what was still open then, or settled later, may"
            " have come after it."
        )


def tell_instance(case: Case, name: str) -> Iterator[str]:
    """When an instance started, whom it replaced, and who replaced it."""
    for epoch, start in case.starts.items():
        event = start.event
        if not isinstance(event, BotStarted) or event.instance != name:
            continue
        replaced = f", replacing instance {event.replaces}" if event.replaces else ""
        yield f"Instance {name} claimed the account at {case.show(start.at)} as epoch {epoch}{replaced}."
        stops = [r for r in case.events if isinstance(r.event, BotStopped) and r.epoch == epoch]
        yield from (f"It stopped by itself at {case.show(stop.at)}." for stop in stops)
        later = case.starts.get(epoch + 1)
        if later is not None:
            yield (
                f"{case.instance(epoch + 1).capitalize()} claimed the account at {case.show(later.at)}: since then"
                f" {name} is fenced, and can neither append nor send."
            )
