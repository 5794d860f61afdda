"""What would become of a turn if it were offered now, from the decision that its peer would take. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.deciding.view import Decision
from actors.gateway import views
from actors.gateway.receipts import Room, standing
from events.peer import OutputDropped, OutputSkipped, SendRequested


def forecast(room: Room, decision: Decision) -> views.Forecast:
    """The forecast for one peer; `room` is the peer before the turn. A decision without events: it has the turn already."""
    after = msgspec.structs.replace(room, state=decision.state)
    skipped = next((e for e in decision.events if isinstance(e, OutputSkipped)), None)
    state, reason, earliest = standing(after, str(decision.reply))
    dropped = [e.output for e in decision.events if isinstance(e, OutputDropped)]
    sent = [e for e in decision.events if isinstance(e, SendRequested)]
    would: Literal["send", "wait", "skip"] = "wait"
    if not decision.events:
        would, reason, earliest = "skip", f"the same turn was accepted before: {reason}", None
    elif skipped:
        would = "skip"
    elif state == "requested":
        would, earliest = "send", room.now
    return views.Forecast(
        peer=room.address,
        would=would,
        reason=reason,
        earliest=earliest,
        replies=len(sent),
        quota_before=room.quota,
        quota_after=after.quota,
        share_before=room.share,
        share_after=after.share,
        drops=tuple(output.output for output in dropped),
        drop_turn_ids=tuple(output.turn_id for output in dropped),
    )
