"""What must hold in a world: the guarantees of the design, checked after every turn on what was committed, and against the server's own
count when something arrives there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from actors.fence import CONFIRMED_MS
from actors.gateway.api import TurnOffer
from actors.gateway.finding import delivery_key
from actors.peer import agenda_of
from events import bot, codec, peer_state
from events.base import Recorded
from events.bot import BotStarted, BotState, Policy, PolicyChanged
from events.history import HistoryFold
from events.peer import (
    AddressForgotten,
    BodyErased,
    MessageReceived,
    OperatorActed,
    OutputDropped,
    SendRequested,
    SendSucceeded,
    SendUnknown,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from events.peer_state import Message, PeerState
from events.quota import SEND_WITHIN_MS
from events.streams import fingerprint
from scripts.reading.world import view_of
from store.records import AgendaRow
from tests.world.disk import READ_MS_MAX, SALT
from tests.world.earliest import Earliest
from tests.world.network import TIMEOUT_MS, Flight
from tests.world.oracle import Oracle
from tests.world.recount import Recount
from tests.world.rules import SETTLED_ROWS, Rules
from tests.world.server import Reply, Server, Taken
from tests.world.texts import untrue_texts

if TYPE_CHECKING:
    from tests.world.world import World

FREE = 1 << 30
RESIDUAL_MS = CONFIRMED_MS + READ_MS_MAX
"""How long after a takeover bytes may still leave: the fence's last look, and the look itself."""


class Violation(AssertionError):
    """A guarantee does not hold."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


@dataclass
class Request:
    """A committed request, and when it was committed by the world's clock."""

    row: Recorded
    event: SendRequested
    account: str
    policy: Policy
    committed_at: int


