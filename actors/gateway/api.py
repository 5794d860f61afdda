"""What can be asked of the gateway: the structs of every HTTP request, and the port that answers them.

The HTTP listener decodes, authenticates and limits; a `Gateway` decides. It refuses by raising the errors of
`actors.gateway.errors`, each of which is one HTTP answer. Texts that reach a `Gateway` are clean (`actors.text.clean`), and names are
names (`actors.text.names`), as they were given.
Times are ms since the epoch, durations ms.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec

from actors.gateway import views
from actors.gateway.strict import Text
from events.base import Kind, Millis, Status

WAIT_MS_MAX = 600_000
"""The longest that a request may wait for a delivery to settle."""

IDS_MAX = 100
"""How many ids one request may name."""

PAGE_MAX = 1_000
"""How many rows one page of the ledger may have."""

PAUSE_MS_MAX = 30 * 86_400_000
"""The longest pause that ends by itself."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
"""An address, an account, a session or the beginning of an id."""

NameOrNone = Annotated[str, msgspec.Meta(max_length=512)]
"""The same; "" = none is given."""

TurnId = Annotated[str, msgspec.Meta(max_length=256)]
"""What whoever offers a turn calls it."""

Who = Annotated[str, msgspec.Meta(max_length=128)]
"""Who asks, for the log."""

Ids = Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=IDS_MAX)]
TurnOrigin = Literal["inbound", "scheduled", "desktop", "api"]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the requests: unknown fields are refused."""


class TurnOffer(Request, frozen=True, kw_only=True):
    """A finished turn, for a peer (`to`, an address) or for each peer bound to a `session`: exactly one of the two.
    Without a `turn_id` the gateway gives one, and a repetition is then another turn; an empty one is refused over HTTP."""

    to: NameOrNone = ""
    session: NameOrNone = ""
    turn_id: TurnId = ""
    origin: TurnOrigin = "api"
    status: Status = "completed"
    text: Text = ""

    def __post_init__(self) -> None:
        """Refuse two targets, or none."""
        if bool(self.to) == bool(self.session):
            raise ValueError("give exactly one of `to` (an address) and `session`")


class LedgerQuery(Request, frozen=True, kw_only=True):
    """Which rows of the ledger; empty = all. `since` inclusive, `until` exclusive."""

    peer: NameOrNone = ""  # an address, or an account's
    since: Millis | None = None
    until: Millis | None = None
    kind: Kind | None = None
    outcome: views.RequestOutcome | None = None
    free: bool = False  # also requests that spent nothing
    after: Annotated[int, msgspec.Meta(ge=0)] = 0  # a position
    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = 100


class BindOrder(Request, frozen=True, kw_only=True):
    """Tie a peer to a session."""

    peer: Name
    session: Name
    who: Who = "http"


class UnbindOrder(Request, frozen=True, kw_only=True):
    """Let a peer leave its session."""

    peer: Name
    who: Who = "http"


class PauseOrder(Request, frozen=True, kw_only=True):
    """Stop sending for an account (`weixin:main`) or a peer's address; None = until resumed.
    For the person who logged in name the whole address, since the short one is the account."""

    scope: Name
    for_ms: Annotated[int, msgspec.Meta(ge=1, le=PAUSE_MS_MAX)] | None = None
    who: Who = "http"


class ResumeOrder(Request, frozen=True, kw_only=True):
    """Let sending go on for a scope."""

    scope: Name
    who: Who = "http"


class FlushOrder(Request, frozen=True, kw_only=True):
    """Try now what a peer's backlog waits for, where policy allows a try: what was set aside or held after a refusal."""

    peer: Name
    who: Who = "http"


class DropOrder(Request, frozen=True, kw_only=True):
    """Drop waiting outputs by id (or its beginning); they stay retrievable by `dead retry`."""

    deliveries: Ids
    who: Who = "http"


class RetryOrder(Request, frozen=True, kw_only=True):
    """Put dead outputs into the backlog again."""

    deliveries: Ids
    who: Who = "http"


class DiscardOrder(Request, frozen=True, kw_only=True):
    """Take dead outputs off the list for good."""

    deliveries: Ids
    who: Who = "http"


class AccountOrder(Request, frozen=True, kw_only=True):
    """Start, stop or restart an account's bot, or forget its login."""

    account: Name  # its name, or CHANNEL:ACCOUNT
    action: Literal["start", "stop", "restart", "logout"]
    who: Who = "http"


class AccessOrder(Request, frozen=True, kw_only=True):
    """Let a peer talk to the bot, or not."""

    peer: Name
    action: Literal["grant", "refuse"]
    who: Who = "http"


