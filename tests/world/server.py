"""The channel's side of a world: a Weixin server that counts for itself. Pure; knows nothing of how the gateway counts.

It opens a window when *it* receives a user's message, counts a reply when *it* receives the send, and keeps the list of what it
accepted (iLink protocol notes 1.4-1.8, 2.3-2.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Said:
    """A message that a person sent. `number` is the true identity, which no gateway ever sees."""

    number: int
    peer: str
    text: str
    sent_at: int
    token: str
    message_id: str = ""


@dataclass(frozen=True)
class Taken:
    """A reply that the server accepted."""

    client_id: str
    peer: str
    text: str
    at: int
    message_id: str
    count: int  # how many it had accepted since the peer's last message, with this one
    window_age: int  # ms since it received that message


@dataclass
class Phone:
    """A peer as the server sees it."""

    opened_at: int = -1
    count: int = 0
    tokens: dict[str, int] = field(default_factory=dict)  # token -> when it was given
    taken: list[Taken] = field(default_factory=list)


@dataclass(frozen=True)
class Reply:
    """The answer to a send: `code` 0 with a message id, or a refusal."""

    code: int
    message_id: str = ""
    why: str = ""  # for the world's own checks: login, weather, token, window, quota


@dataclass(frozen=True)
class Answer:
    """The answer to a poll."""

    code: int
    messages: tuple[Said, ...] = ()
    cursor: str = ""
    dated: int = 0  # the Date header


class Server:
    """One account at the channel."""

    def __init__(self, account: str, quota: int, *, newest_token_only: bool = False, replays: bool = False) -> None:
        self.account, self.quota = account, quota
        self.newest_token_only, self.replays = newest_token_only, replays
        self.login = ""  # the one secret that is valid
        self.phones: dict[str, Phone] = {}
        self.inbox: list[Said] = []  # everything that is to be delivered, in order
        self.heard_at: dict[tuple[int, str], int] = {}  # (created at, text) -> when it arrived here
        self.acknowledged = 0  # how far a poll's cursor has come
        self.refusing: int = 0  # the code that answers every send, 0 = none
        self.polls = 0
        self._ids = 7_000_000_000_000_000_000

    def new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def phone(self, peer: str) -> Phone:
        return self.phones.setdefault(peer, Phone())

    # --- people ---------------------------------------------------------------------------------------------------

    def hear(self, said: Said, now: int) -> None:
        """A message arrives: a new window, a new token."""
        phone = self.phone(said.peer)
        phone.opened_at, phone.count = now, 0
        if said.token:
            phone.tokens[said.token] = now
        self.heard_at.setdefault((said.sent_at, said.text), now)
        self.inbox.append(said)

    def repeat(self, said: Said) -> None:
        """Deliver a message once more; nothing else changes."""
        self.inbox.append(said)

    # --- the gateway ----------------------------------------------------------------------------------------------

    def poll(self, login: str, cursor: str) -> Answer | None:
        """What a poll gets now; None if there is nothing yet."""
        if login != self.login:
            return Answer(-14)
        start = int(cursor.split(".", maxsplit=1)[0]) if cursor else (0 if self.replays else self.acknowledged)
        if cursor:
            self.acknowledged = max(self.acknowledged, start)
        if start >= len(self.inbox):
            return None
        return self._answer(start)

    def idle(self, cursor: str) -> Answer:
        """The answer to a poll that was held for long enough."""
        self.polls += 1
        start = int(cursor.split(".", maxsplit=1)[0]) if cursor else self.acknowledged
        return Answer(0, (), f"{start}.{self.polls}")

    def _answer(self, start: int) -> Answer:
        self.polls += 1
        return Answer(0, tuple(self.inbox[start:]), f"{len(self.inbox)}.{self.polls}")

    def send(self, login: str, peer: str, *, client_id: str, token: str, text: str, now: int, with_id: bool) -> Reply:
        """A send arrives."""
        if login != self.login:
            return Reply(-14, why="login")
        if self.refusing:
            return Reply(self.refusing, why="weather")
        phone = self.phone(peer)
        if not self._token_counts(phone, token):
            return Reply(-2, why="token")
        if phone.opened_at < 0 or now - phone.opened_at >= DAY_MS:
            return Reply(-2, why="window")
        if phone.count >= self.quota:
            return Reply(-2, why="quota")
        phone.count += 1
        taken = Taken(
            client_id,
            peer,
            text,
            now,
            self.new_id() if with_id else "",
            phone.count,
            now - phone.opened_at,
        )
        phone.taken.append(taken)
        return Reply(0, taken.message_id)

    def _token_counts(self, phone: Phone, token: str) -> bool:
        if token not in phone.tokens:
            return False
        return not self.newest_token_only or token == next(reversed(phone.tokens))

    @property
    def taken(self) -> list[Taken]:
        """Everything that was accepted, peer by peer."""
        return [t for phone in self.phones.values() for t in phone.taken]
