"""The fate of every output and the story of every request: the half of a history that is about delivery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from events import peer
from events.backlog import ERASED, Output
from events.base import Event, Millis, Recorded
from events.stories import Fate, OutputStory, RequestStory, Result, Wait

NEVER_LEFT = ("not_sent", "too_late")
"""The failures that prove that no byte left."""


class _Span(msgspec.Struct, frozen=True):
    """Bytes of an output in a request that may have arrived."""

    start: int
    end: int
    request: str


class _Track(msgspec.Struct, kw_only=True):
    """What the fold knows of an output while it folds."""

    output: Output
    lane: Literal["answer", "push"]
    position: int
    accepted_at: Millis
    waiting: bool = True
    open: str = ""
    since: Millis = 0
    ended: tuple[Literal["skipped", "dropped", "erased"], str] | None = None
    requests: list[str]
    spans: list[_Span]
    waits: list[Wait]
    body_erased_at: Millis | None = None


class Fates:
    """Folds what happens to outputs and requests; everything it holds is its own."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._requests: dict[str, RequestStory] = {}

    def apply(self, recorded: Recorded) -> None:
        """Take in the next event of the stream."""
        step = _STEPS.get(type(recorded.event))
        if step is not None:
            step(self, recorded.event, recorded)

    def outputs(self) -> dict[str, OutputStory]:
        """Every output's story so far, in the order of acceptance."""
        return {name: self._story(track) for name, track in self._tracks.items()}

    def requests(self) -> dict[str, RequestStory]:
        """Every request's story so far, in order."""
        return dict(self._requests)

    def _completed(self, event: peer.TurnCompleted, on: Recorded) -> None:
        self._accept(_output_of(event, event.body, event.total, on.at), on)

    def _failed(self, event: peer.TurnFailed, on: Recorded) -> None:
        track = self._accept(_output_of(event, event.error, 0, on.at), on)
        _end(track, "skipped", "failed", on.at)

    def _accept(self, output: Output, on: Recorded) -> _Track:
        """The track of an output; the first event that names it is its acceptance."""
        track = self._tracks.get(output.output)
        if track is None:
            track = _Track(
                output=output,
                lane="answer" if output.origin == "inbound" else "push",
                position=on.position,
                accepted_at=output.accepted_at or on.at,
                since=on.at,
                requests=[],
                spans=[],
                waits=[Wait(at=on.at, why="accepted")],
            )
            self._tracks[output.output] = track
        return track

    def _skipped(self, event: peer.OutputSkipped, on: Recorded) -> None:
        _end(self._accept(event.output, on), "skipped", event.reason, on.at)

    def _dropped(self, event: peer.OutputDropped, on: Recorded) -> None:
        fate: Literal["erased", "dropped"] = "erased" if event.reason == ERASED else "dropped"
        _end(self._accept(event.output, on), fate, event.reason, on.at)

    def _acted(self, event: peer.OperatorActed, on: Recorded) -> None:
        if event.what not in ("retry", "more"):
            return
        for output in event.outputs:
            track = self._accept(output, on)
            track.lane = "push" if event.what == "retry" and track.output.origin != "inbound" else "answer"
            track.waiting, track.ended, track.since = True, None, on.at
            track.spans = [s for s in track.spans if s.start < output.start]  # what is sent anew tells anew
            track.waits.append(Wait(at=on.at, why=event.what))

    def _erased(self, event: peer.BodyErased, on: Recorded) -> None:
        gone = frozenset(event.bodies)
        for track in self._tracks.values():
            if track.output.body in gone and track.body_erased_at is None:
                track.body_erased_at = on.at
                if track.waiting and not track.open:
                    _end(track, "erased", event.reason, on.at)

    def _peer_erased(self, _: peer.PeerErased, on: Recorded) -> None:
        """No text of before is left; what is on its way ends with its request."""
        for track in self._tracks.values():
            if track.output.body and track.body_erased_at is None:
                track.body_erased_at = on.at
            if track.waiting and not track.open:
                _end(track, "erased", ERASED, on.at)

    # requests

    def _requested(self, event: peer.SendRequested, on: Recorded) -> None:
        self._requests[event.request] = RequestStory(
            at=on.at,
            position=on.position,
            epoch=on.epoch,
            cause=on.cause,
            **{name: getattr(event, name) for name in _COPIED},
        )
        for one in event.carried:
            track = self._tracks.get(one.output)
            if track is not None:
                track.open, track.since = event.request, on.at
                track.requests.append(event.request)

    def _succeeded(self, event: peer.SendSucceeded, on: Recorded) -> None:
        result: Result = "confirmed" if event.message_id else "unconfirmed"
        self._settle(event.request, on, result=result, message_id=event.message_id, settled_at=on.at)
        self._arrived(event.request, on.at)

    def _send_failed(self, event: peer.SendFailed, on: Recorded) -> None:
        result: Result = "not_sent" if event.failure in NEVER_LEFT else "refused"
        self._settle(
            event.request,
            on,
            result=result,
            charged=event.charged,
            failure=event.failure,
            code=event.code,
            settled_at=on.at,
        )
        for track in self._carrying(event.request):
            track.open, track.since = "", on.at
            if track.body_erased_at is not None:
                _end(track, "erased", ERASED, on.at)
            elif track.waiting:
                track.waits.append(Wait(at=on.at, why=result))

    def _send_unknown(self, event: peer.SendUnknown, on: Recorded) -> None:
        self._settle(event.request, on, result="unknown", reason=event.reason, settled_at=event.settled_at)
        self._arrived(event.request, on.at)

    def _resolved(self, event: peer.UnknownResolved, on: Recorded) -> None:
        arrived: Result = "confirmed" if event.message_id else "unconfirmed"
        self._settle(
            event.request,
            on,
            result=arrived if event.delivered else "not_sent",
            charged=event.delivered,
            message_id=event.message_id,
            resolved_by=event.who or "a late outcome",
        )
        if not event.delivered:
            self._never_arrived(event.request, on.at)

    def _never_arrived(self, request: str, at: Millis) -> None:
        for track in self._named_in(request):
            track.spans = [span for span in track.spans if span.request != request]
            if not track.waiting and not track.spans and track.ended is None:
                track.ended, track.since = ("dropped", "not_delivered"), at

    def _fell_back(self, event: peer.FallbackUsed, _: Recorded) -> None:
        known = self._requests.get(event.request)
        if known is not None:
            self._requests[event.request] = msgspec.structs.replace(known, fallbacks=(*known.fallbacks, event.what))

    def _settle(self, request: str, on: Recorded, **changes: Any) -> None:
        known = self._requests.get(request)
        if known is not None:
            self._requests[request] = msgspec.structs.replace(
                known, outcome_at=on.at, outcome_epoch=on.epoch, **changes
            )

    def _named_in(self, request: str) -> list[_Track]:
        """The tracks of the outputs that a request carries or carried."""
        story = self._requests.get(request)
        names = [one.output for one in story.carried] if story else []
        return [self._tracks[name] for name in names if name in self._tracks]

    def _carrying(self, request: str) -> list[_Track]:
        return [track for track in self._named_in(request) if track.open == request]

    def _arrived(self, request: str, at: Millis) -> None:
        """Its bytes are, or may be, with the peer. A push is over with it, however much of the output it carried."""
        story = self._requests.get(request)
        if story is None:
            return
        for one in story.carried:
            track = self._tracks.get(one.output)
            if track is not None and track.open == request:
                track.spans.append(_Span(one.start, one.end, request))
                track.open, track.since = "", at
                track.waiting = track.waiting and track.lane == "answer" and not one.whole
                if track.waiting and track.body_erased_at is not None:
                    _end(track, "erased", ERASED, at)

    def _story(self, track: _Track) -> OutputStory:
        fate, reason = self._fate(track)
        return OutputStory(
            output=track.output.output,
            turn_id=track.output.turn_id,
            origin=track.output.origin,
            lane=track.lane,
            body=track.output.body,
            total=track.output.total,
            accepted_at=track.accepted_at,
            position=track.position,
            fate=fate,
            reason=reason,
            at=track.since,
            delivered_bytes=_covered([s for s in track.spans if self._requests[s.request].result == "confirmed"]),
            requests=tuple(track.requests),
            waits=tuple(track.waits),
            body_erased_at=track.body_erased_at,
        )

    def _fate(self, track: _Track) -> tuple[Fate, str]:
        if track.open:
            return "requested", ""
        if track.waiting:
            return "queued", ""
        results = {self._requests[span.request].result for span in track.spans}
        reason = track.ended[1] if track.ended else ""
        for result, fate in _LEAST_CERTAIN:
            if result in results:
                return fate, reason
        return track.ended or ("dropped", "not_delivered")