class Checks:
    """All that is checked while a world runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._committed, self.seen = world.disk.committed, 0
        self.peers: dict[str, PeerState] = {}
        self.bots: dict[str, BotState] = defaultdict(BotState)
        self.histories: dict[str, HistoryFold] = defaultdict(HistoryFold)
        self.recounts: dict[str, Recount] = defaultdict(Recount)
        self.requests: dict[str, Request] = {}  # by client id
        self.policies: dict[str, Policy] = {}
        self.claims: dict[str, list[int]] = defaultdict(list)  # account -> when each epoch began, by the world's clock
        self.handled: dict[tuple[str, int, str], int] = defaultdict(int)
        self.accepted: dict[str, set[str]] = defaultdict(set)  # stream -> outputs
        self.deliveries: dict[str, str] = {}  # turn -> the last delivery of it
        self.promised: set[str] = set()  # turns of which somebody was told that they are accepted
        self.refused: dict[str, str] = {}
        self._named: dict[str, set[str]] = {}  # turn -> the deliveries that its first acceptance named
        self._erased: list[str] = []  # bodies that must be gone, not looked for yet
        self._accounts: dict[str, str] = {}
        self._addresses: dict[str, tuple[str, str]] = {}
        self._dirty: set[str] = set()  # streams of which an actor may have a state that was not compared yet
        self._replays: dict[str, PeerState] = {}  # from the rows as they are stored
        self._replayed_to = 0
        self.last_of_bot: dict[str, int] = defaultdict(int)
        self.oracle = Oracle(world)
        self._rules = Rules(self)
        self._earliest = Earliest(world)

    def fail(self, rule: str, what: str) -> None:
        raise Violation(rule, what)

    def account_of(self, stream: str) -> str:
        if stream not in self._accounts:
            self._accounts = self.world.disk.ask("accounts_of")
        return self._accounts[stream]

    def address_of(self, stream: str) -> tuple[str, str]:
        """(account's name, peer's id) of a stream, for ever; ("", stream) if nobody knows."""
        if stream not in self._addresses:
            account = self.account_of(stream)
            rows = self.world.disk.ask("addresses", account)
            self._addresses.update({r.stream: (account.rpartition(":")[2], r.peer) for r in rows})
        return self._addresses.setdefault(stream, ("", stream))

    # --- after every turn -----------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether there is nothing to look at before something is committed, or an actor hydrated."""
        return not self._dirty and self.seen == len(self._committed)

    def hydrating(self, stream: str) -> None:
        """An actor is about to read its stream."""
        if stream in self.peers:
            self._dirty.add(stream)

    def turn(self) -> None:
        """Take in what was committed, and compare the actors with it."""
        committed = self._committed
        if len(committed) != self.seen:
            rows, self.seen = committed[self.seen :], len(committed)
            for row in rows:
                self._row(row)
        if self._dirty:
            self._compare_actors()

    def _row(self, row: Recorded) -> None:
        account = self.account_of(row.stream)
        if row.stream.startswith("bot-"):
            self._bot_row(row, account)
        else:
            self._peer_row(row, account)
        if row.epoch != len(self.claims[account]):
            self.fail("G3", f"{row.type} was committed under epoch {row.epoch} of {len(self.claims[account])}")

    def _bot_row(self, row: Recorded, account: str) -> None:
        event: Any = row.event
        if isinstance(event, BotStarted):
            self.claims[account].append(self.world.now)
            self._earliest.claimed(account, event.instance)
        if isinstance(event, PolicyChanged):
            self.policies[event.policy_id] = event.policy
        self.bots[account] = bot.evolve(self.bots[account], event, version=row.version, at=row.at, epoch=row.epoch)
        self.last_of_bot[account] = row.position

    def _peer_row(self, row: Recorded, account: str) -> None:
        before = self.peers.get(row.stream, PeerState())
        if row.at < before.at:
            self.fail("G4", f"time goes back in {row.stream}")
        for wrong in untrue_texts(row.event, self.world.disk):
            self.fail("G4", wrong)
        match row.event:
            case SendRequested() as event:
                self._requested(row, event, before, account)
            case MessageReceived() as event:
                self._handled(row, event)
                if early_ms := self._earliest.early_ms(account, row.stream, event):
                    self.fail("G1", f"the server had {event.message} {early_ms} ms before its earliest instant")
            case SendUnknown():
                self.oracle.unknown(before.carried)
            case SendSucceeded() as event:
                self._rules.succeeded(row, event, before)
            case OperatorActed() as event:
                self._rules.operated(row, event)
            case OutputDropped() as event:
                self._rules.dropped(row, event, before, self.bots[account].policy)
            case TurnStarted() as event:
                self._rules.turn_started(row, event, before)
            case TurnCompleted(output=output, turn_id=turn_id) | TurnFailed(output=output, turn_id=turn_id):
                self.deliveries[turn_id] = output
                if output in self.accepted[row.stream]:
                    self.fail("G2", f"output {output} was accepted twice")
                self.accepted[row.stream].add(output)
            case BodyErased(bodies=bodies, reason=reason):
                self._erased.extend(bodies)
                self.world.count(f"bodies {'expired' if reason == 'expired' else 'erased'}")
                if reason == "expired":
                    self._rules.expired(row, bodies, before)
            case AddressForgotten():
                self.handled |= dict.fromkeys(self._earliest.forget(row.stream), 0)
        self.peers[row.stream] = peer_state.evolve(before, row.event, version=row.version, at=row.at, epoch=row.epoch)
        self.recounts[row.stream].apply(row)
        self.histories[row.stream].apply(row)
        self.oracle.row(row, account)
        self._dirty.add(row.stream)

    def _compare_actors(self) -> None:
        """G4: a live actor's state is the fold of the log."""
        running = [gateway for gateway in self.world.gateways if gateway.machine.alive]
        for stream in tuple(self._dirty):
            state, behind = self.peers[stream], False
            for gateway in running:
                for life in gateway.lives.values():
                    actor: Any = life.account.peers.actor(stream)
                    if actor is None:
                        continue
                    version = actor.state.version
                    if version == state.version:
                        if actor.state != state:
                            self.fail("G4", f"the state of {stream} is not the fold of its log")
                    elif version > state.version:
                        self.fail("G4", f"the actor of {stream} is ahead of the log")
                    elif not life.account.fenced:
                        behind = True
            if not behind:
                self._dirty.discard(stream)

    # --- requests -------------------------------------------------------------------------------------------------

    def _requested(self, row: Recorded, event: SendRequested, state: PeerState, account: str) -> None:
        policy = self.policies[event.policy]
        self.requests[event.client_id] = Request(row, event, account, policy, self.world.now)
        self._rules.requested(row, event, state, policy)

    # --- messages and turns ---------------------------------------------------------------------------------------

    def _handled(self, row: Recorded, event: MessageReceived) -> None:
        """G6: a message is handled once."""
        name = (self.account_of(row.stream), event.sent_at, self.world.disk.bodies[event.body])
        self.handled[name] += 1
        if self.handled[name] > 1:
            self.fail("G6", f"the message of {event.sent_at} was handled twice")

    def said_by(self, account: str, message: Message) -> str:
        """Who said a message that waits."""
        name, text = account.rpartition(":")[2], self.world.disk.bodies[message.body]
        return next(s.peer for a, s in self.world.said if (a, s.sent_at, s.text) == (name, message.sent_at, text))

    def acknowledged(self, turn_id: str, text: str) -> None:
        """Somebody was told that a turn is accepted."""
        self.promised.add(turn_id)
        self.kept(turn_id)
        found = self.world.disk.ask("key", "delivery", self.deliveries[turn_id])
        keys = [delivery_key(turn_id, value) for value in found.values()]
        if not any(fingerprint(self.world.disk.salts.get(k.body) or SALT, text) == k.text for k in keys):
            self.fail("G7", f"turn {turn_id} is in the log with another text")

    def accepted_by(self, deliveries: Iterable[str]) -> None:
        """Somebody was told that some peers of a session have the turn."""
        known = set[str]().union(*self.accepted.values())
        if missing := set(deliveries) - known:
            self.fail("G7", f"deliveries {sorted(missing)} were acknowledged and are not in the log")

    def delivered_as(self, turn_id: str, deliveries: list[str]) -> None:
        """The same turn is the same deliveries, over restarts and rebinding; of a process with fewer accounts, fewer of them."""
        named = self._named.setdefault(turn_id, set(deliveries))
        if not named.issuperset(deliveries):
            self.fail("G2", f"turn {turn_id} was accepted as {sorted(named)}, and then as {deliveries}")

    def kept(self, turn_id: str) -> None:
        """G7: it is in the log."""
        if turn_id not in self.deliveries:
            self.fail("G7", f"turn {turn_id} was acknowledged and is not in the log")

    def refused_turn(self, offer: TurnOffer, refusal: Exception) -> None:
        self.refused[offer.turn_id] = type(refusal).__name__

    # --- at the server --------------------------------------------------------------------------------------------

    def left(self, flight: Flight, account: str) -> None:
        """G3: bytes leave with a committed request, in time, under the current epoch."""
        request = self.requests.get(flight.order.client_id)
        now = self.world.now
        if request is None:
            self.fail("G3", f"{flight.order.client_id} leaves without a committed request")
            return
        if now - request.committed_at > SEND_WITHIN_MS + 50:
            self.fail("G3", f"bytes leave {now - request.committed_at} ms after their request")
        claims = self.claims[request.account]
        if request.row.epoch < len(claims) and now - claims[request.row.epoch] > RESIDUAL_MS:
            self.fail("G3", f"bytes of epoch {request.row.epoch} leave long after epoch {len(claims)} began")
        if fingerprint(self.world.disk.salts[request.event.body], flight.order.text) != request.event.digest:
            self.fail("G3", "other bytes leave than were requested")

    def arrived(self, server: Server, flight: Flight, reply: Reply) -> None:
        """G1 by the server's own count."""
        request = self.requests[flight.order.client_id]
        policy, event = request.policy, request.event
        now = self.world.now
        self.oracle.arrived(server, flight, reply, request)
        if policy.mode == "observe":
            return
        in_time = now - request.committed_at < SEND_WITHIN_MS + TIMEOUT_MS and not flight.machine.wall.offset_ms
        if reply.why == "window" and in_time:  # a clock that was set back finds the window longer than it is
            self.fail("G1", "a send arrives after its window's end")
        phone = server.phone(flight.order.peer)
        counted = phone.taken[len(phone.taken) - phone.count :]
        limit = self._loosest([policy, *(self.requests[t.client_id].policy for t in counted)])
        if reply.why == "quota" and limit.quota_replies <= server.quota:
            self.fail("G1", f"the server counts more than {limit.quota_replies} replies in its window")
        if reply.code == 0 and phone.count > limit.quota_replies:
            self.fail("G1", f"reply {phone.count} of {limit.quota_replies} by the server's count")
        if reply.code == 0 and event.kind == "push":
            self._share_at_server(phone.taken, policy)

    def lost(self, server: Server, flight: Flight) -> None:
        """Bytes left, and never arrive."""
        self.oracle.lost(server, flight, self.requests[flight.order.client_id])

    def turned_away(self, flight: Flight) -> None:
        """Bytes arrived somewhere before the server, and were refused there."""
        self.oracle.refused(self.requests[flight.order.client_id])

    def open_turns(self, name: str, peer: str) -> int:
        """How many of a peer's messages have no answer yet."""
        life = self.world.life(name)
        stream = life.account.known(peer) if life else None
        return self.peers[stream].open_turns if stream in self.peers else 0

    @staticmethod
    def _loosest(policies: list[Policy]) -> Policy:
        """What replies that count together were allowed: they may have been decided under different policies, and late ones
        arrive after those that were decided after them."""
        free = FREE if any(p.mode == "observe" for p in policies) else 0
        return msgspec.structs.replace(
            policies[0],
            quota_replies=max(free, *(p.quota_replies for p in policies)),
            share_replies=max(free, *(p.share_replies for p in policies)),
        )

    def _share_at_server(self, taken: list[Taken], policy: Policy) -> None:
        at = taken[-1].at
        pushes = [
            t for t in taken if t.at > at - policy.share_window_ms and self.requests[t.client_id].event.kind == "push"
        ]
        limit = self._loosest([policy, *(self.requests[t.client_id].policy for t in pushes)]).share_replies
        if len(pushes) > limit:
            ages = [at - t.at for t in pushes]
            self.fail("G1", f"push {len(pushes)} of {limit} by the server's count, ages {ages}")

    # --- at a crash and at the end --------------------------------------------------------------------------------

    def audit(self) -> None:
        """G2, G4 and G7 over everything that is in the log."""
        self.turn()
        for stream, state in self.peers.items():
            self._fates(stream, state)
        self._replayed()
        if left := self.world.disk.ask("bodies", tuple(self._erased)):
            self.fail("G2", f"texts that were erased are still there: {sorted(left)}")
        self._erased.clear()
        for turn_id in self.promised:
            self.kept(turn_id)

    def _fates(self, stream: str, state: PeerState) -> None:
        """G2: each accepted output is in exactly one fate, and the state agrees with the history."""
        outputs = self.histories[stream].history().outputs
        if outputs.keys() != self.accepted[stream]:
            self.fail("G2", f"the history of {stream} knows other outputs than were accepted")
        waiting = [o.output for o in (*state.queue, *state.answers)]
        if len(waiting) != len(set(waiting)):
            self.fail("G2", f"an output of {stream} waits twice")
        queued = {name for name, story in outputs.items() if story.fate == "queued"}
        requested = {name for name, story in outputs.items() if story.fate == "requested"}
        if queued | requested != {
            *waiting,
            *state.carried,
        }:  # what was erased on its way waits no more, and is requested still
            self.fail("G2", f"{stream}: waiting {sorted(waiting)}, by history {sorted(queued | requested)}")
        if requested != state.carried:
            self.fail("G2", f"{stream}: requested {sorted(state.carried)}, by history {sorted(requested)}")

    def _replayed(self) -> None:
        """G4: the rows as they are stored, folded anew, give the same states. Each row is read once: rows never change."""
        while page := self.world.disk.ask("row_page", self._replayed_to, 5_000):
            for row in page:
                self._replayed_to = row.position
                if not row.stream.startswith("bot-"):
                    event = codec.decode(row.type, row.data)
                    before = self._replays.get(row.stream, PeerState())
                    self._replays[row.stream] = peer_state.evolve(
                        before, event, version=row.version, at=row.at, epoch=row.epoch
                    )
        if self._replays != self.peers:
            self.fail("G4", "the stored rows fold to other states")

    def rebuilt(self, account: str) -> tuple[list[AgendaRow], list[tuple[str, str]]]:
        """The caches of an account as the events alone give them."""
        rows, bindings = [], []
        for stream, state in self.peers.items():
            if self.account_of(stream) == account:
                view = view_of(self.bots[account], account, stream, state.at)
                rows.append(agenda_of(stream, state, view, state.at))
                if state.session:
                    bindings.append((stream, state.session))
        return rows, bindings

    def caches(self, account: str) -> None:
        """G4: agenda and bindings say what the events say; a due time is never later, but for pace."""
        stored = {row.stream: row for row in self.world.disk.ask("agenda", account)}
        rows, bindings = self.rebuilt(account)
        for row in rows:
            kept = stored.get(row.stream, AgendaRow(stream=row.stream))
            if (kept.open_epoch, kept.waiting > 0, kept.turn_open) != (row.open_epoch, row.waiting > 0, row.turn_open):
                self.fail("G4", f"the agenda says {kept}, the events say {row}")
            self._due(kept, row, account)
        kept_bindings = [(b.stream, b.session) for a, b in self.world.disk.ask("bindings") if a == account]
        if sorted(kept_bindings) != sorted(bindings):
            self.fail("G4", "the bindings differ from the events")

    def _due(self, kept: AgendaRow, row: AgendaRow, account: str) -> None:
        state = self.peers[row.stream]
        fresh = self.last_of_bot[account] + SETTLED_ROWS < self._position_of(row.stream)
        agentless = state.turn is not None  # no event says whether agents are connected
        if fresh and not agentless and row.due_at is not None:
            allowed = max(row.due_at, state.at + 60_000)
            if kept.due_at is None or kept.due_at > allowed:
                self.fail("G4", f"the agenda is due at {kept.due_at}, by the events at {row.due_at}")

    def _position_of(self, stream: str) -> int:
        return next(r.position for r in reversed(self.world.disk.committed) if r.stream == stream)

    def digest_rows(self) -> str:
        """A fingerprint of everything committed."""
        rows = self.world.disk.committed
        return fingerprint(SALT, msgspec.json.encode([(r.stream, r.type, r.at, r.epoch) for r in rows]).decode())
