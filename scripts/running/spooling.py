"""Takes in what `send --spool` left: at the start, whenever an account gets its login, and what turns up while the gateway runs.

A file goes once its turn is in the log. What cannot be taken now stays, and is offered again; what is refused for good is set aside
with its reason. Nothing else ends a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.gateway import views
from actors.gateway.api import Gateway, TurnOffer
from actors.gateway.errors import (
    OF_LOG,
    GatewayError,
    KeysApart,
    NotNow,
    PeerElsewhere,
    SessionElsewhere,
    Unavailable,
    of_log,
)
from actors.text.counts import counted
from scripts.asking import spool
from scripts.asking.spool import Spooled
from store.errors import LogUnusable

logger = logging.getLogger("replyledger.spool")

LOOK_MS = 5_000
"""How often the folder is looked at besides."""

SHOWN_MAX = 100
"""How many files of a kind are shown."""

STAYS = (NotNow, PeerElsewhere, SessionElsewhere)
"""Refusals that may end: by a login, by a moment, or because another gateway shares the folder."""


class Kept(msgspec.Struct, frozen=True):
    """Why a file stays."""

    reason: str
    turn_id: str = ""
    to: str = ""


SOON = Kept("it is looked at within seconds")


class Spooling:
    """The spool of one gateway process."""

    def __init__(
        self,
        state_dir: Path,
        gateway: Gateway,
        on_log_failed: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self._state_dir, self._gateway, self._on_log_failed = state_dir, gateway, on_log_failed
        self._kept: dict[Path, Kept] = {}
        self._shut = ""  # why the folder cannot be read
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Something changed that files may wait for: look at them soon."""
        self._news.set()

    def start(self) -> None:
        """Go on looking until `stop`."""
        folder = spool.folder_of(self._state_dir)
        with contextlib.suppress(OSError):  # `take_in` has told
            if refused := len(spool.refused(self._state_dir)):
                were = counted(refused, "turn was", "turns were")
                logger.warning("%s refused earlier and set aside in %s; `replyledger status` lists them", were, folder)
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="spool")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End. What was on its way into the log stays in the spool, and is the same turn when it is offered again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    LOOK_MS / 1000
                ):  # `wait_for` may swallow a cancellation that comes with the news
                    await self._news.wait()
            await self.take_in()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LogUnusable):
            self._on_log_failed(error)
        elif error is not None:
            logger.error("the spool is not looked at any more until the next start", exc_info=error)

    def view(self) -> views.SpoolView:
        """What is in the spool now."""
        try:
            refused, there = spool.refused(self._state_dir), spool.waiting(self._state_dir)
        except OSError as error:
            return self._unreadable(error)
        waiting = [
            views.SpooledView(file=str(path), state="waiting", reason=kept.reason, turn_id=kept.turn_id, to=kept.to)
            for path in there
            for kept in (self._kept.get(path, SOON),)
        ]
        shown = [spool.why_refused(path) for path in refused[-SHOWN_MAX:]]
        return views.SpoolView(waiting=len(waiting), refused=len(refused), files=(*shown, *waiting[:SHOWN_MAX]))

    def _unreadable(self, error: OSError) -> views.SpoolView:
        """Nobody can tell how many turns are in a folder that cannot be read."""
        folder, reason = str(spool.folder_of(self._state_dir)), f"the folder cannot be read: {error.strerror}"
        row = views.SpooledView(file=folder, state="waiting", reason=reason, turn_id="", to="")
        return views.SpoolView(waiting=0, refused=0, files=(row,))

    # --- one look ---------------------------------------------------------------------------------------------------

    async def take_in(self) -> int:
        """Offer every spooled turn; how many were accepted. Raises LogUnusable."""
        self._news.clear()
        try:
            there = spool.waiting(self._state_dir)
        except OSError as error:
            self._shut_out(error)
            return 0
        self._shut = ""
        self._kept = {path: self._kept[path] for path in there if path in self._kept}
        held: dict[str, str] = {}  # whom nothing can be taken in for now, and why: so that turns keep their order
        return sum([await self._offer(path, held) for path in there])

    def _shut_out(self, error: OSError) -> None:
        """Said once: whatever waits in the folder is not taken in."""
        if not self._shut:
            folder = spool.folder_of(self._state_dir)
            logger.error("%s cannot be read, so nothing of it is taken in: %s", folder, error.strerror)
        self._shut = error.strerror or type(error).__name__

    async def _offer(self, path: Path, held: dict[str, str]) -> bool:
        """Offer one; whether it was accepted."""
        known = self._kept.get(path)
        if known is not None and known.to in held:
            return False
        taken = await asyncio.to_thread(spool.read, path)
        if taken.offer is None:
            self._without_turn(taken)
            return False
        if taken.to in held:
            self._kept[path] = Kept(held[taken.to], taken.turn_id, taken.to)
            return False
        try:
            other = await self._accept(taken.offer)
        except STAYS as refusal:
            if not isinstance(refusal, NotNow) or (
                isinstance(refusal, Unavailable) and not isinstance(refusal, KeysApart)
            ):
                held[taken.to] = refusal.message
            self._stays(taken, refusal.message)
        except GatewayError as refusal:
            self._set_aside(taken, refusal.message)
        except Exception as error:
            if isinstance(error, LogUnusable):
                raise
            logger.exception("%s could not be offered", path)
            self._stays(taken, f"it could not be offered ({type(error).__name__}); the gateway's log says more")
        else:
            if not other:
                self._settle(taken)
                return True
            self._set_aside(taken, other)
        return False

    async def _accept(self, offer: TurnOffer) -> str:
        """Offer a turn. Why it is not the turn that its id stands for, "" if it was taken, now or before."""
        try:
            accepted = await self._gateway.accept_turn(offer)
            if not_taken := next((d.not_taken for d in accepted.deliveries if d.not_taken), ""):
                return not_taken
            if not accepted.repeated or not offer.to:
                return ""
            peer = (await self._gateway.peer(offer.to)).peer
        except LogUnusable:
            raise
        except OF_LOG as error:
            raise of_log(error) from error
        went = [delivery.peer for delivery in accepted.deliveries]
        if peer in went or not went:
            return ""
        return f"turn {offer.turn_id} was accepted before, for {', '.join(went)}; a turn goes out once"

    def _without_turn(self, taken: Spooled) -> None:
        if taken.lasting:
            self._set_aside(taken, taken.problem)
        elif taken.path.exists():  # else whoever else looks at the folder was faster
            self._stays(taken, taken.problem)

    def _stays(self, taken: Spooled, reason: str) -> None:
        """Said once for each reason."""
        kept = Kept(reason, taken.turn_id, taken.to)
        if self._kept.get(taken.path) != kept:
            logger.warning("%s stays in the spool: %s", taken.path, reason)
        self._kept[taken.path] = kept

    def _set_aside(self, taken: Spooled, reason: str) -> None:
        try:
            aside = spool.set_aside(taken, reason)
        except FileNotFoundError:  # another gateway on this folder was faster
            self._kept.pop(taken.path, None)
        except OSError as error:
            self._stays(taken, f"{reason}; and it cannot be set aside: {error.strerror}")
        else:
            self._kept.pop(taken.path, None)
            logger.error("%s was set aside: %s", aside, reason)

    def _settle(self, taken: Spooled) -> None:
        try:
            spool.settle(taken)
        except OSError as error:
            self._stays(taken, f"it is in the log, but its file cannot be removed: {error.strerror}")
        else:
            self._kept.pop(taken.path, None)
