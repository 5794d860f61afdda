"""What became of everything: each output's fate and each request's story, from the events of one peer's stream alone.

A state forgets what it needs no more; a history keeps all of it, for `audit` and `explain`. Folding twice gives equal histories,
and an output has exactly one fate at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from events import peer
from events.base import Event, Millis, Recorded
from events.fates import Fates
from events.stories import History, MessageStory, TokenStory, TurnStory


def history(stream: Iterable[Recorded]) -> History:
    """The history of one peer's events, which are given in the order of their versions."""
    fold = HistoryFold()
    for recorded in stream:
        fold.apply(recorded)
    return fold.history()


class HistoryFold:
    """Builds a history event by event; everything it holds is its own."""

    def __init__(self) -> None:
        self._fates = Fates()
        self._messages: dict[str, MessageStory] = {}
        self._turns: dict[str, TurnStory] = {}
        self._tokens: dict[str, TokenStory] = {}
        self._duplicates: list[Millis] = []
        self._written: dict[Millis, tuple[str, ...]] = {}  # by creation time: messages
        self._windows = 0

    def history(self) -> History:
        """The history so far."""
        return History(
            outputs=self._fates.outputs(),
            requests=self._fates.requests(),
            messages=dict(self._messages),
            turns=dict(self._turns),
            tokens=dict(self._tokens),
            duplicates=tuple(self._duplicates),
        )

    def apply(self, recorded: Recorded) -> None:
        """Take in the next event of the stream."""
        self._fates.apply(recorded)
        step = _STEPS.get(type(recorded.event))
        if step is not None:
            step(self, recorded.event, recorded)

    # messages and tokens

    def _received(self, event: peer.MessageReceived, on: Recorded) -> None:
        self._windows += 1
        if event.sent_at > 0:
            self._written[event.sent_at] = (*self._written.get(event.sent_at, ()), event.message)
        self._messages[event.message] = MessageStory(
            message=event.message,
            at=on.at,
            position=on.position,
            sent_at=event.sent_at,
            not_before=event.not_before,
            total=event.total,
            body=event.body,
            window=self._windows,
            generation=event.generation,
        )

    def _duplicate(self, event: peer.DuplicateSuppressed, on: Recorded) -> None:
        self._duplicates.append(on.at)
        same = self._written.get(event.sent_at, ())
        # What is delivered again has its creation time again; two messages of one instant cannot be told apart.
        if len(same) == 1:
            self._amend_message(same[0], duplicates=(*self._messages[same[0]].duplicates, on.at))

    def _token_seen(self, event: peer.ContextTokenSeen, on: Recorded) -> None:
        self._tokens[event.body] = TokenStory(
            body=event.body, message=event.message, seen_at=on.at, generation=event.generation
        )
        self._amend_message(event.message, token=event.body)

    def _token_dropped(self, event: peer.ContextTokenDropped, on: Recorded) -> None:
        known = self._tokens.get(event.body)
        if known is not None:
            self._tokens[event.body] = msgspec.structs.replace(known, dropped_at=on.at, reason=event.reason)

    def _refused(self, event: peer.AccessRefused, _: Recorded) -> None:
        self._amend_message(event.message, refused=event.reason)

    def _reset(self, event: peer.SessionReset, _: Recorded) -> None:
        self._amend_message(event.message, command="reset")

    def _acted(self, event: peer.OperatorActed, _: Recorded) -> None:
        command = (
            "cancel" if event.what == "flush" else event.what
        )  # of a message, 0.1.0 wrote it so where no turn was open
        self._amend_message(event.message, command=command)

    def _amend_message(self, message: str, **changes: Any) -> None:
        known = self._messages.get(message)
        if known is not None:
            self._messages[message] = msgspec.structs.replace(known, **changes)

    # turns

    def _started(self, event: peer.TurnStarted, on: Recorded) -> None:
        self._turns[event.turn_id] = TurnStory(
            turn_id=event.turn_id,
            origin=event.origin,
            session=event.session,
            at=on.at,
            position=on.position,
            message=event.message,
        )
        self._amend_message(event.message, turn_id=event.turn_id)

    def _handed_over(self, event: peer.TurnHandedOver, on: Recorded) -> None:
        known = self._turns.get(event.turn_id)
        if known is not None:
            agents = (*known.agents, (on.at, event.agent))
            self._turns[event.turn_id] = msgspec.structs.replace(known, agents=agents)

    def _cancelled(self, event: peer.TurnCancelled, on: Recorded) -> None:
        self._amend_message(event.message, command="cancel")
        known = self._turns.get(event.turn_id)
        if known is not None:
            self._turns[event.turn_id] = msgspec.structs.replace(
                known, status="cancelled", ended_at=on.at, who=event.who
            )

    def _completed(self, event: peer.TurnCompleted, on: Recorded) -> None:
        self._end_turn(event, on, event.status)

    def _failed(self, event: peer.TurnFailed, on: Recorded) -> None:
        self._end_turn(event, on, "failed")

    def _end_turn(
        self,
        event: peer.TurnCompleted | peer.TurnFailed,
        on: Recorded,
        status: Literal["completed", "degraded", "failed"],
    ) -> None:
        known = self._turns.get(event.turn_id) or TurnStory(
            turn_id=event.turn_id, origin=event.origin, session=event.session, at=on.at, position=on.position
        )
        self._turns[event.turn_id] = msgspec.structs.replace(
            known, status=status, ended_at=on.at, output=event.output, ended_by=event.agent
        )


_STEPS: Mapping[type[Event], Callable[[HistoryFold, Any, Recorded], None]] = {
    peer.MessageReceived: HistoryFold._received,
    peer.DuplicateSuppressed: HistoryFold._duplicate,
    peer.ContextTokenSeen: HistoryFold._token_seen,
    peer.ContextTokenDropped: HistoryFold._token_dropped,
    peer.AccessRefused: HistoryFold._refused,
    peer.SessionReset: HistoryFold._reset,
    peer.OperatorActed: HistoryFold._acted,
    peer.TurnStarted: HistoryFold._started,
    peer.TurnHandedOver: HistoryFold._handed_over,
    peer.TurnCompleted: HistoryFold._completed,
    peer.TurnFailed: HistoryFold._failed,
    peer.TurnCancelled: HistoryFold._cancelled,
}
"""What each event adds beside the fates."""
