"""From what people write (addresses, accounts, beginnings of ids) to lives, streams and deliveries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import msgspec

from actors.gateway.errors import (
    AmbiguousId,
    BadRequest,
    NoLogin,
    PeerElsewhere,
    SessionElsewhere,
    Unavailable,
    UnknownAccount,
    UnknownDelivery,
    UnknownPeer,
    UnknownSession,
    nearest,
)
from actors.life import AccountLife
from events.errors import BadAddress
from events.streams import delivery_id, parse_address
from store.log import Log

IDS_LOOKED_AT = 20


class Place(msgspec.Struct, frozen=True):
    """A peer: the account's life and the peer's stream."""

    life: AccountLife
    stream: str

    @property
    def address(self) -> str:
        """As people write it."""
        return self.life.account.address_of(self.stream)

    @property
    def forgotten(self) -> bool:
        """Whether nobody is behind the stream any more."""
        return not self.life.account.has(self.stream)


class DeliveryKey(msgspec.Struct, frozen=True):
    """What the log keeps under a delivery's id."""

    delivery: str
    stream: str
    turn: str
    text: str  # fingerprint of the text as it was offered
    body: str  # whose salt keys it, "" = the log's

    def __str__(self) -> str:
        return f"{self.delivery} (turn {self.turn})"


