"""Which tests a module calls its own: those in the file of its name in its room (`events/quota.py`: `tests/events/test_quota.py`)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = {
    "actors/deciding": "actors",
    "actors/text": "text",
    "actors/runtime": "runtime",
    "actors/agents": "agents",
    "actors/gateway": "gateway",
    "actors/channels": "channels",
    "scripts/streams": "streams",
    "scripts/simulators": "simulators",
    "scripts/demonstration": "demonstration",
}
"""Where the tests of a folder are, if not in the folder of its name; the longest counts."""


def room_of(module: str) -> str:
    """The folder of a module's tests."""
    folder = module.rpartition("/")[0]
    found = max((f for f in ROOMS if f"{folder}/".startswith(f"{f}/")), key=len, default="")
    room = f"tests/{ROOMS[found]}{folder[len(found) :]}" if found else f"tests/{folder}"
    while not (ROOT / room).is_dir():
        room = room.rpartition("/")[0]
    return room


def own_file(module: str) -> str:
    """The test file of a module's name, or nothing."""
    file = f"{room_of(module)}/test_{module.rpartition('/')[2]}"
    return file if (ROOT / file).exists() else ""
