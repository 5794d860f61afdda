"""A decision in the making: it folds what it adds, so that each next step sees the state after the steps before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from actors.deciding.view import BotView, Decision, Effect, Held
from actors.errors import HeldNeeded, TextsNeeded
from actors.text.clean import text_bytes
from actors.text.split import Part, parts
from events.base import Event, Millis
from events.peer_state import PeerState, evolve
from events.streams import fingerprint
from store.records import SALT_BYTES, Binding, Body, Kept, Key

SPLIT_BYTES_MAX = 65_536
"""Texts up to this size are split within a turn; larger ones by a thread beforehand."""


class NewIds(Protocol):
    """A source of ids."""

    def token(self, nbytes: int) -> str:
        """`nbytes` random bytes as hex digits."""
        ...


class _Passing:
    """What only a decision in the making needs of texts."""

    __slots__ = ("named", "salts", "splits")

    def __init__(self) -> None:
        self.splits: dict[tuple[str, int], tuple[Part, ...]] = {}
        self.named: dict[tuple[str, str], str] = {}  # (kind, text) -> the body's id, however often it is decided
        self.salts: dict[str, bytes] = {}  # of bodies that were read or are new


class Texts:
    """The texts that a peer has at hand, by body; None = it is gone from the log. Between decisions it is next to nothing, for
    thousands of peers have one."""

    __slots__ = ("_passing", "known")

    def __init__(self, known: Mapping[str, str | None] | None = None) -> None:
        self.known: dict[str, str | None] = dict(known or {})
        self._passing: _Passing | None = None

    @property
    def passing(self) -> _Passing:
        """What is forgotten after the decision."""
        if self._passing is None:
            self._passing = _Passing()
        return self._passing

    def learn(self, bodies: Iterable[str], found: Mapping[str, Kept]) -> None:
        """What the log has of these bodies."""
        for body in bodies:
            kept = found.get(body)
            self.known[body] = kept.text if kept else None
            if kept:
                self.passing.salts[body] = kept.salt

    def forget(self, keep: str = "") -> None:
        """Let go of everything but one body; what is needed again is read again."""
        kept = self.known.get(keep)
        self.known.clear()
        self._passing = None
        if kept is not None:
            self.known[keep] = kept


class Draft:
    """Collects a decision. Pure but for `ids` and `pace`, which it is given."""

    def __init__(
        self,
        state: PeerState,
        view: BotView,
        *,
        stream: str,
        now: Millis,
        texts: Texts,
        ids: NewIds,
        salt: bytes,
        pace: Callable[[Millis], Millis],
        held: Held | None = None,
    ) -> None:
        self.state, self.view, self.stream = state, view, stream
        self.now = max(now, state.at)
        self.pace = pace
        self._texts, self._ids, self._salt, self._held = texts, ids, salt, held
        self._events: list[Event] = []
        self._bodies: list[Body] = []
        self._keys: list[Key] = []
        self._bindings: list[Binding] = []
        self._effects: list[Effect] = []
        self.erase: tuple[str, ...] = ()
        self.unname = self.forget = False
        self.paced_at: Millis | None = None  # when a send that waits only for its place may leave
        self.reply: object = None

    def add(self, event: Event) -> None:
        """Let an event happen."""
        self._events.append(event)
        version = self.state.version + 1
        self.state = evolve(self.state, event, version=version, at=self.now, epoch=self.view.epoch)

    def effect(self, effect: Effect) -> None:
        """Do this once the events are durable."""
        self._effects.append(effect)

    def key(self, source: str, key: str, value: str = "") -> None:
        """Take an idempotency key with the events."""
        self._keys.append(Key(source=source, key=key, value=value))

    def bind(self, session: str) -> None:
        """Keep the bindings' cache in step."""
        self._bindings.append(Binding(stream=self.stream, session=session))

    def id(self, prefix: str) -> str:
        """A new id."""
        return f"{prefix}-{self._ids.token(8)}"

    def store(self, kind: str, text: str) -> tuple[str, int]:
        """Put a text among the bodies; its id and its length in bytes."""
        body = self._texts.passing.named.setdefault((kind, text), self.id("b"))
        salt = self._texts.passing.salts.setdefault(body, bytes.fromhex(self._ids.token(SALT_BYTES)))
        self._bodies.append(Body(id=body, stream=self.stream, kind=kind, text=text, at=self.now, salt=salt))
        self._texts.known[body] = text
        return body, text_bytes(text)

    def digest(self, body: str, text: str) -> str:
        """The fingerprint of a text under the salt of a body, for no body under the log's. Raises TextsNeeded."""
        if body and body not in self._texts.passing.salts:
            raise TextsNeeded(frozenset((body,)))
        return fingerprint(self._texts.passing.salts[body] if body else self._salt, text)

    def need(self, bodies: frozenset[str]) -> None:
        """Make sure that these texts are at hand. Raises TextsNeeded."""
        missing = bodies - self._texts.known.keys()
        if missing:
            raise TextsNeeded(frozenset(missing))

    def text(self, body: str) -> str | None:
        """A text, None if it is gone. Raises TextsNeeded."""
        self.need(frozenset((body,)))
        return self._texts.known[body]

    @property
    def brings(self) -> bool:
        """Whether the decision brings texts of its own."""
        return bool(self._bodies)

    def held(self) -> Held:
        """The bodies of the peer that the log holds, but for those that this decision erases. Raises HeldNeeded."""
        if self._held is None:
            raise HeldNeeded
        gone = frozenset(self.erase)
        return Held(tuple(b for b in self._held.bodies if b[0] not in gone), self._held.more)

    def parts(self, body: str, text: str) -> tuple[Part, ...]:
        """A text's parts. Raises TextsNeeded when it is too large to split within a turn."""
        key = (body, self.view.policy.part_bytes)
        if key not in self._texts.passing.splits:
            if len(text) > SPLIT_BYTES_MAX:
                raise TextsNeeded(frozenset(), frozenset((body,)))
            self._texts.passing.splits[key] = parts(text, self.view.policy.part_bytes)
        return self._texts.passing.splits[key]

    def decision(self, due_at: Millis | None) -> Decision:
        """What came of it."""
        return Decision(
            state=self.state,
            events=tuple(self._events),
            bodies=tuple(self._bodies),
            keys=tuple(self._keys),
            erase=self.erase,
            unname=self.unname,
            forget=self.forget,
            bindings=tuple(self._bindings),
            effects=tuple(self._effects),
            due_at=due_at,
            wake_at=due_at if due_at is None or self.paced_at is None else max(due_at, self.paced_at),
            reply=self.reply,
        )
