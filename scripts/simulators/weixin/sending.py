"""sendmessage: what becomes of a send, by throttle, context token, window and quota (iLink protocol notes 1.6, 2.3, 2.4)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from scripts.simulators.weixin.chats import Chat, Delivery, Window
from scripts.simulators.weixin.codec import Item, Message, Outbound, Reply, SendRequest
from scripts.simulators.weixin.knobs import LOSES_ANSWER
from scripts.simulators.weixin.ledgers import Accepted, Refused, Shown, fingerprint
from scripts.simulators.weixin.state import Call, State, refusal

PREPARE_FAILED = "prepare failed"
INVALID_MINUS_TWO = frozenset({"text_bytes", "text_missing"})
"""Body rules that the real server answers with -2 (notes 2.1); the others get -3, invalid argument."""

HEADER_RULES = frozenset(
    {"app_id", "client_version", "content_type", "authorization_type", "uin", "uin_repeated", "base_info", "bot_agent"}
)
NEVER_SHOWN_ITEMS = frozenset({3, 11, 12})
"""Voice and tool progress: accepted, never displayed, and they cost a reply (notes 1.7, 1.8)."""


class Verdict(NamedTuple):
    """What happens with a send: `refuse` with a code, `swallow` (ret 0, no id, not shown), or `accept`."""

    deed: str
    code: int = 0
    errmsg: str | None = None
    reason: str = ""


ACCEPT = Verdict("accept")


def send(state: State, call: Call) -> Reply:
    """Answer a sendmessage request."""
    message = call.body(SendRequest).msg
    account = call.known_account
    state.counters["sends"] += 1
    repeated = message.client_id in account.client_ids
    state.counters["client_id_repeats"] += repeated
    if repeated and state.board.use("dedupe_client_id"):
        return _accepted_reply(state, call, account.client_ids[message.client_id])
    verdict = judge(state, call, message)
    if verdict.deed == "refuse":
        note_refused(state, call, verdict.code, verdict.reason)
        return refusal(verdict.code, verdict.errmsg)
    return _accept(state, call, message, verdict)


def judge(state: State, call: Call, message: Outbound) -> Verdict:
    """Decide about a send; the first reason counts: invalid, throttled, token, window and quota."""
    invalid = [rule for rule in call.broken if rule not in HEADER_RULES]
    if invalid:
        code = -2 if invalid[0] in INVALID_MINUS_TWO else -3
        return Verdict("refuse", code, None if code == -2 else "invalid argument", "invalid")
    chat = call.known_account.chats[message.to_user_id]
    if chat.window is not None:
        chat.window.tried += 1
    if _throttled(state, chat, call.now):
        return Verdict("refuse", -2, "rate limited", "burst")
    by_token = _judge_token(state, chat, message.context_token, call.now)
    return by_token if by_token is not ACCEPT else _judge_quota(state, chat, call.now)


def _throttled(state: State, chat: Chat, now: int) -> bool:
    """Count this attempt; an attempt while throttled starts the penalty anew (notes 2.3)."""
    board = state.board
    allowed, window_ms = board.use("burst_sends"), board.use("burst_window_ms")
    if allowed <= 0:
        return False
    chat.sends_at = [at for at in chat.sends_at if at > now - window_ms] + [now]
    if now < chat.throttled_until or len(chat.sends_at) > allowed:
        chat.throttled_until = now + board.use("burst_penalty_ms")
        return True
    return False


def _judge_token(state: State, chat: Chat, token: str, now: int) -> Verdict:
    issued_at = chat.tokens.get(token)
    if not token:
        treatment = state.board.use("tokenless_sends")
    elif issued_at is None or now >= issued_at + state.board.look("token_life_ms"):
        treatment = state.board.use("expired_tokens")
    elif token != chat.newest_token:
        treatment = state.board.use("superseded_tokens")
    else:
        return ACCEPT
    return {
        "accept": ACCEPT,
        "swallow": Verdict("swallow", reason="token"),
        "refuse": Verdict("refuse", -2, PREPARE_FAILED, "token"),
    }[treatment]


def _judge_quota(state: State, chat: Chat, now: int) -> Verdict:
    quota, window_ms = state.board.use("quota"), state.board.use("window_ms")
    window = chat.window
    stands = window is not None and window.is_open(now, window_ms)
    if window is not None and stands and window.spent < quota:
        return ACCEPT
    reason = "quota" if stands else "window"
    treatment = state.board.use("beyond_quota")
    if treatment == "swallow":
        if window is not None:
            window.over += 1
        return Verdict("swallow", reason=reason)
    return Verdict("refuse", -2, PREPARE_FAILED if treatment == "prepare_failed" else None, reason)


def spend(window: Window | None) -> int:
    """Spend a reply of this window and return which one it was (1, 2 ...); 0 without a window."""
    if window is None:
        return 0
    window.spent += 1
    return window.spent


def has_left(state: State, chat: Chat, now: int) -> bool:
    """Tell whether the user's window stands and has a reply left."""
    window, board = chat.window, state.board
    stands = window is not None and window.is_open(now, board.look("window_ms"))
    return stands and window is not None and window.spent < board.look("quota")


