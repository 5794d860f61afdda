"""What an outcome does to a peer. Outcomes are classified, never guessed (iLink protocol notes 2.5). Pure."""

from __future__ import annotations

from typing import assert_never

from actors.deciding.commands import Abandon, Conclude
from actors.deciding.draft import Draft
from actors.ports import LISTEN_MS, Accepted, Refused, Unknown
from events.backlog import Output
from events.base import Millis
from events.peer import (
    ContextTokenDropped,
    FallbackUsed,
    OutputDropped,
    SendFailed,
    SendSucceeded,
    SendUnknown,
    UnknownResolved,
)
from events.peer_state import OpenRequest
from events.quota import SEND_WITHIN_MS

RETRY_MS_MIN = 1_000
RETRY_MS_MAX = 60_000
REFUSALS_MAX = 2
"""Refused with the token it had, and again with the token of a later message: it is the content."""


def conclude(draft: Draft, command: Conclude) -> None:
    """The outcome of the open request, or, late, of one that was given up as unknown."""
    request = draft.state.request
    if request is None or request.request != command.request:
        _late(draft, command)
        return
    match command.outcome:
        case Accepted(message_id=message_id):
            _accepted(draft, request, message_id)
        case Refused():
            _refused(draft, request, command.outcome)
        case Unknown(reason=reason, settled_at=settled_at):
            draft.add(SendUnknown(request=request.request, settled_at=settled_at, reason=reason))
            _beyond_parts(draft, request)
        case _:
            assert_never(command.outcome)


def abandon(draft: Draft, command: Abandon) -> None:
    """The request never got to an outlet: nothing was sent, nothing is charged. Tried again at once, and then more slowly."""
    request = draft.state.request
    if request is not None and request.request == command.request:
        retry_at = draft.now if draft.state.retries == 0 else draft.now + _backoff_ms(draft.state.retries - 1)
        draft.add(SendFailed(request=request.request, failure="not_sent", retry_at=retry_at))


def close_stale(draft: Draft) -> None:
    """A request of an earlier life of the bot: nobody can say whether it arrived."""
    request = draft.state.request
    if request is not None and request.epoch < draft.view.epoch:
        timeout_ms = draft.view.policy.client_timeout_ms
        settled_at: Millis = request.requested_at + SEND_WITHIN_MS + timeout_ms + LISTEN_MS
        draft.add(SendUnknown(request=request.request, settled_at=settled_at, reason="stopped"))
        _beyond_parts(draft, request)


def _accepted(draft: Draft, request: OpenRequest, message_id: str) -> None:
    left_out = tuple(o for o in draft.state.queue if o.output in request.left_out)
    draft.add(SendSucceeded(request=request.request, message_id=message_id))
    if request.quote and not draft.view.can_quote:
        draft.add(FallbackUsed(request=request.request, what="no_quote"))
    if message_id:
        for output in left_out:
            draft.add(OutputDropped(output=output, reason="merged_out"))
    _beyond_parts(draft, request)


def _refused(draft: Draft, request: OpenRequest, outcome: Refused) -> None:
    keep = outcome.error and not draft.state.erased_at  # what the channel says may be about what was erased
    error = draft.store("error", outcome.error)[0] if keep else ""
    digest = draft.digest(error, outcome.error) if error else ""
    retry_at = 0
    if outcome.failure in ("not_sent", "too_late"):
        retry_at = draft.now + _backoff_ms(draft.state.retries)
    draft.add(
        SendFailed(
            request=request.request,
            failure=outcome.failure,
            code=outcome.code,
            retry_at=retry_at,
            error=error,
            digest=digest,
        )
    )
    match outcome.failure:
        case "blocked":
            _drop_token(draft, request, "refused")
            _set_aside(draft, tuple(o for o in _still(draft, request) if o.refusals >= REFUSALS_MAX))
        case "bad_request" | "http_refused":
            _set_aside(draft, _still(draft, request))
        case "login_lost":
            _drop_token(draft, request, "login_lost")  # it went with the login; the bot hears of that a moment later
        case "not_sent" | "too_late":
            pass
        case _:
            assert_never(outcome.failure)


def _backoff_ms(retries: int) -> int:
    return min(RETRY_MS_MAX, RETRY_MS_MIN << min(retries, 16))


def _drop_token(draft: Draft, request: OpenRequest, reason: str) -> None:
    """Unless a newer message brought a newer token meanwhile."""
    token = draft.state.token
    if token is not None and token.body == request.token:
        draft.add(ContextTokenDropped(body=token.body, reason=reason))


def _set_aside(draft: Draft, outputs: tuple[Output, ...]) -> None:
    for output in outputs:
        draft.add(OutputDropped(output=output, reason="set_aside"))


def _still(draft: Draft, request: OpenRequest) -> tuple[Output, ...]:
    names = {c.output for c in request.carried}
    return tuple(o for o in (*draft.state.answers, *draft.state.queue) if o.output in names)


def _beyond_parts(draft: Draft, request: OpenRequest) -> None:
    """A remainder ends after its number of parts."""
    for output in _still(draft, request):
        if output.remainder_parts >= draft.view.policy.answer_parts:
            draft.add(OutputDropped(output=output, reason="beyond_parts"))


def _late(draft: Draft, command: Conclude) -> None:
    """A definite answer after the request was closed as unknown; anything else has been recorded already."""
    if not any(u.request == command.request for u in draft.state.unknowns):
        return
    match command.outcome:
        case Accepted(message_id=message_id):
            draft.add(UnknownResolved(request=command.request, delivered=True, message_id=message_id, who="outlet"))
        case Refused():
            draft.add(UnknownResolved(request=command.request, delivered=False, who="outlet"))
        case Unknown():
            pass
        case _:
            assert_never(command.outcome)
