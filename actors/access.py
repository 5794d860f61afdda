"""Who may talk to a bot, by the configuration's `access`. Pure."""

from __future__ import annotations

ACCESS_WORDS = ("owner", "pairing", "all")
"""What `access` holds beside ids: the login's own user; others wait for a grant; everybody."""


def admits(access: tuple[str, ...], peer: str, owner: str) -> bool:
    """Whether a peer may talk without a grant; `owner` is the id of the person who logged in."""
    return peer in access or "all" in access or ("owner" in access and peer == owner)
