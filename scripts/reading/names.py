"""Who a stream belongs to: addresses for people, streams for the log."""

from __future__ import annotations

import difflib

import msgspec

from events.streams import Address, parse_address
from scripts.errors import Ambiguous, NotFound
from store.log import Reader

SHOWN_MAX = 10
"""How many candidates an error lists."""


class Names(msgspec.Struct, frozen=True):
    """Accounts, the account of each stream, and the address of each peer as far as it was not erased."""

    accounts: tuple[str, ...]
    account: dict[str, str]  # stream -> account
    address: dict[str, str]  # stream -> CHANNEL:ACCOUNT:PEER
    called: dict[str, str]  # stream -> the name of the person or chat

    @property
    def peers(self) -> tuple[str, ...]:
        """The streams of all peers."""
        return tuple(sorted(stream for stream in self.account if stream.startswith("peer-")))

    def show(self, stream: str) -> str:
        """The address of a stream, or the stream itself once its address was erased."""
        return self.address.get(stream, stream)

    def account_of(self, stream: str) -> str:
        """The account of a stream."""
        return stream.removeprefix("bot-") if stream.startswith("bot-") else self.account.get(stream, "")

    def bot_of(self, stream: str) -> str:
        """The stream of the bot that a peer talks to."""
        return f"bot-{self.account_of(stream)}"

    def find(self, text: str) -> str:
        """The stream of a peer by its address, its stream, the channel's id, or a unique beginning of these.
        Raises NotFound with near ones, or Ambiguous."""
        known = {**{a: s for s, a in self.address.items()}, **{s: s for s in self.account if s.startswith("peer-")}}
        if text in known:
            return known[text]
        matches = sorted({s for name, s in known.items() if name.startswith(text) or name.endswith(f":{text}")})
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise Ambiguous(f"{text!r} may be {_listed([self.show(s) for s in matches])}")
        near = difflib.get_close_matches(text, known, n=3, cutoff=0.5)
        raise NotFound(f"no peer {text!r} in the log" + (f"; near ones: {_listed(near)}" if near else ""))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more


async def read_names(reader: Reader) -> Names:
    """The names that a log knows."""
    accounts = tuple(sorted(claim.account for claim in await reader.claims()))
    account = dict(await reader.accounts_of())
    address: dict[str, str] = {}
    called: dict[str, str] = {}
    for name in accounts:
        channel, short = parse_address(name).channel, parse_address(name).account
        for row in await reader.addresses(name):
            if row.peer:
                address[row.stream] = str(Address(channel, short, row.peer))
                called[row.stream] = row.name
    return Names(accounts, account, address, called)


async def find_peer(reader: Reader, names: Names, text: str) -> str:
    """The stream of a peer; `CHANNEL:ACCOUNT` alone means the person who logged in. Raises NotFound or Ambiguous."""
    if text not in names.accounts:
        return names.find(text)
    owner = await _owner(reader, text)
    if not owner:
        raise NotFound(f"nobody has logged in to {text} yet; name a peer as {text}:PEER")
    return owner


async def _owner(reader: Reader, account: str) -> str:
    """The stream of the person of the account's newest login, or ""."""
    owner = ""
    for recorded in await reader.read(f"bot-{account}"):
        owner = getattr(recorded.event, "owner", "") if recorded.type == "login_completed" else owner
    return owner
