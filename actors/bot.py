"""A bot's actor: one life of an account. `decide` first, the actor last.

It keeps the account's own facts (login, policy, cursor, pauses) and takes in what polls bring: messages, tokens and cursor in one append,
before the next poll. Facts never collide with the peers' decisions, because they hold whatever those decided.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, assert_never

import msgspec

from actors.account import Account
from actors.deciding.commands import Facts
from actors.inbox import all_keys, gather
from actors.ports import LoginGone, Polled
from actors.recall import BOTS, recall
from actors.runtime.actor import Actor
from events.base import Event, Millis
from events.bot import (
    HOUR_MS,
    BotEvent,
    BotState,
    BotStopped,
    ClockStepped,
    LoginCompleted,
    LoginLost,
    Policy,
    PolicyChanged,
    SendingPaused,
    SendingResumed,
    evolve,
)
from events.streams import bot_stream
from store.errors import DuplicateKey, Fenced, LogBusy, VersionConflict
from store.records import AddressRow, Appended, Batch, Write

Turn = Generator[Any, Any, Any]

BUSY_RETRY_MS = 200
CURSOR_IDLE_MS = HOUR_MS
"""How often the cursor of polls that brought nothing is kept."""


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration and the login with which this life begins, or goes on after they changed."""

    policy: Policy
    policy_id: str
    credentials: str  # fingerprint of the login's secret, "" = none
    owner: str = ""  # stream of the person who logged in


class Deliver(msgspec.Struct, frozen=True):
    """Make durable what a poll brought; the reply comes when it is."""

    polled: Polled


