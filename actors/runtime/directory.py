"""The directory: finds, creates, restarts and passivates actors by key. Senders hold keys, never actors."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from pykka._envelope import Envelope  # what pykka's own seam hands to an inbox
from pykka.messages import _ActorStop

from actors.runtime.actor import Actor
from actors.runtime.answers import because
from actors.runtime.errors import ActorGaveUp, ActorStopped
from actors.runtime.futures import FutureLike
from actors.runtime.limits import LIVE_MAX, MAILBOX_LIMIT, PASSIVATION_SCAN
from actors.runtime.mailbox import Mailbox
from actors.runtime.report import report
from actors.runtime.scheduler import Scheduler
from actors.runtime.supervision import Backoff, FailureRow
from actors.runtime.timers import KeyedTimers

logger = logging.getLogger("replyledger.runtime")


class Directory:
    """Actors by key: `tell` and `ask` create them on demand, failed ones come back, idle ones make room.

    `factory(key)` returns a new actor that was not started; it does no I/O (that is `on_hydrate`'s). Messages keep the
    order in which they were sent, over restarts and passivation. The message that crashed an actor is not redelivered.
    An error of `quiet` crashes an actor like any other, but whoever brought it about tells of it: it is not reported here.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        factory: Callable[[Any], Actor],
        *,
        live_max: int = LIVE_MAX,
        supervision: Backoff | None = None,
        on_give_up: Callable[[Any, BaseException], object] | None = None,
        quiet: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.dropped = 0  # tells that nobody will handle
        self.quiet = quiet
        self._scheduler = scheduler
        self._factory = factory
        self._live_max = live_max
        self._policy = supervision or Backoff()
        self._on_give_up = on_give_up
        self._mailboxes: OrderedDict[Hashable, Mailbox] = OrderedDict()  # the least recently used first
        self._rows: dict[Hashable, FailureRow] = {}
        self._restarts = KeyedTimers(scheduler)
        self._gave_up: dict[Hashable, str] = {}  # key -> type of the last error
        self._closed = False
        self._sweeping = False
        self._ending: FutureLike | None = None

    # --- sending ---

    def tell(self, key: Hashable, message: object) -> None:
        """Send; never raises for an actor that is dead or given up (that is counted and logged), but MailboxFull."""
        try:
            self._mailbox(key).put(Envelope(message))
        except (ActorStopped, ActorGaveUp) as refusal:
            self._drop(key, 1, refusal)

    def ask(self, key: Hashable, message: object) -> FutureLike:
        """Send and return the future of the reply; MailboxFull is raised here, every other refusal is in the future."""
        future = self._scheduler.future()
        try:
            self._mailbox(key).put(Envelope(message, reply_to=future))  # type: ignore[arg-type] # our mailbox answers FutureLike
        except (ActorStopped, ActorGaveUp) as refusal:
            future.set_exception(refusal)
        return future

    def complete(self, key: Hashable, message: object) -> None:
        """Send a completion of the actor's own work: it overtakes what waits and always gets in."""
        try:
            self._mailbox(key).put_first(Envelope(message))
        except (ActorStopped, ActorGaveUp) as refusal:
            self._drop(key, 1, refusal)

    def _mailbox(self, key: Hashable) -> Mailbox:
        mailbox = self._mailboxes.get(key)
        if mailbox is None:
            return self._admit(key)
        self._mailboxes.move_to_end(key)
        return mailbox

    def _admit(self, key: Hashable) -> Mailbox:
        if self._closed:
            raise ActorStopped(str(key))
        if key in self._gave_up:
            raise ActorGaveUp(f"{key}: {self._gave_up[key]}")
        mailbox = self._hydrate(key, None)
        if len(self._mailboxes) > self._live_max and not self._sweeping:
            self._sweeping = True
            self._scheduler.call_soon(self._sweep)
        return mailbox

    def _hydrate(self, key: Hashable, predecessor: Mailbox | None) -> Mailbox:
        """Create the actor of a key; if even that fails, its mailbox waits for the successor."""
        try:
            actor = self._factory(key)
        except Exception as error:  # noqa: BLE001 (reported, and supervised like any failure)
            report("could not be created", key, error)
            mailbox = predecessor or Mailbox(MAILBOX_LIMIT)
            mailbox.key = key
            self._mailboxes[key] = mailbox
            self.failed(mailbox, error)
            return mailbox
        mailbox = actor.actor_inbox
        self._mailboxes[key] = mailbox
        actor.begin(self._scheduler, key=key, keeper=self, predecessor=predecessor)
        return mailbox

    # --- supervision (the mailbox's keeper) ---

    def failed(self, mailbox: Mailbox, error: BaseException) -> None:
        """Schedule the successor of a failed actor, or give up; its messages wait in the mailbox."""
        key = mailbox.key
        if self._mailboxes.get(key) is not mailbox:
            return
        row = self._rows.setdefault(key, FailureRow())
        failures = row.count(self._scheduler.clock.monotonic(), self._policy)
        if self._closed:
            self._remove(mailbox, ActorStopped(str(key)))
        elif failures >= self._policy.give_up_after:
            self._give_up(mailbox, error)
        else:
            wait_ms = self._policy.wait_ms(failures, self._scheduler.ids)
            self._restarts.set(key, self._scheduler.clock.now() + wait_ms, partial(self._restart, mailbox))

    def _restart(self, mailbox: Mailbox) -> None:
        self._rows[mailbox.key].restarted_ms = self._scheduler.clock.monotonic()
        self._hydrate(mailbox.key, mailbox)

    def _give_up(self, mailbox: Mailbox, error: BaseException) -> None:
        key = mailbox.key
        self._gave_up[key] = type(error).__name__
        logger.error("gave up actor %s: it failed %d times in a row", key, self._policy.give_up_after)
        self._remove(mailbox, because(ActorGaveUp(str(key)), error))
        if self._on_give_up is not None:
            self._on_give_up(key, error)

    def forgive(self, key: Hashable) -> None:
        """Let a key that was given up be created again on demand."""
        self._gave_up.pop(key, None)

    def gave_up(self) -> tuple[Hashable, ...]:
        """Return the keys that are not restarted any more."""
        return tuple(self._gave_up)

    def stopped(self, mailbox: Mailbox) -> None:
        """Forget a stopped actor; messages behind its stop go to a new one, unless the directory is closing."""
        key = mailbox.key
        if self._mailboxes.get(key) is not mailbox:
            return
        if self._closed or mailbox.empty():
            self._remove(mailbox, ActorStopped(str(key)))
        else:
            self._rows.pop(key, None)
            self._hydrate(key, mailbox)

    def _remove(self, mailbox: Mailbox, refusal: Exception) -> None:
        key = mailbox.key
        del self._mailboxes[key]
        self._rows.pop(key, None)
        self._restarts.cancel(key)
        self._drop(key, mailbox.close(refusal), refusal)
        self._settle()

    def _drop(self, key: Hashable, count: int, refusal: Exception) -> None:
        if count:
            self.dropped += count
            logger.warning("dropped %d messages for actor %s: %s", count, key, type(refusal).__name__)

    # --- passivation ---

    def live(self) -> tuple[Hashable, ...]:
        """Return the keys with a running actor, the least recently used first."""
        return tuple(key for key, mailbox in self._mailboxes.items() if mailbox.actor is not None)

    def __len__(self) -> int:
        return len(self._mailboxes)

    def queued(self) -> int:
        """Return how many messages wait, over all actors."""
        return sum(len(mailbox) for mailbox in self._mailboxes.values())

    def actor(self, key: Hashable) -> Actor | None:
        """Return the running actor of a key, None without one: for invariants and tests, which look and do not touch."""
        mailbox = self._mailboxes.get(key)
        return None if mailbox is None else mailbox.actor

    def passivate(self, key: Hashable) -> bool:
        """Put an actor away if it is at rest and agrees (`idle`); False if it is busy or not live."""
        actor = self.actor(key)
        if actor is None or not actor.actor_inbox.quiet() or not actor.idle():
            return False
        mailbox = actor.actor_inbox
        self._remove(mailbox, ActorStopped(str(key)))
        mailbox.end(actor)
        return True

    def _sweep(self) -> None:
        """Passivate the least recently used idle actors beyond `live_max`; busy ones are passed over, boundedly."""
        self._sweeping = False
        excess = len(self._mailboxes) - self._live_max
        passes = excess + PASSIVATION_SCAN
        for key in [key for key, _ in zip(self._mailboxes, range(passes), strict=False)]:
            if excess <= 0:
                break
            if self.passivate(key):
                excess -= 1
            else:
                self._mailboxes.move_to_end(key)

    # --- ending ---

    def stop(self, key: Hashable) -> FutureLike:
        """Stop one actor after the messages before; the future is done then (at once if there is none).

        One that waits for its restart is restarted for these messages first. Messages behind the stop go to a new one.
        """
        future = self._scheduler.future()
        mailbox = self._mailboxes.get(key)
        if mailbox is None:
            future.set_result(None)
        else:
            mailbox.put(Envelope(_ActorStop(), reply_to=future))  # type: ignore[arg-type] # our mailbox answers FutureLike
        return future

    def stop_all(self) -> FutureLike:
        """Take no new actors, let each live one handle what it has and stop; the future is done when all have.

        An actor that waits for a future is waited for: put a limit on it, then `abort_all`.
        """
        self._closed = True
        if self._ending is None:
            self._ending = self._scheduler.future()
            for mailbox in tuple(self._mailboxes.values()):
                if mailbox.actor is None:
                    self._remove(mailbox, ActorStopped(str(mailbox.key)))
                else:
                    mailbox.put(Envelope(_ActorStop()))
            self._settle()
        return self._ending

    def abort_all(self) -> None:
        """Drop every actor where it stands, as a crash would: no hooks; every ask is answered with ActorStopped."""
        self._closed = True
        for mailbox in tuple(self._mailboxes.values()):
            refusal = ActorStopped(str(mailbox.key))
            self._drop(mailbox.key, mailbox.abort(refusal), refusal)
        self._restarts.clear()
        self._mailboxes.clear()
        self._rows.clear()
        self._settle()

    def _settle(self) -> None:
        if self._ending is not None and not self._mailboxes and not self._ending.done():
            self._ending.set_result(None)
