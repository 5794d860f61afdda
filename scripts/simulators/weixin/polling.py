"""getupdates: the long poll, its cursor, and the ways in which messages come twice, late or not at all (notes 1.4, 4)."""

from __future__ import annotations

from typing import Any

import msgspec

from scripts.simulators.errors import UnknownMessageError
from scripts.simulators.weixin.chats import Account, Delivery, Poll
from scripts.simulators.weixin.codec import Message, Raw, Reply, UpdatesRequest, read_cursor, write_cursor
from scripts.simulators.weixin.ledgers import Shown, fingerprint
from scripts.simulators.weixin.state import STALE, Answer, Call, Hold, State


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the control API answers when a user said something."""

    message_id: int
    at: int
    bot: str
    user: str
    token: str  # fingerprint of the context token that came with it
    window: int


def poll(state: State, call: Call) -> Reply | Hold | Answer:
    """Answer a getupdates request at once, or hold it."""
    account = call.known_account
    state.counters["polls"] += 1
    other = account.poll
    if other is not None:
        treatment = state.board.use("second_poller")
        if treatment == "refuse":
            return Answer(status=403, body=b"forbidden", content_type="text/plain")
        other.stolen = treatment == "steal"
    _acknowledge(account, call.body(UpdatesRequest).get_updates_buf)
    held = Poll(until=call.now + state.board.use("hold_ms"))
    reply = _deliver(state, call, held)
    if reply is not None:
        return reply
    account.poll = held
    return _hold(account, call, held)


def resume_poll(state: State, hold: Hold, now: int) -> Reply | Hold:
    """Look at a held poll again."""
    assert hold.poll is not None, "only polls are resumed here"
    account = hold.call.known_account
    if not account.alive:
        release(hold)
        return STALE
    reply = _deliver(state, hold.call, hold.poll, now)
    if reply is None and not hold.poll.stolen and now < hold.poll.until:
        return _hold(account, hold.call, hold.poll)
    release(hold)
    return reply or _reply(state, hold.call, [], _start(state, account, hold.call))


def release(hold: Hold) -> None:
    """Forget a held poll: it was answered, or its client has gone."""
    account = hold.call.account
    if account is not None and account.poll is hold.poll:
        account.poll = None


def _hold(account: Account, call: Call, held: Poll) -> Hold:
    return Hold(call=call, until=min([held.until, *(late.visible_at for late in account.coming)]), poll=held)


def _acknowledge(account: Account, cursor: str) -> None:
    account.acknowledged = max(account.acknowledged, min(read_cursor(cursor) or 0, len(account.inbox)))


def _start(state: State, account: Account, call: Call) -> int:
    """Return from which position on this poll reads."""
    cursor = call.body(UpdatesRequest).get_updates_buf
    if cursor:
        return min(read_cursor(cursor) or 0, len(account.inbox))
    return 0 if _everything_again(state, call) else account.acknowledged


def _deliver(state: State, call: Call, held: Poll, now: int | None = None) -> Reply | None:
    """Return what is there to deliver, None when the poll has to wait."""
    account = call.known_account
    if held.stolen:
        return None
    _let_late_ones_in(account, call.now if now is None else now)
    start, again = _start(state, account, call), _everything_again(state, call)
    batch = account.inbox[start : start + state.board.look("batch")]
    skips_taken = state.board.look("delivery") == "consumed" and not again
    found = [d for d in batch if not (d.taken and skips_taken)]
    if not found:
        return None
    if again:
        state.board.use("empty_cursor")
    if state.board.use("reorder"):
        found.reverse()
    for delivery in found:
        delivery.taken = True
    state.counters["delivered"] += len(found)
    return _reply(state, call, [d.wire for d in found], start + len(batch))


def _let_late_ones_in(account: Account, now: int) -> None:
    due = [late for late in account.coming if late.visible_at <= now]
    account.coming = [late for late in account.coming if late.visible_at > now]
    account.inbox += due


def _everything_again(state: State, call: Call) -> bool:
    return not call.body(UpdatesRequest).get_updates_buf and state.board.look("empty_cursor") == "everything"


def _reply(state: State, call: Call, messages: list[Raw], position: int) -> Reply:
    advertised = state.board.use("advertised_ms")
    return Reply(
        ret=msgspec.UNSET if call.fault and call.fault.kind == "omit_ret" else 0,
        msgs=messages,
        get_updates_buf=write_cursor(position),
        longpolling_timeout_ms=msgspec.UNSET if advertised is None else advertised,
    )


def user_says(
    state: State,
    now: int,
    *,
    items: list[Raw],
    bot: str | None = None,
    user: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Said:
    """Let a user write to a bot: this is the server's own receipt, and it opens the window.

    `extra` overrides keys of the message as it goes over the wire (None takes a key away).
    """
    account = state.find_account(bot)
    chat = account.add_user(user or account.identity.user_id)
    token = state.mint.context_token(now)
    window = chat.open_window(now, token)
    message_id = state.mint.message_id(now, state.board.use("ids"))
    created_at = 0 if state.board.use("create_time") == "zero" else now + state.board.use("clock_skew_ms")
    message = Message(
        seq=account.next_seq(),
        message_id=state.on_wire(message_id),
        from_user_id=chat.user,
        to_user_id=account.bot,
        client_id=f"wx-{message_id}",
        create_time_ms=created_at,
        session_id=f"{chat.user}#{account.bot}",
        context_token=token,
        item_list=items,
    )
    wire = _overridden(msgspec.to_builtins(message), extra or {})
    if state.board.use("inbound_id") == "missing":
        del wire["message_id"]
    delivery = Delivery(wire=wire, message_id=message_id, visible_at=now)
    account.inbox.append(delivery)
    _repeat_if_asked(state, account, delivery, now)
    text = "\n".join(_shown_text(item) for item in items)
    state.shown.add(Shown(at=now, bot=account.bot, user=chat.user, by="user", text=text, message_id=message_id))
    state.counters["said"] += 1
    return Said(
        message_id=message_id, at=now, bot=account.bot, user=chat.user, token=fingerprint(token), window=window.number
    )


def _shown_text(item: Raw) -> str:
    inner = item.get("text_item")
    return str(inner["text"]) if isinstance(inner, dict) and "text" in inner else f"[type {item.get('type')}]"


def _overridden(wire: Raw, extra: dict[str, Any]) -> Raw:
    return {key: value for key, value in (wire | extra).items() if value is not None}


def _repeat_if_asked(state: State, account: Account, delivery: Delivery, now: int) -> None:
    again = state.board.use("redeliver")
    if again != "never":
        after_ms = state.board.use("redeliver_after_ms")
        redeliver(state, now, account, delivery, new_id=again == "new_id", after_ms=after_ms)


def redeliver(
    state: State, now: int, account: Account, delivery: Delivery, *, new_id: bool, after_ms: int = 0
) -> Delivery:
    """Deliver a message once more, with its own id or a new one; no window opens, since the user did not write."""
    wire = dict(delivery.wire)
    message_id = delivery.message_id
    if new_id:
        message_id = state.mint.message_id(now, state.board.look("ids"))
        fresh = {"seq": account.next_seq(), "message_id": state.on_wire(message_id)}
        wire |= {key: value for key, value in fresh.items() if key in wire}
    copy = Delivery(wire=wire, message_id=message_id, visible_at=now + after_ms)
    account.coming.append(copy)
    return copy


def find_delivery(account: Account, message_id: int) -> Delivery:
    """Return the newest delivery of this message."""
    for delivery in reversed(account.inbox):
        if delivery.message_id == message_id:
            return delivery
    raise UnknownMessageError(f"no message {message_id}")
