"""What the gateway answers: the structs of every HTTP answer. Times are ms since the epoch; `None` = not known, or never by itself."""

from __future__ import annotations

from typing import Literal

import msgspec

from events.backlog import Fate
from events.base import Kind, Millis, Origin

State = Literal["queued", "requested", "delivered", "unconfirmed", "unknown", "skipped", "dropped", "erased"]
"""In exactly one of these is every accepted output."""

FINAL: frozenset[State] = frozenset(("delivered", "unconfirmed", "unknown", "skipped", "dropped", "erased"))
"""The states in which an output waits no more. (`unknown` may still be resolved.)"""

Lane = Literal["remainder", "answer", "push"]
"""What leaves before what, first to last."""

AccountState = Literal["starting", "running", "stopped", "login_needed", "login_lost", "fenced", "failed"]

Access = Literal["owner", "granted", "pending", "refused"]
"""Whether a peer may talk to the bot: `pending` waits for `access grant`."""

RequestOutcome = Literal["open", "confirmed", "unconfirmed", "unknown", "refused", "not_sent"]
"""What is known of a request. The last two are free, the others charged."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the answers. Keys are always all there, so that scripts can rely on them."""


class QuotaView(View, frozen=True, kw_only=True):
    """The current window of a peer: replies left of its quota, when we stop counting on it (None = no window is open), and how many of
    those that are spent were asked for before the message that opened it, since the channel may count them here."""

    left: int
    of: int
    ends_at: Millis | None = None
    carried: int = 0


class ShareView(View, frozen=True, kw_only=True):
    """Push replies used of the share, and when the next one frees (None = nothing is used, or only an outcome can tell)."""

    used: int
    of: int
    rolls_at: Millis | None = None


class DeliveryView(View, frozen=True, kw_only=True):
    """A turn's output on its way to one peer. `earliest`: None while only a new fact, such as a message, can free it."""

    delivery: str
    turn_id: str
    peer: str  # its address
    state: State
    reason: str  # one plain sentence
    earliest: Millis | None
    quota: QuotaView
    share: ShareView
    not_taken: str = (
        ""  # why the text of this offer counts for nothing, in one sentence; "" = it was taken, or it is the same
    )


class TurnAccepted(View, frozen=True, kw_only=True):
    """A turn is durable: one delivery for each peer. `repeated`: all of them were accepted before."""

    turn_id: str
    deliveries: tuple[DeliveryView, ...]
    now: Millis  # by the gateway's clock, to compare `earliest` with
    repeated: bool = False


class Forecast(View, frozen=True, kw_only=True):
    """What would become of a turn for one peer, if it were offered now."""

    peer: str
    would: Literal["send", "wait", "skip", "refuse"]
    reason: str
    earliest: Millis | None
    replies: int  # that it would spend, together with what would leave with it
    quota_before: QuotaView
    quota_after: QuotaView
    share_before: ShareView
    share_after: ShareView
    drops: tuple[str, ...] = ()  # deliveries that would fall out of the backlog
    drop_turn_ids: tuple[str, ...] = ()  # the turn of each


class DryRun(View, frozen=True, kw_only=True):
    """The forecast of a turn. Nothing was accepted."""

    forecasts: tuple[Forecast, ...]


class Receipt(View, frozen=True, kw_only=True):
    """What is known of one delivery."""

    delivery: str
    turn_id: str
    peer: str
    state: State
    reason: str
    earliest: Millis | None
    message_ids: tuple[str, ...]  # of the channel, one for each part it confirmed
    origin: Origin
    bytes: int  # of the text
    delivered_bytes: int  # of them that arrived; fewer than `bytes` = cut
    accepted_at: Millis
    settled_at: Millis | None  # when it reached its state, None while it waits
    quota: QuotaView
    share: ShareView


Address = Literal["kept", "gone", "until", "outcome", "login"]
"""What becomes of an address: nothing · it is gone · it goes at a time · it goes a while after the outcome of what is on its way · it goes
after the logout, for the login is the peer's."""


class PeerView(View, frozen=True, kw_only=True):
    """A peer, its room and what waits for it."""

    peer: str
    stream: str  # its pseudonym, by which the gateway's own log lines name it
    name: str
    access: Access
    session: str  # "" = bound to none
    quota: QuotaView
    share: ShareView
    token: bool  # whether a reply handle is there, where the channel has any
    waiting: int  # outputs of all lanes
    dead: int  # outputs that can be listed by `dead list`
    open_request: str  # the request in flight, or ""
    open_turn: str  # the turn that an agent has to answer, or ""
    agent: str  # which agent has that turn, "" = none
    paused_until: Millis | None  # 0 = not paused, None = until resumed
    reason: str  # why what waits does, "" if nothing does
    earliest: Millis | None
    last_message_at: Millis | None
    last_send_at: Millis | None
    erased_at: Millis | None = None  # when everything of before was erased; None = never, or the peer has written since
    address: Address = "kept"  # what becomes of its address
    address_until: Millis | None = None  # for `until`


class WaitingView(View, frozen=True, kw_only=True):
    """An output that waits."""

    delivery: str
    peer: str
    lane: Lane
    state: Literal["queued", "requested"]
    turn_id: str
    origin: Origin
    bytes: int
    start: int  # bytes of it that are settled already
    accepted_at: Millis
    expires_at: Millis | None  # None = never by age
    reason: str
    earliest: Millis | None


