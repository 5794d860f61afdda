"""Streams as a gateway writes them, for logs to measure on: the events of peers who write and are answered and pushed to.

Repeatable: the same size gives the same bytes. Every batch is what the gateway appends at that point, bodies, keys and agenda
included; `PeerStream` keeps what the next batch needs to know, so that every stream folds.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.deciding.turns import delivery_value
from events import bot, peer
from events.base import Carried, Event, Kind, Origin
from events.streams import Address, bot_stream, delivery_id, fingerprint, peer_stream
from store.records import ANY, SALT_BYTES, AddressRow, AgendaRow, Batch, Body, Key, Write

ACCOUNT = Address("weixin", "main")
BOT = bot_stream(ACCOUNT)
SALT = b"salt of the benchmarks"
BODY_SALT = SALT[:SALT_BYTES]
TEXT = "The nightly job has finished: 1,204 rows checked, 3 of them changed, 没有失败。 Details are in the report. " * 3
EVENTS_PER_CYCLE = 11
BATCHES_PER_CYCLE = 7


def stream_name(number: int) -> str:
    """A peer's stream; scattered over the names, as pseudonyms are."""
    return peer_stream(fingerprint(SALT, str(number)))


def peer_id(number: int) -> str:
    """The channel's id of a peer."""
    return f"user-{number:06}@im.wechat"


