"""One account's life in this process: what its bot and its peers share. Everything here belongs to the actors' one thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from actors.access import admits
from actors.agenda import Agenda
from actors.deciding.commands import Advance
from actors.deciding.view import BotView, Over, Reason
from actors.logport import LogPort
from actors.ports import Outlet
from actors.runtime.directory import Directory
from actors.runtime.errors import MailboxFull
from actors.runtime.futures import FutureLike
from actors.runtime.scheduler import Scheduler
from events.base import Millis, Recorded
from events.bot import BotState, paused_until
from events.peer_state import OpenTurn, PeerState
from events.streams import Address, peer_stream

logger = logging.getLogger("replyledger.account")

PSEUDONYM_BYTES = 16
FULL_RETRY_MS = 1_000
"""How long after a peer's mailbox was full it is woken again."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An open turn that an agent is to take."""

    stream: str
    address: str
    turn: OpenTurn


class Hub(Protocol):
    """The agents, as peers see them."""

    @property
    def agents(self) -> int:
        """How many are connected."""
        ...

    def offer(self, offer: Offer) -> None:
        """Let an agent have the turn; the same turn again changes nothing."""
        ...

    def withdraw(self, turn_id: str, reason: Over) -> None:
        """The turn is over; tell the agent that has it."""
        ...

    def reset(self, stream: str, session: str, resets: int) -> None:
        """The session begins anew."""
        ...


OnChange = Callable[[str, tuple[Recorded, ...], PeerState], None]
"""(stream, events, state): a peer's state after these events of its stream."""


