"""What the runtime refuses or reports; one base, the docstring is the default message.

RuntimeRefusal
├── MailboxFull          raised in the sender
├── OffloadFull          raised in the caller
├── ActorStopped         the answer of an ask that came too late
├── ActorFailed          the answer of an ask whose turn was torn down
│   └── ActorGaveUp      the answer of an ask to a key that is not restarted any more
├── CompletionCancelled  thrown into the turn that waited
├── WouldBlock           raised by a blocking read of a reply
└── NotIdle              the simulation did not come to rest
"""

from __future__ import annotations


class RuntimeRefusal(Exception):
    """The actor runtime refused."""

    def __init__(self, detail: str = "") -> None:
        message = (type(self).__doc__ or "").strip().splitlines()[0]
        super().__init__(f"{message} ({detail})" if detail else message)


class MailboxFull(RuntimeRefusal):
    """The actor's mailbox is full."""


class OffloadFull(RuntimeRefusal):
    """Too much background work is waiting."""


class ActorStopped(RuntimeRefusal):
    """The actor has stopped and takes no more messages."""


class ActorFailed(RuntimeRefusal):
    """The actor failed while it handled the message."""


class ActorGaveUp(ActorFailed):
    """The actor failed too often and is not restarted."""


class CompletionCancelled(RuntimeRefusal):
    """What the turn waited for was cancelled."""


class WouldBlock(RuntimeRefusal):
    """The reply is not there yet, and a turn never blocks."""


class NotIdle(RuntimeRefusal):
    """The simulation did not come to rest within its limit of turns."""
