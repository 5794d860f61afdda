"""What people read of deliveries, whichever verb tells it: the one fact that keeps something from leaving and what ends that, and the
reasons for which something waits no more. Pure."""

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


SKIPPED = {
    "blank": "its text is blank",
    "failed": "the turn failed",
    "origin_excluded": "turns of this origin are kept out by push_origins",
    "no_share": "the policy has no share for pushes",
}
DROPPED = {
    "backlog_full": "newer outputs pushed it out of the backlog",
    "expired": "it waited longer than the backlog's age, and a newer output was there",
    "merged_out": "it did not fit beside newer outputs into the one message that was delivered",
    "beyond_parts": "the answer was longer than its number of parts",
    "remainder_expired": "the rest of the answer waited for the peer's next message longer than the window's length",
    "set_aside": "the channel refused it for what it is",
    "operator": "an operator dropped it",
    "text_gone": "its text had expired or was erased",
    "blank": "nothing of it is left to see",
    "no_share": "its smallest form can never fit the share",
    "not_delivered": "it turned out not to have arrived",
}
UNKNOWN = {
    "timeout": "no answer came in time",
    "connection_lost": "the connection broke before its answer was there",
    "server_error": "the channel answered with an error of its own",
    "stopped": "the gateway ended before its answer was there",
}
NEVER_LEFT = {
    "not_sent": "nothing reached the channel",
    "too_late": "the time within which its bytes had to leave was over",
}
UNCONFIRMED = "the channel took it without a message id: nothing proves that it is shown"


def unknown(reason: str) -> str:
    """Why nobody knows whether a request arrived, "" = the log does not say why."""
    why = UNKNOWN.get(reason, reason)
    return f"nobody can say whether it arrived{f' ({why})' if why else ''}; it is charged and not sent again"


def cut(delivered: int, total: int, *, kept: bool = True) -> str:
    """That only the head of a text arrived; `kept`: whether the text is still there."""
    return (
        f"its first {delivered} of {total} bytes were delivered; the rest {'is retrievable' if kept else 'was erased'}"
    )


class Fact(msgspec.Struct, frozen=True):
    """A blocking fact, and what ends it: `ends` goes on after "when" or "until"."""

    what: str
    ends: str

    @property
    def sentence(self) -> str:
        """Both, for a line that says that something waits."""
        return f"{self.what}; it waits until {self.ends}"


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

HELD = Fact(
    "an earlier part was refused, or nobody can say whether it arrived; later parts hold to keep the order",
    f"{_MESSAGE} is there",
)


def login_command(account: str) -> str:
    """How somebody logs in to an account (CHANNEL:ACCOUNT)."""
    channel, _, name = account.partition(":")
    return f"somebody runs `replyledger login {channel} --account {name}`"


def _share(case: _Case) -> Fact:
    policy, charges = case.view.policy, case.state.charges
    used = quota.share_used(charges, policy, case.now)
    what = f"the share of pushes is spent: {used} of {policy.share_replies} in {show_span(policy.share_window_ms)}"
    if case.block.until is not None:
        return Fact(what, f"the share rolls at {case.at}, inside the open window")
    rolls = quota.share_free_at(charges, policy, case.now)
    if rolls is None:
        known = (
            "the outcome of what is in flight is known" if policy.share_replies else "the policy gives pushes a share"
        )
        return Fact(what, known)
    return Fact(
        what,
        f"the peer writes after {case.show(rolls)} (when the share rolls, the window of the last message will have ended)",
    )


def _window(case: _Case) -> Fact:
    window = case.state.window
    if window is None:
        return Fact("the peer has not written yet, so no window is open", "the peer's first message opens one")
    if window.generation != case.view.generation:
        return Fact("the peer's window belongs to an older login", f"{_MESSAGE} opens a new one")
    ended = case.show(quota.window_ends_at(window, case.view.policy))
    return Fact(f"the window that message {window.message} opened ended at {ended}", f"{_MESSAGE} opens a new one")


def carried(count: int | None) -> str:
    """What stands behind `n of 10` where some of what is spent was asked for before the message that opened the window."""
    return f" ({count} carried from before the message)" if count else ""


def _spent(case: _Case) -> Fact:
    window = case.state.window
    opened = f" of the window that message {window.message} opened" if window else ""
    of = case.view.policy.quota_replies
    before = carried(quota.carried(case.state.charges, case.state.window_number))
    return Fact(f"the quota{opened} is spent: {of} of {of}{before}", f"{_MESSAGE} opens a new window")


def _reserved(case: _Case) -> Fact:
    left = quota.quota_left(case.state.charges, case.state.window, case.view.policy)
    turns = case.state.open_turns
    if left > turns:
        return Fact("remainders have used their half of this window's quota", f"{_MESSAGE} opens a new window")
    kept = "the last reply of the window is kept" if left == 1 else f"the last {left} replies of the window are kept"
    return Fact(
        f"{kept} for the {'answer' if turns == 1 else f'{turns} answers'} that the peer waits for",
        f"{'that answer is' if turns == 1 else 'those answers are'} given, or {_MESSAGE} opens a new window",
    )


def _paused(case: _Case) -> Fact:
    resumed = "somebody runs `replyledger resume`"
    if case.block.until is None:
        return Fact("sending is paused", resumed)
    return Fact(f"sending is paused until {case.at}", f"that time comes, or {resumed}")


def _token(case: _Case) -> Fact:
    if case.state.token is not None:
        return Fact("the context token belongs to an older login", f"{_MESSAGE} brings a new one")
    if case.state.window is None:
        return Fact("the peer has not written yet, so no context token is there", "the peer's first message brings one")
    return Fact("no context token is left", f"{_MESSAGE} brings one")


def _request(case: _Case) -> Fact:
    name = case.state.request.request if case.state.request else "another"
    return Fact(f"request {name} is open, and a peer has one at a time", "the outcome of that request is known")


def _retry(case: _Case) -> Fact:
    return Fact("the last try provably never left", f"the next try is due, at {case.at}")


_FACTS: Mapping[Reason, Callable[[_Case], Fact]] = {
    "nothing_waits": lambda _: Fact("nothing waits", "there is a next output"),
    "open_request": _request,
    "no_login": lambda case: Fact("nobody has ever logged in to the account", login_command(case.view.account)),
    "login_lost": lambda case: Fact("the channel says that the login is gone", login_command(case.view.account)),
    "paused": _paused,
    "no_token": _token,
    "retry_later": _retry,
    "window_closed": _window,
    "quota_spent": _spent,
    "share_spent": _share,
    "reserved_for_answers": _reserved,
    "held_until_message": lambda _: HELD,
    "pace": lambda case: Fact("the account paces its sends", f"its place comes{f' at {case.at}' if case.at else ''}"),
}
