"""The life of an account: its events, its state, and the fold from one to the other."""

from __future__ import annotations

from typing import Literal, assert_never

import msgspec

from events.base import Event, Millis, Part

FOLD_VERSION = 2
"""Raised whenever the fold changes; a snapshot of another version is ignored."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
SHARE_WINDOW_MS_MAX = 7 * DAY_MS
"""The longest rolling window of a share: a peer's state forgets charges older than this."""


class Policy(Part, frozen=True, kw_only=True, omit_defaults=False):
    """Every number of the delivery rules, whole, as it stood when a decision was taken. Times in ms. Stored with its defaults:
    those may change from version to version, and history must not."""

    quota_replies: int = 10  # per inbound message
    quota_window_ms: int = DAY_MS
    share_replies: int = 3
    share_window_ms: int = DAY_MS
    backlog_outputs: int = 20
    backlog_age_ms: int = HOUR_MS
    answer_parts: int = 10
    part_bytes: int = 4000
    mode: Literal["enforce", "observe"] = "enforce"
    resend_unknown: Literal["never"] = "never"
    client_timeout_ms: int = 15_000  # how long a send may stay unanswered
    pace_ms: int = 1_000  # between two sends of the account, in the long run
    pace_burst: int = 5  # sends that may leave at once after a quiet time
    notice_after_ms: int = 30_000  # a message waits this long for an agent before its sender is told; 0 = never told
    push_origins: tuple[str, ...] = ("scheduled", "desktop", "api")


class BotStarted(Event, frozen=True, kw_only=True, tag="bot_started"):
    """An instance claimed the account; appended in the same transaction as the claim."""

    instance: str
    replaces: str = ""  # the instance that held the account before, or ""
    program: str = ""  # the program's version
    simulated: bool = False  # the clock of this run was a simulated one
    boot: str = ""  # fingerprint of the machine's boot, "" = the system names none
    boot_ms: Millis = 0  # the boot clock at the start, where `boot` is known


class BotStopped(Event, frozen=True, kw_only=True, tag="bot_stopped"):
    """The instance released the account by itself."""

    reason: str = ""


class PolicyChanged(Event, frozen=True, kw_only=True, tag="policy_changed"):
    """The policy from here on, whole. `policy_id` is a digest of it."""

    policy: Policy
    policy_id: str


class LoginCompleted(Event, frozen=True, kw_only=True, tag="login_completed"):
    """A login took effect. Tokens and windows of older generations are void."""

    generation: int
    owner: str = ""  # the stream of the person who logged in
    credentials: str = ""  # fingerprint of the login's secret, by which a start knows a new login


class LoginLost(Event, frozen=True, kw_only=True, tag="login_lost"):
    """The channel says that the login is gone. Only a new login cures it."""

    code: int
    where: str = ""  # poll, send or config


class CursorAdvanced(Event, frozen=True, kw_only=True, tag="cursor_advanced"):
    """The inbound cursor after a poll. Appended with the messages it brought; when idle at most hourly."""

    cursor: str
    poll_started_at: Millis
    poll_ended_at: Millis


class SendingPaused(Event, frozen=True, kw_only=True, tag="sending_paused"):
    """An operator stopped sending for a scope: "" = the whole account, else a peer's stream."""

    scope: str = ""
    until: Millis | None = None  # None = until resumed
    who: str = ""


class SendingResumed(Event, frozen=True, kw_only=True, tag="sending_resumed"):
    """Sending goes on for a scope."""

    scope: str = ""
    who: str = ""


class ClockStepped(Event, frozen=True, kw_only=True, tag="clock_stepped"):
    """The wall clock stepped away from the boot clock by `step_ms`. Frees no quota."""

    step_ms: int


_Rare = (
    BotStarted | BotStopped | PolicyChanged | LoginCompleted | LoginLost | SendingPaused | SendingResumed | ClockStepped
)
BotEvent = CursorAdvanced | _Rare  # the most frequent first: an `isinstance` asks one after the other


class BotState(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says of a bot."""

    version: int = 0
    at: Millis = 0
    epoch: int = 0
    instance: str = ""
    running: bool = False
    policy: Policy = Policy()
    policy_id: str = ""
    generation: int = 0  # 0 = never logged in
    owner: str = ""
    credentials: str = ""
    login_lost: int | None = None  # the code that said so
    cursor: str = ""
    poll_started_at: Millis = 0
    poll_ended_at: Millis = 0
    paused: tuple[tuple[str, Millis | None], ...] = ()  # (scope, until)
    clock_steps: int = 0
    simulated: bool = False
    boot: str = ""  # in which the newest life started
    booted_at: Millis = 0  # when that was, by the time of the log


def evolve(state: BotState, event: BotEvent, *, version: int, at: Millis, epoch: int) -> BotState:
    """The state after one event of the bot's stream."""
    if isinstance(event, CursorAdvanced):  # nearly all of them
        return msgspec.structs.replace(
            state,
            version=version,
            at=at,
            cursor=event.cursor,
            poll_started_at=event.poll_started_at,
            poll_ended_at=event.poll_ended_at,
        )
    return msgspec.structs.replace(_apply(state, event, at, epoch), version=version, at=at)


def _apply(state: BotState, event: _Rare, at: Millis, epoch: int) -> BotState:
    to = msgspec.structs.replace
    match event:
        case BotStarted():
            return _started(state, event, at, epoch)
        case BotStopped():
            return to(state, running=False)
        case PolicyChanged():
            return to(state, policy=event.policy, policy_id=event.policy_id)
        case LoginCompleted():
            return _logged_in(state, event)
        case LoginLost():
            return to(state, login_lost=event.code)
        case SendingPaused():
            return to(state, paused=(*_without(state, event.scope), (event.scope, event.until)))
        case SendingResumed():
            return to(state, paused=_without(state, event.scope))
        case ClockStepped():
            return to(state, clock_steps=state.clock_steps + 1)
        case _:
            assert_never(event)


def _started(state: BotState, event: BotStarted, at: Millis, epoch: int) -> BotState:
    return msgspec.structs.replace(
        state,
        epoch=epoch,
        instance=event.instance,
        running=True,
        simulated=state.simulated or event.simulated,
        boot=event.boot,
        booted_at=at - event.boot_ms if event.boot else 0,
    )


def _logged_in(state: BotState, event: LoginCompleted) -> BotState:
    """A new login has no cursor: the old one belongs to the old login."""
    cursor = state.cursor if event.generation == state.generation else ""
    return msgspec.structs.replace(
        state,
        generation=event.generation,
        owner=event.owner,
        credentials=event.credentials,
        login_lost=None,
        cursor=cursor,
    )


def _without(state: BotState, scope: str) -> tuple[tuple[str, Millis | None], ...]:
    return tuple(p for p in state.paused if p[0] != scope)


def paused_until(state: BotState, stream: str, now: Millis) -> Millis | None:
    """0 when sending is not paused for a peer, None when paused until resumed, else when the pause ends (ms)."""
    ends: list[Millis | None] = [
        until for scope, until in state.paused if scope in ("", stream) and (until is None or until > now)
    ]
    if not ends:
        return 0
    return None if None in ends else max(e for e in ends if e is not None)
