"""What a request carried, spent and came to, in plain sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from actors.deciding.facts import NEVER_LEFT, UNKNOWN, carried
from actors.text.counts import counted
from events.peer_sends import TURN_WAITS
from events.stories import MessageStory, RequestStory
from scripts.reading.case import Case, listed


def tell_request(case: Case, story: RequestStory) -> Iterator[str]:
    """What a request carried, spent and came to."""
    what = {"answer": "an answer", "push": "a push", "notice": _notice(story)}[story.kind]
    part = f", part {story.part} of {story.parts}" if story.parts > 1 else ""
    yield (
        f"Request {story.request} was {what} to {case.peer}{part}, {counted(story.total, 'byte', 'bytes')}, decided at"
        f" {case.show(story.at)} by {case.instance(story.epoch)} under client id {story.client_id}."
    )
    names = [c.output for c in story.carried]
    if names:
        yield f"It carried {listed(names)}" + (" in one reply." if len(names) > 1 else ".")
    if story.left_out:
        yield f"Left out, because one part has no room for more: {listed(list(story.left_out))}."
    yield spent(story)
    yield outcome(case, story)
    yield from _carried_on(case, story)
    yield from _taken_over(case, story)
    yield from (f"It went out in a plainer form: {what}." for what in story.fallbacks)


NOTICES: dict[str, str] = {
    TURN_WAITS: "a notice that no agent is there",
    "nothing_more": "a notice that there is nothing more",
    "more_is_kept": "a notice of how many outputs are left for /more",
    "session_reset": "a notice that the session begins anew",
    "turn_cancelled": "a notice that the turn is cancelled",
    "nothing_to_cancel": "a notice that nothing was to be cancelled",
}


def _notice(story: RequestStory) -> str:
    return NOTICES.get(story.notice, "a notice of the gateway itself")


def _taken_over(case: Case, story: RequestStory) -> Iterator[str]:
    later = next((r for epoch, r in sorted(case.starts.items()) if epoch > story.epoch), None)
    if later is not None and (story.outcome_at is None or story.outcome_epoch > story.epoch):
        yield f"{case.instance(later.epoch).capitalize()} took the account over at {case.show(later.at)}."


def spent(request: RequestStory) -> str:
    """What it took of quota and share."""
    if not request.charged:
        return "It spent nothing."
    opened = (
        f"of the window that message {request.charge.opened_by} opened" if request.charge.opened_by else "of no window"
    )
    share = f", and share {request.charge.share} of {request.charge.shares}" if request.charge.shares else ""
    lifted = f" (observe mode; enforce mode would have waited: {request.lifted})" if request.lifted else ""
    return f"It spent slot {slot(request)}{carried(request.charge.carried)} {opened}{share}{lifted}."


def slot(request: RequestStory) -> str:
    """`3 of 10`."""
    return f"{request.charge.slot} of {request.charge.slots}"


def outcome(case: Case, request: RequestStory) -> str:
    """What is known of it."""
    at = case.show(request.outcome_at) if request.outcome_at is not None else ""
    resolved = f" ({request.resolved_by} told so at {at})" if request.resolved_by else f" at {at}"
    match request.result:
        case "open":
            return f"Its outcome is not known yet; it belongs to {case.instance(request.epoch)}."
        case "confirmed":
            return f"The channel confirmed it{resolved}, as message {request.message_id}."
        case "unconfirmed":
            return f"The channel took it{resolved} but gave no message id: charged, and not claimed as delivered."
        case "unknown":
            return _unknown(case, request, at)
        case "refused":
            return f"The channel refused it at {at}: {_refusal(request)}."
        case "not_sent":
            why = NEVER_LEFT.get(request.failure or "", request.failure or "so it turned out later")
            return f"It provably never left: {why}{resolved}."


def _unknown(case: Case, request: RequestStory, at: str) -> str:
    closed = (
        "; " + case.instance(request.outcome_epoch) + " closed it at its start"
        if (request.outcome_epoch > request.epoch)
        else ""
    )
    return (
        f"Nobody can say whether it arrived ({UNKNOWN.get(request.reason, request.reason)}, known at {at}{closed}): charged, and"
        " never sent again."
        f" It was sent by {case.instance(request.epoch)}."
    )


_REFUSALS = {
    "blocked": "refused with the token it had, which was dropped; the content is kept for the peer's next message",
    "bad_request": "refused for what it is",
    "http_refused": "refused by an HTTP status",
    "login_lost": "the login is gone",
}


def _refusal(request: RequestStory) -> str:
    code = f" (code {request.code})" if request.code else ""
    return _REFUSALS.get(request.failure or "", request.failure or "") + code


def in_flight(request: RequestStory, message: MessageStory) -> bool:
    """Whether the channel may count a request of an older window against the window that a message opened."""
    return (
        request.charged
        and request.charge.window < message.window
        and request.at <= message.at
        and (request.settled_at is None or request.settled_at >= message.not_before)
    )


def carried_into(case: Case, message: MessageStory) -> tuple[str, ...]:
    """The requests of older windows that count against the window that a message opened."""
    return tuple(r.request for r in case.told.requests.values() if in_flight(r, message))


def _carried_on(case: Case, story: RequestStory) -> Iterator[str]:
    for message in case.told.messages.values():
        if in_flight(story, message):
            yield (
                f"It may have been in flight when message {message.message} reached the channel, so it counts against window"
                f" {message.window}, which that message opened."
            )
