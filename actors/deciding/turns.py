"""Turns become outputs: what is delivered, what is skipped and why. Pure."""

from __future__ import annotations

import json

from actors.deciding.commands import AcceptTurn, FinishTurn
from actors.deciding.draft import Draft
from actors.deciding.view import Withdraw
from actors.errors import PeerForgotten, TurnNotOpen, TurnTaken
from actors.text.clean import is_blank
from actors.text.directives import parse
from events.backlog import Output
from events.base import Origin
from events.peer import OutputSkipped, TurnCompleted, TurnFailed
from events.streams import delivery_id

NEVER_HAD = "turn {} was never handed to this agent; only one that has it, or had it, may finish it"


def accept(draft: Draft, command: AcceptTurn) -> None:
    """A turn that no message of the peer started: its text joins the backlog, unless it is blank, failed or kept out.
    Raises TurnTaken for the open turn, whatever origin is claimed, and PeerForgotten."""
    if draft.state.forgotten:
        raise PeerForgotten
    if draft.state.turn is not None and draft.state.turn.turn_id == command.turn_id:
        raise TurnTaken(f"turn {command.turn_id} answers a message; it is finished, not pushed")
    if command.keys_value:
        draft.key("turn", command.turn_id, command.keys_value)
    output = _end(draft, command, command.origin, command.session)
    reason = _kept_out(draft, command.origin)
    if reason and output in draft.state.queue:
        draft.add(OutputSkipped(output=output, reason=reason))
    draft.reply = output.output


def finish(draft: Draft, command: FinishTurn) -> None:
    """The open turn is over: its text is the answer to the message that started it. Raises TurnNotOpen, and TurnTaken to an
    agent that never had the turn: the message was not for its eyes, so the answer is not its to give."""
    turn = draft.state.turn
    if turn is None or turn.turn_id != command.turn_id:
        raise TurnNotOpen(f"turn {command.turn_id} is not open")
    if command.agent and not turn.held_by(command.agent):
        raise TurnTaken(NEVER_HAD.format(command.turn_id))
    output = _end(draft, command, "inbound", turn.session)
    if turn.agent and not command.agent:
        draft.effect(Withdraw(turn.turn_id, turn.agent, "answered"))
    draft.reply = output.output


def delivery_value(stream: str, turn_id: str, digest: str, body: str) -> str:
    """What the key of a delivery keeps: whose it is, its turn, and the fingerprint by which another text is refused for as long as
    the body that has its salt is there."""
    return json.dumps({"stream": stream, "turn": turn_id, "text": digest, "body": body}, separators=(",", ":"))


def _end(draft: Draft, command: AcceptTurn | FinishTurn, origin: Origin, session: str) -> Output:
    """Record a turn's end and, if nothing of it is to be delivered, why."""
    turn_id, status, text = command.turn_id, command.status, command.text
    agent = command.agent if isinstance(command, FinishTurn) else ""
    name = delivery_id(draft.stream, turn_id)
    directives = parse(text)
    body, total = draft.store("output", directives.text) if directives.text else ("", 0)
    digest = draft.digest(body, directives.text) if body else ""
    draft.key("delivery", name, delivery_value(draft.stream, turn_id, draft.digest(body, text), body))
    if status == "failed":
        draft.add(
            TurnFailed(
                turn_id=turn_id, output=name, origin=origin, session=session, error=body, digest=digest, agent=agent
            )
        )
        output = Output(output=name, turn_id=turn_id, body=body, total=total, accepted_at=draft.now, origin=origin)
        draft.add(OutputSkipped(output=output, reason="failed"))
        return output
    draft.add(
        TurnCompleted(
            turn_id=turn_id,
            output=name,
            origin=origin,
            status=status,
            body=body,
            total=total,
            session=session,
            quote=directives.reply_to or "",
            digest=digest,
            agent=agent,
        )
    )
    output = next(o for o in (*draft.state.answers, *draft.state.queue) if o.output == name)
    if is_blank(directives.text):
        draft.add(OutputSkipped(output=output, reason="blank"))
    return output


def _kept_out(draft: Draft, origin: Origin) -> str:
    policy = draft.view.policy
    if origin not in policy.push_origins:
        return "origin_excluded"
    if policy.mode == "enforce" and min(policy.share_replies, policy.quota_replies) == 0:
        return "no_share"
    return ""
