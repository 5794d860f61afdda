"""What became of things, as a history tells it: outputs, requests, messages, turns and reply handles of one peer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from events.base import Carried, Kind, Millis, Origin, Part, SendClass
from events.peer import ChargeNote

Fate = Literal["queued", "requested", "delivered", "unconfirmed", "unknown", "skipped", "dropped", "erased"]
"""Where an accepted output is. `delivered` may be cut: its `delivered_bytes` tell. An answer that went in several parts has the
fate of its least certain part once nothing of it waits."""

FATES: tuple[str, ...] = get_args(Fate)

Result = Literal["open", "confirmed", "unconfirmed", "unknown", "refused", "not_sent"]
"""What is known of a request. `refused` and `not_sent` are free unless the channel says otherwise."""

RESULTS: tuple[str, ...] = get_args(Result)


class Wait(Part, frozen=True, kw_only=True):
    """An output begins to wait, or to wait again."""

    at: Millis
    why: str  # accepted, refused, not_sent, retry, more


class OutputStory(Part, frozen=True, kw_only=True):
    """One output from its acceptance on."""

    output: str
    turn_id: str
    origin: Origin
    lane: Literal["answer", "push"]
    body: str
    total: int  # bytes of its text
    accepted_at: Millis
    position: int  # of the event that accepted it
    fate: Fate
    reason: str  # why it was skipped, dropped or erased; "" otherwise
    at: Millis  # since when it has this fate
    delivered_bytes: int = 0  # bytes of its text in confirmed parts
    requests: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    body_erased_at: Millis | None = None

    @property
    def cut(self) -> bool:
        """Whether only a part of it was delivered."""
        return self.fate == "delivered" and self.delivered_bytes < self.total


class RequestStory(Part, frozen=True, kw_only=True):
    """One request and what became of it."""

    request: str
    kind: Kind
    at: Millis
    position: int
    epoch: int
    cause: str
    part: int
    parts: int
    carried: tuple[Carried, ...]
    left_out: tuple[str, ...]
    total: int  # bytes of the rendered text
    body: str
    client_id: str
    token: str  # body of the token it used
    login: int
    policy: str
    charge: ChargeNote
    lifted: str  # in observe mode: the limit that would have made it wait
    notice: str = ""  # which notice it is, "" = none, or not recorded
    result: Result = "open"
    charged: bool = True
    outcome_at: Millis | None = None  # when the outcome was recorded
    outcome_epoch: int = 0  # under which epoch it was; later than `epoch` when another start closed the request
    settled_at: Millis | None = None  # from when on its charge runs out
    message_id: str = ""
    failure: SendClass | None = None
    code: int = 0
    reason: str = ""  # of an unknown
    resolved_by: str = ""  # who, or what, told what became of an unknown one
    fallbacks: tuple[str, ...] = ()

    @property
    def share_counted(self) -> bool:
        """Whether it spends the share of pushes."""
        return self.charged and self.kind == "push"


class MessageStory(Part, frozen=True, kw_only=True):
    """One message of the peer."""

    message: str
    at: Millis
    position: int
    sent_at: Millis
    not_before: Millis  # the earliest instant at which the server can have received it
    total: int
    body: str
    window: int  # number of the window it opened
    generation: int
    token: str = ""  # body of the reply handle it brought
    turn_id: str = ""
    command: str = ""  # what it asked of the gateway itself: reset, cancel, more, help
    refused: str = ""  # why the peer may not talk to the bot
    duplicates: tuple[Millis, ...] = ()  # when the channel delivered it again, as far as its creation time tells


class TurnStory(Part, frozen=True, kw_only=True):
    """One run of an agent, as this peer saw it."""

    turn_id: str
    origin: Origin
    session: str
    at: Millis  # when it started, or ended if its start was not ours
    position: int
    message: str = ""
    agents: tuple[tuple[Millis, str], ...] = ()  # (when, to which agent) it was handed
    status: Literal["open", "completed", "degraded", "failed", "cancelled"] = "open"
    ended_at: Millis | None = None
    output: str = ""
    who: str = ""  # who cancelled it
    ended_by: str = ""  # the agent whose ending counted, as far as the log knows


class TokenStory(Part, frozen=True, kw_only=True):
    """One reply handle, by its body's id."""

    body: str
    message: str
    seen_at: Millis
    generation: int
    dropped_at: Millis | None = None
    reason: str = ""


class History(Part, frozen=True, kw_only=True):
    """Everything that a peer's stream says, by id, each in the order in which it first happened."""

    outputs: Mapping[str, OutputStory]
    requests: Mapping[str, RequestStory]
    messages: Mapping[str, MessageStory]
    turns: Mapping[str, TurnStory]
    tokens: Mapping[str, TokenStory]
    duplicates: tuple[Millis, ...] = ()
