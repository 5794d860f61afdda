"""The actor: a pykka actor whose turns run on the scheduler's thread.

Only pykka's own seams are used (`_create_actor_inbox`, `_create_future`, `_start_actor_loop`), so its `ActorRef` works.
Actors stay out of `pykka.ActorRegistry`: its lists make 10,000 of them slow, and stop_all inside a turn would hang.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Self

import pykka

from actors.runtime.futures import FutureLike, RefReply
from actors.runtime.limits import MAILBOX_LIMIT
from actors.runtime.mailbox import Alone, Keeper, Mailbox
from actors.runtime.scheduler import Scheduler


class StopFlag:
    """What `threading.Event` is to pykka's actors, at 40 bytes instead of 1,200: all on one thread, nobody waits."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """Tell whether the actor has stopped."""
        return self._set

    def set(self) -> None:
        """Note that the actor has stopped."""
        self._set = True


class Actor(pykka.Actor):
    """Subclass and implement `on_receive(message)`. A turn never blocks.

    `on_receive` returns the reply of an ask, or is a generator: `value = yield future` suspends the actor until the
    future is done (its error is raised there), and the generator's return value is the reply. Meanwhile messages wait.

    An error in an ask goes to the asker and the actor lives on, so assign state only after the append that may fail.
    An error in a tell, in `on_start` or in `on_hydrate` ends the actor; its directory supervises.
    """

    mailbox_limit: ClassVar[int] = MAILBOX_LIMIT

    actor_inbox: Mailbox

    def __init__(self) -> None:
        super().__init__()
        flag: Any = StopFlag()
        self.actor_stopped = self._actor_ref.actor_stopped = flag

    @classmethod
    def start(cls, *_args: Any, **_kwargs: Any) -> pykka.ActorRef[Self]:
        """Refuse pykka's way to start, which knows no scheduler and registers globally."""
        raise TypeError("start an actor through a Directory, or begin() one on a scheduler")

    def begin(
        self,
        scheduler: Scheduler,
        *,
        key: Hashable = None,
        keeper: Keeper | None = None,
        predecessor: Mailbox | None = None,
    ) -> pykka.ActorRef[Self]:
        """Start the actor on `scheduler`; a directory passes the key, itself, and a failed predecessor's mailbox."""
        mailbox = self.actor_inbox
        mailbox.scheduler = scheduler
        mailbox.key = type(self).__name__ if key is None else key
        mailbox.keeper = keeper or Alone(mailbox)
        if predecessor is not None:
            mailbox.inherit(predecessor)
        self._start_actor_loop()
        return self.actor_ref

    def on_hydrate(self) -> Any:
        """Run before any other message, e.g. as a generator that replays a stream; a failure goes to supervision."""

    def idle(self) -> bool:
        """Tell whether the directory may passivate this actor now; asked only when nothing is queued or open."""
        return True

    def pipe(self, future: FutureLike, to_message: Callable[[Any], object]) -> None:
        """Deliver `to_message(future)` to this actor's key when the future is done.

        It is a completion: it overtakes the messages that wait, passes the mailbox's limit, and reaches a successor if
        this actor has ended. `to_message` gets the done future, and must not raise.
        """
        self.actor_inbox.pipe(future, to_message)

    @classmethod
    def _create_actor_inbox(cls) -> Mailbox:
        return Mailbox(cls.mailbox_limit)

    @staticmethod
    def _create_future() -> RefReply:
        return RefReply()

    def _start_actor_loop(self) -> None:
        self.actor_inbox.open(self)
