"""Tells a supervisor how we are, by the protocol of `Type=notify` services: READY, STATUS, WATCHDOG, STOPPING."""

from __future__ import annotations

import os
import socket

WAIT_S = 0.1
"""How long we wait for a supervisor whose queue is full; the gateway must not stand still because it does."""


def notify(*lines: str) -> bool:
    """Send state lines such as `READY=1`; False when nobody supervises us, or the supervisor cannot be reached."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place:
        return False
    address = "\0" + place[1:] if place.startswith("@") else place
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.settimeout(WAIT_S)
            out.connect(address)
            out.sendall("\n".join(lines).encode())
    except OSError:
        return False
    return True


def watchdog_ms() -> int:
    """How often the supervisor wants to hear `WATCHDOG=1`: half of its limit; 0 = not at all."""
    given = os.environ.get("WATCHDOG_USEC", "")
    for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(given) // 2000 if given.isdecimal() and for_us else 0
