"""Errors of the log.

StoreError
├── AppendRefused            nothing of the batch is in the log, its neighbours are unharmed
│   ├── Fenced
│   ├── VersionConflict
│   ├── DuplicateKey
│   ├── AddressTaken
│   ├── TextTooLarge
│   ├── OtherDays
│   └── LogBusy
├── LogUnusable              end the process: nothing may be decided on this log here
│   ├── LogFailed            what was in flight is unknown, the log tells at the next start
│   ├── LogDamaged           a page of the file is not what was written
│   └── EventUnreadable      of a newer version, or damaged
├── LogClosed
├── LogUnreadable
├── BackupExists
└── CannotOpen
    ├── NewerLog
    ├── NotOurLog
    ├── ReadOnlyLog
    ├── LogLocked
    └── NetworkFileSystem
"""

from __future__ import annotations

from events.errors import EventError, NewerEvent, UnknownEventType


class StoreError(Exception):
    """Something about the log is wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class AppendRefused(StoreError):
    """Raised when a batch may not be appended; nothing of it is in the log."""


class Fenced(AppendRefused):
    """Raised when a newer instance has claimed the account."""


class VersionConflict(AppendRefused):
    """Raised when a stream has moved on since the decision; read its tail, fold, decide again."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"{stream} is at version {actual}, not {expected}")
        self.stream, self.expected, self.actual = stream, expected, actual


class DuplicateKey(AppendRefused):
    """Raised when an idempotency key is taken."""

    def __init__(self, source: str, key: str, value: str) -> None:
        super().__init__(f"{source} {key!r} is already in the log")
        self.source, self.key, self.value = source, key, value


class AddressTaken(AppendRefused):
    """Raised when a peer has another stream already."""

    def __init__(self, stream: str, known: str) -> None:
        super().__init__(f"the peer of {stream} already has the stream {known}")
        self.stream, self.known = stream, known


class TextTooLarge(AppendRefused):
    """Raised when a body is larger than TEXT_BYTES_MAX."""


class OtherDays(AppendRefused):
    """Raised when a simulated run would claim an account of a log of real days, or a real run one of a log of simulated days."""

    def __init__(self, *, simulated: bool) -> None:
        """`simulated`: whether the log's days are."""
        was, run = ("simulated", "real") if simulated else ("real", "simulated")
        super().__init__(f"this is a log of {was} days, which cannot go on in {run} ones; name another state_dir")


class LogBusy(AppendRefused):
    """Raised when the database is locked, full or read-only before the commit, or too many appends wait."""


class LogUnusable(StoreError):
    """Raised when nothing may be decided on this log by this process any more: it must end."""


class LogFailed(LogUnusable):
    """Raised when a commit failed or was cut short: whether it happened is unknown."""


class LogDamaged(LogUnusable):
    """Raised when the file of the log holds what no log can: restore a backup."""

    def __init__(self, where: str, why: object) -> None:
        super().__init__(f"{where} is damaged ({why}); restore a backup")


class EventUnreadable(LogUnusable):
    """Raised when a stored event is not one that this version can read; nothing may be decided without it."""

    def __init__(self, stream: str, version: int, *, position: int, why: EventError) -> None:
        newer = isinstance(why, UnknownEventType | NewerEvent)
        right = "run the version that wrote it, or a newer one" if newer else "restore a backup"
        super().__init__(
            f"the event at position {position} ({stream}, version {version}) cannot be read: {why}; {right}"
        )
        self.stream, self.version, self.position = stream, version, position


class LogClosed(StoreError):
    """Raised when the log has been closed."""


class LogUnreadable(StoreError):
    """Raised when the log could not be read."""


class BackupExists(StoreError):
    """Raised when a backup would overwrite a file."""


class CannotOpen(StoreError):
    """Raised when a log cannot be opened; it is left as it was."""


class NewerLog(CannotOpen):
    """Raised when the log was written by a newer version of the program."""


class NotOurLog(CannotOpen):
    """Raised when a file is not a log of replyledger."""


class ReadOnlyLog(CannotOpen):
    """Raised when the log, or its folder, cannot be written."""


class LogLocked(CannotOpen):
    """Raised when another process holds the log's lock."""


class NetworkFileSystem(CannotOpen):
    """Raised when the log would lie on a network file system, where its locks and its durability cannot be trusted."""