class BacklogView(View, frozen=True, kw_only=True):
    """What waits for one peer, in the order in which it leaves, and the one fact that blocks it."""

    peer: str
    reason: str
    earliest: Millis | None
    quota: QuotaView
    share: ShareView
    waiting: tuple[WaitingView, ...]


class WaitingShown(View, frozen=True, kw_only=True):
    """An output that waits, with its text; None = erased."""

    output: WaitingView
    text: str | None


class DeadView(View, frozen=True, kw_only=True):
    """An output that waits no more and did not wholly arrive."""

    delivery: str
    peer: str
    fate: Fate
    reason: str
    at: Millis
    turn_id: str
    origin: Origin
    bytes: int
    start: int  # bytes before it were settled
    request: str  # that ended it, or ""
    retrievable: bool  # whether its text is still there


class DeadShown(View, frozen=True, kw_only=True):
    """A dead output with its text; None = erased."""

    output: DeadView
    text: str | None


class Gone(View, frozen=True, kw_only=True):
    """The deliveries that were dropped or discarded, and the turn of each."""

    deliveries: tuple[str, ...]
    turn_ids: tuple[str, ...]


class Erased(View, frozen=True, kw_only=True):
    """What was erased, and what stays. Counts of texts that were there; a repetition finds fewer."""

    peer: str  # its address, also when that is gone now
    stream: str  # its name in the log, under which what was spent stays
    addresses: tuple[str, ...]  # every way to write its address
    turn_id: str  # of the one delivery that was erased, "" = of a peer
    deliveries: tuple[str, ...]  # that waited, and were dropped
    texts: int  # messages, outputs, and what was sent
    tokens: int  # reply handles
    media: int  # keys of pictures and files
    errors: int  # raw answers of the channel
    messages: int  # that waited for an agent
    turn: str  # that was open, and was cancelled
    session: str  # that the peer was bound to
    session_alone: bool  # whether nobody else is
    in_flight: str  # the request that is on its way, and may still arrive
    requests: int  # of the peer in the ledger: they stay
    address: Address
    address_until: Millis | None  # for `until`
    files_clean: bool  # whether the log's files hold none of it; False while somebody reads, and tried again every hour


class LedgerRow(View, frozen=True, kw_only=True):
    """One request with its charge and outcome."""

    position: int  # of its SendRequested in the log
    at: Millis
    peer: str
    kind: Kind
    turn_ids: tuple[str, ...]
    part: int
    parts: int
    window_opened_by: str  # id of the message that opened it
    slot: int
    slots: int
    share: int  # 0 = not a push
    shares: int
    epoch: int
    instance: str
    request: str
    client_id: str
    message_id: str
    outcome: RequestOutcome
    charged: bool
    bytes: int
    carried: int | None  # of the slots up to this one, from before the message; None = an older program did not say


class LedgerPage(View, frozen=True, kw_only=True):
    """Rows in commit order; `next` is the `after` of the following page, None at the end."""

    rows: tuple[LedgerRow, ...]
    next: int | None


class Bound(View, frozen=True, kw_only=True):
    """A peer's session now and before; "" = none."""

    peer: str
    session: str
    was: str


class Paused(View, frozen=True, kw_only=True):
    """A scope (account or peer) and until when it is paused: 0 = not, None = until resumed."""

    scope: str
    until: Millis | None


class AccountView(View, frozen=True, kw_only=True):
    """An account and its bot."""

    account: str  # CHANNEL:ACCOUNT
    state: AccountState
    reason: str  # "" when it runs
    epoch: int
    instance: str
    generation: int  # of the login, 0 = never logged in
    owner: str  # address of the person who logged in, or ""
    credentials: str  # fingerprint, never the secret
    mode: Literal["enforce", "observe"]
    paused_until: Millis | None  # 0 = not paused
    peers: int
    waiting: int  # peers for whom something waits: an output, or a message that has no answer yet
    last_poll_at: Millis | None


class AgentView(View, frozen=True, kw_only=True):
    """A connected agent."""

    agent: str
    protocol: str
    connected_at: Millis
    open_turns: int


class SpooledView(View, frozen=True, kw_only=True):
    """A file of the spool that is not in the log."""

    file: str
    state: Literal["waiting", "refused"]  # refused: set aside, and not offered again by itself
    reason: str
    turn_id: str  # "" where the file does not tell
    to: str  # the address, or the session, "" where the file does not tell


class SpoolView(View, frozen=True, kw_only=True):
    """The spool at a glance."""

    waiting: int
    refused: int
    files: tuple[SpooledView, ...]  # refused ones first, 100 of each at most


EMPTY_SPOOL = SpoolView(waiting=0, refused=0, files=())


class StatusView(View, frozen=True, kw_only=True):
    """The gateway at a glance."""

    version: str
    instance: str
    now: Millis
    started_at: Millis
    ready: bool
    reasons: tuple[str, ...]  # why it is not ready, or not whole
    accounts: tuple[AccountView, ...]
    agents: tuple[AgentView, ...]
    peers: int
    waiting: int
    dead: int
    unknown: int  # requests of which nobody can say whether they arrived
    position: int  # of the log
    simulated: bool  # whether its clock is a simulated one
    spool: SpoolView  # what `send --spool` left


class HealthView(View, frozen=True, kw_only=True):
    """The process lives and its loop turns."""

    ok: bool
    version: str
    instance: str


class ReadyView(View, frozen=True, kw_only=True):
    """Whether every account can do its work, and why not."""

    ready: bool
    reasons: tuple[str, ...]
