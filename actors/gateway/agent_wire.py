"""Frames of `WS /agent/v1`: one JSON object per text frame, its `type` says which. Pure.

An agent says `hello`, then `started`, `delta`, `completed`, `degraded`, `failed` of its turns, and `goodbye` before it leaves.
The gateway says `welcome`, then `message`, `cancel`, `reset`, and answers each frame with a `receipt` or an `error`.
Texts that come out of here are clean (`actors.text.clean`) and within TEXT_BYTES_MAX; names are names (`actors.text.names`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from actors.gateway import views
from actors.gateway.errors import BadRequest, TooLarge, nearest
from actors.gateway.strict import Text, convert, decoded
from actors.text.clean import text_bytes
from actors.text.names import fault_of
from events.base import Millis, Status
from store.records import TEXT_BYTES_MAX

PROTOCOL = 1

FRAME_BYTES_MAX = 4 * TEXT_BYTES_MAX
"""The largest frame. An escaped text takes up to three bytes for one, control characters aside."""

DELTA_BYTES_MAX = 65_536
"""The largest delta; it is only looked at, so a whole text in it would be a mistake."""

MAX_TURNS = 8
"""Turns in flight of an agent that does not say how many it takes."""

AUTH_SCHEMA = "openab.gateway.auth.v1"
"""A first frame of this schema carries the token (OpenAB gateway protocol notes 1.1)."""

AgentName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._/@:+-]{0,63}\Z")]
Short = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
TurnId = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Served = Annotated[tuple[Short, ...], msgspec.Meta(max_length=256)]


# --- what agents say ----------------------------------------------------------------------------------------------


class FromAgent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of an agent's frames: unknown fields are refused."""


class Hello(FromAgent, frozen=True, kw_only=True, tag="hello"):
    """Who is there. Without `sessions` and `accounts` it serves all peers; with them those of a session or of an account."""

    agent: AgentName
    protocol: Literal[1]
    sessions: Served = ()
    accounts: Served = ()  # CHANNEL:ACCOUNT, or the account's name
    max_turns: Annotated[int, msgspec.Meta(ge=1, le=256)] = MAX_TURNS


class Started(FromAgent, frozen=True, kw_only=True, tag="started"):
    """The agent works on the turn, in a session of its own naming; a peer without a session is bound to that one."""

    turn_id: TurnId
    session: Annotated[str, msgspec.Meta(max_length=512)] = ""


class Delta(FromAgent, frozen=True, kw_only=True, tag="delta"):
    """A piece of the text to come. It shows that the agent lives, and is not delivered."""

    turn_id: TurnId
    text: Text


class Ending(FromAgent, frozen=True, kw_only=True):
    """Base of the frames that end a turn. With `to` (an address) or `session` it is a turn of the agent's own."""

    status: ClassVar[Status]

    turn_id: TurnId
    text: Text
    origin: Literal["", "inbound", "scheduled", "desktop", "api"] = ""
    to: Annotated[str, msgspec.Meta(max_length=512)] = ""
    session: Annotated[str, msgspec.Meta(max_length=512)] = ""

    def __post_init__(self) -> None:
        """Refuse a turn of the agent's own that has two targets, or none."""
        if self.to and self.session:
            raise ValueError("give `to` (an address) or `session`, not both")
        if self.origin not in ("", "inbound") and not self.own:
            raise ValueError(f"a turn of origin {self.origin} needs `to` (an address) or `session`")
        if self.origin == "inbound" and self.own:
            raise ValueError("a turn of origin inbound goes to its sender; leave `to` and `session` out")

    @property
    def own(self) -> bool:
        """Whether it claims to be no turn that a message of a peer started."""
        return bool(self.to or self.session)


class Completed(Ending, frozen=True, kw_only=True, tag="completed"):
    """The turn is done; `text` is the whole text."""

    status: ClassVar[Status] = "completed"


class Degraded(Ending, frozen=True, kw_only=True, tag="degraded"):
    """The turn went wrong but says so in its own words; `text` is the whole text."""

    status: ClassVar[Status] = "degraded"


class Failed(Ending, frozen=True, kw_only=True, tag="failed"):
    """The turn failed; `text` says why, and is not delivered."""

    text: Text = ""

    status: ClassVar[Status] = "failed"


class Goodbye(FromAgent, frozen=True, kw_only=True, tag="goodbye"):
    """The agent leaves for good: it gets no more turns, and those it has when it disconnects go to the next agent at once."""


AgentFrame = Hello | Started | Delta | Completed | Degraded | Failed | Goodbye

