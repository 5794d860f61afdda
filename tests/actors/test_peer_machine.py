"""One peer and its bot's view on random histories, against a server that counts for itself and a bookkeeper that reads raw events.

G1 quota and share by the server's count; G2 one fate; G3 epochs; G4 state == fold, and determinism; G5 order; G9 nothing that may leave
stays, and what is due later is due later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from actors.deciding.commands import (
    Abandon,
    AcceptTurn,
    Bind,
    CancelTurn,
    Command,
    Conclude,
    EraseOutput,
    ErasePeer,
    ExpireBodies,
    Facts,
    FinishTurn,
    Grant,
    LoseAgent,
    Operate,
    TakeTurn,
)
from actors.deciding.gate import Lane, forget_at, next_due_at, next_lane
from actors.deciding.view import Decision, Send
from actors.errors import Refusal
from actors.inbox import LATENCY_MS_MAX
from actors.ports import Accepted, Outcome, Refused, Unknown
from events.bot import Policy
from events.history import history
from events.peer import DuplicateSuppressed, PeerEvent, SendRequested
from events.peer_state import PeerState, evolve
from tests.actors.naive import Arrival, Asked, Books, Receipt, Server
from tests.actors.one_peer import OnePeer
from tests.streams_builder import DAY, HOUR, MINUTE, SECOND

EXAMPLES, STEPS = 300, 60
RUNS_MAX = 3
"""One run reaches every event nearly always; the rarest are left out once in many."""
WAKES_MAX = 60
"""More timers than this at one go are a busy loop."""

REACHED: Counter[str] = Counter()

TEXTS = st.sampled_from(
    ["ok"] * 4
    + [
        "好" * 15,
        "a line\n\n" * 6,
        "x" * 64,
        "y" * 65,
        "word " * 40,
        "z" * 64 * 7,
        "[[reply_to:m-1]]\nyes",
        "[[reply_to:m-2]]\nno",
        "",
        " \u200b",
    ]
)
WORDS = st.sampled_from(["hi"] * 5 + ["hello there, how are you?"] * 3 + ["/more", "/more", "/reset", "/cancel"])
ORIGINS = st.sampled_from(["scheduled", "desktop", "api"])
STATUSES = st.sampled_from(["completed"] * 8 + ["degraded", "failed"])
LAPSES = st.one_of(
    st.integers(0, 3 * SECOND),
    st.integers(0, 30 * SECOND),
    st.integers(0, HOUR),
    st.sampled_from([SECOND, 15 * SECOND, 20 * SECOND, MINUTE, HOUR, 6 * HOUR, DAY - 15 * SECOND, DAY, DAY + 1]),
)
POLICIES = st.fixed_dictionaries(
    {
        "quota_replies": st.integers(1, 6),
        "share_replies": st.integers(0, 3),
        "part_bytes": st.sampled_from([64, 64, 100]),
        "backlog_outputs": st.integers(1, 4),
        "mode": st.sampled_from(["enforce", "enforce", "enforce", "observe"]),
        "notice_after_ms": st.sampled_from([0, 30 * SECOND]),
        "push_origins": st.sampled_from([("scheduled", "desktop", "api")] * 2 + [("scheduled",)]),
    }
)
OUTCOMES = st.sampled_from(
    ["accepts"] * 6
    + ["accepts_without_an_id", "blocks", "blocks", "refuses", "never_left", "says_login_lost"]
    + ["nobody_knows", "nobody_knows", "never_reached_the_outlet"]
)


class Move(NamedTuple):
    """Something that can happen: how often, with what, and when it can."""

    name: str
    weight: int
    arguments: dict[str, st.SearchStrategy[Any]]
    when: Callable[[Any], bool]


MOVES: list[Move] = []


def move(
    weight: int, *, when: Callable[[Any], bool] = lambda _: True, **arguments: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a method as a move. Hypothesis switches whole rules off by example, which leaves too few sends; weights do not."""

    def mark(method: Callable[..., None]) -> Callable[..., None]:
        MOVES.append(Move(method.__name__, weight, arguments, when))
        return method

    return mark


