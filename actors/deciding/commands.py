"""What peers are told. Imperative names; facts that are durable already come as `Facts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from actors.ports import Outcome
from events.base import Origin, Recorded, Status


class Facts(msgspec.Struct, frozen=True):
    """Events of this peer that somebody else appended, in order, and the texts of their bodies as far as at hand."""

    recorded: tuple[Recorded, ...]
    texts: Mapping[str, str] = {}


class Advance(msgspec.Struct, frozen=True):
    """Look what is due."""


class AcceptTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that no message of this peer started is over. `keys_value` goes under the turn's key unless it is taken."""

    turn_id: str
    origin: Origin
    status: Status
    text: str
    session: str = ""
    keys_value: str = ""  # "" = the key is there already


class FinishTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that has the open turn, or had it, is done with it. `agent` "" = somebody who needs no name: a caller of the HTTP API."""

    turn_id: str
    status: Status
    text: str
    agent: str = ""


class TakeTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An agent takes the open turn: record it before the message leaves."""

    turn_id: str
    agent: str


class LoseAgent(msgspec.Struct, frozen=True):
    """The agent that had the open turn is gone; offer it again."""

    agent: str


class Conclude(msgspec.Struct, frozen=True):
    """The outlet knows, or gives up knowing, what became of a request."""

    request: str
    outcome: Outcome


class Abandon(msgspec.Struct, frozen=True):
    """The open request never reached the outlet of this process."""

    request: str


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """Bind the peer to a session, "" = unbind. `only_if_unbound`: an agent said so, an operator's word goes before."""

    session: str
    who: str
    only_if_unbound: bool = False


class CancelTurn(msgspec.Struct, frozen=True):
    """End the open turn as cancelled."""

    who: str


class Operate(msgspec.Struct, frozen=True, kw_only=True):
    """An operator changes what waits; ids are whole output ids. `outputs` () = all that fit the verb."""

    what: Literal["retry", "drop", "discard", "flush"]
    who: str
    outputs: tuple[str, ...] = ()


class Grant(msgspec.Struct, frozen=True):
    """Let the peer talk to the bot."""

    who: str


class ExpireBodies(msgspec.Struct, frozen=True):
    """Delete these bodies of the peer, which are old, unless something that waits still needs them."""

    bodies: tuple[str, ...]


class EraseOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an output, whatever it waits for, with all bodies that tell of it."""

    output: str
    bodies: tuple[str, ...]


class ErasePeer(msgspec.Struct, frozen=True, kw_only=True):
    """Delete everything of the peer but what was spent; again as long as the reply says that there is more."""

    who: str


class Ask(msgspec.Struct, frozen=True):
    """Answer with (state, view, now). Changes nothing."""


class Rehearse(msgspec.Struct, frozen=True):
    """Answer with the decision that a command would come to; change nothing."""

    command: AcceptTurn | FinishTurn


Command = (
    Facts
    | Advance
    | AcceptTurn
    | FinishTurn
    | TakeTurn
    | LoseAgent
    | Conclude
    | Abandon
    | Bind
    | CancelTurn
    | Operate
    | Grant
    | ExpireBodies
    | EraseOutput
    | ErasePeer
)
