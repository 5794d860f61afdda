"""Accepting turns: the same turn id is the same deliveries, whatever happens in between.

The set of peers is settled by the first acceptance and kept under the turn's key; a crash between two peers is made good by the
repetition of the same turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from actors.deciding.commands import AcceptTurn, Ask, FinishTurn, Rehearse
from actors.deciding.turns import NEVER_HAD
from actors.deciding.view import Decision
from actors.errors import PeerForgotten, TurnNotOpen, TurnTaken, UnknownOutput
from actors.gateway.api import TurnOffer
from actors.gateway.errors import (
    BadRequest,
    Busy,
    GatewayError,
    KeysApart,
    NeverFits,
    Partly,
    Stopping,
    TooLarge,
    TurnConflict,
    TurnHeld,
    Unavailable,
    WrongState,
)
from actors.gateway.finding import Finder, Place, delivery_key
from actors.life import AWAKE
from actors.runtime.errors import ActorGaveUp, ActorStopped, MailboxFull, OffloadFull
from actors.runtime.scheduler import Scheduler
from actors.text.clean import text_bytes
from events.history import history
from events.streams import delivery_id, fingerprint
from store.errors import DuplicateKey, Fenced, LogBusy, LogClosed, TextTooLarge
from store.log import Log
from store.records import TEXT_BYTES_MAX

LOOKS_MAX = 8
"""How often a turn whose append found a key taken is looked for again, besides once for each of its peers. Somebody else's append
shows itself at the first look."""


NOT_TAKEN = (
    "the text that was sent now was not taken: this turn id was accepted before, and as the text of then is gone (it expired or was"
    " erased), nobody can tell whether it was the same; send another text under another turn id"
)


class Accepted:
    """What an acceptance came to: (place, delivery) of each peer, whether all of them were there before, and which of those cannot be
    compared with the text that came now."""

    def __init__(
        self,
        turn_id: str,
        deliveries: tuple[tuple[Place, str], ...],
        *,
        repeated: bool,
        not_taken: frozenset[str] = frozenset(),
    ) -> None:
        self.turn_id, self.deliveries, self.repeated, self.not_taken = turn_id, deliveries, repeated, not_taken


class _Kept(msgspec.Struct, frozen=True):
    """What the log keeps under a turn's id."""

    streams: tuple[str, ...]
    inbound: bool = False  # a message of the one stream's peer started it


