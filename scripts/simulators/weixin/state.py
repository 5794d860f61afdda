"""The whole state of the server, and the small vocabulary that its endpoints share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from scripts.simulators.errors import UnknownAccountError, UnknownUserError
from scripts.simulators.weixin.chats import Account, Chat, Identity, Mint, Poll
from scripts.simulators.weixin.codec import Raw, Reply, Request
from scripts.simulators.weixin.knobs import Fault, Switchboard
from scripts.simulators.weixin.ledgers import Accepted, Ledger, Refused, Shown, Violation

Body = TypeVar("Body", bound=msgspec.Struct)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the shell sends back; `cut`: it closes the connection instead."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    cut: bool = False
    headers_after_ms: int = 0
    body_after_ms: int = 0


@dataclass
class Call:
    """A request on its way through the server."""

    endpoint: str
    request: Request
    now: int
    raw: Raw | None = None
    account: Account | None = None
    fault: Fault | None = None
    broken: list[str] = field(default_factory=list)  # the rules it violates

    @property
    def known_account(self) -> Account:
        """The account of an authenticated call."""
        assert self.account is not None, "only authenticated calls have an account"
        return self.account

    def body(self, kind: type[Body]) -> Body:
        """Return the body as a struct of `kind`; a body of the wrong shape as an empty one (the checks say so)."""
        try:
            return msgspec.convert(self.raw or {}, kind)
        except msgspec.ValidationError:
            return kind()

    def fits(self, kind: type[Body]) -> bool:
        """Tell whether the body has the shape of `kind`."""
        try:
            msgspec.convert(self.raw or {}, kind)
        except msgspec.ValidationError:
            return False
        return True


@dataclass
class Hold:
    """An answer that waits: ask again with `resume` when something changed, or when `until` is reached."""

    call: Call
    until: int
    poll: Poll | None = None


@dataclass
class Qr:
    """A login code, from its creation to its end (iLink protocol notes 1.3)."""

    code: str
    created_at: int
    local_tokens: list[str]
    status: str = "wait"
    said: str = ""  # the status last answered; a change ends the long poll
    digits: str = ""  # what the phone shows while `need_verifycode`
    wrong: int = 0
    user_id: str = ""
    redirect_host: str = ""
    script: list[str] = field(default_factory=list)
    granted: Identity | None = None


@dataclass
class State:
    """Everything the server remembers."""

    seed: str
    base_url: str = ""
    accounts: dict[str, Account] = field(default_factory=dict)  # by token, dead ones too
    codes: dict[str, Qr] = field(default_factory=dict)
    board: Switchboard = field(default_factory=Switchboard)
    accepted: Ledger[Accepted] = field(default_factory=Ledger)
    shown: Ledger[Shown] = field(default_factory=Ledger)
    refused: Ledger[Refused] = field(default_factory=Ledger)
    violations: Ledger[Violation] = field(default_factory=Ledger)
    counters: Counter[str] = field(default_factory=Counter)
    mint: Mint = field(init=False)

    def __post_init__(self) -> None:
        self.mint = Mint(self.seed)

    def on_wire(self, message_id: int) -> int | str:
        """Return an id as it goes out: a bare number, or text (knob `text_ids`)."""
        return str(message_id) if self.board.use("text_ids") else message_id

    def add_account(self, identity: Identity) -> Account:
        """Add a login; an older bot of the same user dies by it (iLink protocol notes 1.3)."""
        self.kill_bots_of(identity.user_id)
        account = Account(identity=identity)
        account.add_user(identity.user_id)
        self.accounts[identity.token] = account
        return account

    def kill_bots_of(self, user_id: str) -> None:
        """Make every token of this user stale."""
        for account in self.accounts.values():
            if account.identity.user_id == user_id:
                account.alive = False

    def find_account(self, bot: str | None) -> Account:
        """Return the account of this bot id, or the only living one for None."""
        found = [a for a in self.accounts.values() if (a.bot == bot if bot else a.alive)]
        living = [a for a in found if a.alive] or found
        if len(living) != 1:
            raise UnknownAccountError(f"{bot or 'the only account'}: {len(living)} match")
        return living[0]

    def find_chat(self, bot: str | None, user: str | None) -> Chat:
        """Return the chat of this user (the login's own for None) with this bot."""
        account = self.find_account(bot)
        chat = account.chat(user or account.identity.user_id)
        if chat is None:
            raise UnknownUserError(f"{user} is no user of {account.bot}")
        return chat


def refusal(code: int, errmsg: str | None = None, form: str = "ret") -> Reply:
    """Return a refusing reply with its code in `ret`, in `errcode` or in both (iLink protocol notes 2.1)."""
    return Reply(
        ret=code if form in ("ret", "both") else msgspec.UNSET,
        errcode=code if form in ("errcode", "both") else msgspec.UNSET,
        errmsg=errmsg if errmsg is not None else msgspec.UNSET,
    )


STALE = refusal(-14, "session timeout", form="both")
"""The answer to a token that a newer binding replaced, or that nobody handed out."""
