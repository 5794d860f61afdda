"""The events of a peer: what was said, what agents made of it, what was sent and what is known of it."""

from __future__ import annotations

from typing import Literal

from events.backlog import Output
from events.base import Carried, Event, Kind, Millis, Origin, Part, SendClass, Status


class ChargeNote(Part, frozen=True, kw_only=True):
    """What a request was charged as, for the ledger: slot k of n of a window, and for a push share k of n."""

    window: int  # the window's number
    opened_by: str  # the message that opened it
    slot: int
    slots: int
    share: int = 0
    shares: int = 0
    carried: int | None = (
        None  # of the slots up to this one, from before the message; None = written by an older program
    )


class MessageReceived(Event, frozen=True, kw_only=True, tag="message_received"):
    """A peer wrote. `not_before`: the earliest instant at which the server can have received it, as an earlier poll that ended
    without it or its creation time tells; requests settled since then are carried into the window that the message opens."""

    message: str
    body: str
    total: int  # bytes of its text
    sent_at: Millis  # the channel's creation time, 0 if it gave none
    not_before: Millis
    generation: int
    contents: tuple[str, ...] = ("text",)
    media: tuple[str, ...] = ()  # bodies that hold media keys
    quote: str = ""  # the channel's id of the message it quotes
    digest: str = ""  # fingerprint of its text; "" = written before texts had one
    media_digests: tuple[str, ...] = ()  # of each of `media`


class DuplicateSuppressed(Event, frozen=True, kw_only=True, tag="duplicate_suppressed"):
    """The channel delivered a message again. It opens no window and starts no turn."""

    reason: Literal["same_id", "same_content"]
    body: str
    sent_at: Millis
    digest: str = ""  # fingerprint of its text


class ContextTokenSeen(Event, frozen=True, kw_only=True, tag="context_token_seen"):
    """A message brought a reply handle; the newest one counts."""

    message: str
    body: str
    generation: int


class ContextTokenDropped(Event, frozen=True, kw_only=True, tag="context_token_dropped"):
    """The channel refused the token; the next message brings another."""

    body: str
    reason: str


class SessionBound(Event, frozen=True, kw_only=True, tag="session_bound"):
    """The peer's messages go to this session, and the session's turns to the peer."""

    session: str
    who: str = ""


class SessionUnbound(Event, frozen=True, kw_only=True, tag="session_unbound"):
    """The peer leaves its session."""

    session: str
    who: str = ""


class SessionReset(Event, frozen=True, kw_only=True, tag="session_reset"):
    """The agent shall begin anew in the peer's session. Drops nothing that is queued."""

    who: str = ""
    message: str = ""


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    """A peer's message became a turn; durable before it leaves for an agent."""

    turn_id: str
    message: str
    session: str = ""
    origin: Origin = "inbound"


class TurnHandedOver(Event, frozen=True, kw_only=True, tag="turn_handed_over"):
    """The open turn goes to this agent."""

    turn_id: str
    agent: str


class TurnCompleted(Event, frozen=True, kw_only=True, tag="turn_completed"):
    """An agent's turn ended with this text, which is the output of the delivery."""

    turn_id: str
    output: str
    origin: Origin
    body: str
    total: int  # bytes of the text
    status: Status = "completed"
    session: str = ""
    quote: str = ""  # from a reply_to directive
    agent: str = ""  # who ended a turn that a message started, "" = nobody said (HTTP, or an older log)
    digest: str = ""  # fingerprint of the text; "" = written before texts had one, or no text


class TurnFailed(Event, frozen=True, kw_only=True, tag="turn_failed"):
    """An agent's turn failed."""

    turn_id: str
    output: str
    origin: Origin
    session: str = ""
    error: str = ""  # a body
    agent: str = ""  # as in TurnCompleted
    digest: str = ""  # fingerprint of `error`


class TurnCancelled(Event, frozen=True, kw_only=True, tag="turn_cancelled"):
    """The open turn was ended before the agent was done."""

    turn_id: str
    who: str = ""
    message: str = ""


class OutputSkipped(Event, frozen=True, kw_only=True, tag="output_skipped"):
    """An output that will not be sent: `blank`, `failed`, `origin_excluded`."""

    output: Output
    reason: str


class OutputDropped(Event, frozen=True, kw_only=True, tag="output_dropped"):
    """An output, or the rest of one from `output.start` on, that waits no more: `backlog_full`, `expired`, `merged_out`,
    `beyond_parts`, `remainder_expired`, `set_aside`, `operator`, `no_share`, `erased`."""

    output: Output
    reason: str