class Acceptance:
    """Takes turns in for all accounts of the process."""

    def __init__(self, finder: Finder, log: Log, scheduler: Scheduler) -> None:
        self._finder, self._log, self._scheduler = finder, log, scheduler

    async def accept(self, offer: TurnOffer, agent: str = "") -> Accepted:
        """Accept a turn, durably, from an agent or, without one, over HTTP. Raises the refusals of `Gateway.accept_turn`."""
        turn_id = offer.turn_id or f"api-{self._scheduler.ids.token(8)}"
        looks = 0
        while True:
            known = await self._log.key("turn", turn_id)
            try:
                if known:
                    return await self._again(turn_id, offer, known, agent)
                return await self._first(turn_id, offer)
            except DuplicateKey as taken:
                # Somebody offered the same turn at the same moment: look what became of it.
                looks += 1
                if looks >= LOOKS_MAX + (len(_kept(known).streams) if known else 0):
                    raise KeysApart(turn_id) from taken

    async def rehearse(self, offer: TurnOffer) -> tuple[tuple[Place, Decision], ...]:
        """The decision that each peer would take now, one without events where it has the turn already. Nothing is accepted;
        the refusals are those of `accept`."""
        if text_bytes(offer.text) > TEXT_BYTES_MAX:
            raise TooLarge(f"the text is larger than {TEXT_BYTES_MAX} bytes", path="$.text")
        known = await self._log.key("turn", offer.turn_id) if offer.turn_id else {}
        if known:
            kept = _kept(known)
            places = await self._places(kept)
            return tuple([(p, await self._rehearse_again(p, offer, inbound=kept.inbound)) for p in places])
        _check_origin(offer)
        command = Rehearse(_command(offer.turn_id or "rehearsal", offer))
        places = await self._targets(offer)
        _check_share(places, offer)
        return tuple([(p, await self.ask(p, command)) for p in places])

    async def _rehearse_again(self, place: Place, offer: TurnOffer, *, inbound: bool) -> Decision:
        delivery = delivery_id(place.stream, offer.turn_id)
        if await self._compared(delivery, offer) != "absent":
            state, _view, _now = await self.ask(place, Ask())
            return Decision(state=state, reply=delivery)
        if not inbound:
            return cast(Decision, await self.ask(place, Rehearse(_command(offer.turn_id, offer))))
        return cast(Decision, await self._finish(place, Rehearse(_answer(offer.turn_id, offer)), offer.turn_id))

    async def ask(self, place: Place, command: object) -> Any:
        """Ask a peer, with the failures of the machinery as refusals that a caller can act on."""
        _check_running((place,))
        try:
            return await place.life.account.peers.ask(place.stream, command)
        except (MailboxFull, OffloadFull, LogBusy) as error:
            raise Busy(str(error)) from error
        except (ActorStopped, ActorGaveUp, Fenced, LogClosed) as error:
            raise Stopping(f"{place.life.spec.address}: {error}") from error
        except PeerForgotten as error:
            raise Unavailable("the peer was erased just now; offer it again, and it is looked for anew") from error
        except UnknownOutput as error:
            raise WrongState(str(error)) from error
        except TurnTaken as error:
            raise TurnHeld(str(error)) from error
        except TextTooLarge as error:
            raise TooLarge(str(error), path="$.text") from error

    async def _first(self, turn_id: str, offer: TurnOffer) -> Accepted:
        _check_origin(offer)
        places = await self._targets(offer)
        _check_running(places)
        _check_share(places, offer)
        value = json.dumps({"streams": [p.stream for p in places]}, separators=(",", ":"))
        deliveries = [delivery_id(place.stream, turn_id) for place in places]
        await self._ask_each(places, turn_id, offer, value)
        return Accepted(turn_id, tuple(zip(places, deliveries, strict=True)), repeated=False)

    async def _ask_each(
        self,
        places: Sequence[Place],
        turn_id: str,
        offer: TurnOffer,
        value: str,
        *,
        known: Sequence[Place] = (),
        keyed: Iterable[str] = (),
    ) -> None:
        """Let peer after peer accept; `known` have the turn already, and the accounts `keyed` its key. There is no append over
        several accounts. Raises Partly where a peer after the first refuses: the same turn again completes it."""
        with_it, with_key = list(known), set(keyed)
        for place in places:
            account = place.life.spec.address.bot
            try:
                await self.ask(place, _command(turn_id, offer, "" if account in with_key else value))
            except GatewayError as refusal:
                if not with_it:
                    raise
                done = [delivery_id(p.stream, turn_id) for p in with_it]
                raise Partly(turn_id, done, of=len(known) + len(places), why=refusal.message) from refusal
            with_it.append(place)
            with_key.add(account)

    async def _again(self, turn_id: str, offer: TurnOffer, known: Mapping[str, str], agent: str) -> Accepted:
        """A turn whose id is in the log: the rest of it, an answer that is still open, or what was accepted then."""
        kept = _kept(known)
        done = [(place, delivery_id(place.stream, turn_id)) for place in await self._places(kept)]
        if kept.inbound and agent:
            for place, _ in done:
                await self._check_had(place, turn_id, agent)
        compared = {delivery: await self._compared(delivery, offer) for _, delivery in done}
        missing = [place for place, delivery in done if compared[delivery] == "absent"]
        lost = [
            place for place in missing if place.forgotten
        ]  # it had not accepted the turn when it was erased, and never will
        done, missing = [d for d in done if d[0] not in lost], [p for p in missing if p not in lost]
        _check_running(missing)
        if not kept.inbound:
            with_it = [place for place, _ in done if place not in missing]
            await self._ask_each(missing, turn_id, offer, next(iter(known.values())), known=with_it, keyed=known)
        elif missing:
            await self._finish(missing[0], _answer(turn_id, offer, agent), turn_id)
        not_taken = frozenset(delivery for delivery, how in compared.items() if how == "textless")
        return Accepted(turn_id, tuple(done), repeated=not missing, not_taken=not_taken)

    async def _places(self, kept: _Kept) -> tuple[Place, ...]:
        """The peers of a known turn, also forgotten ones, without those whose account is configured no more."""
        found = [await self._finder.locate(stream) for stream in kept.streams]
        if None in found:
            self._finder.check_recalled()
        return tuple(p for p in found if p is not None)

    async def _finish(self, place: Place, command: object, turn_id: str) -> Any:
        try:
            return await self.ask(place, command)
        except TurnNotOpen as error:
            raise TurnConflict(f"turn {turn_id} was a message's, and ended without a text") from error

    async def _check_had(self, place: Place, turn_id: str, agent: str) -> None:
        """What answers a message is taken, and repeated, only by agents that had the turn. Raises TurnHeld."""
        turn = history(await self._log.read_since_key(place.stream, "turn", turn_id)).turns.get(turn_id)
        if turn is not None and agent not in (name for _, name in turn.agents):
            raise TurnHeld(NEVER_HAD.format(turn_id))

    async def _compared(self, delivery: str, offer: TurnOffer) -> Literal["absent", "same", "textless"]:
        """Whether the delivery exists. Raises TurnConflict when it does with another text. Once its text has expired or was erased
        nobody can tell any more: then the same id is the same delivery, and the answer says so."""
        rows = await self._log.key("delivery", delivery)
        if not rows:
            return "absent"
        kept = delivery_key(delivery, next(iter(rows.values())))
        found = await self._log.kept((kept.body,)) if kept.body else {}
        if kept.body and kept.body not in found:
            return "textless"
        salt = found[kept.body].salt if kept.body else self._log.salt
        if kept.text != fingerprint(salt, offer.text):
            raise TurnConflict
        return "same"

    async def _targets(self, offer: TurnOffer) -> tuple[Place, ...]:
        if offer.to:
            return (self._finder.place(offer.to, "$.to"),)
        return await self._finder.bound(offer.session, "$.session")


