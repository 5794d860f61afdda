"""What must be true once a world was healed and came to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from events.stories import RequestStory

if TYPE_CHECKING:
    from tests.world.server import Said
    from tests.world.world import World


def final(world: World) -> None:
    """Nothing is stuck (G9), every message was handled (G6), and the ledger is the server's list (G8)."""
    _at_rest(world)
    _all_handled(world)
    _ledger(world)
    world.checks.oracle.check()
    if world.client.pending:
        world.checks.fail("G9", f"{len(world.client.pending)} turns were never answered")


def _at_rest(world: World) -> None:
    checks = world.checks
    if world.serving() is None:
        checks.fail("G9", "no gateway serves")
    for stream, state in checks.peers.items():
        stuck = {
            "request": state.request,
            "turn": state.turn,
            "inbox": state.inbox,
            "queue": state.queue,
            "answers": state.answers,
        }
        left = sorted(name for name, value in stuck.items() if value)
        if left:
            checks.fail("G9", f"{stream} is stuck with {', '.join(left)}")


def _all_handled(world: World) -> None:
    """G6: whatever was delivered how often, each message was handled once."""
    for name, said in unhandled(world):
        world.checks.fail("G6", f"message {said.number} to {name} was never handled")


def unhandled(world: World) -> list[tuple[str, Said]]:
    """(account, message) of what people wrote and no gateway has taken in."""
    handled = {(sent_at, text) for _, sent_at, text in world.checks.handled}
    return [(name, said) for name, said in world.said if (said.sent_at, said.text) not in handled]


def _ledger(world: World) -> None:
    """G8: what the server accepted is what the ledger says, up to what it marks unknown."""
    checks = world.checks
    stories: dict[str, RequestStory] = {}
    for fold in checks.histories.values():
        stories.update({r.client_id: r for r in fold.history().requests.values()})
    taken = [t for server in world.servers.values() for t in server.taken]
    if len({t.client_id for t in taken}) != len(taken):
        checks.fail("G8", "the server accepted a send twice")
    for one in taken:
        story = stories[one.client_id]
        if not story.charged or story.result not in ("confirmed", "unconfirmed", "unknown"):
            checks.fail("G8", f"{one.client_id} was accepted, the ledger says {story.result}")
        if story.result == "confirmed" and story.message_id != one.message_id:
            checks.fail("G8", f"{one.client_id} has another message id")
    accepted = {t.client_id for t in taken}
    for client_id, story in stories.items():
        if story.result in ("confirmed", "unconfirmed") and client_id not in accepted:
            checks.fail("G8", f"{client_id} is {story.result}, and the server never accepted it")
