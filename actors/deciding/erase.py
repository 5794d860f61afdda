"""What is taken out of the log, and when an address may follow. Pure.

Events stay for ever, and hold no text; so erasing is deleting bodies, and letting go of whatever waits for them. What was spent stays under
the pseudonym. The address goes last: as long as a charge counts, a person who comes back must be known by it.
"""

from __future__ import annotations

from actors.deciding.chat import cancel
from actors.deciding.commands import EraseOutput, ErasePeer, ExpireBodies
from actors.deciding.draft import Draft
from actors.deciding.gate import forget_at
from actors.deciding.view import Erased
from events.backlog import ERASED
from events.peer import AccessRefused, AddressForgotten, BodyErased, OutputDropped, PeerErased, SessionUnbound

BODIES_MAX = 2_000
"""How many bodies one append deletes: a peer with more takes several, so that no commit holds up the ones behind it."""


def expire(draft: Draft, command: ExpireBodies) -> None:
    """Delete old bodies that nothing that waits needs any more."""
    state = draft.state
    messages = (*state.inbox, *((state.turn.message,) if state.turn else ()))
    needed = {o.body for o in (*state.queue, *state.answers)} | {b for m in messages for b in (m.body, *m.media)}
    if state.request:
        needed |= {state.request.body, state.request.token}
    if state.token:
        needed.add(state.token.body)
    gone = tuple(b for b in command.bodies if b not in needed)
    if gone:
        draft.add(BodyErased(bodies=gone, reason="expired"))
        draft.erase = gone
    draft.reply = gone


def erase_output(draft: Draft, command: EraseOutput) -> None:
    """Delete an output with everything that tells of it. What is on its way cannot be called back; its text goes all the same."""
    state = draft.state
    waits = tuple(o for o in (*state.answers, *state.queue) if o.output == command.output)
    in_flight = state.request.request if state.request and command.output in state.carried else ""
    if not in_flight:
        for output in waits:
            draft.add(OutputDropped(output=output, reason=ERASED))
    if command.bodies:
        draft.add(BodyErased(bodies=command.bodies, reason="erased"))
        draft.erase = command.bodies
    dropped = tuple(o.output for o in waits if not in_flight)
    draft.reply = Erased(outputs=dropped, in_flight=in_flight)


def erase_peer(draft: Draft, command: ErasePeer) -> None:
    """Delete everything of the peer but what was spent, as far as one append can; the address as soon as it may go."""
    state = draft.state
    waited = _end(draft, command.who)
    if not state.erased_at:
        draft.add(PeerErased(who=command.who))
        draft.unname = True
    kinds, more = _sweep(draft)
    forget(draft)
    draft.reply = Erased(
        kinds=kinds,
        outputs=waited,
        messages=len(state.inbox),
        turn=state.turn.turn_id if state.turn else "",
        session=state.session,
        in_flight=state.request.request if state.request else "",
        more=more,
        forgotten=draft.state.forgotten,
        forget_at=forget_at(draft.state, draft.view),
    )


def forget(draft: Draft) -> None:
    """Let go of an erased peer's address when its time has come, after whatever came to the stream since. A decision that brings a
    text leaves it to the next, which finds that text in the log."""
    at = forget_at(draft.state, draft.view)
    if at is None or at > draft.now or draft.brings:
        return
    held = draft.held()
    _end(draft, "retention")
    if held.bodies:
        _sweep(draft)
    if not held.more:
        draft.add(AddressForgotten())
        draft.forget = True


def _end(draft: Draft, who: str) -> tuple[str, ...]:
    """Nothing waits any more; the outputs that did, but for those on their way."""
    state = draft.state
    if state.turn is not None:
        cancel(draft, who)
    for message in state.inbox:
        draft.add(AccessRefused(message=message.message, reason=ERASED))
    waited = tuple(o for o in (*state.answers, *state.queue) if o.output not in state.carried)
    for output in waited:
        draft.add(OutputDropped(output=output, reason=ERASED))
    if state.session:
        draft.add(SessionUnbound(session=state.session, who=who))
        draft.bind("")
    return tuple(o.output for o in waited)


def _sweep(draft: Draft) -> tuple[tuple[str, ...], bool]:
    """Delete what the log holds of the peer: (kinds of what went, whether there is more)."""
    held = draft.held()
    if held.bodies:
        gone = tuple(body for body, _ in held.bodies)
        draft.add(BodyErased(bodies=gone, reason="erased"))
        draft.erase = (*draft.erase, *gone)
    return tuple(kind for _, kind in held.bodies), held.more
