"""Takes in, at the start, what `send --spool` left while no gateway ran."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.gateway.api import Gateway
from actors.gateway.errors import GatewayError, NotNow
from scripts.asking import spool

logger = logging.getLogger("replyledger.spool")


async def take_in(state_dir: Path, gateway: Gateway) -> int:
    """Offer every spooled turn; how many were accepted. A turn that is refused for good is set aside, visibly."""
    accepted = 0
    for taken in spool.spooled(state_dir):
        if taken.offer is None:
            logger.error("%s was set aside: %s", spool.set_aside(taken), taken.problem)
            continue
        try:
            await gateway.accept_turn(taken.offer)
        except NotNow as refusal:
            logger.warning("%s stays in the spool: %s", taken.path, refusal.message)
        except GatewayError as refusal:
            logger.error("%s was set aside: %s", spool.set_aside(taken), refusal.message)
        else:
            spool.settle(taken)
            accepted += 1
    return accepted
