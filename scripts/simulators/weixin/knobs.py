"""What can be turned while the server runs: knobs (how it behaves) and faults (what goes wrong with a request).

Each can be set for good or for the next `times` uses. Each stands for a behaviour that somebody reported of the real
server or that no source settles (iLink protocol notes 2, 6.6, 8); the defaults are the contract of notes 2.3.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from scripts.simulators.errors import UnknownNameError

DAY_MS = 86_400_000

Treatment = Literal["accept", "refuse", "swallow"]
"""Of a send: sent and shown | ret -2 | ret 0 without an id, and nothing on the phone."""


class Knobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The standing behaviour of the server."""

    # Quota and window, per user (notes 2.3).
    quota: int = 10
    window_ms: int = DAY_MS
    beyond_quota: Literal["prepare_failed", "bare", "swallow"] = "prepare_failed"
    typing_costs: bool = False  # whether a typing start spends a reply
    burst_sends: int = 0  # this many sends in burst_window_ms trip the throttle; 0: no throttle
    burst_window_ms: int = 1000
    burst_penalty_ms: int = 3_600_000  # each attempt during the penalty starts it anew
    # Context tokens (notes 2.4).
    token_life_ms: int = DAY_MS
    expired_tokens: Treatment = "refuse"  # older than its life, or never issued
    superseded_tokens: Treatment = "accept"  # not the newest
    tokenless_sends: Treatment = "refuse"
    # Sends.
    dedupe_client_id: bool = False  # a repeated client_id answers the first one's id and shows nothing
    show_delay_ms: int = 0  # how late the phone shows an accepted message
    # Delivery (notes 4).
    delivery: Literal["cursor", "consumed"] = "cursor"  # an old cursor replays | being delivered is being gone
    empty_cursor: Literal["unacknowledged", "everything"] = "unacknowledged"
    reorder: bool = False  # a poll's messages come newest first
    batch: int = 50  # messages in one poll at most
    redeliver: Literal["never", "same_id", "new_id"] = "never"  # of what a user says while this is set
    redeliver_after_ms: int = 1000
    echo: bool = False  # accepted sends come back through getupdates as BOT messages
    inbound_id: Literal["present", "missing"] = "present"
    ids: Literal["wide", "small", "above_int64"] = "wide"  # > 2^53 | tiny | > 2^63
    text_ids: bool = False  # message ids go out as JSON strings
    clock_skew_ms: int = 0  # added to create_time_ms
    create_time: Literal["now", "zero"] = "now"
    date: Literal["now", "none"] = "now"  # the Date header of answers
    date_skew_ms: int = 0  # added to the Date header
    # Long poll (notes 1.4).
    hold_ms: int = 35_000
    advertised_ms: int | None = 35_000  # longpolling_timeout_ms; None leaves it out
    second_poller: Literal["steal", "refuse", "share"] = "steal"
    # Typing, uploads, login.
    config_needs_message: bool = False  # getconfig answers -4 before a user's first message
    ticket_life_ms: int = DAY_MS
    tokenless_uploads: Literal["accept", "-1", "-2", "-14"] = "accept"
    bad_local_tokens: Literal["accept", "refuse"] = "accept"  # -3 when get_bot_qrcode lists unknown tokens
    qr_hold_ms: int = 20_000
    qr_life_ms: int = 120_000


Place = Literal["poll", "send", "config", "typing", "upload", "start", "stop", "qr", "qr_status", "any"]
"""Which endpoint a fault hits."""

Kind = Literal[
    "ret",
    "omit_ret",
    "omit_message_id",
    "empty_object",
    "empty_body",
    "cut_before",
    "cut_after",
    "slow_headers",
    "slow_body",
    "http",
]
PREVENTS = frozenset({"ret", "cut_before", "http"})
"""Kinds that keep the request from being handled at all; after the others it was."""


LOSES_ANSWER = frozenset({"empty_object", "empty_body", "cut_after"})
"""Kinds after which the request was handled and the client does not learn its result."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong with requests to `where`, after `skip` of them, `times` times (None: always)."""

    where: Place
    kind: Kind
    times: int | None = 1
    skip: int = 0
    user: str = ""  # only requests about this user; "" any
    code: int = -2  # for `ret`
    errmsg: str | None = None
    form: Literal["both", "errcode", "ret"] = "ret"
    status: int = 502  # for `http`
    html: bool = True  # for `http`: an HTML page, else an empty body
    ms: int = 0  # for `slow_headers`, `slow_body`
    shown: bool = False  # for `omit_message_id`: whether the phone shows the message all the same

    def fits(self, where: str, user: str) -> bool:
        """Tell whether this fault concerns a request to `where` about `user`."""
        return self.where in (where, "any") and self.user in ("", user)


class Once(msgspec.Struct):
    """A knob's value for the next `times` uses."""

    name: str
    value: Any
    times: int


class Switchboard:
    """The knobs and faults as they stand now."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Put every knob back and forget every fault."""
        self.knobs = Knobs()
        self.once: list[Once] = []
        self.faults: list[Fault] = []

    def set(self, values: dict[str, Any], times: int | None = None) -> None:
        """Set knobs by name, for good or for the next `times` uses; refuses unknown names and wrong values."""
        checked = _checked(self.knobs, values)
        if times is None:
            self.knobs = checked
        else:
            self.once += [Once(name, getattr(checked, name), times) for name in values if times > 0]

    def reset(self, names: list[str]) -> None:
        """Put the named knobs back to their defaults."""
        defaults = Knobs()
        self.set({name: getattr(defaults, name, None) for name in names})
        self.once = [one for one in self.once if one.name not in names]

    def use(self, name: str) -> Any:
        """Return the knob's value for this use; one of a counted value is spent."""
        for one in self.once:
            if one.name == name:
                one.times -= 1
                if one.times == 0:
                    self.once.remove(one)
                return one.value
        return getattr(self.knobs, name)

    def look(self, name: str) -> Any:
        """Return the knob's value without using it up."""
        return next((one.value for one in self.once if one.name == name), getattr(self.knobs, name))

    def add(self, fault: Fault) -> None:
        """Let a fault happen from now on."""
        self.faults.append(fault)

    def strike(self, where: str, user: str) -> Fault | None:
        """Return the fault that hits this request, if any; skips and counts are used up."""
        for index, fault in enumerate(self.faults):
            if not fault.fits(where, user):
                continue
            if fault.skip > 0:
                self.faults[index] = msgspec.structs.replace(fault, skip=fault.skip - 1)
                continue
            if fault.times is not None:
                self.faults[index : index + 1] = _left_of(fault, fault.times - 1)
            return fault
        return None


def _left_of(fault: Fault, times: int) -> list[Fault]:
    return [msgspec.structs.replace(fault, times=times)] if times > 0 else []


def _checked(knobs: Knobs, values: dict[str, Any]) -> Knobs:
    unknown = sorted(values.keys() - set(Knobs.__struct_fields__))
    if unknown:
        raise UnknownNameError(f"no knob named {', '.join(unknown)}; there are {', '.join(Knobs.__struct_fields__)}")
    return msgspec.convert(msgspec.to_builtins(knobs) | values, Knobs)
