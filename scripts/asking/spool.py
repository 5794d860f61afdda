"""Turns that were left for a gateway that did not run: one file each in STATE_DIR/spool, taken in by the next start.

The start reads them in order with `spooled`, offers each (its turn id makes a repetition harmless), and then calls `settle`,
or `set_aside` for one that is refused for good.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from actors.gateway.api import TurnOffer
from actors.gateway.errors import GatewayError
from actors.gateway.strict import convert, decoded
from actors.runtime.clock import BootClock, SystemIds
from scripts.exits import Failed
from scripts.files import write_private

FILES_MAX = 1_000
"""How many turns may wait in the spool; one more is refused."""

FILE_BYTES_MAX = 8 * 1_048_576


class Spooled(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the spool: the turn it holds, or what is wrong with it."""

    path: Path
    offer: TurnOffer | None
    problem: str = ""


def folder_of(state_dir: Path) -> Path:
    """Where the turns are left."""
    return state_dir / "spool"


def leave(state_dir: Path, offer: TurnOffer) -> Path:
    """Leave a turn, which has its id, for the next start. Raises Failed."""
    folder = folder_of(state_dir)
    waiting = _files(folder)
    if len(waiting) >= FILES_MAX:
        raise Failed(f"{folder} holds {FILES_MAX} turns already; nothing was left there")
    path = folder / f"{_stamp(waiting):015d}-{SystemIds().token(4)}.json"
    try:
        write_private(path, msgspec.json.encode(offer))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}; nothing was left there") from None
    return path


def spooled(state_dir: Path) -> tuple[Spooled, ...]:
    """What waits in the spool, oldest first."""
    return tuple(_read(path) for path in _files(folder_of(state_dir)))


def settle(taken: Spooled) -> None:
    """The turn is in the log: its file goes."""
    taken.path.unlink(missing_ok=True)


class Forgotten(msgspec.Struct, frozen=True):
    """How many files went because of whom they are for, and which could not be read to know it."""

    gone: int
    unread: tuple[Path, ...]


def forget(state_dir: Path, *, to: Collection[str] = (), session: str = "", turn_id: str = "") -> Forgotten:
    """Delete the turns for these addresses, or for a session, or of one id; also those that were set aside, or written in part."""
    folder = folder_of(state_dir)
    gone, unread = 0, []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        offer = _read(path).offer
        if offer is None:
            unread.append(path)
        elif offer.turn_id == turn_id if turn_id else offer.to in to or (session and offer.session == session):
            path.unlink(missing_ok=True)
            gone += 1
    return Forgotten(gone, tuple(unread))


def set_aside(taken: Spooled) -> Path:
    """The turn is refused for good: its file stays for people to see, and is not read again."""
    return taken.path.rename(taken.path.with_suffix(".refused"))


def _stamp(waiting: list[Path]) -> int:
    """The time (ms) that a file's name begins with; later than that of every file that waits, so that the order holds."""
    last = waiting[-1].name.partition("-")[0] if waiting else ""
    return max(BootClock().now(), int(last) + 1 if last.isdecimal() else 0)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json")) if folder.is_dir() else []


def _read(path: Path) -> Spooled:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            return Spooled(path=path, offer=None, problem=f"larger than {FILE_BYTES_MAX} bytes")
        offer = convert(decoded(data), TurnOffer)
        if not offer.turn_id:  # offered again after a crash it would be another turn
            return Spooled(path=path, offer=None, problem="it has no turn_id")
        return Spooled(path=path, offer=offer)
    except OSError as error:
        return Spooled(path=path, offer=None, problem=error.strerror or "cannot be read")
    except GatewayError as error:
        return Spooled(path=path, offer=None, problem=f"{error.message} ({error.path})")
