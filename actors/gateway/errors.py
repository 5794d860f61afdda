"""What the gateway refuses; each refusal is one HTTP answer. The docstring is the default message.

GatewayError
├── BadRequest           400  with the path of the field that is wrong
│   └── NeverFits        400  a push that its share can never carry
├── Unauthorized         401
├── NotFound             404  with near ones
│   ├── UnknownPeer
│   │   └── PeerElsewhere
│   ├── UnknownSession
│   │   └── SessionElsewhere
│   ├── UnknownAccount
│   ├── UnknownDelivery
│   └── UnknownEndpoint
├── WrongMethod          405
├── TooSlow              408
├── Conflict             409
│   ├── TurnConflict
│   ├── TurnHeld
│   ├── AmbiguousId
│   └── WrongState
├── TooLarge             413
├── TooMany              429  nothing was accepted
├── Broken               500  a defect of the gateway; the log has the cause
└── NotNow               503  the same again in a moment, or once the gateway runs again
    ├── Unavailable           nothing was accepted
    │   ├── Busy
    │   ├── KeysApart
    │   ├── NoLogin
    │   └── Stopping
    ├── Partly                some of a session's peers have it
    └── LogLost               whether it was accepted is unknown
InsecureListener              a listener beyond loopback has no token
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from store.errors import Fenced, LogBusy, LogClosed, LogUnreadable, LogUnusable, StoreError

NEAR_MAX = 3
"""How many near names a refusal offers."""


class GatewayError(Exception):
    """The gateway refused."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "refused"

    def __init__(self, message: str | None = None, *, path: str = "", near: Iterable[str] = ()) -> None:
        self.message = message or " ".join((self.__doc__ or "").split())
        self.path = path  # of the wrong field, as `$.text`; "" if no field is
        self.near = tuple(near)
        self.facts: Mapping[str, object] = {}  # more fields of the answer
        super().__init__(self.message)


class BadRequest(GatewayError):
    """The request is not what this endpoint takes."""

    status = 400
    code = "bad_request"


class NeverFits(BadRequest):
    """The push could never leave: even its smallest form needs more replies than the share has."""

    code = "never_fits"


class Unauthorized(GatewayError):
    """This listener asks for `Authorization: Bearer TOKEN`, and the token is missing or wrong."""

    status = 401
    code = "unauthorized"


class NotFound(GatewayError):
    """There is nothing of this name."""

    status = 404
    code = "not_found"


class UnknownPeer(NotFound):
    """No peer has this address; a peer is known once it has written, or once its login named it."""

    code = "unknown_peer"


class PeerElsewhere(UnknownPeer):
    """The configuration of this gateway has no account of this address."""

    code = "peer_elsewhere"


class UnknownSession(NotFound):
    """No peer is bound to this session."""

    code = "unknown_session"


class SessionElsewhere(UnknownSession):
    """The peers that are bound to this session belong to accounts that are not in the configuration of this gateway."""

    code = "session_elsewhere"


class UnknownAccount(NotFound):
    """The configuration has no such account."""

    code = "unknown_account"


class UnknownDelivery(NotFound):
    """No delivery has an id that begins so."""

    code = "unknown_delivery"


class UnknownEndpoint(NotFound):
    """There is no such endpoint."""

    code = "unknown_endpoint"


class WrongMethod(GatewayError):
    """This endpoint takes another method."""

    status = 405
    code = "wrong_method"


class TooSlow(GatewayError):
    """The body did not arrive in time; nothing was accepted."""

    status = 408
    code = "too_slow"


class Conflict(GatewayError):
    """This contradicts what is already known."""

    status = 409
    code = "conflict"


class TurnConflict(Conflict):
    """This turn id was accepted before, with another text; a turn has one text for ever."""

    code = "turn_conflict"


class TurnHeld(Conflict):
    """The turn is with another agent, and never was with this one."""

    code = "turn_taken"


class AmbiguousId(Conflict):
    """Several ids begin so; write more of it."""

    code = "ambiguous_id"


class WrongState(Conflict):
    """This cannot be done in the state it is in."""

    code = "wrong_state"


class TooLarge(GatewayError):
    """The body is larger than this endpoint takes."""

    status = 413
    code = "too_large"


class TooMany(GatewayError):
    """Too many requests at once; nothing was accepted, try again in a moment."""

    status = 429
    code = "too_many"


class Broken(GatewayError):
    """The gateway failed at this request; its log says why."""

    status = 500
    code = "broken"


class NotNow(GatewayError):
    """This cannot be done now; ask the same again."""

    status = 503
    code = "not_now"


class Unavailable(NotNow):
    """The gateway cannot take this now; nothing was accepted."""

    code = "unavailable"


class Busy(Unavailable):
    """The gateway is busy; nothing was accepted, try again in a moment."""

    code = "busy"


class KeysApart(Unavailable):
    """The log's keys contradict each other about this turn; nothing was accepted. `replyledger audit --verify` says what is damaged."""

    code = "keys_apart"

    def __init__(self, turn_id: str = "") -> None:
        said = (
            f"the log has a delivery of turn {turn_id} but no such turn: its keys are damaged, and nothing was accepted"
        )
        super().__init__(f"{said}; run `replyledger audit --verify`, which says what is missing" if turn_id else None)
        self.facts = {"turn_id": turn_id} if turn_id else {}


class NoLogin(Unavailable):
    """Nobody has logged in to the account yet, so it has nobody to deliver to; nothing was accepted."""

    code = "login_needed"

    def __init__(self, channel: str = "", account: str = "", *, path: str = "") -> None:
        said = f"nobody has logged in to {channel}:{account} yet, so it has nobody to deliver to; nothing was accepted"
        super().__init__(
            f"{said}; run `replyledger login {channel} --account {account}`" if account else None, path=path
        )


class Stopping(Unavailable):
    """The gateway is stopping; nothing was accepted."""

    code = "stopping"


class Partly(NotNow):
    """Some of the session's peers have the turn; offer it again under the same turn id, and the others get it."""

    code = "partly"

    def __init__(self, turn_id: str = "", deliveries: Sequence[str] = (), *, of: int = 0, why: str = "") -> None:
        if len(deliveries) < of:
            told = f"accepted for {len(deliveries)} of {of} peers, then: {why}; offer it again as turn {turn_id}, and the others get it"
        else:
            told = f"accepted, but how it stands could not be told: {why}; offer it again as turn {turn_id} to learn it"
        super().__init__(told if of else None)
        self.facts = {"turn_id": turn_id, "deliveries": tuple(deliveries)}


class LogLost(NotNow):
    """The log failed, and the gateway ends. Whether this was accepted is unknown: ask again when it runs, under the same turn id."""

    code = "log_lost"


class InsecureListener(ValueError):
    """A listener beyond loopback needs a token."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} can be reached from other machines, so this listener needs a token")
        self.host = host


OF_LOG = (LogUnusable, LogBusy, LogClosed, LogUnreadable, Fenced)
"""What a log may do to a request without any defect of the gateway."""


def of_log(error: StoreError) -> GatewayError:
    """The refusal that one of `OF_LOG` comes to, for whoever asked."""
    match error:
        case LogUnusable():
            return LogLost()
        case LogBusy():
            return Busy(str(error))
        case LogUnreadable():
            return NotNow(str(error))
        case _:
            return Stopping(str(error))


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names that look most like `name`, best first, at most `NEAR_MAX`."""
    folded = {k.casefold(): k for k in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=NEAR_MAX, cutoff=0.6)
    return tuple(folded[f] for f in found)
