"""Streams written by hand for tests: real events, through the codec, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from events import bot, codec, peer
from events.backlog import Output
from events.base import Carried, Event, Kind, Recorded
from events.streams import bot_stream, delivery_id, fingerprint, parse_address, peer_stream
from store.log import Log
from store.records import ANY, AddressRow, Batch, Body, Key, Start, Write

NOON = 1_750_000_000_000
"""2025-06-15 15:06:40 UTC: an instant at which most streams begin."""

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000

ACCOUNT = "weixin:main"
BOT = bot_stream(parse_address(ACCOUNT))
ANN = peer_stream("a" * 16)
BEN = peer_stream("b" * 16)


SALT = b"a salt for tests"
"""The salt of the logs that tests make."""


class Streams:
    """A log in the making. Each verb appends what the gateway would append, at the current time."""

    def __init__(self, now: int = NOON, account: str = ACCOUNT) -> None:
        self.now = now
        self.account = account
        self.bot_name = bot_stream(parse_address(account))
        self.epoch = 0
        self.recorded: list[Recorded] = []
        self.texts: dict[str, tuple[str, str]] = {}  # body -> (stream, text)
        self.peers: dict[str, str] = {}  # stream -> the channel's id
        self.windows: dict[str, tuple[int, str]] = {}  # stream -> (number, message)
        self.spent: dict[tuple[str, int], int] = {}
        self.open: dict[str, str] = {}  # stream -> its open request

    # time and envelopes

    def wait(self, ms: int) -> Streams:
        """Let time pass."""
        self.now += ms
        return self

    def add(self, stream: str, *events: Event, cause: str = "") -> Streams:
        """Append events as they are."""
        for event in events:
            tag = codec.tag_of(event)
            self.recorded.append(
                Recorded(
                    position=len(self.recorded) + 1,
                    stream=stream,
                    version=1 + sum(1 for r in self.recorded if r.stream == stream),
                    type=tag,
                    at=self.now,
                    epoch=self.epoch,
                    cause=cause,
                    event=codec.decode(tag, codec.encode(event)),
                )
            )
        return self

    def of(self, stream: str) -> tuple[Recorded, ...]:
        """One stream's events."""
        return tuple(r for r in self.recorded if r.stream == stream)

    # the bot

    def start(self, instance: str = "one", *, policy: bot.Policy | None = None, generation: int = 1) -> Streams:
        """A bot claims the account, with a policy and a login."""
        before = next((r.event.instance for r in reversed(self.of(self.bot_name)) if r.type == "bot_started"), "")
        self.epoch += 1
        self.add(self.bot_name, bot.BotStarted(instance=instance, replaces=before, program="0.1.0"))
        self.add(self.bot_name, bot.PolicyChanged(policy=policy or bot.Policy(), policy_id="p-1"))
        return self.add(self.bot_name, bot.LoginCompleted(generation=generation, owner=ANN))

    # a peer

    def message(self, name: str, *, stream: str = ANN, token: bool = True, sent_at: int | None = None) -> Streams:
        """A peer writes, with a fresh context token unless told otherwise."""
        self.peers.setdefault(stream, f"user-{stream[-1]}@im.wechat")
        self.windows[stream] = (self.windows.get(stream, (0, ""))[0] + 1, name)
        self.spent[stream, self.windows[stream][0]] = 1 if stream in self.open else 0
        self.texts[f"b-{name}"] = (stream, f"text of {name}")
        self.add(
            stream,
            peer.MessageReceived(
                message=name,
                body=f"b-{name}",
                total=12,
                sent_at=self.now - 500 if sent_at is None else sent_at,
                not_before=self.now - SECOND,
                generation=1,
            ),
            cause=name,
        )
        if token:
            self.texts[f"k-{name}"] = (stream, f"secret-token-{name}")
            self.add(stream, peer.ContextTokenSeen(message=name, body=f"k-{name}", generation=1), cause=name)
        return self

    def begin(self, turn: str, message: str, *, stream: str = ANN, agent: str = "echo") -> Streams:
        """A message becomes a turn, and an agent gets it unless `agent` is empty."""
        self.add(stream, peer.TurnStarted(turn_id=turn, message=message, session="s"), cause=message)
        return self.add(stream, peer.TurnHandedOver(turn_id=turn, agent=agent)) if agent else self

    def complete(
        self,
        turn: str,
        *,
        stream: str = ANN,
        origin: Any = "scheduled",
        status: Any = "completed",
        total: int = 100,
    ) -> Streams:
        """An agent's turn ends with a text of `total` bytes."""
        body = f"b-{turn}" if stream == ANN else f"b-{turn}-{stream[-1]}"
        self.texts[body] = (stream, "x" * total)
        self.peers.setdefault(stream, f"user-{stream[-1]}@im.wechat")
        event = peer.TurnCompleted(
            turn_id=turn,
            output=delivery_id(stream, turn),
            origin=origin,
            body=body,
            total=total,
            status=status,
            session="s",
        )
        return self.add(stream, event, cause=turn)

    def output(self, turn: str, *, stream: str = ANN, **changes: Any) -> Output:
        """The output of a completed turn, as later events carry it."""
        for r in self.of(stream):
            if isinstance(r.event, (peer.TurnCompleted, peer.TurnFailed)) and r.event.turn_id == turn:
                found = Output(
                    output=r.event.output,
                    turn_id=turn,
                    body=getattr(r.event, "body", ""),
                    total=getattr(r.event, "total", 0),
                    accepted_at=r.at,
                    origin=r.event.origin,
                )
                return msgspec.structs.replace(found, **changes)
        raise KeyError(turn)

    def skip(self, turn: str, reason: str, *, stream: str = ANN) -> Streams:
        """An output will not be sent."""
        return self.add(stream, peer.OutputSkipped(output=self.output(turn, stream=stream), reason=reason))

    def drop(self, turn: str, reason: str, *, stream: str = ANN, start: int = 0) -> Streams:
        """An output waits no more."""
        return self.add(stream, peer.OutputDropped(output=self.output(turn, stream=stream, start=start), reason=reason))

    def request(
        self,
        name: str,
        *turns: str | tuple[str, int, int],
        stream: str = ANN,
        kind: Kind = "push",
        left_out: Iterable[str] = (),
        part: int = 1,
        parts: int = 1,
        share: int = 0,
        cause: str = "",
        carried_before: int | None = None,
        **more: Any,
    ) -> Streams:
        """A send is decided: `turns` whole, or (turn, start, end). The charge note counts by itself."""
        carried = tuple(self._carried(stream, t) for t in turns)
        number, message = self.windows.get(stream, (0, ""))
        slot = self.spent[stream, number] = self.spent.get((stream, number), 0) + 1
        event = peer.SendRequested(
            request=name,
            kind=kind,
            body=f"b-{name}",
            total=sum(c.end - c.start for c in carried),
            digest=fingerprint(SALT, "rendered"),
            client_id=f"c-{name}",
            login=1,
            token=f"k-{message}",
            policy="p-1",
            charge=peer.ChargeNote(
                window=number,
                opened_by=message,
                slot=slot,
                slots=10,
                share=share,
                shares=3 if share else 0,
                carried=carried_before,
            ),
            carried=carried,
            left_out=tuple(delivery_id(stream, t) for t in left_out),
            part=part,
            parts=parts,
            **more,
        )
        self.texts[f"b-{name}"] = (stream, "rendered")
        self.open[stream] = name
        return self.add(stream, event, cause=cause)

    def _carried(self, stream: str, turn: str | tuple[str, int, int]) -> Carried:
        name, start, end = turn if isinstance(turn, tuple) else (turn, 0, -1)
        total = self.output(name, stream=stream).total
        return Carried(output=delivery_id(stream, name), start=start, end=total if end < 0 else end, total=total)

    def ok(self, request: str, *, stream: str = ANN, message_id: str | None = None) -> Streams:
        """The channel accepted a request; an empty message id leaves it unconfirmed."""
        found = f"m-{request}" if message_id is None else message_id
        self.open.pop(stream, None)
        return self.add(stream, peer.SendSucceeded(request=request, message_id=found), cause=request)

    def fail(
        self, request: str, failure: Any = "blocked", *, stream: str = ANN, code: int = -2, **more: Any
    ) -> Streams:
        """The channel refused a request, or it never left."""
        self.open.pop(stream, None)
        number, _ = self.windows.get(stream, (0, ""))
        self.spent[stream, number] -= 1
        return self.add(stream, peer.SendFailed(request=request, failure=failure, code=code, **more), cause=request)

    def unknown(self, request: str, *, stream: str = ANN, reason: str = "timeout", late_ms: int = 15_000) -> Streams:
        """Nobody can say what became of a request."""
        settled = self.now + late_ms
        self.open.pop(stream, None)
        return self.add(stream, peer.SendUnknown(request=request, settled_at=settled, reason=reason), cause=request)

    # into a log

    async def fill(self, log: Log, after: int = 0) -> None:
        """Write everything after a position into a log, one append for each event, with its texts, keys and addresses."""
        held: set[Key] = set()
        for r in self.recorded[after:]:
            if isinstance(r.event, bot.BotStarted):
                await log.claim(self.account, r.event.instance, r.at, Start(program=r.event.program))
                continue
            keys = _keys(r.event, r.stream, self._together(getattr(r.event, "turn_id", "")))
            await log.append(
                Batch(
                    account=self.account,
                    epoch=r.epoch,
                    at=r.at,
                    cause=r.cause,
                    writes=(Write(r.stream, ANY, (r.event,)),),
                    keys=tuple(key for key in keys if key not in held),
                    bodies=self._bodies(r),
                    addresses=self._addresses(r.stream),
                )
            )
            held.update(keys)

    def _together(self, turn_id: str) -> tuple[str, ...]:
        ends = (peer.TurnStarted, peer.TurnCompleted, peer.TurnFailed)
        of_turn = (r.stream for r in self.recorded if isinstance(r.event, ends) and r.event.turn_id == turn_id)
        return tuple(dict.fromkeys(of_turn))

    def _bodies(self, r: Recorded) -> tuple[Body, ...]:
        body = getattr(r.event, "body", "")
        if not body or body not in self.texts:
            return ()
        kinds = {"context_token_seen": "token", "send_requested": "rendered", "message_received": "inbound"}
        if r.type not in (*kinds, "turn_completed"):
            return ()
        stream, text = self.texts[body]
        return (Body(id=body, stream=stream, kind=kinds.get(r.type, "output"), text=text, at=r.at),)

    def _addresses(self, stream: str) -> tuple[AddressRow, ...]:
        peer_id = self.peers.get(stream)
        return (AddressRow(stream=stream, peer=peer_id),) if peer_id else ()


def _keys(event: Event, stream: str, together: tuple[str, ...]) -> tuple[Key, ...]:
    """The keys that go with an event; `together`: every stream that has its turn."""
    if isinstance(event, peer.MessageReceived):
        fingerprint_of = Key(source="message", key=f"content:{event.message}", value=stream)
        return (Key(source="message", key=f"channel-{event.message}", value=event.message), fingerprint_of)
    if not isinstance(event, (peer.TurnStarted, peer.TurnCompleted, peer.TurnFailed)):
        return ()
    kept = {"streams": together} | ({"inbound": True} if event.origin == "inbound" else {})
    turn = Key(source="turn", key=event.turn_id, value=msgspec.json.encode(kept).decode())
    if isinstance(event, peer.TurnStarted):
        return (turn,)
    value = msgspec.json.encode({"stream": stream, "turn": event.turn_id}).decode()
    return (turn, Key(source="delivery", key=event.output, value=value))