_LEAST_CERTAIN: tuple[tuple[Result, Fate], ...] = (
    ("unknown", "unknown"),
    ("unconfirmed", "unconfirmed"),
    ("confirmed", "delivered"),
)

_COPIED = (
    "request", "kind", "part", "parts", "carried", "left_out", "total", "body", "client_id", "token", "login", "policy",
    "charge", "lifted", "notice",
)  # fmt: skip
"""What a request's story takes over as it was written."""

_STEPS: Mapping[type[Event], Callable[[Fates, Any, Recorded], None]] = {
    peer.TurnCompleted: Fates._completed,
    peer.TurnFailed: Fates._failed,
    peer.OutputSkipped: Fates._skipped,
    peer.OutputDropped: Fates._dropped,
    peer.OperatorActed: Fates._acted,
    peer.BodyErased: Fates._erased,
    peer.PeerErased: Fates._peer_erased,
    peer.SendRequested: Fates._requested,
    peer.SendSucceeded: Fates._succeeded,
    peer.SendFailed: Fates._send_failed,
    peer.SendUnknown: Fates._send_unknown,
    peer.UnknownResolved: Fates._resolved,
    peer.FallbackUsed: Fates._fell_back,
}
"""What each event does to outputs and requests."""


def _output_of(event: peer.TurnCompleted | peer.TurnFailed, body: str, total: int, at: Millis) -> Output:
    return Output(
        output=event.output, turn_id=event.turn_id, body=body, total=total, accepted_at=at, origin=event.origin
    )


def _end(track: _Track, fate: Literal["skipped", "dropped", "erased"], reason: str, at: Millis) -> None:
    track.waiting, track.ended, track.since = False, (fate, reason), at


def _covered(spans: list[_Span]) -> int:
    """How many bytes lie in at least one of the spans."""
    total = reached = 0
    for span in sorted(spans, key=lambda s: s.start):
        total += max(0, span.end - max(span.start, reached))
        reached = max(reached, span.end)
    return total
