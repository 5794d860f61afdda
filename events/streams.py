"""Names: addresses as people write them, streams as the log keeps them, ids derived from both.

A bot's stream is named after its account; a peer's stream is a pseudonym, and the row that ties it to an address can be erased.
Elsewhere in the code stream names are opaque.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from events.errors import BadAddress, BadStreamName

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_PSEUDONYM = re.compile(r"[0-9a-f]{16,64}")

PEER_ID_CHARS_MAX = 256


class Address(msgspec.Struct, frozen=True, order=True):
    """`CHANNEL:ACCOUNT:PEER`. An empty peer means the person who logged in. Peer ids keep their case."""

    channel: str
    account: str
    peer: str = ""

    def __str__(self) -> str:
        return f"{self.channel}:{self.account}:{self.peer}" if self.peer else f"{self.channel}:{self.account}"

    @property
    def bot(self) -> str:
        """The bot's own address, `CHANNEL:ACCOUNT`, which is also the key of its fence."""
        return f"{self.channel}:{self.account}"


def parse_address(text: str) -> Address:
    """Read `CHANNEL:ACCOUNT` or `CHANNEL:ACCOUNT:PEER`. Raises BadAddress."""
    channel, _, rest = text.partition(":")
    account, _, peer = rest.partition(":")
    if not _NAME.fullmatch(channel) or not _NAME.fullmatch(account):
        raise BadAddress(f"{text!r} is not an address; write CHANNEL:ACCOUNT or CHANNEL:ACCOUNT:PEER, e.g. weixin:main")
    if len(peer) > PEER_ID_CHARS_MAX or any(c.isspace() or not c.isprintable() for c in peer):
        raise BadAddress(
            f"the peer in {text[:80]!r} has white space, control characters or over {PEER_ID_CHARS_MAX} characters"
        )
    return Address(channel, account, peer)


def bot_stream(address: Address) -> str:
    """The stream of an account's bot, `bot-CHANNEL:ACCOUNT`."""
    return f"bot-{address.bot}"


def peer_stream(pseudonym: str) -> str:
    """The stream of a peer, `peer-PSEUDONYM`. Raises BadStreamName unless the pseudonym is 16 to 64 hex digits."""
    if not _PSEUDONYM.fullmatch(pseudonym):
        raise BadStreamName(f"{pseudonym!r} is not a pseudonym of 16 to 64 hex digits")
    return f"peer-{pseudonym}"


def category(stream: str) -> str:
    """`bot` or `peer`. Raises BadStreamName."""
    name, dash, rest = stream.partition("-")
    if not dash or not rest or name not in ("bot", "peer"):
        raise BadStreamName(f"{stream!r} is neither bot-CHANNEL:ACCOUNT nor peer-PSEUDONYM")
    return name


def delivery_id(stream: str, turn_id: str) -> str:
    """The id of the delivery of a turn to a peer, which is also its output's id. The same turn is the same delivery."""
    return "d-" + hashlib.sha256(f"{stream}\0{turn_id}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fingerprint(salt: bytes, text: str) -> str:
    """A salted digest of a text, 32 hex digits: whoever has the salt can tell whether a text is this one. Without it short ones cannot
    be guessed either, which is why the salt of a text goes when the text does."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=salt[:64], digest_size=16).hexdigest()