class Finder:
    """Resolves names over all accounts of the process."""

    def __init__(self, lives: Mapping[str, AccountLife], log: Log) -> None:
        self.lives, self._log = lives, log

    def life(self, name: str, path: str = "") -> AccountLife:
        """An account by its name or `CHANNEL:ACCOUNT`. Raises UnknownAccount."""
        for life in self.lives.values():
            if name in (life.spec.address.account, life.spec.address.bot):
                return life
        names = [life.spec.address.bot for life in self.lives.values()]
        raise UnknownAccount(
            f"there is no account {name!r}; there are: {', '.join(names)}", path=path, near=nearest(name, names)
        )

    def place(self, address: str, path: str = "") -> Place:
        """A peer by its address, or by its stream as log lines name it; a bot's own address means the person who logged in.
        Raises UnknownPeer, PeerElsewhere, NoLogin, Unavailable."""
        named = self.of_stream(address)
        if named is not None:
            return named
        try:
            parsed = parse_address(address)
        except BadAddress as error:
            raise BadRequest(str(error), path=path) from error
        life = next((x for x in self.lives.values() if x.spec.address.bot == parsed.bot), None)
        if life is None:
            said = f"the configuration has no account {parsed.bot}, so no peer has the address {address}"
            raise PeerElsewhere(said, path=path, near=self._near(address))
        peer = parsed.peer or life.account.owner
        stream = life.account.known(peer) if peer else None
        if stream is None:
            self._check_recalled(life)
            if _never_logged_in(life, parsed.peer):
                raise NoLogin(parsed.channel, parsed.account, path=path)
            raise UnknownPeer(f"no peer has the address {address}", path=path, near=self._near(address))
        return Place(life, stream)

    def _near(self, address: str) -> tuple[str, ...]:
        bots = (x.spec.address.bot for x in self.lives.values())
        return nearest(address, [*bots, *self.addresses()])

    def check_recalled(self) -> None:
        """Raises Unavailable while an account has not recalled its peers: who is missing may be one of them."""
        for life in self.lives.values():
            self._check_recalled(life)

    @staticmethod
    def _check_recalled(life: AccountLife) -> None:
        if not life.recalled:
            raise Unavailable(f"{life.spec.address} is starting; try again in a moment")

    def of_stream(self, stream: str) -> Place | None:
        """The place of a stream, None if no account of this process has it."""
        for life in self.lives.values():
            if life.account.has(stream):
                return Place(life, stream)
        return None

    async def locate(self, stream: str) -> Place | None:
        """The place of a stream, also of one whose address was forgotten."""
        found = self.of_stream(stream)
        if found is None:
            account = await self._log.account_of(stream)
            life = next((x for x in self.lives.values() if x.spec.address.bot == account), None)
            found = Place(life, stream) if life is not None and life.recalled else None
        return found

    def places(self, account: str = "") -> tuple[Place, ...]:
        """Every known peer, of one account or of all."""
        lives = (self.life(account),) if account else tuple(self.lives.values())
        return tuple(Place(life, stream) for life in lives for _, stream in life.account.known_peers())

    def addresses(self) -> Iterable[str]:
        """Every known address."""
        return (p.address for p in self.places())

    async def bound(self, session: str, path: str = "") -> tuple[Place, ...]:
        """The peers bound to a session. Raises UnknownSession, SessionElsewhere, Unavailable."""
        bindings = await self._log.bindings()
        found = [self.of_stream(b.stream) for _, b in bindings if b.session == session]
        places = tuple(p for p in found if p is not None)
        if len(places) < len(found) or not places:
            self.check_recalled()
        if found and not places:
            raise SessionElsewhere(path=path)
        if not places:
            near = nearest(session, {b.session for _, b in bindings if b.session})
            raise UnknownSession(f"no peer is bound to session {session!r}", path=path, near=near)
        return places

    async def delivery(self, name: str) -> tuple[DeliveryKey, Place]:
        """A delivery by its id, by the id of its turn where that has one delivery, or by a unique beginning of either; what is whole goes
        before what begins so, and deliveries before turns. Raises UnknownDelivery, AmbiguousId, Unavailable."""
        key = await self._whole(name) or await self._beginning(name)
        place = await self.locate(key.stream) if key else None
        if key is not None and place is None:
            self.check_recalled()
        if key is None or place is None:
            raise UnknownDelivery(f"no delivery, and no turn that has one, has an id that begins with {name!r}")
        return key, place

    async def _whole(self, name: str) -> DeliveryKey | None:
        rows = await self._log.key("delivery", name)
        if rows:
            return delivery_key(name, next(iter(rows.values())))
        turn = await self._log.key("turn", name)
        return await self._of_turn(name, turn.values()) if turn else None

    async def _beginning(self, prefix: str) -> DeliveryKey | None:
        rows = await self._log.key_prefix("delivery", prefix, IDS_LOOKED_AT)
        if len(rows) > 1:
            named = tuple(str(delivery_key(key, value)) for _, key, value in rows)
            raise AmbiguousId(
                f"{len(rows)} deliveries begin with {prefix}: {', '.join(named)}", near=[r[1] for r in rows]
            )
        if rows:
            return delivery_key(rows[0][1], rows[0][2])
        turns = await self._log.key_prefix("turn", prefix, IDS_LOOKED_AT)
        named = tuple(dict.fromkeys(key for _, key, _ in turns))
        if len(named) > 1:
            raise AmbiguousId(f"{len(named)} turns begin with {prefix}: {', '.join(named)}", near=named)
        return await self._of_turn(named[0], [value for _, _, value in turns]) if named else None

    async def _of_turn(self, turn_id: str, kept: Iterable[str]) -> DeliveryKey:
        """The one delivery of a turn."""
        streams = dict.fromkeys(stream for value in kept for stream in json.loads(value)["streams"])
        found = [(name, await self._log.key("delivery", name)) for name in (delivery_id(s, turn_id) for s in streams)]
        keys = [delivery_key(name, next(iter(rows.values()))) for name, rows in found if rows]
        if not keys:
            raise UnknownDelivery(f"turn {turn_id} has no delivery yet: it is open, or ended without a text")
        if len(keys) > 1:
            near = [key.delivery for key in keys]
            raise AmbiguousId(
                f"turn {turn_id} has {len(keys)} deliveries, one for each peer; name one of them", near=near
            )
        return keys[0]


def _never_logged_in(life: AccountLife, peer: str) -> bool:
    """Whether nobody is known by that name because nobody has logged in: "" asks for the person who did."""
    account = life.account
    return not account.logged_in and (not peer or (account.state.generation == 0 and not account.known_peers()))


def delivery_key(delivery: str, value: str) -> DeliveryKey:
    """Read what the log keeps under a delivery's id."""
    kept = json.loads(value)
    return DeliveryKey(delivery, kept["stream"], kept["turn"], kept["text"], kept.get("body", ""))
