"""Planted defects: each one small change to the code under test, by hand. The worlds must catch every one of them.

A mutant is a context manager that patches one function or method where it is looked up, and takes the patch back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from actors import fence, inbox, peer, waking
from actors.agenda import Agenda
from actors.bot import Bot
from actors.deciding import advance, conclude, dispatch, gate
from actors.deciding.view import Send
from actors.peer import Peer
from events import backlog, peer_sends, quota
from events.bot import CursorAdvanced, Policy
from events.peer import SendFailed, SendSucceeded, SendUnknown
from events.peer_state import PeerState
from events.quota import Charge
from store import admit, core, memory_core
from store.records import ANY, AgendaRow, Batch, Write
from tests.world import disk
from tests.world.mutants_of_rules import MORE
from tests.world.planting import Mutant, folded, patched

_to = msgspec.structs.replace


# --- arithmetic ---------------------------------------------------------------------------------------------------


def missing_charge() -> AbstractContextManager[None]:
    """An unknown send is given back."""
    real = peer_sends.send_unknown

    def unknown(state: PeerState, event: Any, at: int, epoch: int) -> PeerState:
        after = real(state, event, at, epoch)
        return _to(after, charges=quota.release(after.charges, event.request))

    return folded(SendUnknown, unknown)


def no_carry() -> AbstractContextManager[None]:
    """A new window forgets what was in flight."""
    return patched((quota, "carry", lambda charges, _window, _not_before: charges))


def window_by_log_order() -> AbstractContextManager[None]:
    """Only what is still open in the log is carried, not what was answered after the poll began."""

    def carry(charges: tuple[Charge, ...], window: int, _not_before: int) -> tuple[Charge, ...]:
        return tuple(_to(c, window=window) if c.settled_at is None else c for c in charges)

    return patched((quota, "carry", carry))


def share_off_by_one() -> AbstractContextManager[None]:
    """`<=` where `<` belongs: one push too many."""
    real = quota.share_free_at
    return patched(
        (
            quota,
            "share_free_at",
            lambda charges, policy, now: real(charges, _to(policy, share_replies=policy.share_replies + 1), now),
        )
    )


def share_from_request() -> AbstractContextManager[None]:
    """A charge runs for 24 h from its request, not from its outcome."""
    real = quota._running

    def running(charges: tuple[Charge, ...], policy: Policy, now: int) -> list[Charge]:
        return real(tuple(_to(c, settled_at=c.settled_at and c.requested_at) for c in charges), policy, now)

    return patched((quota, "_running", running))


def quota_off_by_one() -> AbstractContextManager[None]:
    """The last reply is spent twice."""
    real = quota.spent
    return patched((quota, "spent", lambda charges, window: max(0, real(charges, window) - 1)))


def no_reserve() -> AbstractContextManager[None]:
    """Pushes take the last reply of an open turn."""
    real = gate._push_block

    def push_block(state: PeerState, policy: Policy, left: int, now: int) -> Any:
        return real(_to(state, turn=None, inbox=()), policy, left, now)

    return patched((gate, "_push_block", push_block))


def over_limiting() -> AbstractContextManager[None]:
    """The share is one smaller than it is: as bad as none."""
    real = quota.share_free_at

    def less(charges: tuple[Charge, ...], policy: Policy, now: int) -> Any:
        return real(charges, _to(policy, share_replies=max(0, policy.share_replies - 1)), now)

    return patched((quota, "share_free_at", less))


# --- fence, log, start --------------------------------------------------------------------------------------------


def no_fence_in_log() -> AbstractContextManager[None]:
    """The log takes appends of any epoch."""
    return patched((admit, "_check_fence", lambda _batch, _facts: None))


def no_fence_at_outlet() -> AbstractContextManager[None]:
    """Nobody asks whether the account is still ours before bytes leave."""

    async def confirm(_self: Any) -> None:
        return

    return patched((fence.EpochFence, "confirm", confirm))


def no_versions() -> AbstractContextManager[None]:
    """Decisions are appended whatever happened meanwhile."""
    real = memory_core.prepare

    def anyhow(batch: Any) -> Any:
        return real(_to(batch, writes=tuple(_to_write(w, ANY) for w in batch.writes)))

    def _to_write(write: Any, expected: int) -> Any:
        return type(write)(write.stream, expected, write.events)

    return patched((disk, "prepare", anyhow))


def group_not_isolated() -> AbstractContextManager[None]:
    """A refused append takes its neighbours in the group with it."""
    real_memory, real_sqlite = memory_core.MemoryCore.append_group, core.SqliteCore.append_group

    def harmed(real: Any) -> Any:
        def append_group(self: Any, group: Any) -> Any:
            outcomes = real(self, group)
            refusal = next((o for o in outcomes if isinstance(o, Exception)), None)
            return outcomes if refusal is None else [refusal] * len(outcomes)

        return append_group

    return patched(
        (memory_core.MemoryCore, "append_group", harmed(real_memory)),
        (core.SqliteCore, "append_group", harmed(real_sqlite)),
    )


def agenda_not_written() -> AbstractContextManager[None]:
    """The agenda's row says that nothing is due and nothing waits."""
    return patched((peer, "agenda_row", lambda stream, _state, _due_at: AgendaRow(stream=stream)))


