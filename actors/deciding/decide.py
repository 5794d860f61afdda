"""What a peer does about a command: pure. The command's own events come first, then whatever is due after them.

    decide(state, view, command, ...) -> Decision

Nothing here knows a clock, a network or a log; what a decision lacks it asks for by raising TextsNeeded.
"""

from __future__ import annotations

from typing import assert_never

from actors.deciding.advance import advance
from actors.deciding.chat import cancel
from actors.deciding.commands import (
    Abandon,
    AcceptTurn,
    Advance,
    Bind,
    CancelTurn,
    Command,
    Conclude,
    EraseOutput,
    ErasePeer,
    ExpireBodies,
    Facts,
    FinishTurn,
    Grant,
    LoseAgent,
    Operate,
    TakeTurn,
)
from actors.deciding.conclude import abandon, conclude
from actors.deciding.draft import Draft
from actors.deciding.erase import erase_output, erase_peer, expire
from actors.deciding.turns import accept, finish
from actors.deciding.view import Decision
from actors.errors import TurnNotOpen, TurnTaken, UnknownOutput
from events.backlog import Output
from events.peer import (
    AccessGranted,
    OperatorActed,
    OutputDropped,
    SessionBound,
    SessionUnbound,
    TurnHandedOver,
)


def decide(draft: Draft, command: Command) -> Decision:
    """What `command` comes to. Raises TextsNeeded, or a Refusal when nothing is to change."""
    _handle(draft, command)
    due_at = advance(draft)
    return draft.decision(due_at)


def _handle(draft: Draft, command: Command) -> None:
    match command:
        case Facts() | Advance():
            pass
        case AcceptTurn():
            accept(draft, command)
        case FinishTurn():
            finish(draft, command)
        case TakeTurn():
            _take(draft, command)
        case LoseAgent():
            _lose(draft, command)
        case Conclude():
            conclude(draft, command)
        case Abandon():
            abandon(draft, command)
        case Bind():
            _bind(draft, command)
        case CancelTurn():
            cancel(draft, command.who)
        case Operate():
            _operate(draft, command)
        case Grant():
            if not draft.state.access:
                draft.add(AccessGranted(who=command.who))
        case ExpireBodies():
            expire(draft, command)
        case EraseOutput():
            erase_output(draft, command)
        case ErasePeer():
            erase_peer(draft, command)
        case _:
            assert_never(command)


def _take(draft: Draft, command: TakeTurn) -> None:
    turn = draft.state.turn
    if turn is None or turn.turn_id != command.turn_id:
        raise TurnNotOpen
    message = draft.text(turn.message.body)
    if draft.view.typing and draft.state.token:
        draft.text(draft.state.token.body)  # the typing sign needs it at hand
    if turn.agent != command.agent:
        draft.add(TurnHandedOver(turn_id=command.turn_id, agent=command.agent))
    draft.reply = (draft.state.turn, message or "")


def _lose(draft: Draft, command: LoseAgent) -> None:
    """The open turn is nobody's until the next agent takes it."""
    turn = draft.state.turn
    if turn is None or turn.agent != command.agent:
        raise TurnTaken
    draft.add(TurnHandedOver(turn_id=turn.turn_id, agent=""))


def _bind(draft: Draft, command: Bind) -> None:
    session = draft.state.session
    if command.session == session or (session and command.only_if_unbound):
        return
    if command.session:
        draft.add(SessionBound(session=command.session, who=command.who))
    else:
        draft.add(SessionUnbound(session=session, who=command.who))
    draft.bind(command.session)


def _operate(draft: Draft, command: Operate) -> None:
    state = draft.state
    match command.what:
        case "flush":
            draft.add(OperatorActed(who=command.who, what="flush"))
        case "drop":
            chosen = _chosen(command, tuple(o for o in (*state.answers, *state.queue) if o.output not in state.carried))
            draft.add(OperatorActed(who=command.who, what="drop", outputs=chosen))
            for output in chosen:
                draft.add(OutputDropped(output=output, reason="operator"))
            draft.reply = chosen
        case "retry" | "discard":
            free = (d.output for d in state.dead if d.output.output not in state.carried)
            chosen = _chosen(command, tuple(o for o in free if o.body or command.what == "discard"))
            draft.add(OperatorActed(who=command.who, what=command.what, outputs=chosen))
            draft.reply = chosen
        case _:
            assert_never(command.what)


def _chosen(command: Operate, candidates: tuple[Output, ...]) -> tuple[Output, ...]:
    if not command.outputs:
        return candidates
    found = tuple(o for o in candidates if o.output in command.outputs)
    missing = frozenset(command.outputs) - {o.output for o in found}
    if missing:
        raise UnknownOutput(f"nothing to {command.what} under {', '.join(sorted(missing))}")
    return found