class Account:
    """What a bot and its peers share: names, the view, the ways to the log, the outlet, the agents and each other."""

    def __init__(
        self,
        address: Address,
        *,
        scheduler: Scheduler,
        log: LogPort,
        hub: Hub,
        view: BotView,
        access: tuple[str, ...] = ("owner",),
    ) -> None:
        self.address, self.scheduler, self.log, self.hub = address, scheduler, log, hub
        self.view = view
        self.access = access
        self.shut = True  # the channel is not open: nobody may try to send, whatever the log says of the login
        self.owner = ""  # the channel's id of the person who logged in
        self.state = BotState()  # the bot's, for its peers to look at
        self.cursor_kept_at: Millis = 0  # when the log last heard of the cursor
        self.waiting: set[str] = set()  # streams in which something waits
        self.blocked: dict[str, Reason] = {}  # what keeps each waiting stream from sending
        self.outlet: Outlet | None = None
        self.peers: Directory  # set by whoever builds the account
        self.agenda = Agenda(scheduler, self._wake)
        self.share_warnings = 0
        self._warned: set[str] = set()  # streams whose pushes a spent share holds
        self.fenced = False
        self.on_fenced: Callable[[], None] = lambda: None
        self.on_change: OnChange = lambda _stream, _recorded, _state: None
        self.logged_in = False  # whether somebody is: whose login it is keeps the address
        self._streams: dict[str, str] = {}  # peer id -> stream
        self._peers: dict[str, str] = {}  # stream -> peer id
        self._leaving: set[str] = set()  # streams whose address the log is about to forget

    def know(self, stream: str, peer: str) -> None:
        """Remember a peer's pseudonym."""
        self._streams[peer] = stream
        self._peers[stream] = peer

    def leaves(self, stream: str) -> None:
        """The log is asked to forget the address of a stream."""
        self._leaving.add(stream)

    def stays(self, stream: str) -> None:
        """The log did not forget it, or has it again: a poll that was on its way to the log meanwhile brought a message."""
        self._leaving.discard(stream)

    def left(self, stream: str) -> None:
        """The log has forgotten the address, unless it has it again: whoever was behind the stream is a new peer from now on."""
        if stream in self._leaving:
            self._leaving.discard(stream)
            self._streams.pop(self._peers.pop(stream, ""), None)

    def stream_of(self, peer: str) -> str:
        """The stream of a peer; a new pseudonym for a new peer."""
        stream = self._streams.get(peer)
        if stream is None:
            stream = peer_stream(self.scheduler.ids.token(PSEUDONYM_BYTES))
            self.know(stream, peer)
        return stream

    def known(self, peer: str) -> str | None:
        """The stream of a peer, None if it has none."""
        return self._streams.get(peer)

    def has(self, stream: str) -> bool:
        """Whether a stream is one of this account's peers."""
        return stream in self._peers

    def peer_of(self, stream: str) -> str:
        """The channel's id of a stream's peer, "" if its address was forgotten."""
        return self._peers.get(stream, "")

    def address_of(self, stream: str) -> str:
        """A stream's address as people write it; the stream itself once its address was forgotten."""
        if stream not in self._peers:
            return stream
        return str(Address(self.address.channel, self.address.account, self.peer_of(stream)))

    def known_peers(self) -> tuple[tuple[str, str], ...]:
        """(peer, stream) of every known peer."""
        return tuple(self._streams.items())

    def view_of(self, stream: str, now: Millis) -> BotView:
        """The view for one peer."""
        allowed = self.allows(self.peer_of(stream))
        until = paused_until(self.state, stream, now) if self.state.paused else 0
        agents = self.hub.agents
        pinned = self.logged_in and self.peer_of(stream) == self.owner != ""
        view = self.view
        if allowed == view.allowed and until == view.paused_until and agents == view.agents and pinned == view.pinned:
            return view
        pairing = "pairing" in self.access
        return msgspec.structs.replace(
            view, allowed=allowed, pairing=pairing, paused_until=until, agents=agents, pinned=pinned
        )

    def allows(self, peer: str) -> bool:
        """Whether the configuration lets this peer talk to the bot."""
        return admits(self.access, peer, self.owner)

    def admit(self, access: tuple[str, ...]) -> None:
        """The configuration names others who may talk to the bot; what they said is looked at now."""
        before, self.access = {stream for peer, stream in self.known_peers() if self.allows(peer)}, access
        now = self.scheduler.clock.now()
        for peer, stream in self.known_peers():
            if self.allows(peer) and stream not in before:
                self.agenda.set(stream, now)

    def learn(self, state: BotState) -> None:
        """The bot's state changed; so does what its peers see. Never the epoch: it is the one that was claimed, and a newer one in
        the log is somebody else's."""
        self.state = state
        self.view = msgspec.structs.replace(
            self.view,
            generation=state.generation,
            login_lost=self.shut or state.login_lost is not None,
            policy=state.policy,
            policy_id=state.policy_id,
        )

    def shut_off(self) -> None:
        """The channel is closed, or about to be: nobody may try to send until it is open again."""
        self.shut = True
        self.view = msgspec.structs.replace(self.view, login_lost=True)

    def agents_changed(self) -> None:
        """An agent came or went."""
        if self.hub.agents == 0:
            self.view = msgspec.structs.replace(self.view, agentless_since=self.scheduler.clock.now())
        self.wake_all()

    def note_block(self, stream: str, reason: Reason | None, *, pushes_wait: bool) -> None:
        """What keeps a peer from sending, None = nothing. Pushes that a spent share holds are warned of once: until one of them
        leaves, or none waits any more, whatever else is sent meanwhile."""
        if reason is None:
            self.blocked.pop(stream, None)
        else:
            self.blocked[stream] = reason
        if not pushes_wait:
            self._warned.discard(stream)
        elif reason == "share_spent" and stream not in self._warned:
            self._warned.add(stream)
            self.share_warnings += 1
            logger.warning("%s: the share of pushes of %s is spent; outputs wait", self.address, stream)

    def wake_all(self) -> None:
        """Something changed for every peer that waits."""
        now = self.scheduler.clock.now()
        for stream in self.waiting:
            self.agenda.set(stream, now)

    def later(self, wait_ms: int) -> FutureLike:
        """A future that is done after `wait_ms`."""
        future = self.scheduler.future()
        self.scheduler.call_at(self.scheduler.clock.now() + wait_ms, lambda: future.set_result(None))
        return future

    def fence_off(self) -> None:
        """A newer instance has the account: nothing is decided or sent here any more."""
        if not self.fenced:
            self.fenced = True
            self.agenda.close()
            self.on_fenced()

    def _wake(self, stream: str) -> None:
        try:
            self.peers.tell(stream, Advance())
        except MailboxFull:  # whatever it does first, it looks what is due after it
            self.agenda.set(stream, self.scheduler.clock.now() + FULL_RETRY_MS)
