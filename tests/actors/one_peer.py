"""One peer driven through `decide`, with its recorded events and bodies in plain lists: no log, no actors, no clock but the test's."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.deciding.commands import AcceptTurn, Advance, Command, Conclude, Facts, FinishTurn
from actors.deciding.decide import decide
from actors.deciding.draft import Draft, Texts
from actors.deciding.view import BotView, Decision, Effect, Held, Send
from actors.errors import HeldNeeded, TextsNeeded
from actors.ports import LISTEN_MS, Accepted, Outcome, Refused, Unknown
from actors.text.split import parts
from events import codec
from events.backlog import Dead, Output
from events.base import Event, Origin, Recorded, SendClass, Status
from events.bot import Policy
from events.peer import ContextTokenSeen, MessageReceived, SendRequested
from events.peer_state import PeerState, evolve
from events.quota import SEND_WITHIN_MS
from events.streams import delivery_id
from store.records import Kept
from tests.streams_builder import ACCOUNT, ANN, NOON, SECOND

SALT = b"salt of the tests"


class CountedIds:
    """Ids that are the same in every run."""

    def __init__(self) -> None:
        self.count = 0

    def token(self, nbytes: int) -> str:
        self.count += 1
        return f"{self.count:0{2 * nbytes}x}"


class OnePeer:
    """A peer, its view, and everything that was recorded of it."""

    def __init__(self, *, policy: Policy | None = None, **view: Any) -> None:
        self.stream = ANN
        self.now = NOON
        self.view = BotView(
            account=ACCOUNT,
            epoch=1,
            generation=1,
            policy=policy or Policy(),
            policy_id="p-1",
            agents=1,
            **view,
        )
        self.state = PeerState()
        self.recorded: list[Recorded] = []
        self.texts: dict[str, str] = {}  # bodies that are in the log
        self.salts: dict[str, bytes] = {}  # of those among them that have one
        self.keys: dict[tuple[str, str], str] = {}
        self.effects: list[Effect] = []
        self.ids = CountedIds()
        self.paced_until = 0
        self.fetched: list[TextsNeeded] = []
        self.last = Decision(state=self.state)
        self.messages = 0
        self.held_max = 1_000  # bodies that one look into the log shows

    # the world around

    def wait(self, ms: int) -> OnePeer:
        """Let time pass; nobody looks."""
        self.now += ms
        return self

    def see(self, **changes: Any) -> OnePeer:
        """The bot's view changes; nobody looks."""
        self.view = msgspec.structs.replace(self.view, **changes)
        return self

    def rule(self, **changes: Any) -> OnePeer:
        """The policy changes; nobody looks."""
        return self.see(policy=msgspec.structs.replace(self.view.policy, **changes), policy_id=f"p-{self.ids.token(2)}")

    def erased(self, *bodies: str) -> OnePeer:
        """Texts vanish from the log without a word."""
        for body in bodies:
            del self.texts[body]
        return self

    # deciding

    def do(self, command: Command) -> Decision:
        """Decide and record. A refusal leaves everything as it was."""
        decision = self.rehearse(command)
        for body in decision.bodies:
            self.texts[body.id] = body.text
            self.salts[body.id] = body.salt
        for key in decision.keys:
            assert (key.source, key.key) not in self.keys, f"{key} is taken"
            self.keys[key.source, key.key] = key.value
        self.record(*decision.events)
        assert self.state == decision.state
        for body in decision.erase:
            self.texts.pop(body, None)
        self.effects.extend(decision.effects)
        self.last = decision
        return decision

    def rehearse(self, command: Command) -> Decision:
        """Decide as the actor does: read what is missing, then again."""
        texts, held = Texts(), None
        while True:
            try:
                return decide(self.draft(texts, held), command)
            except TextsNeeded as need:
                self.fetched.append(need)
                texts.learn(need.bodies, self.kept())
                size = self.view.policy.part_bytes
                texts.passing.splits.update({(b, size): parts(texts.known[b] or "", size) for b in need.splits})
            except HeldNeeded:
                bodies = tuple((body, "output") for body in self.texts)
                held = Held(bodies[: self.held_max], more=len(bodies) > self.held_max)

    def kept(self) -> dict[str, Kept]:
        """The bodies as the log gives them."""
        return {body: Kept(text, self.salts.get(body) or SALT) for body, text in self.texts.items()}

    def begin_anew(self) -> None:
        """The same person under a new pseudonym, of whom the log knows nothing."""
        self.state, self.recorded, self.last = PeerState(), [], Decision(state=PeerState())

    def draft(self, texts: Texts | None = None, held: Held | None = None) -> Draft:
        if texts is None:
            texts = Texts()
            texts.learn(self.texts, self.kept())
        return Draft(
            self.state,
            self.view,
            stream=self.stream,
            now=self.now,
            texts=texts,
            ids=self.ids,
            salt=SALT,
            pace=lambda now: max(now, self.paced_until),
            held=held,
        )

    def record(self, *events: Event) -> None:
        """Append events, through the codec, and fold them."""
        at = max(self.now, self.state.at)
        for event in events:
            tag = codec.tag_of(event)
            read = codec.decode(tag, codec.encode(event))
            recorded = Recorded(
                position=len(self.recorded) + 1,
                stream=self.stream,
                version=self.state.version + 1,
                type=tag,
                at=at,
                epoch=self.view.epoch,
                cause="",
                event=read,
            )
            self.recorded.append(recorded)
            self.state = evolve(self.state, read, version=recorded.version, at=at, epoch=recorded.epoch)

    def look(self) -> Decision:
        """Nothing new; what is due?"""
        return self.do(Advance())

    # what happens

    def hears(
        self, text: str = "hi", *, token: bool = True, ago_ms: int = 0, not_before: int | None = None, **more: Any
    ) -> str:
        """The log gets a message of the peer; nobody looks. Its id."""
        self.messages += 1
        name, body = f"m-{self.messages}", f"in-{self.messages}"
        self.texts[body] = text
        self.record(
            MessageReceived(
                message=name,
                body=body,
                total=len(text.encode()),
                sent_at=self.now - ago_ms,
                not_before=self.now - SECOND if not_before is None else not_before,
                generation=self.view.generation,
                **more,
            )
        )
        if token:
            self.texts[f"k-{self.messages}"] = f"token {self.messages}"
            self.record(ContextTokenSeen(message=name, body=f"k-{self.messages}", generation=self.view.generation))
        return name

    def message(self, text: str = "hi", **more: Any) -> Decision:
        """The peer writes, and its actor hears of it."""
        self.hears(text, **more)
        return self.do(Facts(()))

    def met(self) -> OnePeer:
        """The peer wrote, and was answered, so that a token and a window are there and nothing waits."""
        self.message()
        self.finish("hello")
        self.ok()
        return self

    def accept(self, turn: str, text: str, *, origin: Origin = "scheduled", status: Status = "completed") -> Decision:
        """A turn that no message started is over."""
        return self.do(AcceptTurn(turn_id=turn, origin=origin, status=status, text=text, keys_value="{}"))

    def finish(self, text: str, *, status: Status = "completed") -> Decision:
        """The open turn is over."""
        assert self.state.turn is not None
        return self.do(FinishTurn(turn_id=self.state.turn.turn_id, status=status, text=text))

    def outcome(self, outcome: Outcome, request: str = "") -> Decision:
        """The outlet reports on the open request, or on an earlier one."""
        if not request:
            assert self.state.request is not None
            request = self.state.request.request
        return self.do(Conclude(request, outcome))

    def ok(self, message_id: str = "1", request: str = "") -> Decision:
        return self.outcome(Accepted(message_id=message_id), request)

    def refuse(self, failure: SendClass = "blocked", code: int = -2, request: str = "") -> Decision:
        return self.outcome(Refused(failure=failure, code=code), request)

    def unknown(self, reason: str = "timeout") -> Decision:
        assert self.state.request is not None
        settled_at = self.state.request.requested_at + SEND_WITHIN_MS + self.view.policy.client_timeout_ms + LISTEN_MS
        return self.outcome(Unknown(reason=reason, settled_at=settled_at))

    # what it came to

    @property
    def sends(self) -> list[Send]:
        """Everything that was given to the outlet."""
        return [e for e in self.effects if isinstance(e, Send)]

    @property
    def said(self) -> list[str]:
        """The texts that were given to the outlet."""
        return [s.text for s in self.sends]

    @property
    def requests(self) -> list[SendRequested]:
        return [r.event for r in self.recorded if isinstance(r.event, SendRequested)]

    @property
    def types(self) -> list[str]:
        """What the last decision recorded."""
        return [codec.tag_of(e) for e in self.last.events]

    def of(self, turn: str) -> str:
        """The id of a turn's output."""
        return delivery_id(self.stream, turn)

    @property
    def queued(self) -> list[str]:
        """The turns of the backlog."""
        return [o.turn_id for o in self.state.queue]

    def dead(self, turn: str) -> Dead:
        """How a turn's output ended."""
        return next(d for d in self.state.dead if d.output.turn_id == turn)

    def fate(self, turn: str) -> tuple[str, str]:
        dead = self.dead(turn)
        return dead.fate, dead.reason

    def waiting(self, turn: str) -> Output:
        return next(o for o in (*self.state.answers, *self.state.queue) if o.turn_id == turn)