class PeerMachine(RuleBasedStateMachine):
    """What can happen to a peer, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = OnePeer(can_quote=False, policy=Policy(quota_replies=4, share_replies=2, part_bytes=64))
        self.server, self.books = Server(), Books()
        self.seen = 0
        self.turns = 0
        self.poll_started = self.poll_ended = self.peer.now
        self.doubtful: list[str] = []  # unknown requests whose outcome may still come

    # --- how every step ends --------------------------------------------------------------------------------------

    def do(self, command: Command) -> Decision | None:
        """Decide; a refusal must leave no trace."""
        before = self.peer.state
        try:
            decision = self.peer.do(command)
        except Refusal:
            assert self.peer.state == before
            event(f"refused {type(command).__name__}")
            return None
        self.read(before)
        self.check_due(decision)
        self.begin_anew(decision)
        return decision

    def look(self) -> None:
        decision = self.peer.look
        before = self.peer.state
        found = decision()
        self.read(before)
        self.check_due(found)
        self.begin_anew(found)

    def begin_anew(self, decision: Decision) -> None:
        """Once the address is gone, whoever is behind it is a new peer; the server has not forgotten anything."""
        if decision.forget:
            self.check_story()
            assert not self.peer.texts, "nothing is left of it"
            self.peer.begin_anew()
            self.books, self.seen, self.doubtful = Books(), 0, []

    def read(self, before: PeerState) -> None:
        """Let the naive ones read what was recorded."""
        peer = self.peer
        sends = {e.request for e in peer.last.effects if isinstance(e, Send)}
        state = before
        for recorded in peer.recorded[self.seen :]:
            REACHED[recorded.type] += 1
            event(recorded.type)
            if isinstance(recorded.event, SendRequested):
                self.check_request(state, recorded.event)
                assert recorded.epoch == peer.view.epoch, "G3"
                assert recorded.event.request in sends, "every request is given to the outlet"
                self.server.asked[recorded.event.request] = Asked(
                    len(self.server.asked), recorded.at, recorded.event, peer.view.policy
                )
            self.books.read(recorded)
            state = evolve(state, recorded.event, version=recorded.version, at=recorded.at, epoch=recorded.epoch)
        self.seen = len(peer.recorded)

    def check_request(self, before: PeerState, request: SendRequested) -> None:
        policy, charge = self.peer.view.policy, request.charge
        assert request.total <= max(policy.part_bytes, 64)
        if policy.mode == "observe":
            return
        assert charge.slot <= charge.slots == policy.quota_replies
        left = charge.slots - charge.slot
        if request.kind == "push":
            assert charge.share <= charge.shares == policy.share_replies
            assert left >= before.open_turns, "each open turn has its reply"
            named = {c.output for c in request.carried} | set(request.left_out)
            assert named == {o.output for o in before.queue}, "the whole backlog, or said to be left out"
            assert [c.output for c in request.carried] == [
                o.output for o in before.queue if o.output in {c.output for c in request.carried}
            ], "G5"
        if request.kind == "notice" and before.turn is not None:
            assert left >= 1, "never the last reply while a turn is open"
        if request.kind == "answer" and not request.remainder:
            self.check_order(before, request)

    def check_order(self, before: PeerState, request: SendRequested) -> None:
        """G5: an undisturbed answer does not overtake an undisturbed one of its lane."""
        (one,) = request.carried
        lane = [a.output for a in before.answers if a.window >= before.window_number]
        for earlier in lane[: lane.index(one.output)]:
            assert earlier in self.books.troubled

    def check_due(self, decision: Decision) -> None:
        """G9: nothing that may leave stays, but for the pace; what is due is due later."""
        peer = self.peer
        found = next_lane(peer.state, peer.view, peer.now)
        paced = peer.paced_until > peer.now
        assert not isinstance(found, Lane) or paced, f"{found} could leave"
        assert decision.due_at == next_due_at(peer.state, peer.view, peer.now)
        assert (decision.due_at is None) == (decision.wake_at is None)
        leaves_at = forget_at(peer.state, peer.view)
        if leaves_at is not None and leaves_at <= peer.now:  # there are texts left for the next look
            assert decision.wake_at == decision.due_at == leaves_at
        elif decision.due_at is not None and decision.wake_at is not None:
            assert decision.wake_at > peer.now
            assert decision.wake_at == (peer.paced_until if isinstance(found, Lane) else decision.due_at)

    def pass_time(self, until: int) -> None:
        """Wake the peer whenever it asked for it, as the agenda does."""
        peer = self.peer
        for _ in range(WAKES_MAX):
            wake_at = peer.last.wake_at
            if wake_at is None or wake_at > until:
                break
            peer.now = max(peer.now, wake_at)
            self.look()
        else:
            raise AssertionError("a busy loop")
        peer.now = max(peer.now, until)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        possible = [m for m in MOVES if m.when(self)]
        names = [m.name for m in possible for _ in range(m.weight)]
        name = data.draw(st.sampled_from(names), label="move")
        chosen = next(m for m in possible if m.name == name)
        arguments = {k: data if k == "data" else data.draw(s, label=k) for k, s in chosen.arguments.items()}
        getattr(self, name)(**arguments)

    # --- time and the view ----------------------------------------------------------------------------------------

    @initialize(
        agents=st.booleans(), allowed=st.sampled_from([True] * 5 + [False]), known=st.sampled_from([True] * 5 + [False])
    )
    def begins(self, agents: bool, allowed: bool, known: bool) -> None:
        self.peer.see(agents=int(agents), allowed=allowed)
        if known:
            self.writes_and_is_heard_at_once(text="hi")

    @move(4, lapse=LAPSES)
    def time_passes(self, lapse: int) -> None:
        self.pass_time(self.peer.now + lapse)

    @move(3, when=lambda self: self.peer.last.wake_at is not None, after=st.integers(-1, 1))
    def time_passes_until_due(self, after: int) -> None:
        assert self.peer.last.wake_at is not None
        self.pass_time(max(self.peer.now, self.peer.last.wake_at + after))

    @move(2, changes=POLICIES)
    def policy_changes(self, changes: dict[str, Any]) -> None:
        self.peer.rule(answer_parts=3, **changes)
        self.look()

    @move(1, until=st.sampled_from([0, 0, 0, 0, None, SECOND, HOUR]))
    def somebody_pauses_or_resumes(self, until: int | None) -> None:
        self.peer.see(paused_until=until if not until else self.peer.now + until)
        self.look()

    @move(1, ms=st.sampled_from([0, 1, SECOND, 5 * SECOND]))
    def the_account_is_busy(self, ms: int) -> None:
        self.peer.paced_until = self.peer.now + ms

    @move(1, agents=st.integers(0, 1))
    def agents_come_and_go(self, agents: int) -> None:
        self.peer.see(agents=agents)
        self.look()

    @move(1, lost=st.sampled_from([False, False, True]))
    def login_changes(self, lost: bool) -> None:
        peer = self.peer
        peer.see(login_lost=lost, generation=peer.view.generation + (0 if lost else 1))
        self.look()

    @move(1, arrives=st.booleans(), arrival=st.floats(0, 1))
    def another_epoch(self, arrives: bool, arrival: float) -> None:
        """The process dies, perhaps between a request and its outcome, and another takes over."""
        request = self.peer.state.request
        if request is not None:
            self.doubtful.append(request.request)
            if arrives:
                self.arrive(request.request, arrival, self.server.last_arrival(request.request))
        self.peer.see(epoch=self.peer.view.epoch + 1)
        self.look()
        assert request is None or self.peer.state.request is None or self.peer.state.request != request

    # --- messages -------------------------------------------------------------------------------------------------

    @move(3, text=WORDS, old=st.integers(0, 2 * SECOND), dated=st.booleans())
    def the_peer_writes(self, text: str, old: int, dated: bool) -> None:
        """The server has it; we do not know yet."""
        now = self.peer.now
        self.server.receives(Receipt(at=now, text=text, sent_at=now - old if dated else 0))

    @move(4, travel=st.integers(0, LATENCY_MS_MAX), token=st.sampled_from([True, True, True, False]))
    def a_poll_ends(self, travel: int, token: bool) -> None:
        peer = self.peer
        before = peer.state
        earliest = max(self.poll_started, self.poll_ended - LATENCY_MS_MAX, 0)
        answered = max(self.poll_ended, peer.now - travel)
        for receipt in self.server.answers_poll(answered):
            peer.hears(receipt.text, token=token, ago_ms=peer.now - receipt.sent_at, not_before=earliest)
        self.poll_started, self.poll_ended = self.poll_ended, peer.now
        if peer.state is not before:
            self.read(before)
            self.do(Facts(()))

    @move(5, text=WORDS)
    def writes_and_is_heard_at_once(self, text: str) -> None:
        self.the_peer_writes(text=text, old=0, dated=True)
        self.a_poll_ends(travel=0, token=True)

    @move(1)
    def the_channel_repeats_itself(self) -> None:
        before = self.peer.state
        self.peer.record(DuplicateSuppressed(reason="same_id", body="b-again", sent_at=0))
        self.read(before)
        self.do(Facts(()))

    # --- turns ----------------------------------------------------------------------------------------------------

    @move(8, origin=ORIGINS, status=STATUSES, text=TEXTS)
    def a_turn_ends_elsewhere(self, origin: Any, status: Any, text: str) -> None:
        self.turns += 1
        self.do(AcceptTurn(turn_id=f"t{self.turns}", origin=origin, status=status, text=text, keys_value="{}"))

    @move(1, when=lambda self: self.peer.state.turn is not None, agent=st.sampled_from(["one", "two"]))
    def an_agent_takes_the_turn(self, agent: str) -> None:
        assert self.peer.state.turn is not None
        self.do(TakeTurn(turn_id=self.peer.state.turn.turn_id, agent=agent))

    @move(1, agent=st.sampled_from(["one", "two"]))
    def an_agent_is_lost(self, agent: str) -> None:
        self.do(LoseAgent(agent))

    @move(8, when=lambda self: self.peer.state.turn is not None, status=STATUSES, text=TEXTS)
    def the_open_turn_ends(self, status: Any, text: str) -> None:
        assert self.peer.state.turn is not None
        self.do(FinishTurn(turn_id=self.peer.state.turn.turn_id, status=status, text=text))

    @move(1)
    def the_turn_is_cancelled(self) -> None:
        self.do(CancelTurn("op"))

    # --- outcomes -------------------------------------------------------------------------------------------------

    def arrive(self, request: str, when: float, latest: int) -> None:
        first = self.server.asked[request].at
        self.server.arrivals.append(Arrival(first + int(when * (latest - first)), request))

    @property
    def request(self) -> str:
        assert self.peer.state.request is not None
        return self.peer.state.request.request

    def conclude(self, outcome: Outcome) -> None:
        self.do(Conclude(self.request, outcome))

    @move(
        20,
        when=lambda self: self.peer.state.request is not None,
        what=OUTCOMES,
        arrival=st.floats(0, 1),
        lapse=st.integers(0, 15 * SECOND),
    )
    def an_outcome(self, what: str, arrival: float, lapse: int) -> None:
        self.pass_time(self.peer.now + lapse)
        getattr(self, what)(arrival)

    def accepts(self, arrival: float, message_id: str = "7") -> None:
        request = self.request
        self.arrive(request, arrival, min(self.peer.now, self.server.last_arrival(request)))
        self.conclude(Accepted(message_id=message_id))

    def accepts_without_an_id(self, arrival: float) -> None:
        self.accepts(arrival, message_id="")

    def blocks(self, _: float) -> None:
        self.conclude(Refused(failure="blocked", code=-2, error="{}"))

    def refuses(self, arrival: float) -> None:
        self.conclude(Refused(failure="bad_request" if arrival < 0.5 else "http_refused", code=-1))

    def never_left(self, arrival: float) -> None:
        self.conclude(Refused(failure="not_sent" if arrival < 0.5 else "too_late"))

    def says_login_lost(self, _: float) -> None:
        self.conclude(Refused(failure="login_lost", code=-14))
        request = self.peer.state.request
        assert request is None or request.login == self.peer.view.generation

    def nobody_knows(self, arrival: float) -> None:
        """In half of the cases it arrives, perhaps only later."""
        request, latest = self.request, self.server.last_arrival(self.request)
        if arrival < 0.5:
            self.arrive(request, 2 * arrival, latest)
        self.doubtful.append(request)
        self.conclude(Unknown(reason="timeout", settled_at=latest))

    def never_reached_the_outlet(self, _: float) -> None:
        self.do(Abandon(self.request))

    @move(2, when=lambda self: bool(self.doubtful), data=st.data(), message_id=st.sampled_from(["8", ""]))
    def it_turns_out_late(self, data: st.DataObject, message_id: str) -> None:
        request = data.draw(st.sampled_from(self.doubtful))
        self.doubtful.remove(request)
        known = Accepted(message_id=message_id) if self.server.arrived(request) else Refused(failure="blocked", code=-2)
        self.do(Conclude(request, known))

    # --- operators ------------------------------------------------------------------------------------------------

    @move(3, data=st.data(), what=st.sampled_from(["retry", "retry", "drop", "discard", "flush"]))
    def an_operator_acts(self, data: st.DataObject, what: Any) -> None:
        state = self.peer.state
        known = [o.output for o in (*state.queue, *state.answers)] + [d.output.output for d in state.dead]
        chosen = data.draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        self.do(Operate(what=what, who="op", outputs=tuple(chosen)))

    @move(2, session=st.sampled_from(["s", "", "other", ""]), meek=st.booleans())
    def somebody_binds(self, session: str, meek: bool) -> None:
        self.do(Bind(session=session, who="op", only_if_unbound=meek))

    @move(1, on=st.booleans())
    def the_login_is_the_peers(self, on: bool) -> None:
        self.peer.see(pinned=on)

    @move(1)
    def access_is_granted(self) -> None:
        self.do(Grant("op"))

    @move(1, data=st.data())
    def bodies_expire(self, data: st.DataObject) -> None:
        bodies = data.draw(st.lists(st.sampled_from(sorted(self.peer.texts)), max_size=3)) if self.peer.texts else []
        self.do(ExpireBodies(bodies=tuple(bodies)))

    @move(1, data=st.data())
    def an_output_is_erased(self, data: st.DataObject) -> None:
        known = sorted(self.books.bodies)
        if known:
            output = data.draw(st.sampled_from(known))
            bodies = [b for b in (self.books.bodies[output],) if b in self.peer.texts]
            self.do(EraseOutput(output=output, bodies=tuple(bodies)))

    @move(1, pages=st.sampled_from([1, 2, 1_000]))
    def everything_is_erased(self, pages: int) -> None:
        """As operators have it: again until nothing is left. The address goes by itself, later, or at once."""
        self.peer.held_max = pages
        while (decision := self.do(ErasePeer(who="op"))) and decision.reply.more:
            continue
        assert not self.peer.texts

    # --- what always holds ----------------------------------------------------------------------------------------

    @invariant()
    def the_server_has_counted_no_reply_too_many(self) -> None:
        self.server.check()

    @invariant()
    def every_output_is_in_one_place(self) -> None:
        state = self.peer.state
        waiting = [o.output for o in (*state.queue, *state.answers)]
        assert len(waiting) == len(set(waiting))
        self.books.check(set(waiting))

    @invariant()
    def the_state_is_the_fold(self) -> None:
        state = PeerState()
        for r in self.peer.recorded:
            state = evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)
        assert state == self.peer.state

    @invariant()
    def the_backlog_keeps_its_bounds(self) -> None:
        state, policy = self.peer.state, self.peer.view.policy
        free = [o for o in state.queue if o.output not in state.carried]
        if self.seen:
            assert len(free) <= max(1, policy.backlog_outputs)
        assert [o.accepted_at for o in state.queue] == sorted(o.accepted_at for o in state.queue)

    @invariant()
    def what_waits_is_at_hand(self) -> None:
        for output in (*self.peer.state.queue, *self.peer.state.answers):
            assert output.body in self.peer.texts

    def teardown(self) -> None:
        """The history tells the same; the same commands come to the same decisions."""
        peer = self.peer
        self.check_story()
        count = peer.ids.count
        first = peer.rehearse(Facts(()))
        peer.ids.count = count
        assert peer.rehearse(Facts(())) == first

    def check_story(self) -> None:
        """The history tells what the books have."""
        peer = self.peer
        told = history(peer.recorded)
        waiting = {o.output for o in (*peer.state.queue, *peer.state.answers)} | peer.state.carried
        for name, story in told.outputs.items():
            assert (story.fate in ("queued", "requested")) == (name in waiting), story
        assert [t for t, r in told.requests.items() if r.result == "unknown"] == [
            r.request for r in self.books.requests if r.request in self.books.unknown
        ]


@pytest.mark.slow
def test_a_peer_on_random_histories() -> None:
    """300 examples of up to 60 steps, which reach every event of a peer."""
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    every = {str(c.__struct_config__.tag) for c in get_args(PeerEvent)}
    for _ in range(RUNS_MAX):
        run_state_machine_as_test(PeerMachine, settings=chosen)  # type: ignore[no-untyped-call]  # untyped in hypothesis
        if set(REACHED) == every:
            break
    assert set(REACHED) == every
