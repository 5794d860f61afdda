"""What the deciders ask of the world, and what they get: channel-neutral structs and the ports of a channel.

A channel is one folder below `actors/channels/`. Its inlet turns the wire into `Inbound`, its outlet turns a `SendOrder` into bytes and the
answer into an `Outcome`. Everything else (log, quota, order, fence) is the same for all channels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from actors.runtime.clock import Clock, Ids
from events.base import Millis, SendClass
from events.bot import Policy

LISTEN_MS = 60_000
"""How long after the client's timeout a send may still arrive, because its connection is kept open or its bytes are under way: the
charge of an unknown one runs from then on."""


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a peer, as the channel gave it."""

    peer: str  # the channel's id of the peer, case kept
    message_id: str = ""  # the channel's id, "" if it gave none
    sent_at: Millis = 0  # the channel's creation time, 0 if it gave none
    text: str = ""  # cleaned; for what is not text a readable stand-in such as "[image]"
    token: str = ""  # the reply handle it brought
    contents: tuple[str, ...] = ("text",)  # text, image, voice, file, video, unknown
    media: tuple[str, ...] = ()  # JSON of each medium's keys
    quote: str = ""  # the channel's id of the message it quotes
    name: str = ""  # how the peer is called, if the channel says


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """What one successful poll brought, and the cursor after it."""

    messages: tuple[Inbound, ...]
    cursor: str
    started_at: Millis
    ended_at: Millis  # when its answer was read, or the last moment before that for which anything proves that it was not there yet
    ahead_ms: int | None = None  # how far the channel's clock is ahead of ours, at most (ms); None = nobody knows


class LoginGone(msgspec.Struct, frozen=True, kw_only=True):
    """The channel said that the login is lost."""

    code: int
    where: str  # poll, send or config


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a login left behind. Never logged; kept in `STATE_DIR/accounts/ACCOUNT.json`, mode 0600."""

    token: str
    base_url: str
    user_id: str  # the person who logged in
    bot_id: str = ""


class SendOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One part to send. Its request is durable already."""

    request: str
    stream: str
    peer: str
    text: str
    token: str  # "" if the channel has none
    client_id: str
    leave_by: Millis  # by the boot clock (`Clock.monotonic`): after it the bytes must not leave any more
    target: str = ""
    quote: str = ""  # the channel's id of the message to quote, where the channel can
    media: tuple[str, ...] = ()


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The channel took it. Without a message id nothing proves that it will be shown."""

    message_id: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The channel refused it, or it provably never left."""

    failure: SendClass
    code: int = 0
    error: str = ""  # the raw answer, tokens redacted, for the operator; never for the log files


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody can say whether it arrived. `settled_at`: the latest instant (ms) at which it can have."""

    reason: str  # timeout, connection_lost, server_error
    settled_at: Millis


Outcome = Accepted | Refused | Unknown


class Fence(Protocol):
    """Whether this instance still owns the account."""

    async def confirm(self) -> None:
        """Return if the account is ours by a check no older than 250 ms; raise store.errors.Fenced otherwise."""
        ...


class Inlet(Protocol):
    """An account's way in."""

    async def run(
        self, deliver: Callable[[Polled], Awaitable[None]], lost: Callable[[LoginGone], Awaitable[None]], cursor: str
    ) -> None:
        """Poll until cancelled, from `cursor` on. Each poll's yield is awaited in `deliver` (durable) before the next poll begins.
        Calls `lost` and returns when the login is gone; raises Fenced when the account is not ours any more."""
        ...


class Outlet(Protocol):
    """An account's one way out: paces, sends, reports outcomes. Nothing else can send."""

    def earliest(self, stream: str, now: Millis, *, keep: bool = True) -> Millis:
        """When this peer may take the next place in the account's pace; `now` if at once. Keeps the place until shortly after that
        time, unless somebody only wants to know (`keep` false)."""
        ...

    def send(self, order: SendOrder) -> None:
        """Begin to send. `report(order.stream, order.request, outcome)` follows exactly once, and once more if an unknown turns out later.
        Checks the fence and `order.leave_by` right before the bytes leave."""
        ...

    def holds(self, request: str) -> bool:
        """Whether a request is in flight here, or its outcome has been reported and not `settled`."""
        ...

    def settled(self, request: str) -> None:
        """The outcome is durable; forget the request."""
        ...

    def typing(self, peer: str, token: str, on: bool) -> None:
        """Show or hide the typing sign, where the channel has one. Best effort; never a send's outcome."""
        ...

    async def close(self) -> None:
        """Wait (bounded) for what is in flight, then let go of the network."""
        ...


Report = Callable[[str, str, Outcome], None]
"""(stream, request, outcome): how an outlet tells a peer what became of a send."""


class Logins(Protocol):
    """Where an account's login is kept."""

    def read(self) -> Credentials | None:
        """The login, None while nobody has logged in. Raises LoginUnreadable."""
        ...

    def forget(self) -> None:
        """Log out."""
        ...


class Link(Protocol):
    """A channel's two ways, as its `open_link` returns them."""

    @property
    def inlet(self) -> Inlet: ...  # noqa: D102 (see class)

    @property
    def outlet(self) -> Outlet: ...  # noqa: D102 (see class)


class OpenLink(Protocol):
    """How a channel is opened; each channel folder offers one."""

    def __call__(  # noqa: D102 (see class)
        self,
        credentials: Credentials,
        *,
        account: str,
        fence: Fence,
        clock: Clock,
        ids: Ids,
        policy: Callable[[], Policy],
        report: Report,
        on_lost: Callable[[LoginGone], None],
        on_fenced: Callable[[], None],
        typing: bool,
    ) -> Link: ...
