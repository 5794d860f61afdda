"""Who takes a turn: the agents that are connected, what they serve, and how much they have. Pure but for the links."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from actors.account import Offer
from actors.gateway.agent_wire import GatewayFrame, Hello
from actors.runtime.futures import FutureLike
from events.base import Millis


class Link(Protocol):
    """A connection to an agent, as the hub sees it. Neither method blocks or raises."""

    def send(self, frame: GatewayFrame) -> None:
        """Queue a frame; a link whose queue is full closes itself. Nothing happens on a closed one."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close after what is queued."""
        ...


class Seat:
    """One connection of an agent, from its hello to its end."""

    def __init__(self, link: Link, hello: Hello, at: Millis, protocol: str) -> None:
        self.link, self.hello, self.connected_at, self.protocol = link, hello, at, protocol
        self.holding: set[str] = set()  # ids of its turns in flight
        self.leaving = False  # it said goodbye
        self.own: FutureLike | None = None  # done when its last turn of its own has been accepted or refused

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.hello.agent

    @property
    def room(self) -> bool:
        """Whether it takes one more turn."""
        return not self.leaving and len(self.holding) < self.hello.max_turns

    def rank(self, offer: Offer) -> int | None:
        """How closely it serves a turn: 0 = its session, 1 = its account, 2 = it serves all; None = not at all."""
        if offer.turn.session and offer.turn.session in self.hello.sessions:
            return 0
        if self.serves_account(offer.address):
            return 1
        return None if self.hello.sessions or self.hello.accounts else 2

    def serves_account(self, address: str) -> bool:
        """Whether it named the account of an address."""
        channel, _, rest = address.partition(":")
        account = rest.partition(":")[0]
        return account in self.hello.accounts or f"{channel}:{account}" in self.hello.accounts

    def serves_session(self, session: str, address: str) -> bool:
        """Whether a session may be among those it has."""
        everything = not (self.hello.sessions or self.hello.accounts)
        return everything or session in self.hello.sessions or self.serves_account(address)


def pick(seats: Iterable[Seat], offer: Offer, last: str) -> Seat | None:
    """The agent for a turn: of those that serve it most closely the one that had the peer's last turn, else the least loaded.
    None while those have no room: a turn does not go to an agent that knows its session less."""
    ranked = [(rank, seat) for seat in seats if not seat.leaving and (rank := seat.rank(offer)) is not None]
    closest = min((rank for rank, _ in ranked), default=0)
    free = [seat for rank, seat in ranked if rank == closest and seat.room]
    return min(free, key=lambda seat: (seat.name != last, len(seat.holding), seat.name), default=None)
