"""G9 over a whole world: what could have been delivered, by one who knows everything.

The oracle sits at the server, and is greedy: it takes every chance at once, which is nearly always the best. It sees each message when
it arrives there, each output the moment it is committed, when the road between gateway and server is open, and when a share rolls; and
nothing of its own is ever under way. It obeys the rules of delivery: token, login, window, quota, share, half a quota for remainders, a
reply for each open turn, the bounds of the backlog, one message per push (rendered by the production code: what fits a part is no
matter of opinion; when it goes is). What the weather takes from the gateway it takes from the oracle: a reply that was lost on its way
is spent for both, a token that was refused is gone for both, and the outputs that such a send carried are left out of the comparison.
So is what an operator takes away before either could send it.

    deliveries = sum over outputs of the share of their bytes that the server accepted

Over many worlds together the gateway's are at least 95 % of the oracle's (`LEAST`); over one world, which may have three outputs, it may
be behind by `SLACK` outputs, or by a third, and by what was charged to two windows: the gateway cannot know which of its replies
reached the server before a message (rule 9), and the oracle does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from actors.text.clean import is_blank
from actors.text.merge import merge
from actors.text.split import parts
from events.base import Recorded
from events.bot import Policy, paused_until
from events.peer import BodyErased, OperatorActed, OutputDropped, OutputSkipped, TurnCompleted

if TYPE_CHECKING:
    from tests.world.checks import Request
    from tests.world.network import Flight
    from tests.world.server import Reply, Server
    from tests.world.world import World

LEAST = 0.95
SLACK = 3.0
A_THIRD = 1 / 3

TAKEN_AWAY = ("operator", "text_gone", "blank", "discarded")
"""Reasons of drops that are nobody's failure to deliver."""


@dataclass
class Waiting:
    """An output, as the oracle has it."""

    output: str
    text: bytes
    body: str
    at: int  # by the world's clock
    window: int
    answer: bool
    start: int = 0  # bytes that the oracle has delivered, or given up
    sent: int = 0  # bytes that it has delivered
    later_parts: int = 0  # parts of it that went out as a remainder

    @property
    def rest(self) -> str:
        return self.text[self.start :].decode()


class Tried(NamedTuple):
    """How a peer stood when nothing could be sent: while it stands like that, nothing can."""

    rows: int  # committed
    running: int  # shares
    window: int
    opened_at: int
    spent: int
    spent_on_remainders: int


@dataclass
class Peer:
    """A peer, as the server knows it, and what waits for it."""

    opened_at: int = -1
    window: int = 0
    spent: int = 0
    spent_on_remainders: int = 0
    refused: bool = False  # its token was; it waits for the next message
    shares: list[int] = field(default_factory=list)  # when each push was spent
    queue: list[Waiting] = field(default_factory=list)
    answers: list[Waiting] = field(default_factory=list)
    tried_in_vain: Tried | None = None

    def fingerprint(self, rows: int, running: int) -> Tried:
        """All that decides what can be sent, but for the passing of time, by which more never can; with what the log has."""
        return Tried(rows, running, self.window, self.opened_at, self.spent, self.spent_on_remainders)


