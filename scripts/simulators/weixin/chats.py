"""Accounts, users and their windows: the state that the server keeps, and the arithmetic of its quota.

A window opens when the server itself receives a user's message, and a send is counted when it arrives
(iLink protocol notes 2.3). Nothing here knows how a client counts.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field

import msgspec

from scripts.simulators.weixin.codec import Raw

IDS_PER_MS = 1 << 22


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a login hands out."""

    token: str
    bot_id: str
    user_id: str


@dataclass
class Window:
    """What one message of the user opened: `spent` charged replies, `over` accepted ones beyond the quota."""

    number: int
    opened_at: int
    spent: int = 0
    over: int = 0
    tried: int = 0  # sends that arrived, whatever became of them

    def is_open(self, now: int, window_ms: int) -> bool:
        """Tell whether the window still stands at `now`."""
        return now < self.opened_at + window_ms


@dataclass
class Chat:
    """One user's conversation with one bot."""

    bot: str
    user: str
    windows: list[Window] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)  # context token -> issued at
    newest_token: str = ""
    ticket: str = ""
    ticket_at: int = 0
    typing_starts: int = 0
    typing_stops: int = 0
    sends_at: list[int] = field(default_factory=list)  # arrivals within the burst window
    throttled_until: int = 0

    @property
    def window(self) -> Window | None:
        """The window of the user's last message."""
        return self.windows[-1] if self.windows else None

    def open_window(self, now: int, token: str) -> Window:
        """Note that the user wrote at `now`, and that `token` came with it."""
        window = Window(number=len(self.windows) + 1, opened_at=now)
        self.windows.append(window)
        self.tokens[token] = now
        self.newest_token = token
        return window


@dataclass
class Delivery:
    """A message on its way to the bot: not before `visible_at`, and once `taken` no more when it is consumed."""

    wire: Raw
    message_id: int
    visible_at: int
    taken: bool = False


@dataclass
class Poll:
    """A getupdates request that is held."""

    until: int
    stolen: bool = False


@dataclass
class Account:
    """One bot as the server knows it."""

    identity: Identity
    alive: bool = True
    chats: dict[str, Chat] = field(default_factory=dict)
    inbox: list[Delivery] = field(default_factory=list)  # a cursor is a position in it
    coming: list[Delivery] = field(default_factory=list)  # late ones, not yet in the inbox
    acknowledged: int = 0  # the highest position that came back as a cursor
    seq: int = 0
    poll: Poll | None = None
    last_uin: int | None = None
    client_ids: dict[str, int | None] = field(default_factory=dict)  # client_id -> message_id of the accepted send

    @property
    def bot(self) -> str:
        """The bot id, which names the account in every ledger."""
        return self.identity.bot_id

    def chat(self, user: str) -> Chat | None:
        """Return the chat with `user`, exact case, if the server knows it."""
        return self.chats.get(user)

    def add_user(self, user: str) -> Chat:
        """Return the chat with `user`, new if need be."""
        return self.chats.setdefault(user, Chat(bot=self.bot, user=user))

    def next_seq(self) -> int:
        """Return the next sequence number of this bot."""
        self.seq += 1
        return self.seq


class Mint:
    """Where ids and secrets come from: the seed, the clock and a count, so that equal runs give equal ids."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def message_id(self, now: int, shape: str) -> int:
        """Return a new id: > 2^53 as the real ones are, or tiny, or > 2^63 (knob `ids`)."""
        self._count += 1
        if shape == "small":
            return self._count
        wide = now * IDS_PER_MS + self._count % IDS_PER_MS
        return wide % (1 << 63) + (1 << 63) if shape == "above_int64" else wide

    def secret(self, kind: str, now: int) -> str:
        """Return 64 new hex digits for a purpose."""
        self._count += 1
        return hashlib.sha256(f"{self._seed}/{kind}/{now}/{self._count}".encode()).hexdigest()

    def context_token(self, now: int) -> str:
        """Return a new context token."""
        return "AARzJW" + base64.b64encode(bytes.fromhex(self.secret("context", now))).decode()

    def identity(self, user_id: str, now: int) -> Identity:
        """Return a new bot for `user_id`."""
        secret = self.secret("bot", now)
        bot_id = f"{secret[:12]}@im.bot"
        return Identity(token=f"{bot_id}:0600{secret[12:44]}", bot_id=bot_id, user_id=user_id)