KINDS: dict[str, type[AgentFrame]] = {
    "hello": Hello,
    "started": Started,
    "delta": Delta,
    "completed": Completed,
    "degraded": Degraded,
    "failed": Failed,
    "goodbye": Goodbye,
}


# --- what the gateway says ----------------------------------------------------------------------------------------


class ToAgent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of the gateway's frames. Keys that do not apply are left out."""


class Welcome(ToAgent, frozen=True, kw_only=True, tag="welcome"):
    """The answer to `hello`."""

    protocol: int
    now: Millis  # by the gateway's clock
    text_bytes_max: int
    frame_bytes_max: int


class Message(ToAgent, frozen=True, kw_only=True, tag="message", omit_defaults=False):
    """A peer's message to be answered. After a disconnect the same turn comes again under the same `turn_id`."""

    turn_id: str
    session: str  # "" = the peer is bound to none
    resets: int  # how often the peer began its session anew
    peer: str  # its address
    message: str  # id
    text: str
    contents: tuple[str, ...]  # what the message held: text, image, voice, ...
    sent_at: Millis
    at: Millis  # when it was received


class Cancel(ToAgent, frozen=True, kw_only=True, tag="cancel"):
    """The turn is over: nobody waits for its text any more."""

    turn_id: str
    reason: Literal["cancelled", "answered"]


class Reset(ToAgent, frozen=True, kw_only=True, tag="reset"):
    """A peer began its session anew."""

    session: str = ""  # "" = it is bound to none
    resets: int
    peer: str = ""  # its address, as far as known


class Receipt(ToAgent, frozen=True, kw_only=True, tag="receipt"):
    """What became of a frame, and later of its delivery. A turn for a session has `of` receipts, one for each peer."""

    turn_id: str
    state: views.State | Literal["open"]  # open: the turn is not over
    delivery: str = ""
    peer: str = ""
    reason: str = ""
    earliest: Millis | None = None
    of: int = 1
    note: str = ""


class Error(ToAgent, frozen=True, kw_only=True, tag="error"):
    """A frame was refused and changed nothing; with `busy` and `unavailable` it may be sent again in a moment."""

    code: str
    message: str
    path: str = ""  # of the wrong field, as `$.text`
    turn_id: str = ""
    near: tuple[str, ...] = ()


GatewayFrame = Welcome | Message | Cancel | Reset | Receipt | Error


def encode(frame: GatewayFrame) -> str:
    """A frame as the text that is sent."""
    return msgspec.json.encode(frame).decode()


def read_frame(data: str | bytes) -> AgentFrame | Error:
    """A frame, or the error that answers it."""
    if isinstance(data, bytes):
        return Error(code="bad_request", message="send JSON in text frames", path="$")
    turn_id = ""
    try:
        raw = decoded(data.encode("utf-8", "replace"))
        turn_id = _turn_id(raw)
        return _sized(_typed(raw))
    except (BadRequest, TooLarge) as refusal:
        return Error(code=refusal.code, message=refusal.message, path=refusal.path, turn_id=turn_id, near=refusal.near)


def token_in(data: str | bytes) -> str | None:
    """The token of an authentication frame, None if the frame is none."""
    if isinstance(data, bytes) or AUTH_SCHEMA not in data:
        return None
    try:
        raw = decoded(data.encode("utf-8", "replace"))
    except BadRequest:
        return None
    if not isinstance(raw, dict) or raw.get("schema") != AUTH_SCHEMA:
        return None
    token = raw.get("token")
    return token if isinstance(token, str) else ""


def _typed(raw: Any) -> AgentFrame:
    if not isinstance(raw, dict):
        raise BadRequest("a frame is a JSON object", path="$")
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        near = nearest(kind, KINDS) if isinstance(kind, str) else ()
        raise BadRequest(f"`type` is one of {', '.join(KINDS)}", path="$.type", near=near)
    return convert({key: value for key, value in raw.items() if key != "type"}, KINDS[kind])


def _sized(frame: AgentFrame) -> AgentFrame:
    if isinstance(frame, Delta) and text_bytes(frame.text) > DELTA_BYTES_MAX:
        raise TooLarge(f"a delta has at most {DELTA_BYTES_MAX} bytes", path="$.text")
    if isinstance(frame, Ending) and text_bytes(frame.text) > TEXT_BYTES_MAX:
        raise TooLarge(f"a text has at most {TEXT_BYTES_MAX} bytes", path="$.text")
    return frame


def _turn_id(raw: Any) -> str:
    """The turn of a frame that may be wrong otherwise, so that its error can name it."""
    turn_id = raw.get("turn_id") if isinstance(raw, dict) else None
    return turn_id if isinstance(turn_id, str) and len(turn_id) <= 256 and not fault_of(turn_id) else ""
