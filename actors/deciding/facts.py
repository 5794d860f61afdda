"""What keeps something from leaving, in plain sentences: the one fact, and what would free it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from actors.deciding.gate import LaneName, lane_block
from actors.deciding.view import Block, BotView, Reason
from actors.text.moments import show_span
from events import quota
from events.base import Millis
from events.peer_state import PeerState

Blocking = Callable[[PeerState, BotView, LaneName, Millis], Block | None]
"""Names the one fact that blocks a lane of a live state, or None if it may send now."""

gate: Blocking = lane_block


class Fact(msgspec.Struct, frozen=True):
    """A blocking fact: what it is, and what would free it."""

    what: str
    frees: str


def lane_of(state: PeerState, output: str) -> LaneName | None:
    """In which lane an output waits, or None if it does not."""
    if any(o.output == output for o in state.remainders):
        return "remainders"
    if any(o.output == output for o in state.answers):
        return "answers"
    return "pushes" if any(o.output == output for o in state.queue) else None


def fact_of(block: Block, state: PeerState, view: BotView, now: Millis, show: Callable[[Millis], str]) -> Fact:
    """The sentences for a block; `show` writes a time."""
    return _FACTS[block.reason](_Case(block, state, view, now, show))


class _Case(msgspec.Struct, frozen=True):
    block: Block
    state: PeerState
    view: BotView
    now: Millis
    show: Callable[[Millis], str]

    @property
    def at(self) -> str:
        """When the block ends by itself."""
        return self.show(self.block.until) if self.block.until is not None else ""


_MESSAGE = "the peer's next message"


def _share(case: _Case) -> Fact:
    policy, charges = case.view.policy, case.state.charges
    used = quota.share_used(charges, policy, case.now)
    what = f"the share of pushes is spent: {used} of {policy.share_replies} in {show_span(policy.share_window_ms)}"
    if case.block.until is not None:
        return Fact(what, f"the share rolls at {case.at}, inside the open window")
    rolls = quota.share_free_at(charges, policy, case.now)
    if rolls is None:
        return Fact(what, "an outcome of what is in flight" if policy.share_replies else "a policy with a share")
    return Fact(what, f"{_MESSAGE} after {case.show(rolls)}, when the share has rolled; the window ends before")


def _window(case: _Case) -> Fact:
    window = case.state.window
    if window is None:
        return Fact("the peer has not written yet, so no window is open", "the peer's first message")
    if window.generation != case.view.generation:
        return Fact("the peer's window belongs to an older login", f"{_MESSAGE} opens one")
    ended = case.show(quota.window_ends_at(window, case.view.policy))
    return Fact(f"the window that message {window.message} opened ended at {ended}", f"{_MESSAGE} opens one")


def _spent(case: _Case) -> Fact:
    window = case.state.window
    opened = f" of the window that message {window.message} opened" if window else ""
    of = case.view.policy.quota_replies
    return Fact(f"the quota{opened} is spent: {of} of {of}", f"{_MESSAGE} opens a new window")


def _reserved(case: _Case) -> Fact:
    left = quota.quota_left(case.state.charges, case.state.window, case.view.policy)
    turns = case.state.open_turns
    if left > turns:
        return Fact("remainders have used their half of this window's quota", _MESSAGE)
    return Fact(
        f"the last {_count(left, 'reply', 'replies')} of the window {'is' if left == 1 else 'are'} kept for"
        f" {_count(turns, 'open turn', 'open turns')}",
        f"the end of the open turn, or {_MESSAGE}",
    )


def _paused(case: _Case) -> Fact:
    until = f" until {case.at}" if case.block.until is not None else ""
    return Fact(f"sending is paused{until}", "`replyledger resume`" + (", or that time" if until else ""))


def _token(case: _Case) -> Fact:
    if case.state.token is not None:
        return Fact("the context token belongs to an older login", f"{_MESSAGE} brings a new one")
    return Fact("no context token is known", f"{_MESSAGE} brings one")


def _request(case: _Case) -> Fact:
    name = case.state.request.request if case.state.request else "another"
    return Fact(f"request {name} is open, and a peer has one at a time", "its outcome")


def _retry(case: _Case) -> Fact:
    return Fact("the last try provably never left", f"the next try at {case.at}")


_FACTS: Mapping[Reason, Callable[[_Case], Fact]] = {
    "nothing_waits": lambda _: Fact("nothing waits", "the next output"),
    "open_request": _request,
    "no_login": lambda _: Fact("the account has never logged in", "`replyledger login`"),
    "login_lost": lambda _: Fact("the channel says that the login is gone", "a new `replyledger login`"),
    "paused": _paused,
    "no_token": _token,
    "retry_later": _retry,
    "window_closed": _window,
    "quota_spent": _spent,
    "share_spent": _share,
    "reserved_for_answers": _reserved,
    "held_until_message": lambda _: Fact(
        "an earlier part was refused, or nobody can say whether it arrived; later parts hold to keep the order",
        _MESSAGE,
    ),
    "pace": lambda case: Fact("the account paces its sends", f"its place at {case.at}" if case.at else "its place"),
}


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
