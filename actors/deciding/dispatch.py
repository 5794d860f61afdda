"""From a lane that may send to the request that goes into the log. Pure.

A request is whole in itself: what it carries, to the byte, its rendered text, and what it is charged as.
"""

from __future__ import annotations

import msgspec

from actors.deciding.draft import Draft
from actors.deciding.gate import Lane, unheld
from actors.deciding.view import Send
from actors.text.clean import is_blank
from actors.text.merge import merge
from actors.text.notices import Notice
from actors.text.notices import notice as notice_text
from actors.text.split import Part, head, parts
from events import quota
from events.backlog import Output
from events.base import Carried, Kind
from events.peer import ChargeNote, OutputDropped, SendRequested
from store.records import TEXT_BYTES_MAX


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A part as it will be sent."""

    kind: Kind
    text: str
    body: str = ""  # the body that is this very text, "" = store it
    carried: tuple[Carried, ...] = ()
    left_out: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1
    quote: str = ""
    remainder: bool = False
    notice: Notice | None = None


def dispatch(draft: Draft, lane: Lane) -> bool:
    """Request the next part of a lane. False when its texts were gone, which is recorded; look again then."""
    if lane.name == "pushes":
        message = _push(draft)
    else:
        message = _answer(draft, unheld(draft.state, lane.name)[0], remainder=lane.name == "remainders")
    if message is not None:
        request(draft, message, lifted=lane.lifted)
    return message is not None


def request(draft: Draft, message: Message, lifted: str = "") -> None:
    """Add the request of one part, and its sending as an effect."""
    state, token = draft.state, draft.state.token
    reply_handle = draft.text(token.body) if token else ""
    body, total = (message.body, len(message.text.encode())) if message.body else draft.store("rendered", message.text)
    name = draft.id("r")
    event = SendRequested(
        request=name,
        kind=message.kind,
        body=body,
        total=total,
        digest=draft.digest(body, message.text),
        client_id=f"replyledger-{name[2:]}",
        login=draft.view.generation,
        token=token.body if token else "",
        policy=draft.view.policy_id,
        charge=_charge(draft, message.kind),
        carried=message.carried,
        left_out=message.left_out,
        part=message.part,
        parts=message.parts,
        remainder=message.remainder,
        quote=message.quote,
        lifted=lifted,
        notice=message.notice or "",
    )
    quote = message.quote if draft.view.can_quote else ""
    draft.add(event)
    draft.effect(
        Send(request=name, text=message.text, token=reply_handle or "", client_id=event.client_id, quote=quote)
    )
    assert state.request is None, "a peer has at most one open request"


def _charge(draft: Draft, kind: Kind) -> ChargeNote:
    state, policy = draft.state, draft.view.policy
    push = kind == "push"
    return ChargeNote(
        window=state.window_number,
        opened_by=state.window.message if state.window else "",
        slot=quota.spent(state.charges, state.window_number) + 1,
        slots=policy.quota_replies,
        share=quota.share_used(state.charges, policy, draft.now) + 1 if push else 0,
        shares=policy.share_replies if push else 0,
        carried=quota.carried(state.charges, state.window_number),
    )


def _answer(draft: Draft, output: Output, *, remainder: bool) -> Message | None:
    """The next part of an answer."""
    text = draft.text(output.body)
    if text is None:
        _drop(draft, (output,), "text_gone")
        return None
    if is_blank(text.encode()[output.start :].decode()):
        _drop(draft, (output,), "blank")
        return None
    number, count, part = _next_part(draft, output, text)
    whole = part.text == text
    return Message(
        kind="answer",
        text=part.text,
        body=output.body if whole else "",
        carried=(Carried(output=output.output, start=part.start, end=part.end, total=output.total),),
        part=number,
        parts=count,
        quote=output.quote if part.start == 0 else "",
        remainder=remainder,
    )


def _next_part(draft: Draft, output: Output, text: str) -> tuple[int, int, Part]:
    """(number, count, part) of the part that begins where the last one ended. Where a changed policy moved the bounds,
    or only the rest is wanted, what is left is split anew."""
    pieces = draft.parts(output.body, text)
    for number, part in enumerate(pieces, start=1):
        if part.start == output.start:
            return number, len(pieces), part
    rest = text.encode()[output.start : output.start + TEXT_BYTES_MAX].decode()
    anew = parts(rest, draft.view.policy.part_bytes)
    done = sum(1 for p in pieces if p.end <= output.start)
    first = Part(anew[0].text, anew[0].start + output.start, anew[0].end + output.start)
    return done + 1, done + len(anew), first


def _push(draft: Draft) -> Message | None:
    """The whole backlog as one part."""
    queue = draft.state.queue
    draft.need(frozenset(o.body for o in queue))
    gone = tuple(o for o in queue if draft.text(o.body) is None)
    if gone:
        _drop(draft, gone, "text_gone")
        return None
    rests = {o.output: (draft.text(o.body) or "").encode()[o.start :].decode() for o in queue}
    merged = merge(list(rests.items()), draft.view.policy.part_bytes)
    if not merged.carried:
        _drop(draft, queue, "blank")
        return None
    by_id = {o.output: o for o in queue}
    carried = tuple(
        Carried(
            output=c.output_id,
            start=by_id[c.output_id].start + c.start,
            end=by_id[c.output_id].start + c.end,
            total=by_id[c.output_id].total,
        )
        for c in merged.carried
    )
    only = by_id[carried[0].output] if len(carried) == 1 else None
    body = only.body if only and only.start == 0 and merged.text == rests[only.output] else ""
    return Message(
        kind="push",
        text=merged.text,
        body=body,
        carried=carried,
        left_out=merged.left_out,
        parts=1,
    )


def _drop(draft: Draft, outputs: tuple[Output, ...], reason: str) -> None:
    """Outputs that cannot be sent any more: their text expired or was erased, or nothing of it is left to see."""
    for output in outputs:
        draft.add(OutputDropped(output=output, reason=reason))


def say(draft: Draft, name: Notice, count: int = 0, lifted: str = "") -> None:
    """Request a notice of the gateway's own; `count` is the number that it tells, if it tells one."""
    shown = head(notice_text(name, draft.view.locale, count), draft.view.policy.part_bytes).text
    request(draft, Message(kind="notice", text=shown, notice=name), lifted=lifted)


def replies_of(draft: Draft, output: Output) -> int:
    """How many replies what is left of an output would spend as an answer; 0 if its text is gone or blank. Raises TextsNeeded."""
    text = draft.text(output.body)
    if text is None or is_blank(text.encode()[output.start :].decode()):
        return 0
    number, count, _ = _next_part(draft, output, text)
    return count - number + 1
