"""`replyledger explain ID`: the causal story of one turn, delivery, request, message or instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from actors.deciding.facts import Blocking, gate
from events.base import Millis, Recorded
from events.stories import OutputStory
from scripts.asking.sends import carried_into, tell_request
from scripts.printing import Printer
from scripts.reading.case import Case
from scripts.reading.finding import Found, Sort, find
from scripts.reading.names import Names, read_names
from scripts.reading.telling import tell_instance, tell_message, tell_output, tell_turn
from scripts.reading.world import events_of
from store.log import Reader


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of one id. `state` is a fate, a request's outcome or a turn's status; times in ms."""

    asked: str
    sort: Sort
    id: str
    peer: str
    stream: str
    state: str
    reason: str  # why it was skipped, dropped or erased
    blocked_by: str  # the one fact that blocks what waits, "" = nothing does
    blocked_until: Millis | None
    requests: tuple[str, ...]
    carried: tuple[str, ...]  # of a message: requests of older windows that count against the one it opened
    sentences: tuple[str, ...]


async def explain(
    reader: Reader,
    given: str,
    printer: Printer,
    now: Millis,
    *,
    blocking: Blocking = gate,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[Story, ...]:
    """Print the story of everything that an id, or its unique beginning, names. Raises NotFound or Ambiguous."""
    names = await read_names(reader)
    stories: list[Story] = []
    for found in await find(reader, given, progress):
        case = await _case(reader, names, found, now=now, show=printer.time, blocking=blocking)
        stories.append(story_of(case, found, given))
    for number, story in enumerate(stories):
        if number:
            printer.line()
        printer.row(story, "\n".join(story.sentences))
    return tuple(stories)


async def _case(
    reader: Reader, names: Names, found: Found, *, now: Millis, show: Callable[[Millis], str], blocking: Blocking
) -> Case:
    if found.stream.startswith("bot-"):
        events: tuple[Recorded, ...] = await reader.read(found.stream)
    else:
        events = tuple([r async for page in events_of(reader, names, found.stream) for r in page])
    return Case(
        found.stream,
        names.show(found.stream),
        names.bot_of(found.stream),
        events,
        now=now,
        show=show,
        blocking=blocking,
    )


def story_of(case: Case, found: Found, asked: str) -> Story:
    """The story of one thing, from its peer's and its bot's events."""
    outputs = _outputs(case, found)
    state, reason = _state(case, found, outputs)
    blocked, until = _blocked(case, outputs)
    return Story(
        asked=asked,
        sort=found.sort,
        id=found.id,
        peer=case.peer,
        stream=case.stream,
        state=state,
        reason=reason,
        blocked_by=blocked,
        blocked_until=until,
        requests=tuple(dict.fromkeys(r for o in outputs for r in o.requests)),
        carried=carried_into(case, case.told.messages[found.id]) if found.sort == "message" else (),
        sentences=tuple(_sentences(case, found, outputs)),
    )


def _outputs(case: Case, found: Found) -> tuple[OutputStory, ...]:
    told = case.told.outputs.values()
    match found.sort:
        case "turn":
            return tuple(o for o in told if o.turn_id == found.id)
        case "output":
            return tuple(o for o in told if o.output == found.id)
        case "request" | "message" | "instance":
            return ()


def _state(case: Case, found: Found, outputs: tuple[OutputStory, ...]) -> tuple[str, str]:
    told = case.told
    if outputs:
        return outputs[-1].fate, outputs[-1].reason
    if found.sort == "turn" and found.id in told.turns:
        return told.turns[found.id].status, ""
    if found.sort == "request":
        request = told.requests[found.id]
        return request.result, request.failure or request.reason
    return "", ""


def _blocked(case: Case, outputs: tuple[OutputStory, ...]) -> tuple[str, Millis | None]:
    waiting = [o for o in outputs if o.fate == "queued"]
    if not waiting:
        return "", None
    watch, _ = case.watch(waiting[0].output)
    reason, until, _ = case.block_now(waiting[0].output, watch)
    return reason, until


def _sentences(case: Case, found: Found, outputs: tuple[OutputStory, ...]) -> Iterator[str]:
    told = case.told
    match found.sort:
        case "turn" | "output":
            turn_id = found.id if found.sort == "turn" else outputs[0].turn_id
            yield from tell_turn(case, told.turns.get(turn_id), outputs)
            for output in outputs:
                yield from tell_output(case, output)
        case "request":
            yield from tell_request(case, told.requests[found.id])
        case "message":
            yield from tell_message(case, told.messages[found.id])
            turn = told.turns.get(told.messages[found.id].turn_id)
            yield from tell_turn(case, turn, ())
        case "instance":
            yield from tell_instance(case, found.id)