class SendRequested(Event, frozen=True, kw_only=True, tag="send_requested"):
    """The durable intent to send one part. Whole in itself: nothing is ever rendered again to verify it."""

    request: str
    kind: Kind
    body: str  # the rendered text
    total: int  # bytes of the rendered text
    digest: str  # fingerprint of the rendered text, keyed by the salt of its body as all of them are
    client_id: str
    login: int  # login generation
    token: str = ""  # body of the context token it uses
    policy: str  # policy id
    charge: ChargeNote
    carried: tuple[Carried, ...] = ()
    left_out: tuple[str, ...] = ()  # outputs that did not fit beside
    part: int = 1
    parts: int = 1
    remainder: bool = False  # the rest of an answer to an earlier message
    op: Literal["send"] = "send"
    target: str = ""  # a place inside the peer, such as a thread
    quote: str = ""  # our id of the message it answers, where the channel can quote
    media: tuple[str, ...] = ()
    lifted: str = ""  # in observe mode: the limit that would have made it wait
    notice: str = ""  # which notice it is; "" = it is none, or nobody wrote it down: any of those counts as TURN_WAITS


class SendSucceeded(Event, frozen=True, kw_only=True, tag="send_succeeded"):
    """The channel accepted a part. Without a message id it is unconfirmed: charged, and not claimed as delivered."""

    request: str
    message_id: str = ""


class SendFailed(Event, frozen=True, kw_only=True, tag="send_failed"):
    """The channel refused a part, or it provably never left. Free unless `charged`."""

    request: str
    failure: SendClass
    code: int = 0  # the channel's code, or the HTTP status
    charged: bool = False
    retry_at: Millis = 0  # when it may be tried again without a new reason; 0 = only for one
    error: str = ""  # body of the raw answer
    digest: str = ""  # fingerprint of `error`


class SendUnknown(Event, frozen=True, kw_only=True, tag="send_unknown"):
    """Nobody can say whether a part arrived. Charged, and not sent again."""

    request: str
    settled_at: Millis  # the latest instant at which its bytes can have arrived
    reason: str  # timeout, connection_lost, server_error, stopped


class UnknownResolved(Event, frozen=True, kw_only=True, tag="unknown_resolved"):
    """It became known what happened to an unknown part."""

    request: str
    delivered: bool
    message_id: str = ""
    who: str = ""


class FallbackUsed(Event, frozen=True, kw_only=True, tag="fallback_used"):
    """A part went out in a plainer form than was asked for, e.g. without its quote."""

    request: str
    what: str


class OperatorActed(Event, frozen=True, kw_only=True, tag="operator_acted"):
    """Somebody changed what waits. `retry` lets outputs wait again where they waited before, `more` gives the rest of them
    as an answer to `message`, `drop` is followed by OutputDropped for each, `discard` forgets them, `cancel` is a `message` that
    would have ended a turn, and found none open (logs of 0.1.0 have `flush` for it)."""

    who: str
    what: Literal["retry", "more", "drop", "discard", "flush", "cancel"]
    outputs: tuple[Output, ...] = ()
    message: str = ""


class AccessGranted(Event, frozen=True, kw_only=True, tag="access_granted"):
    """The peer may talk to the bot."""

    who: str


class AccessRefused(Event, frozen=True, kw_only=True, tag="access_refused"):
    """A message of a peer who may not talk to the bot went no further."""

    message: str
    reason: str


class BodyErased(Event, frozen=True, kw_only=True, tag="body_erased"):
    """Texts are gone; what the log says of them stays."""

    bodies: tuple[str, ...]
    reason: Literal["expired", "erased"]


class PeerErased(Event, frozen=True, kw_only=True, tag="peer_erased"):
    """Somebody asked that everything of the peer be erased. What waited is over, and every text, name and token of before goes.
    The address goes once no charge counts any more, unless the peer writes before that and so begins anew."""

    who: str


class AddressForgotten(Event, frozen=True, kw_only=True, tag="address_forgotten"):
    """Nothing ties the stream to anybody any more. Whoever was behind it, writing again, is a new peer."""


PeerEvent = (
    MessageReceived
    | DuplicateSuppressed
    | ContextTokenSeen
    | ContextTokenDropped
    | SessionBound
    | SessionUnbound
    | SessionReset
    | TurnStarted
    | TurnHandedOver
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
    | OutputSkipped
    | OutputDropped
    | SendRequested
    | SendSucceeded
    | SendFailed
    | SendUnknown
    | UnknownResolved
    | FallbackUsed
    | OperatorActed
    | AccessGranted
    | AccessRefused
    | BodyErased
    | PeerErased
    | AddressForgotten
)
