"""The calls beside poll and send: getconfig, sendtyping, getuploadurl, notifystart, notifystop (notes 1.2, 1.7, 1.9)."""

from __future__ import annotations

from scripts.simulators.weixin.codec import ConfigRequest, Reply, TypingRequest, UploadRequest
from scripts.simulators.weixin.ledgers import Accepted
from scripts.simulators.weixin.sending import has_left, spend
from scripts.simulators.weixin.state import Call, State, refusal


def config(state: State, call: Call) -> Reply:
    """Answer getconfig with a typing ticket; it never hands out a context token (notes 1.9)."""
    user = call.body(ConfigRequest).ilink_user_id
    state.counters["configs"] += 1
    if not user:
        return refusal(-2, "ilink_user_id required")
    chat = call.known_account.chat(user)
    if chat is None or (chat.window is None and state.board.use("config_needs_message")):
        return refusal(-4, "GetTypingTicket rpc failed")
    if not chat.ticket or call.now >= chat.ticket_at + state.board.use("ticket_life_ms"):
        chat.ticket, chat.ticket_at = state.mint.secret("ticket", call.now), call.now
    return Reply(ret=0, typing_ticket=chat.ticket)


def typing(state: State, call: Call) -> Reply:
    """Answer sendtyping; a start costs a reply while the knob `typing_costs` says so."""
    request = call.body(TypingRequest)
    chat = call.known_account.chat(request.ilink_user_id)
    state.counters["typing"] += 1
    if chat is None:
        return refusal(-2, "ilink_user_id required")
    expired = call.now >= chat.ticket_at + state.board.look("ticket_life_ms")
    if request.typing_ticket != chat.ticket or not chat.ticket or expired:
        return refusal(-2, "invalid typing_ticket")
    if request.status == 2:
        chat.typing_stops += 1
        return Reply(ret=0)
    chat.typing_starts += 1
    if state.board.use("typing_costs") and has_left(state, chat, call.now):
        _charge_typing(state, call, chat.user, spend(chat.window))
    return Reply(ret=0)


def _charge_typing(state: State, call: Call, user: str, slot: int) -> None:
    chat = call.known_account.chats[user]
    state.accepted.add(
        Accepted(
            seq=len(state.accepted) + 1,
            at=call.now,
            bot=chat.bot,
            user=user,
            client_id="",
            message_id=None,
            text="",
            bytes=0,
            token="",
            window=len(chat.windows),
            slot=slot,
            shown=False,
            typing=True,
        )
    )


def upload(state: State, call: Call) -> Reply:
    """Answer getuploadurl with a slot; some accounts insist on a context token (notes 1.7)."""
    request = call.body(UploadRequest)
    state.counters["uploads"] += 1
    if call.known_account.chat(request.to_user_id) is None:
        return refusal(-1)
    treatment = "accept" if request.context_token else state.board.use("tokenless_uploads")
    if treatment == "-14":
        return refusal(-14, "session timeout", form="errcode")
    if treatment != "accept":
        return refusal(int(treatment))
    return Reply(ret=0, upload_param=state.mint.secret("upload", call.now))


def started(state: State, _call: Call) -> Reply:
    """Answer msg/notifystart."""
    state.counters["starts"] += 1
    return Reply(ret=0)


def ended(state: State, _call: Call) -> Reply:
    """Answer msg/notifystop."""
    state.counters["stops"] += 1
    return Reply(ret=0)
