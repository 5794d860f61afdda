"""What must hold of each request, drop and turn at the moment it is committed: the rules of delivery, by naive counts from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.text.clean import is_blank
from events.backlog import Output
from events.base import Recorded
from events.bot import Policy, paused_until
from events.peer import OperatorActed, OutputDropped, SendRequested, SendSucceeded, TurnStarted
from events.peer_state import PeerState

if TYPE_CHECKING:
    from tests.world.checks import Checks

SETTLED_ROWS = 10
"""So many rows after a change of policy, login or pause, no decision that was taken before it is still on its way into the log."""

STRANGER = "stranger"
"""Somebody whom no configuration names."""


class Rules:
    """Looks at rows before they are folded; `state` is that of the peer before the row."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._left_out: dict[str, tuple[str, ...]] = {}  # stream -> what the last confirmed push left out
        self._arrived: dict[
            str, int
        ] = {}  # output -> how many bytes of it were accepted, since somebody asked for it anew
        self.fail = checks.fail

    # --- requests -------------------------------------------------------------------------------------------------

    def requested(self, row: Recorded, event: SendRequested, state: PeerState, policy: Policy) -> None:
        """A request."""
        if event.total > policy.part_bytes:
            self.fail("G1", f"a part of {event.total} bytes, of {policy.part_bytes}")
        if state.request is not None:
            self.fail("G5", f"two open requests of {row.stream}")
        self._count(row, event, state, policy)
        self._allowed(row, event)
        if event.kind == "push":
            self._order_of_push(event, state)
        elif event.kind == "answer":
            self._order_of_answer(event, state)

    def _count(self, row: Recorded, event: SendRequested, state: PeerState, policy: Policy) -> None:
        """G1 by the log: the charge that was written equals a naive count, and is within the policy."""
        recount, charge = self._checks.recounts[row.stream], event.charge
        slot = recount.spent() + 1
        share = recount.shared(policy, row.at) + 1 if event.kind == "push" else 0
        if (charge.slot, charge.share) != (slot, share):
            self.fail("G1", f"charged as slot {charge.slot}, share {charge.share}; counted {slot}, {share}")
        if policy.mode == "observe":
            return
        if slot > policy.quota_replies or share > policy.share_replies:
            self.fail("G1", f"slot {slot} of {policy.quota_replies}, share {share} of {policy.share_replies}")
        if not recount.open(event.login, policy, row.at):
            self.fail("G1", "no window is open")
        if event.remainder and recount.remainders() >= recount.half(policy):
            self.fail("G1", f"remainder {recount.remainders() + 1} of {recount.half(policy)}")
        self._reserve(event, state, policy.quota_replies - slot)

    def _reserve(self, event: SendRequested, state: PeerState, left: int) -> None:
        if event.kind == "push" and left < state.open_turns:
            self.fail("G1", f"a push leaves {left} replies for {state.open_turns} open turns")
        if event.kind == "notice" and state.open_turns and left < 1:
            self.fail("G1", "a notice takes the last reply of an open turn")

    def _allowed(self, row: Recorded, event: SendRequested) -> None:
        """What the bot said long enough ago holds: its login, its pauses."""
        account = self._checks.account_of(row.stream)
        bot, policy = self._checks.bots[account], self._checks.policies[event.policy]
        if row.position <= self._checks.last_of_bot[account] + SETTLED_ROWS:
            return
        if event.login != bot.generation or bot.login_lost is not None:
            self.fail("G5", f"a send with login {event.login}; it is {bot.generation}, lost {bot.login_lost}")
        if paused_until(bot, row.stream, row.at) != 0:
            self.fail("G5", f"{row.stream} is paused, and sends")
        if policy != bot.policy:
            self.fail("G1", f"{row.stream} sends by a policy that was changed")

    def _order_of_push(self, event: SendRequested, state: PeerState) -> None:
        """G5, and rule 3: after the answers, the whole backlog in order, the newest carried."""
        queue = [o.output for o in state.queue]
        carried = [c.output for c in event.carried]
        if any(o.held != state.window_number and o.window >= state.window_number for o in state.answers):
            self.fail("G5", "a push goes before an answer")
        if sorted((*carried, *event.left_out)) != sorted(queue):
            self.fail("G5", "a push does not account for the whole backlog")
        if [o for o in queue if o in carried] != carried:
            self.fail("G5", "a push carries outputs out of order")
        seen = [
            o.output for o in state.queue if not is_blank(self._rest(o))
        ]  # blank ones may have been put back by hand
        if seen[-1:] != carried[-1:]:
            self.fail("G5", "a push leaves the newest output out")
        starts = {o.output: o.start for o in state.queue}
        if any(c.start < starts[c.output] for c in event.carried):
            self.fail("G5", "a push repeats bytes that arrived")

    def _rest(self, output: Output) -> str:
        return self._checks.world.disk.bodies[output.body].encode()[output.start :].decode()

    def _order_of_answer(self, event: SendRequested, state: PeerState) -> None:
        """G5: the first of its lane that is not held, from where it ended."""
        window = state.window_number
        lane = [o for o in state.answers if (o.window < window) == event.remainder and o.held != window]
        (carried,) = event.carried
        if not lane or lane[0].output != carried.output or lane[0].start != carried.start:
            self.fail("G5", f"answer {carried.output} from byte {carried.start} is not the first of its lane")
        if carried.start < self._arrived.get(carried.output, 0):
            self.fail("G5", f"answer {carried.output} repeats bytes that arrived, from {carried.start} on")

    # --- what falls out -------------------------------------------------------------------------------------------

    def succeeded(self, row: Recorded, event: SendSucceeded, state: PeerState) -> None:
        """A request was confirmed, or accepted without an id."""
        request = state.request
        self._left_out[row.stream] = request.left_out if request and event.message_id else ()
        self._arrived.update((c.output, c.end) for c in (request.carried if request else ()))

    def operated(self, _row: Recorded, event: OperatorActed) -> None:
        """Somebody asks for outputs anew."""
        for output in event.outputs:
            self._arrived.pop(output.output, None)

    def dropped(self, row: Recorded, event: OutputDropped, state: PeerState, policy: Policy) -> None:
        """Rules 3 and 6: what falls out is too old, too many, or was left out by a push that arrived; never the newest."""
        output, queue = event.output, [o.output for o in state.queue]
        if event.reason in ("expired", "backlog_full") and queue[-1:] == [output.output]:
            self.fail("G2", f"the newest output of {row.stream} is dropped: {event.reason}")
        if output.output in state.carried:
            self.fail("G2", f"{output.output} is dropped while a request carries it")
        if event.reason == "expired" and row.at - output.accepted_at < policy.backlog_age_ms:
            self.fail("G2", f"{output.output} is dropped before its time")
        if event.reason == "merged_out" and output.output not in self._left_out.get(row.stream, ()):
            self.fail("G2", f"{output.output} is dropped as left out by a push that did not arrive")
        if event.reason == "text_gone" and output.body in self._checks.world.disk.ask("bodies", (output.body,)):
            self.fail("G2", f"{output.output} is dropped for its text, which is there")

    def expired(self, row: Recorded, bodies: tuple[str, ...], state: PeerState) -> None:
        """Texts of a certain age go, but for those that something that waits needs."""
        messages = (*state.inbox, *((state.turn.message,) if state.turn else ()))
        needed = {o.body for o in (*state.queue, *state.answers, *messages)}
        if state.request:
            needed |= {state.request.body, state.request.token}
        if taken := needed.intersection(bodies):
            self.fail("G2", f"{sorted(taken)} of {row.stream} expire while something waits for them")

    # --- turns ----------------------------------------------------------------------------------------------------

    def turn_started(self, row: Recorded, event: TurnStarted, state: PeerState) -> None:
        """Only who may talk to the bot starts turns."""
        message = next(m for m in state.inbox if m.message == event.message)
        said_by = self._checks.said_by(self._checks.account_of(row.stream), message)
        if said_by == STRANGER and not state.access:
            self.fail("G6", "a stranger's message started a turn")
