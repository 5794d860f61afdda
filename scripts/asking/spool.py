"""Turns that were left for a gateway that could not take them: one file each in STATE_DIR/spool.

A gateway offers them in order (`waiting`, `read`); a turn's id makes a repetition harmless. Then it calls `settle`, or `set_aside` for
one that is refused for good: `NAME.json` becomes `NAME.refused`, and `NAME.why` says why. Given its old name again, it is offered again.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from actors.gateway.api import TurnOffer
from actors.gateway.errors import GatewayError
from actors.gateway.strict import convert, decoded
from actors.gateway.views import SpooledView
from actors.runtime.clock import BootClock, SystemIds
from scripts.exits import Failed
from scripts.files import write_private

FILES_MAX = 1_000
"""How many turns may wait in the spool; one more is refused."""

FILE_BYTES_MAX = 8 * 1_048_576

WHY_BYTES_MAX = 65_536

STAMP_DIGITS = 15


class Spooled(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the spool: the turn it holds, or what is wrong with it."""

    path: Path
    offer: TurnOffer | None
    problem: str = ""
    lasting: bool = True  # False: the file could not be read now, which says nothing of what it holds

    @property
    def to(self) -> str:
        """Whom the turn is for: an address, or a session; "" where the file does not tell."""
        return (self.offer.to or self.offer.session) if self.offer else ""

    @property
    def turn_id(self) -> str:
        """The turn's id, "" where the file does not tell."""
        return self.offer.turn_id if self.offer else ""


class _Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a turn was set aside; no text."""

    reason: str
    turn_id: str = ""
    to: str = ""


def folder_of(state_dir: Path) -> Path:
    """Where the turns are left."""
    return state_dir / "spool"


def leave(state_dir: Path, offer: TurnOffer) -> Path:
    """Leave a turn, which has its id, for a gateway to come. Raises Failed."""
    folder = folder_of(state_dir)
    try:
        there = waiting(state_dir)
    except OSError as error:
        raise Failed(f"{folder} cannot be read: {error.strerror}; nothing was left there") from None
    if len(there) >= FILES_MAX:
        raise Failed(f"{folder} holds {FILES_MAX} turns already; nothing was left there")
    path = folder / f"{_stamp(there):0{STAMP_DIGITS}d}-{SystemIds().token(4)}.json"
    try:
        write_private(path, msgspec.json.encode(offer))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}; nothing was left there") from None
    return path


def waiting(state_dir: Path) -> list[Path]:
    """The files that wait in the spool, oldest first. Raises OSError where the folder cannot be read."""
    return _files(state_dir, ".json")


def spooled(state_dir: Path) -> tuple[Spooled, ...]:
    """What waits in the spool, oldest first. Raises OSError."""
    return tuple(read(path) for path in waiting(state_dir))


def settle(taken: Spooled) -> None:
    """The turn is in the log: its file goes. Raises OSError."""
    taken.path.unlink(missing_ok=True)
    _why_of(taken.path).unlink(missing_ok=True)


class Forgotten(msgspec.Struct, frozen=True):
    """How many files went because of whom they are for, and which could not be read to know it."""

    gone: int
    unread: tuple[Path, ...]


def forget(state_dir: Path, *, to: Collection[str] = (), session: str = "", turn_id: str = "") -> Forgotten:
    """Delete the turns for these addresses, or for a session, or of one id; also those that were set aside, or written in part."""
    folder = folder_of(state_dir)
    gone, unread = 0, []
    try:
        there = sorted(folder.iterdir())
    except FileNotFoundError:
        return Forgotten(0, ())
    except OSError:
        return Forgotten(0, (folder,))
    for path in there:
        if path.suffix == ".why":
            continue  # goes with what it is about
        offer = read(path).offer
        if offer is None:
            unread.append(path)
        elif offer.turn_id == turn_id if turn_id else offer.to in to or (session and offer.session == session):
            path.unlink(missing_ok=True)
            _why_of(path).unlink(missing_ok=True)
            gone += 1
    return Forgotten(gone, tuple(unread))


def set_aside(taken: Spooled, reason: str) -> Path:
    """The turn is refused for good: its file stays, with the reason beside it, and is not read again by itself. Raises OSError."""
    why = _Why(reason=reason, turn_id=taken.turn_id, to=taken.to)
    write_private(_why_of(taken.path), msgspec.json.encode(why))
    return taken.path.rename(taken.path.with_suffix(".refused"))


def refused(state_dir: Path) -> list[Path]:
    """The files that were set aside, oldest first. Raises OSError where the folder cannot be read."""
    return _files(state_dir, ".refused")


def why_refused(path: Path) -> SpooledView:
    """What is known of a file that was set aside."""
    try:
        with _why_of(path).open("rb") as file:
            why = msgspec.json.decode(file.read(WHY_BYTES_MAX), type=_Why)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        taken = read(path)
        why = _Why(reason=taken.problem or "the reason was not kept", turn_id=taken.turn_id, to=taken.to)
    return SpooledView(file=str(path), state="refused", reason=why.reason, turn_id=why.turn_id, to=why.to)


def read(path: Path) -> Spooled:
    """What a file holds."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        why = f"it cannot be read: {error.strerror or type(error).__name__}"
        return Spooled(path=path, offer=None, problem=why, lasting=False)
    if len(data) > FILE_BYTES_MAX:
        return Spooled(path=path, offer=None, problem=f"larger than {FILE_BYTES_MAX} bytes")
    try:
        offer = convert(decoded(data), TurnOffer)
    except GatewayError as error:
        return Spooled(path=path, offer=None, problem=f"{error.message} ({error.path})")
    if not offer.turn_id:  # offered again after a crash it would be another turn
        return Spooled(path=path, offer=None, problem="it has no turn_id")
    return Spooled(path=path, offer=offer)


def _stamp(there: list[Path]) -> int:
    """The time (ms) that a file's name begins with; later than that of every file that waits, so that the order holds."""
    stamps = (path.name.partition("-")[0] for path in there)
    last = max((int(s) for s in stamps if s.isdecimal() and len(s) == STAMP_DIGITS), default=0)
    return max(BootClock().now(), last + 1)


def _why_of(path: Path) -> Path:
    return path.with_suffix(".why")


def _files(state_dir: Path, suffix: str) -> list[Path]:
    """Not by `glob`, which finds nothing in a folder that it may not read, and says nothing of it."""
    try:
        there = list(folder_of(state_dir).iterdir())
    except FileNotFoundError:
        return []
    return sorted(p for p in there if p.suffix == suffix and not p.name.startswith("."))