class PeerStream:
    """One peer's stream in the making."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stream = stream_name(number)
        self.version = 0
        self.window = 0
        self.slot = 0
        self._count = 0
        self._message = ""

    def id(self, prefix: str) -> str:
        """A new id."""
        self._count += 1
        return f"{prefix}-{self.number:08x}{self._count:08x}"

    # --- batches --------------------------------------------------------------------------------------------------

    def message(self, at: int, cursor: str) -> Batch:
        """The peer writes: message, token and cursor in one append, as an inlet does."""
        self._message, body, token = self.id("m"), self.id("b"), self.id("b")
        self.window, self.slot = self.window + 1, 0
        received = peer.MessageReceived(
            message=self._message,
            body=body,
            total=len(TEXT),
            sent_at=at - 500,
            not_before=at - 1_000,
            generation=1,
            digest=fingerprint(BODY_SALT, TEXT),
        )
        seen = peer.ContextTokenSeen(message=self._message, body=token, generation=1)
        advanced = bot.CursorAdvanced(cursor=cursor, poll_started_at=at - 900, poll_ended_at=at)
        new = self.version == 0
        self.version += 2
        return Batch(
            account=ACCOUNT.bot,
            epoch=1,
            at=at,
            writes=(Write(self.stream, ANY, (received, seen)), Write(BOT, ANY, (advanced,))),
            bodies=(self._body(body, "inbound", TEXT, at), self._body(token, "token", "t" * 120, at)),
            keys=(Key(source="message", key=self._message, value=self.stream),),
            wake=(AgendaRow(stream=self.stream, due_at=at, waiting=1),),
            addresses=(AddressRow(stream=self.stream, peer=peer_id(self.number)),) if new else (),
        )

    def start_turn(self, at: int) -> Batch:
        """The message becomes a turn."""
        event = peer.TurnStarted(turn_id=f"t-{self._message}", message=self._message, session="s")
        return self._decision(at, event, turn_open=True)

    def hand_over(self, at: int) -> Batch:
        """An agent takes the turn."""
        return self._decision(at, peer.TurnHandedOver(turn_id=f"t-{self._message}", agent="echo"), turn_open=True)

    def answer(self, at: int) -> Batch:
        """The agent is done, and the answer is requested."""
        return self._complete(at, f"t-{self._message}", "inbound", "answer")

    def push(self, at: int) -> Batch:
        """A scheduled turn is accepted, and its push is requested: what one POST writes before anything is sent."""
        return self._complete(at, self.id("job"), "scheduled", "push")

    def accept(self, at: int) -> Batch:
        """A scheduled turn is accepted and waits."""
        return self._complete(at, self.id("job"), "scheduled", None)

    def succeed(self, at: int) -> Batch:
        """The open request arrived."""
        return self._decision(at, peer.SendSucceeded(request=self._request, message_id=f"7{self.number}{self._count}"))

    def more(self, at: int, kind: Kind) -> Batch:
        """One more request that carries nothing new; for charges."""
        return self._decision(at, self._requested(kind, (), self.id("b")), open_epoch=1)

    def cycle(self, at: int, step_ms: int, cursor: str) -> Iterator[Batch]:
        """One message that is answered, and one push."""
        yield self.message(at, cursor)
        yield self.start_turn(at + step_ms)
        yield self.hand_over(at + 2 * step_ms)
        yield self.answer(at + 3 * step_ms)
        yield self.succeed(at + 4 * step_ms)
        yield self.push(at + 5 * step_ms)
        yield self.succeed(at + 6 * step_ms)

    # --- pieces ---------------------------------------------------------------------------------------------------

    def _complete(self, at: int, turn_id: str, origin: Origin, kind: Kind | None) -> Batch:
        body, output = self.id("b"), delivery_id(self.stream, turn_id)
        digest = fingerprint(BODY_SALT, TEXT)
        completed = peer.TurnCompleted(
            turn_id=turn_id, output=output, origin=origin, body=body, total=len(TEXT), session="s", digest=digest
        )
        keys = [Key(source="delivery", key=output, value=delivery_value(self.stream, turn_id, digest, body))]
        if origin != "inbound":
            keys.append(Key(source="turn", key=turn_id, value=f'{{"streams":["{self.stream}"]}}'))
        bodies = [self._body(body, "output", TEXT, at)]
        events: list[Event] = [completed]
        if kind:
            rendered = self.id("b")
            events.append(self._requested(kind, (Carried(output=output, end=len(TEXT), total=len(TEXT)),), rendered))
            bodies.append(self._body(rendered, "rendered", TEXT, at))
        open_epoch = 1 if kind else None
        return self._decision(at, *events, bodies=bodies, keys=keys, open_epoch=open_epoch, waiting=0 if kind else 1)

    def _requested(self, kind: Kind, carried: tuple[Carried, ...], body: str) -> peer.SendRequested:
        self._request = self.id("r")
        self.slot += 1
        charge = peer.ChargeNote(window=self.window, opened_by=self._message, slot=self.slot, slots=10)
        return peer.SendRequested(
            request=self._request,
            kind=kind,
            body=body,
            total=len(TEXT),
            digest=fingerprint(BODY_SALT, TEXT),
            client_id=self.id("c"),
            login=1,
            token=self.id("b"),
            policy="0123456789abcdef",
            charge=charge,
            carried=carried,
        )

    def _decision(
        self,
        at: int,
        *events: Event,
        bodies: list[Body] | None = None,
        keys: list[Key] | None = None,
        open_epoch: int | None = None,
        turn_open: bool = False,
        waiting: int = 0,
    ) -> Batch:
        write = Write(self.stream, self.version, events)
        self.version += len(events)
        row = AgendaRow(stream=self.stream, open_epoch=open_epoch, turn_open=turn_open, waiting=waiting)
        return Batch(
            account=ACCOUNT.bot,
            epoch=1,
            at=at,
            writes=(write,),
            bodies=tuple(bodies or ()),
            keys=tuple(keys or ()),
            agenda=(row,),
        )

    def _body(self, body: str, kind: str, text: str, at: int) -> Body:
        return Body(id=body, stream=self.stream, kind=kind, text=text, at=at, salt=BODY_SALT)


def days(peers: list[PeerStream], events: int, at: int, span_ms: int) -> Iterator[Batch]:
    """About so many events of these peers, in turn, from `at` (ms) on over `span_ms`."""
    cycles = max(1, events // EVENTS_PER_CYCLE)
    step_ms = max(1, span_ms // cycles // BATCHES_PER_CYCLE)
    for number in range(cycles):
        one = peers[number * 7919 % len(peers)]  # scattered, not in the order of the names
        yield from one.cycle(at + number * BATCHES_PER_CYCLE * step_ms, step_ms, f"cursor-{number}")


def charged_peer(one: PeerStream, at: int) -> Iterator[Batch]:
    """A peer with a token, ten charges and three outputs that wait for the next message."""
    yield one.message(at, f"cursor-{one.number}")
    yield one.start_turn(at)
    yield one.answer(at)
    yield one.succeed(at)
    for _ in range(6):
        yield one.more(at, "answer")
        yield one.succeed(at)
    for _ in range(3):
        yield one.push(at)
        yield one.succeed(at)
    for _ in range(3):
        yield one.accept(at)