def _check_origin(offer: TurnOffer) -> None:
    if offer.origin == "inbound":
        raise BadRequest(
            "only turns that this gateway handed over are inbound, and this id is not one of them; say scheduled, desktop or api",
            path="$.origin",
        )


def _check_running(places: Iterable[Place]) -> None:
    """Before the first of several peers is asked: what is refused is refused for all."""
    for place in places:
        if place.life.state not in AWAKE:
            raise Unavailable(f"{place.life.spec.address} is {place.life.state}; nothing was accepted")


def _check_share(places: Iterable[Place], offer: TurnOffer) -> None:
    """A push spends one reply at least: where the policy gives pushes none, it could wait for ever."""
    for place in places:
        policy = place.life.account.view.policy
        if (
            policy.mode == "enforce"
            and min(policy.share_replies, policy.quota_replies) == 0
            and offer.status != "failed"
        ):
            raise NeverFits(f"the policy of {place.life.spec.address} gives pushes no share (share_replies = 0)")


def _kept(known: Mapping[str, str]) -> _Kept:
    return msgspec.json.decode(next(iter(known.values())), type=_Kept)


def _answer(turn_id: str, offer: TurnOffer, agent: str = "") -> FinishTurn:
    return FinishTurn(turn_id=turn_id, status=offer.status, text=offer.text, agent=agent)


def _command(turn_id: str, offer: TurnOffer, keys_value: str = "") -> AcceptTurn:
    return AcceptTurn(
        turn_id=turn_id,
        origin=offer.origin,
        status=offer.status,
        text=offer.text,
        session=offer.session,
        keys_value=keys_value,
    )