def note_refused(state: State, call: Call, code: int, reason: str) -> None:
    """Write a refused send down."""
    message = call.body(SendRequest).msg
    state.refused.add(
        Refused(
            at=call.now,
            bot=call.account.bot if call.account else "",
            user=message.to_user_id,
            client_id=message.client_id,
            code=code,
            reason=reason,
            text=text_of(message),
        )
    )


def _accept(state: State, call: Call, message: Outbound, verdict: Verdict) -> Reply:
    account, fault = call.known_account, call.fault
    chat = account.chats[message.to_user_id]
    by_token = verdict.deed == "swallow" and verdict.reason == "token" and has_left(state, chat, call.now)
    slot = spend(chat.window) if verdict is ACCEPT or by_token else 0
    omitted = fault is not None and fault.kind == "omit_message_id"
    swallowed = verdict.deed == "swallow"
    message_id = state.mint.message_id(call.now, state.board.use("ids"))
    shown = not swallowed and (not omitted or (fault is not None and fault.shown))
    row = msgspec.structs.replace(
        _row(call, message, chat.window),
        seq=len(state.accepted) + 1,
        message_id=None if swallowed or omitted else message_id,
        slot=slot,
        shown=shown and message.item_list[0].type not in NEVER_SHOWN_ITEMS,
        told=fault is None or fault.kind not in LOSES_ANSWER,
    )
    state.accepted.add(row)
    account.client_ids[message.client_id] = row.message_id
    if row.shown:
        _show(state, call, row, message_id)
    if state.board.use("echo"):
        account.inbox.append(_echo(call, message, message_id))
    return _accepted_reply(state, call, row.message_id)


def _accepted_reply(state: State, call: Call, message_id: int | None) -> Reply:
    ret: int | msgspec.UnsetType = msgspec.UNSET if call.fault and call.fault.kind == "omit_ret" else 0
    return Reply(ret=ret) if message_id is None else Reply(ret=ret, message_id=state.on_wire(message_id))


def _row(call: Call, message: Outbound, window: Window | None) -> Accepted:
    text = text_of(message)
    return Accepted(
        seq=0,
        at=call.now,
        bot=call.known_account.bot,
        user=message.to_user_id,
        client_id=message.client_id,
        message_id=None,
        text=text,
        bytes=len(text.encode()),
        token=fingerprint(message.context_token),
        window=window.number if window else 0,
        slot=0,
        shown=False,
    )


def _show(state: State, call: Call, row: Accepted, message_id: int) -> None:
    at = call.now + state.board.use("show_delay_ms")
    state.shown.add(Shown(at=at, bot=row.bot, user=row.user, by="bot", text=row.text, message_id=message_id))


def _echo(call: Call, message: Outbound, message_id: int) -> Delivery:
    account = call.known_account
    wire = msgspec.to_builtins(
        Message(
            seq=account.next_seq(),
            message_id=message_id,
            from_user_id=account.bot,
            to_user_id=message.to_user_id,
            client_id=message.client_id,
            create_time_ms=call.now,
            session_id=f"{message.to_user_id}#{account.bot}",
            message_type=2,
            context_token=message.context_token,
            item_list=msgspec.to_builtins(message.item_list),
        )
    )
    return Delivery(wire=wire, message_id=message_id, visible_at=call.now)


def text_of(message: Outbound) -> str:
    """Return what the message shows as text; `[type n]` for items without."""
    return "\n".join(_item_text(item) for item in message.item_list)


def _item_text(item: Item) -> str:
    return item.text_item.text if item.type == 1 and item.text_item else f"[type {item.type}]"