class Oracle:
    """What could have been delivered, and what was."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._peers: dict[tuple[str, str], Peer] = {}  # (account's name, peer's id)
        self._outputs: dict[str, Waiting] = {}
        self._got: dict[str, int] = {}  # output -> bytes that the server accepted from the gateway
        self._spoilt: set[str] = set()  # outputs of which the weather took a send

    # --- what it hears of -----------------------------------------------------------------------------------------

    def heard(self, name: str, peer: str, *, token: bool) -> None:
        """The server has a message; not each brings a token."""
        found = self._peers.setdefault((name, peer), Peer())
        found.opened_at, found.window = self._world.now, found.window + 1
        found.spent = found.spent_on_remainders = 0
        found.refused = found.refused and not token

    def logged_in(self, name: str) -> None:
        """A new login: the windows of the old one are void."""
        for (account, _), peer in self._peers.items():
            if account == name:
                peer.opened_at = -1

    def row(self, row: Recorded, account: str) -> None:
        """An event of a peer was committed."""
        match row.event:
            case TurnCompleted() as event:
                self._accept(row, event, account)
            case OutputSkipped(output=output):
                self._take_away({output.output})
            case OutputDropped(output=output, reason=reason) if reason in TAKEN_AWAY:
                self._take_away({output.output})
            case BodyErased(bodies=bodies):
                self._take_away({o.output for o in self._outputs.values() if o.body in bodies})
            case OperatorActed(what=what, outputs=outputs) if what in ("retry", "more"):
                for output in outputs:
                    self._again(row.stream, output.output, answer=what == "more")
            case _:
                pass

    def _accept(self, row: Recorded, event: TurnCompleted, account: str) -> None:
        text = self._world.disk.bodies.get(event.body, "")
        if is_blank(text):
            return
        peer = self._peer_of(row.stream)
        answer = event.origin == "inbound"
        waiting = Waiting(event.output, text.encode(), event.body, self._world.now, peer.window, answer)
        self._outputs[event.output] = waiting
        (peer.answers if answer else peer.queue).append(waiting)
        most = self._policy(account).backlog_outputs
        del peer.queue[: max(0, len(peer.queue) - most)]

    def _again(self, stream: str, output: str, *, answer: bool) -> None:
        """Somebody asks for what is dead; the oracle may have delivered it long ago."""
        known, peer = self._outputs.get(output), self._peer_of(stream)
        if known is None or known.start >= len(known.text) or known in peer.queue or known in peer.answers:
            return
        known.at, known.window, known.later_parts = self._world.now, peer.window, 0
        (peer.answers if answer or known.answer else peer.queue).append(known)

    def _take_away(self, names: set[str]) -> None:
        for peer in self._peers.values():
            peer.queue = [o for o in peer.queue if o.output not in names]
            peer.answers = [o for o in peer.answers if o.output not in names]

    def arrived(self, server: Server, flight: Flight, reply: Reply, request: Request) -> None:
        """The gateway's send is at the server."""
        if reply.code == 0:
            for carried in request.event.carried:
                self._got[carried.output] = self._got.get(carried.output, 0) + carried.end - carried.start
            if request.event.kind == "notice":
                self._peers.setdefault((server.account, flight.order.peer), Peer()).spent += 1
            return
        self._spoil(request)
        newest = next(reversed(server.phone(flight.order.peer).tokens), "")
        if reply.code == -2 and flight.order.token == newest:
            self._peers.setdefault((server.account, flight.order.peer), Peer()).refused = True

    def lost(self, server: Server, flight: Flight, request: Request) -> None:
        """The gateway's send never gets to the server, and nobody says so: spent."""
        self._spoil(request)
        peer = self._peers.setdefault((server.account, flight.order.peer), Peer())
        peer.spent += 1
        peer.spent_on_remainders += request.event.remainder
        if request.event.kind == "push":
            peer.shares.append(self._world.now)

    def refused(self, request: Request) -> None:
        """The gateway's send is refused before the server has looked at it: free."""
        self._spoil(request)

    def unknown(self, outputs: Iterable[str]) -> None:
        """Nobody knows what became of a request of the gateway's, not even whether it left: its process ended."""
        self._spoilt.update(outputs)

    def _spoil(self, request: Request) -> None:
        self._spoilt.update(c.output for c in request.event.carried)

    # --- what it does ---------------------------------------------------------------------------------------------

    def before_jump(self, gap: int) -> None:
        """Nothing happens for a while: deliver what can be delivered in it."""
        now, rows = self._world.now, self._world.checks.seen
        for (name, peer_id), peer in self._peers.items():
            if not (peer.queue or peer.answers) or peer.refused or peer.opened_at < 0:
                continue
            policy = self._policy(f"weixin:{name}")
            if peer.spent >= self._quota(name, policy):
                continue
            rolls = [spent_at + policy.share_window_ms for spent_at in peer.shares]
            rolling = [at for at in rolls if now < at < now + gap]
            before = peer.fingerprint(rows, sum(1 for at in rolls if at > now))
            if (before == peer.tried_in_vain and not rolling) or not self._open(name, peer_id):
                continue
            self._send(name, peer_id, peer, policy, now)
            if peer.spent == before.spent:
                peer.tried_in_vain = before
            for at in rolling:
                if peer.queue:
                    self._send(name, peer_id, peer, policy, at)

    def _open(self, name: str, peer_id: str) -> bool:
        """Whether there is a way from the gateway to the server, and a token."""
        world, server = self._world, self._world.servers[name]
        life = world.life(name)
        if life is None or life.state != "running" or life.machine.paused or server.refusing or not server.login:
            return False
        stream = life.account.known(peer_id)
        bot = world.checks.bots[life.spec.address.bot]
        if stream is None or paused_until(bot, stream, life.machine.clock.now()) != 0:
            return False
        return bool(server.phone(peer_id).tokens)

    def _send(self, name: str, peer_id: str, peer: Peer, policy: Policy, at: int) -> None:
        if at >= peer.opened_at + policy.quota_window_ms - policy.client_timeout_ms - 5_000:
            return
        quota = self._quota(name, policy)
        half = max(1, quota // 2) if policy.mode == "enforce" else quota
        self._send_answers(peer, policy, quota, half, at)
        peer.queue = [o for o in peer.queue if o.at + policy.backlog_age_ms > at or o is peer.queue[-1]]
        running = sum(1 for spent_at in peer.shares if spent_at + policy.share_window_ms > at)
        reserve = self._world.checks.open_turns(name, peer_id)
        if policy.mode == "observe":
            running = reserve = 0
        if peer.queue and running < policy.share_replies and quota - peer.spent > reserve:
            self._push(peer, policy, at)

    def _send_answers(self, peer: Peer, policy: Policy, quota: int, half: int, at: int) -> None:
        peer.answers = [o for o in peer.answers if o.at + policy.quota_window_ms > at]
        for output in sorted(peer.answers, key=lambda o: o.window == peer.window):
            remainder = output.window < peer.window
            if peer.spent >= quota or (remainder and peer.spent_on_remainders >= half):
                continue
            for part in parts(output.rest, policy.part_bytes):
                if peer.spent >= quota or (remainder and peer.spent_on_remainders >= half):
                    break
                peer.spent += 1
                peer.spent_on_remainders += remainder
                output.later_parts += remainder
                output.sent += part.end - part.start
                output.start += part.end - part.start
                if output.later_parts >= policy.answer_parts:
                    output.start = len(output.text)
                    break
        peer.answers = [o for o in peer.answers if o.start < len(o.text) and not is_blank(o.rest)]

    @staticmethod
    def _push(peer: Peer, policy: Policy, at: int) -> None:
        by_name = {o.output: o for o in peer.queue}
        for carried in merge([(o.output, o.rest) for o in peer.queue], policy.part_bytes).carried:
            by_name[carried.output_id].sent += carried.end - carried.start
        for output in peer.queue:
            output.start = len(output.text)
        peer.queue = []
        peer.spent += 1
        peer.shares.append(at)

    # --- the comparison -------------------------------------------------------------------------------------------

    def reckoning(self) -> tuple[float, float]:
        """(the gateway's deliveries, the oracle's), in outputs."""
        fair = [o for name, o in self._outputs.items() if name not in self._spoilt]
        got = sum(min(1.0, self._got.get(o.output, 0) / len(o.text)) for o in fair)
        return got, sum(min(1.0, o.sent / len(o.text)) for o in fair)

    def check(self) -> None:
        """Over one world."""
        got, could = self.reckoning()
        carried = sum(recount.carried() for recount in self._world.checks.recounts.values())
        if could - got > max(SLACK, could * A_THIRD) + carried:
            self._world.checks.fail("G9", f"{got:.1f} outputs were delivered of {could:.1f} that could have been")

    # --- names ----------------------------------------------------------------------------------------------------

    def _peer_of(self, stream: str) -> Peer:
        return self._peers.setdefault(self._world.checks.address_of(stream), Peer())

    def _quota(self, name: str, policy: Policy) -> int:
        return min(policy.quota_replies, self._world.servers[name].quota)

    def _policy(self, account: str) -> Policy:
        return self._world.checks.bots[account].policy