class EraseOrder(Request, frozen=True, kw_only=True):
    """Erase everything of a peer but what was spent, or all that tells of one delivery: exactly one of the two."""

    peer: NameOrNone = ""
    delivery: NameOrNone = ""
    who: Who = "http"

    def __post_init__(self) -> None:
        """Refuse two targets, or none."""
        if bool(self.peer) == bool(self.delivery):
            raise ValueError("give exactly one of `peer` and `delivery`")


class Gateway(Protocol):
    """Everything that a listener can ask. Each writing method returns after its facts are durable."""

    async def accept_turn(self, offer: TurnOffer, agent: str = "") -> views.TurnAccepted:
        """Accept a turn's output for its peers; `agent`: which connected agent offers it, "" = a caller of the HTTP API.
        Raises UnknownPeer, UnknownSession, TurnConflict, TurnHeld (the answer to a message, from an agent that never had it),
        NeverFits, TooLarge, Busy; then nothing was accepted, for any peer. Raises Partly where some of a session's peers have it."""
        ...

    async def dry_run(self, offer: TurnOffer) -> views.DryRun:
        """What would become of the turn now; the same refusals, nothing accepted."""
        ...

    async def delivery(self, delivery: str, wait_ms: int = 0) -> views.Receipt:
        """A delivery by its id or a unique beginning; with `wait_ms` once it is final, or after that time.
        Raises UnknownDelivery, AmbiguousId."""
        ...

    async def peers(self, account: str = "") -> tuple[views.PeerView, ...]:
        """The peers of an account (its name, or CHANNEL:ACCOUNT), "" = of all. Raises UnknownAccount."""
        ...

    async def peer(self, address: str) -> views.PeerView:
        """One peer. Raises UnknownPeer."""
        ...

    async def backlog(self, peer: str = "") -> tuple[views.BacklogView, ...]:
        """What waits, per peer that has something waiting; "" = all peers. Raises UnknownPeer."""
        ...

    async def waiting(self, delivery: str) -> views.WaitingShown:
        """A waiting output with its text. Raises UnknownDelivery, AmbiguousId, WrongState (it waits no more)."""
        ...

    async def flush(self, order: FlushOrder) -> views.BacklogView:
        """Try a peer's backlog now; never beyond quota, share or order. Raises UnknownPeer."""
        ...

    async def drop(self, order: DropOrder) -> views.Gone:
        """Drop waiting outputs, all or none. Raises UnknownDelivery, AmbiguousId, WrongState."""
        ...

    async def dead(self, peer: str = "") -> tuple[views.DeadView, ...]:
        """Dead outputs, newest first; "" = of all peers. Raises UnknownPeer."""
        ...

    async def dead_one(self, delivery: str) -> views.DeadShown:
        """A dead output with its text. Raises UnknownDelivery, AmbiguousId, WrongState."""
        ...

    async def retry(self, order: RetryOrder) -> tuple[views.DeliveryView, ...]:
        """Queue dead outputs again, all or none. Raises UnknownDelivery, AmbiguousId, WrongState (text erased, or it waits)."""
        ...

    async def discard(self, order: DiscardOrder) -> views.Gone:
        """Take dead outputs off the list, all or none. Raises UnknownDelivery, AmbiguousId, WrongState."""
        ...

    async def ledger(self, query: LedgerQuery) -> views.LedgerPage:
        """A page of the ledger. Raises UnknownPeer."""
        ...

    async def bind(self, order: BindOrder) -> views.Bound:
        """Bind a peer to a session. Raises UnknownPeer."""
        ...

    async def unbind(self, order: UnbindOrder) -> views.Bound:
        """Unbind a peer. Raises UnknownPeer."""
        ...

    async def pause(self, order: PauseOrder) -> views.Paused:
        """Pause an account or a peer. Raises UnknownPeer, UnknownAccount."""
        ...

    async def resume(self, order: ResumeOrder) -> views.Paused:
        """Resume an account or a peer. Raises UnknownPeer, UnknownAccount."""
        ...

    async def accounts(self) -> tuple[views.AccountView, ...]:
        """Every configured account."""
        ...

    async def account(self, order: AccountOrder) -> views.AccountView:
        """Start, stop, restart or log out. Raises UnknownAccount, WrongState."""
        ...

    async def access(self, order: AccessOrder) -> views.PeerView:
        """Grant or refuse access. Raises UnknownPeer."""
        ...

    async def erase(self, order: EraseOrder) -> views.Erased:
        """Erase; what was spent stays. Raises UnknownPeer, UnknownDelivery, AmbiguousId."""
        ...

    async def status(self) -> views.StatusView:
        """The gateway at a glance."""
        ...

    async def health(self) -> views.HealthView:
        """Liveness."""
        ...

    async def ready(self) -> views.ReadyView:
        """Readiness, with reasons."""
        ...
