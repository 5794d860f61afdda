"""What a peer's decisions see of its bot, and what they come to: blocks, effects, decisions."""

from __future__ import annotations

from typing import Literal

import msgspec

from events.base import Event, Millis
from events.bot import Policy
from events.peer_state import PeerState
from store.records import Binding, Body, Key

Reason = Literal[
    "nothing_waits",
    "open_request",
    "no_login",
    "login_lost",
    "paused",
    "no_token",
    "retry_later",
    "window_closed",
    "quota_spent",
    "share_spent",
    "reserved_for_answers",
    "held_until_message",
    "pace",
]
"""The one fact that keeps something from leaving."""


class BotView(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer's decisions depend on besides its own state. Policy times in ms."""

    account: str
    epoch: int
    generation: int = 0  # of the login; 0 = never logged in
    login_lost: bool = False
    policy: Policy = Policy()
    policy_id: str = ""
    paused_until: Millis | None = 0  # for the peer that looks; None = until resumed
    allowed: bool = True  # whether the configuration lets the peer that looks talk to the bot
    pairing: bool = False  # messages of those who may not are kept until access is granted, instead of refused
    agents: int = 0  # agents that are connected
    agentless_since: Millis = 0  # when the last one left, or this life began
    locale: str = "zh-CN"
    can_quote: bool = False  # whether the channel can show a quote
    typing: bool = False
    pinned: bool = False  # the login is the peer's: its address stays as long as somebody is logged in


class Held(msgspec.Struct, frozen=True):
    """Bodies that the log holds of a peer, and whether there are more."""

    bodies: tuple[tuple[str, str], ...] = ()  # (id, kind)
    more: bool = False


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What a step of an erasure took away, and what is left to do."""

    kinds: tuple[str, ...] = ()  # of the bodies that went
    outputs: tuple[str, ...] = ()  # that waited
    messages: int = 0  # that waited for an agent
    turn: str = ""  # that was open
    session: str = ""  # that it was bound to
    in_flight: str = ""  # the request that is on its way
    more: bool = False  # there are bodies left
    forgotten: bool = False  # the address is gone
    forget_at: Millis | None = None  # when it will go, None = not by time alone


class Block(msgspec.Struct, frozen=True):
    """Why something waits, and when that ends by itself: `until` None = only with a new fact."""

    reason: Reason
    until: Millis | None = None


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """Effect: give this request to the outlet. Its texts are in the decision's bodies or were read for it."""

    request: str
    text: str
    token: str
    client_id: str
    target: str = ""
    quote: str = ""


Over = Literal["cancelled", "answered"]
"""How a turn was over without the agent that has it: somebody ended it, or somebody else answered."""


class Withdraw(msgspec.Struct, frozen=True):
    """Effect: tell the agent that has it that a turn is over."""

    turn_id: str
    agent: str
    reason: Over = "cancelled"


class ResetSession(msgspec.Struct, frozen=True):
    """Effect: tell agents that a session begins anew."""

    session: str
    resets: int


Effect = Send | Withdraw | ResetSession


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a command comes to: what to append at the state's version, what to do once that is durable, what to answer."""

    state: PeerState  # after the events
    events: tuple[Event, ...] = ()
    bodies: tuple[Body, ...] = ()
    keys: tuple[Key, ...] = ()
    erase: tuple[str, ...] = ()
    unname: bool = False  # the name that the channel gives the peer goes
    forget: bool = False  # its address goes
    bindings: tuple[Binding, ...] = ()
    effects: tuple[Effect, ...] = ()
    due_at: Millis | None = None  # when something is due without a new fact; what the agenda keeps
    wake_at: Millis | None = None  # when to look again: the same, or the place in the pace that a due send got
    reply: object = None