def stale_left_open() -> AbstractContextManager[None]:
    """The open request of an earlier life is not closed."""
    return patched((advance, "close_stale", lambda _draft: None))


def stale_given_back() -> AbstractContextManager[None]:
    """The open request of an earlier life counts as not sent."""

    def close(draft: Any) -> None:
        request = draft.state.request
        if request is not None and request.epoch < draft.view.epoch:
            draft.add(SendFailed(request=request.request, failure="not_sent", retry_at=draft.now))

    return patched((advance, "close_stale", close))


def boot_forgotten() -> AbstractContextManager[None]:
    """A start believes the wall clock, whatever the boot clock says."""
    return patched((waking, "_boot", lambda _account: ""))


def sent_late() -> AbstractContextManager[None]:
    """Bytes may leave at any time after their request."""
    return patched((peer, "SEND_WITHIN_MS", 10**9))


# --- messages -----------------------------------------------------------------------------------------------------


def creation_times_exact() -> AbstractContextManager[None]:
    """A creation time is believed as it is, without the margin for what clocks of the channel disagree on."""
    real = inbox.not_before

    def not_before(state: Any, polled: Any, sent_at: int) -> int:
        by_last_poll = real(state, _to(polled, ahead_ms=None), sent_at)
        known = real(state, polled, sent_at)
        return known if known == by_last_poll else known + inbox.LATENCY_MS_MAX

    return patched((inbox, "not_before", not_before))


def creation_times_passed_over() -> AbstractContextManager[None]:
    """A poll that was long under way is taken for one that was held, whatever the creation time says."""
    real = inbox.not_before
    return patched((inbox, "not_before", lambda state, polled, _sent_at: real(state, polled, polled.ended_at << 1)))


def ahead_is_behind() -> AbstractContextManager[None]:
    """The difference of the clocks is taken with the wrong sign."""
    real = inbox.not_before

    def not_before(state: Any, polled: Any, sent_at: int) -> int:
        return real(state, _to(polled, ahead_ms=polled.ahead_ms and -polled.ahead_ms), sent_at)

    return patched((inbox, "not_before", not_before))


def cursor_before_message() -> AbstractContextManager[None]:
    """The cursor is kept in an append of its own, before the messages that came with it."""
    real = Bot._take_in

    def take_in(self: Bot, polled: Any) -> Any:
        account = self.account
        now = max(account.scheduler.clock.now(), account.state.at)
        cursor = CursorAdvanced(cursor=polled.cursor, poll_started_at=polled.started_at, poll_ended_at=polled.ended_at)
        write = Write(self.stream, ANY, (cursor,))
        appended = yield account.log.append(
            Batch(account=account.address.bot, epoch=account.view.epoch, at=now, writes=(write,))
        )
        self._learn(appended)
        yield from real(self, polled)

    return patched((Bot, "_take_in", take_in))


def no_dedupe() -> AbstractContextManager[None]:
    """Whatever comes is a new message."""
    return patched((inbox, "message_keys", lambda _inbound, _salt: ()))


