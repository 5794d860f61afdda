"""A peer's actor: it decides with `actors.deciding.decide`, appends what was decided, and only then acts.

The state is assigned only from what the log confirmed. A version conflict means that a fact came from outside meanwhile: read the
tail, fold, decide again. Only the fence stops a peer.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from actors.account import Account, Offer
from actors.deciding.commands import Abandon, Advance, Ask, Command, Conclude, Facts, Rehearse
from actors.deciding.decide import decide
from actors.deciding.draft import Draft, Texts
from actors.deciding.erase import BODIES_MAX
from actors.deciding.gate import next_due_at, next_lane
from actors.deciding.view import Block, BotView, Decision, Held, ResetSession, Send, Withdraw
from actors.errors import HeldNeeded, TextsNeeded
from actors.ports import SendOrder
from actors.recall import PEERS, recall
from actors.runtime.actor import Actor
from actors.text.split import parts
from events.base import Millis, Recorded
from events.peer_state import PeerState
from events.quota import SEND_WITHIN_MS
from store.errors import Fenced, LogBusy, LogUnusable, VersionConflict
from store.records import AddressRow, AgendaRow, Appended, Batch, Write

Turn = Generator[Any, Any, Any]

BUSY_RETRY_MS = 200
"""How long a peer waits before it offers a decision again to a log that could not take it."""

PATIENT = (Facts, Advance, Conclude, Abandon)
"""Commands that nobody could repeat: they wait for a busy log instead of failing."""


class Peer(Actor):
    """One peer of an account."""

    def __init__(self, stream: str, account: Account) -> None:
        super().__init__()
        self.stream, self.account = stream, account
        self.state = PeerState()
        self._texts = Texts()
        self._row_due: Millis | None = None
        self._seen = account.view  # what the last decision saw of the bot
        self._asked_at = 0  # monotonic ms before the newest append: a request's commit is never earlier, however long we were stopped
        self._typing = False  # the typing sign is shown

    def idle(self) -> bool:
        """Put away only between sends: an outcome would have to bring the peer back at once."""
        return self.state.request is None and not self._typing

    def on_hydrate(self) -> Turn:
        """Replay the stream; close what an earlier incarnation left open; see what is due."""
        yield from self._catch_up()
        request, outlet = self.state.request, self.account.outlet
        command: Command = Advance()
        if request and request.epoch == self.account.view.epoch and not (outlet and outlet.holds(request.request)):
            command = Abandon(request.request)
        yield from self._run(command)

    def on_receive(self, message: Any) -> Turn:
        """Obey a command; the reply is the decision's."""
        match message:
            case Ask():
                now = self.account.scheduler.clock.now()
                return self.state, self.account.view_of(self.stream, now), now
            case Rehearse(command=command):
                return (yield from self._decide(command, in_earnest=False))
            case Facts(recorded=recorded, texts=texts):
                self._texts.known.update(texts)
                yield from self._learn(recorded)
            case _:
                pass
        return (yield from self._run(message))

    # --- deciding -------------------------------------------------------------------------------------------------

    def _run(self, command: Command) -> Turn:
        """Decide, append, act; again if the stream moved on meanwhile."""
        while not self.account.fenced:
            decision = yield from self._decide(command)
            try:
                appended = yield from self._append(decision)
            except VersionConflict:
                self.account.stays(self.stream)
                yield from self._catch_up()
                continue
            except Fenced:
                self.account.fence_off()
                break
            except LogBusy:
                if not isinstance(command, PATIENT):
                    raise
                yield self.account.later(BUSY_RETRY_MS)
                continue
            except LogUnusable:
                if not isinstance(command, PATIENT):
                    raise
                return None  # the process ends; the next one reads from the log what became of it
            self._fold(appended)
            self._act(command, decision)
            return decision.reply
        if isinstance(command, PATIENT):
            return None  # the successor reads the same facts from the log
        raise Fenced

    def _decide(self, command: Command, *, in_earnest: bool = True) -> Turn:
        """The decision on a command, with the texts that it turns out to need. One that is not in earnest takes nobody's place."""
        held: Held | None = None
        while True:
            try:
                return decide(self._draft(held, in_earnest=in_earnest), command)
            except TextsNeeded as need:
                yield from self._fetch(need)
            except HeldNeeded:
                found = yield self.account.log.held(self.account.address.bot, self.stream, BODIES_MAX + 1)
                held = Held(found[:BODIES_MAX], more=len(found) > BODIES_MAX)

    def _draft(self, held: Held | None, *, in_earnest: bool) -> Draft:
        account, clock = self.account, self.account.scheduler.clock
        now = clock.now()
        self._seen = account.view_of(self.stream, now)
        return Draft(
            self.state,
            self._seen,
            stream=self.stream,
            now=now,
            texts=self._texts,
            ids=account.scheduler.ids,
            salt=account.log.salt,
            pace=partial(self._pace, keep=in_earnest),
            held=held,
        )

    def _pace(self, now: Millis, *, keep: bool) -> Millis:
        outlet = self.account.outlet
        return outlet.earliest(self.stream, now, keep=keep) if outlet else now

    def _fetch(self, need: TextsNeeded) -> Turn:
        """Read texts, and split large ones off the thread of the turns."""
        if need.bodies:
            self._texts.learn(need.bodies, (yield self.account.log.kept(need.bodies)))
        part_bytes = self.account.view.policy.part_bytes
        for body in need.splits:
            text = self._texts.known[body] or ""
            pieces = yield self.account.scheduler.offload(partial(parts, text, part_bytes))
            self._texts.passing.splits[(body, part_bytes)] = pieces

    # --- the log --------------------------------------------------------------------------------------------------

    def _append(self, decision: Decision) -> Turn:
        """Make a decision durable; nothing to do is nothing to append, unless the agenda must hear of an earlier time."""
        earlier = _earlier(decision.due_at, self._row_due)
        if not (decision.events or decision.keys or decision.erase or earlier):
            return ()
        self._asked_at = self.account.scheduler.clock.monotonic()
        if decision.forget:
            self.account.leaves(self.stream)
        row = agenda_row(self.stream, decision.state, decision.due_at)
        appended: Appended = yield self.account.log.append(self._batch(decision, row))
        self._row_due = row.due_at
        return appended.recorded

    def _batch(self, decision: Decision, row: AgendaRow) -> Batch:
        account, now = self.account, self.account.scheduler.clock.now()
        write = Write(self.stream, self.state.version, decision.events)
        new = self.state.version == 0 and bool(decision.events)
        address = AddressRow(stream=self.stream, peer=account.peer_of(self.stream))
        tied = (new or decision.unname) and not decision.forget  # a name goes by tying the address anew, without one
        parted = (self.stream,) if decision.forget or decision.unname else ()
        return Batch(
            account=account.address.bot,
            epoch=account.view.epoch,
            at=max(now, self.state.at),
            writes=(write,) if decision.events else (),
            bodies=decision.bodies,
            keys=decision.keys,
            agenda=(row,),
            addresses=(address,) if tied and address.peer else (),
            bindings=decision.bindings,
            erase=decision.erase,
            unkey=(self.stream,) if decision.forget else (),
            forget=parted,
        )

    def _catch_up(self) -> Turn:
        before = self.state.version
        self.state = yield from recall(self.account.log, self.stream, self.state, PEERS)
        if self.state.version > before:
            self.account.on_change(self.stream, (), self.state)

    def _learn(self, recorded: tuple[Recorded, ...]) -> Turn:
        """Fold facts that are durable already; where some before them are missing, read those first."""
        fresh = tuple(r for r in recorded if r.version > self.state.version)
        if fresh and fresh[0].version > self.state.version + 1:
            yield from self._catch_up()
        else:
            self._fold(fresh)

    def _fold(self, recorded: tuple[Recorded, ...]) -> None:
        if recorded:
            self.state = PEERS.fold(self.state, recorded)
            self.account.on_change(self.stream, recorded, self.state)

    # --- acting ---------------------------------------------------------------------------------------------------

    def _act(self, command: Command, decision: Decision) -> None:
        """What follows once a decision is durable."""
        account = self.account
        if isinstance(command, Conclude) and account.outlet:
            account.outlet.settled(command.request)
        if decision.forget:
            account.left(self.stream)
        for effect in decision.effects:
            match effect:
                case Send():
                    self._send(effect)
                case Withdraw(turn_id=turn_id, reason=reason):
                    account.hub.withdraw(turn_id, reason)
                case ResetSession(session=session, resets=resets):
                    account.hub.reset(self.stream, session, resets)
        if self.state.turn is not None:
            account.hub.offer(Offer(stream=self.stream, address=account.address_of(self.stream), turn=self.state.turn))
        now = account.scheduler.clock.now()
        view = account.view_of(self.stream, now)
        # A policy, a login or a pause that changed while this became durable woke only those who waited before: look again.
        account.agenda.set(self.stream, decision.wake_at if view == self._seen else now)
        waits = self.state.waiting > 0 or self.state.open_turns > 0
        (account.waiting.add if waits else account.waiting.discard)(self.stream)
        lane = next_lane(self.state, view, now) if waits else None
        request = self.state.request
        account.note_block(
            self.stream,
            lane.reason if isinstance(lane, Block) else None,
            pushes_wait=bool(self.state.queue) and not (request and request.kind == "push"),
        )
        self._show_typing(bool(self.state.turn and self.state.turn.agent))
        self._texts.forget(keep=self.state.token.body if self.state.token else "")

    def _show_typing(self, on: bool) -> None:
        """The typing sign while an agent works, where policy wants it and the channel has one."""
        outlet, token = self.account.outlet, self.state.token
        if on == self._typing or outlet is None or not self.account.view.typing:
            return
        handle = self._texts.known.get(token.body) if token else None
        if handle or not on:
            self._typing = on
            outlet.typing(self.account.peer_of(self.stream), handle or "", on)

    def _send(self, send: Send) -> None:
        outlet = self.account.outlet
        if outlet is None:
            self.account.peers.complete(self.stream, Abandon(send.request))
            return
        outlet.send(
            SendOrder(
                request=send.request,
                stream=self.stream,
                peer=self.account.peer_of(self.stream),
                text=send.text,
                token=send.token,
                client_id=send.client_id,
                leave_by=self._asked_at + SEND_WITHIN_MS,
                target=send.target,
                quote=send.quote,
            )
        )


def agenda_row(stream: str, state: PeerState, due_at: Millis | None) -> AgendaRow:
    """The agenda's row of a state."""
    return AgendaRow(
        stream=stream,
        due_at=due_at,
        open_epoch=state.request.epoch if state.request else None,
        waiting=state.waiting + len(state.inbox),
        turn_open=state.turn is not None,
    )


def agenda_of(stream: str, state: PeerState, view: BotView, now: Millis) -> AgendaRow:
    """The row that a fold alone gives, for rebuilding and comparing."""
    return agenda_row(stream, state, next_due_at(state, view, now))


def _earlier(due_at: Millis | None, than: Millis | None) -> bool:
    return due_at is not None and than is not None and due_at < than
