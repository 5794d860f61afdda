"""What a peer's messages mean: words for the gateway, messages for the agent, strangers. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.deciding.dispatch import replies_of
from actors.deciding.draft import Draft
from actors.deciding.view import ResetSession, Withdraw
from actors.errors import TurnNotOpen
from actors.text.notices import Notice
from events import quota
from events.backlog import Dead, Output
from events.peer import AccessRefused, OperatorActed, SessionReset, TurnCancelled, TurnStarted
from events.peer_state import Message

Word = Literal["/more", "/reset", "/cancel"]
WORDS: tuple[Word, ...] = ("/more", "/reset", "/cancel")
_WORD_BYTES_MAX = 16
"""Longer messages are no control words, and their texts need not be read to know it."""

MESSAGES_MAX = 200
"""How many messages of a peer wait for an agent."""

STRANGERS_MESSAGES_MAX = 10
"""How many messages of somebody who waits for access are kept."""


class Saying(msgspec.Struct, frozen=True):
    """A notice that answers a control word, and the number that it tells."""

    name: Notice
    count: int = 0


RETRIEVABLE = ("cut", "dropped")
NOT_FOR_PEERS = ("operator", "text_gone", "blank")
"""Reasons whose outputs a peer does not get by asking: taken away on purpose, or nothing to see. `dead retry` still has them."""


def read_inbox(draft: Draft) -> Saying | None:
    """Deal with every message that waits, in order: refuse strangers, obey control words at once, start a turn if none is
    open. The notice that answers the last control word, if one is due."""
    said: Saying | None = None
    for message in draft.state.inbox:
        if not _may_talk(draft):
            if not draft.view.pairing:
                draft.add(AccessRefused(message=message.message, reason="not_allowed"))
            continue
        word = _word(draft, message)
        if word:
            said = _obey(draft, message, word)
        elif draft.state.turn is None:
            _start(draft, draft.state.inbox[0])
    if draft.state.inbox and draft.state.turn is None and _may_talk(draft):
        _start(draft, draft.state.inbox[0])
    _bound(draft)
    return said


def _may_talk(draft: Draft) -> bool:
    return draft.view.allowed or draft.state.access


def _bound(draft: Draft) -> None:
    """Messages wait for an agent, or for access, but not without end: the oldest go, visibly."""
    most = MESSAGES_MAX if _may_talk(draft) else STRANGERS_MESSAGES_MAX
    for message in draft.state.inbox[: max(0, len(draft.state.inbox) - most)]:
        draft.add(AccessRefused(message=message.message, reason="too_many_wait"))


def cancel(draft: Draft, who: str, message: str = "") -> None:
    """End the open turn as cancelled. Raises TurnNotOpen."""
    turn = draft.state.turn
    if turn is None:
        raise TurnNotOpen("no turn is open")
    draft.add(TurnCancelled(turn_id=turn.turn_id, who=who, message=message))
    draft.effect(Withdraw(turn.turn_id, turn.agent))


def _start(draft: Draft, message: Message) -> None:
    """A message becomes a turn; its id is taken, so that the turn is never pushed as well."""
    turn_id = draft.id("t")
    draft.key("turn", turn_id, f'{{"streams":["{draft.stream}"],"inbound":true}}')
    draft.add(TurnStarted(turn_id=turn_id, message=message.message, session=draft.state.session))


def _word(draft: Draft, message: Message) -> Word | None:
    if message.total > _WORD_BYTES_MAX:
        return None
    said = (draft.text(message.body) or "").strip().lower()
    return next((w for w in WORDS if w == said), None)


def _obey(draft: Draft, message: Message, word: Word) -> Saying | None:
    match word:
        case "/more":
            return _more(draft, message)
        case "/reset":
            draft.add(SessionReset(who="peer", message=message.message))
            draft.effect(ResetSession(draft.state.session, draft.state.resets))
            return Saying("session_reset")
        case "/cancel":
            if draft.state.turn is None:
                draft.add(OperatorActed(who="peer", what="cancel", message=message.message))
                return Saying("nothing_to_cancel")
            cancel(draft, "peer", message.message)
            return Saying("turn_cancelled")


def _more(draft: Draft, message: Message) -> Saying | None:
    """What was cut or dropped last, as answers to this message: the newest that fit into half of the replies that are free, oldest
    of them first, and how many are left. A remainder needs no asking, and goes first."""
    kept = tuple(d.output for d in draft.state.dead if _retrievable(d))
    shown = () if draft.state.answers else _page(draft, kept)
    draft.add(OperatorActed(who="peer", what="more", outputs=shown, message=message.message))
    if len(kept) > len(shown):
        return Saying("more_is_kept", len(kept) - len(shown))
    return None if draft.state.answers else Saying("nothing_more")


def _page(draft: Draft, kept: tuple[Output, ...]) -> tuple[Output, ...]:
    """The newest outputs, one at least, that fit into half of the replies that neither an open turn nor a notice needs."""
    state = draft.state
    free = (
        quota.quota_left(state.charges, state.window, draft.view.policy) - state.open_turns
    )  # among these: this message, for the notice
    page: list[Output] = []
    for output in reversed(kept):
        free_after = free - 2 * replies_of(draft, output)
        if page and free_after < 0:
            break
        page.insert(0, output)
        free = free_after
    return tuple(page)


def _retrievable(dead: Dead) -> bool:
    return dead.fate in RETRIEVABLE and dead.reason not in NOT_FOR_PEERS and bool(dead.output.body)