def dedupe_by_id_only() -> AbstractContextManager[None]:
    """The same message under another id is a new one."""

    def keys(inbound: Any, _salt: bytes) -> tuple[str, ...]:
        return (f"id:{inbound.message_id}",) if inbound.message_id else ()

    return patched((inbox, "message_keys", keys))


def dedupe_by_text() -> AbstractContextManager[None]:
    """An honest repeat is taken for a duplicate."""
    return patched((inbox, "message_keys", lambda inbound, _salt: (f"content:{inbound.peer} {inbound.text}",)))


# --- outputs ------------------------------------------------------------------------------------------------------


def newest_expires() -> AbstractContextManager[None]:
    """Age counts for the newest output as well."""

    def over_age(queue: Any, carried: Any, policy: Policy, now: int) -> Any:
        return tuple(o for o in queue if o.output not in carried and o.accepted_at + policy.backlog_age_ms <= now)

    return patched((backlog, "over_age", over_age))


def lost_remainder() -> AbstractContextManager[None]:
    """What did not fit the quota is forgotten after the first part."""
    real = peer_sends.send_succeeded

    def succeeded(state: PeerState, event: Any, at: int, epoch: int) -> PeerState:
        before = state.request
        after = real(state, event, at, epoch)
        names = frozenset(c.output for c in before.carried) if before else frozenset()
        return _to(after, answers=tuple(o for o in after.answers if o.output not in names))

    return folded(SendSucceeded, succeeded)


def answers_newest_first() -> AbstractContextManager[None]:
    """The order of a lane is turned round."""
    real = gate.unheld
    turned = lambda state, name: tuple(reversed(real(state, name)))  # noqa: E731
    return patched((dispatch, "unheld", turned))


def refused_is_lost() -> AbstractContextManager[None]:
    """A refusal ends what it carried."""
    real = conclude._refused

    def refused(draft: Any, request: Any, outcome: Any) -> None:
        real(draft, request, outcome)
        names = {c.output for c in request.carried}
        draft.state = _to(draft.state, queue=tuple(o for o in draft.state.queue if o.output not in names))

    return patched((conclude, "_refused", refused))


def wakes_never() -> AbstractContextManager[None]:
    """Nobody looks again when the share rolls."""
    real = Agenda.set

    def set_soon(self: Agenda, stream: str, due_at: int | None) -> None:
        soon = due_at is not None and due_at <= self._scheduler.clock.now() + 60_000
        real(self, stream, due_at if soon else None)

    return patched((Agenda, "set", set_soon))


def forgets_waiting() -> AbstractContextManager[None]:
    """A start does not look at what the agenda has."""

    async def recall(account: Any, log: Any) -> None:
        for row in await log.addresses(account.address.bot):
            account.know(row.stream, row.peer)

    return patched((waking, "recall", recall))


def acts_before_durable() -> AbstractContextManager[None]:
    """A send begins before its request is in the log."""
    real_append, real_act = Peer._append, Peer._act

    def append(self: Peer, decision: Any) -> Any:
        for effect in decision.effects:
            if isinstance(effect, Send):
                self._send(effect)
        return (yield from real_append(self, decision))

    def act(self: Peer, command: Any, decision: Any) -> None:
        real_act(self, command, _to(decision, effects=tuple(e for e in decision.effects if not isinstance(e, Send))))

    return patched((Peer, "_append", append), (Peer, "_act", act))


MUTANTS: Mapping[str, Mutant] = {
    m.__name__: m
    for m in (
        missing_charge,
        no_carry,
        window_by_log_order,
        share_off_by_one,
        share_from_request,
        quota_off_by_one,
        no_reserve,
        over_limiting,
        no_fence_in_log,
        no_fence_at_outlet,
        no_versions,
        group_not_isolated,
        agenda_not_written,
        stale_left_open,
        stale_given_back,
        boot_forgotten,
        sent_late,
        creation_times_exact,
        creation_times_passed_over,
        ahead_is_behind,
        cursor_before_message,
        no_dedupe,
        dedupe_by_id_only,
        dedupe_by_text,
        newest_expires,
        lost_remainder,
        answers_newest_first,
        refused_is_lost,
        wakes_never,
        forgets_waiting,
        acts_before_durable,
        *MORE,
    )
}