class Lose(msgspec.Struct, frozen=True):
    """The channel says that the login is gone."""

    gone: LoginGone


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Stop sending for a scope ("" = the account, else a peer's stream)."""

    scope: str
    until: Millis | None
    who: str


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """Let sending go on for a scope."""

    scope: str
    who: str


class NoteStep(msgspec.Struct, frozen=True):
    """The wall clock stepped away from the boot clock."""

    step_ms: int


class End(msgspec.Struct, frozen=True):
    """This life ends by itself."""

    reason: str


BotCommand = Begin | Lose | Pause | Resume | NoteStep | End


def decide(state: BotState, command: BotCommand) -> tuple[BotEvent, ...]:
    """What a command comes to. Pure."""
    match command:
        case Begin():
            return _begin(state, command)
        case Lose(gone=gone):
            return () if state.login_lost is not None else (LoginLost(code=gone.code, where=gone.where),)
        case Pause(scope=scope, until=until, who=who):
            return (SendingPaused(scope=scope, until=until, who=who),)
        case Resume(scope=scope, who=who):
            return (SendingResumed(scope=scope, who=who),) if any(s == scope for s, _ in state.paused) else ()
        case NoteStep(step_ms=step_ms):
            return (ClockStepped(step_ms=step_ms),)
        case End(reason=reason):
            return (BotStopped(reason=reason),)
        case _:
            assert_never(command)


def _begin(state: BotState, command: Begin) -> tuple[BotEvent, ...]:
    """The policy if it is another one; a login if it is a new one, which voids the tokens and windows of the old."""
    events: list[BotEvent] = []
    if command.policy_id != state.policy_id:
        events.append(PolicyChanged(policy=command.policy, policy_id=command.policy_id))
    if command.credentials and command.credentials != state.credentials:
        generation = state.generation + 1
        events.append(LoginCompleted(generation=generation, owner=command.owner, credentials=command.credentials))
    return tuple(events)


class Bot(Actor):
    """The bot of an account."""

    def __init__(self, account: Account) -> None:
        super().__init__()
        self.account = account
        self.stream = bot_stream(account.address)

    def idle(self) -> bool:
        """A bot is never put away."""
        return False

    def on_hydrate(self) -> Turn:
        """Replay the account's stream."""
        yield from self._catch_up()

    def on_receive(self, message: Any) -> Turn:
        """Obey a command; the reply is the bot's state after it."""
        if isinstance(message, Deliver):
            yield from self._deliver(message.polled)
        elif isinstance(message, Facts):
            yield from self._catch_up()
        else:
            yield from self._run(message)
        return self.account.state

    # --- commands -------------------------------------------------------------------------------------------------

    def _run(self, command: BotCommand) -> Turn:
        while True:
            events = decide(self.account.state, command)
            if not events:
                return
            write = Write(self.stream, self.account.state.version, tuple[Event, ...](events))
            try:
                yield from self._append(self._batch(writes=(write,)))
            except VersionConflict:
                yield from self._catch_up()
                continue
            except LogBusy:
                yield self.account.later(BUSY_RETRY_MS)
                continue
            except Fenced:
                self.account.fence_off()
                if isinstance(command, Lose):
                    return  # told, not asked: the successor hears of it from the channel
                raise
            self.account.wake_all()
            return

    # --- polls ----------------------------------------------------------------------------------------------------

    def _deliver(self, polled: Polled) -> Turn:
        """Append what a poll brought, and tell the peers once it is durable."""
        if not polled.messages and not self._cursor_due(polled):
            self._note_poll(polled)
            return
        while True:
            try:
                yield from self._take_in(polled)
            except (LogBusy, DuplicateKey):
                yield self.account.later(BUSY_RETRY_MS)
                continue
            except Fenced:
                self.account.fence_off()
                raise
            return

    def _take_in(self, polled: Polled) -> Turn:
        account, scheduler = self.account, self.account.scheduler
        salt, key = account.log.salt, account.address.bot
        taken = yield account.log.taken(key, "message", all_keys(polled.messages, salt))
        now = max(scheduler.clock.now(), account.state.at)
        facts = gather(
            polled,
            stream_of=account.stream_of,
            taken=taken,
            state=account.state,
            bot_stream=self.stream,
            ids=scheduler.ids,
            salt=salt,
            now=now,
        )
        batch = Batch(
            account=key,
            epoch=account.view.epoch,
            at=now,
            writes=facts.writes,
            bodies=facts.bodies,
            keys=facts.keys,
            addresses=facts.addresses,
            wake=facts.wake,
        )
        appended = yield from self._append(batch)
        for write in facts.writes[:-1]:
            recorded = tuple(r for r in appended.recorded if r.stream == write.stream)
            account.peers.complete(write.stream, Facts(recorded, facts.texts))  # durable: no full mailbox refuses it

    def _cursor_due(self, polled: Polled) -> bool:
        moved = polled.cursor != self.account.state.cursor
        return moved and polled.ended_at - self.account.cursor_kept_at >= CURSOR_IDLE_MS

    def _note_poll(self, polled: Polled) -> None:
        """A poll that brought nothing: what it proves is kept in memory, for the next message."""
        account = self.account
        account.state = msgspec.structs.replace(
            account.state, poll_started_at=polled.started_at, poll_ended_at=polled.ended_at
        )

    # --- the log --------------------------------------------------------------------------------------------------

    def _catch_up(self) -> Turn:
        account = self.account
        state: BotState = yield from recall(account.log, self.stream, account.state, BOTS)
        if state.version > account.state.version:
            account.cursor_kept_at = state.poll_ended_at
            account.learn(state)

    def _append(self, batch: Batch) -> Turn:
        """Make a batch durable. An address that the log was forgetting meanwhile it has again."""
        appended: Appended = yield self.account.log.append(batch)
        for row in batch.addresses:
            self.account.stays(row.stream)
            self.account.know(row.stream, row.peer)
        self._learn(appended)
        return appended

    def _learn(self, appended: Appended) -> None:
        account, state = self.account, self.account.state
        for r in appended.recorded:
            if r.stream == self.stream and r.version == state.version + 1:
                state = evolve(state, r.event, version=r.version, at=r.at, epoch=r.epoch)  # type: ignore[arg-type] # of this stream
                if r.type == "cursor_advanced":
                    account.cursor_kept_at = r.at
        account.learn(state)

    def _batch(self, writes: tuple[Write, ...]) -> Batch:
        account = self.account
        owner = account.known(account.owner) if account.owner else None
        return Batch(
            account=account.address.bot,
            epoch=account.view.epoch,
            at=max(account.scheduler.clock.now(), account.state.at),
            writes=writes,
            addresses=(AddressRow(stream=owner, peer=account.owner),) if owner else (),
        )
