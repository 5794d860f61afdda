"""The configuration as it is written: one struct for each table of the file. Pure; `scripts.configuration.config` makes it usable.

Defaults of the delivery rules come from `events.bot.Policy`, so that file, log and documentation cannot differ.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from events.bot import Policy
from scripts.configuration import values
from scripts.configuration.values import Duration, ListenAt, SecretRef, Url

T = TypeVar("T")

_POLICY = Policy()

PART_BYTES_MIN, PART_BYTES_MAX = 64, 16_384
REPLIES_MAX = 1_000
OUTPUTS_MAX = 1_000

PushOrigin = Literal["scheduled", "desktop", "api"]


def _given(value: T) -> T:
    """A default of a type that JSON schema cannot write; `json_schema` adds it as text."""
    return msgspec.field(default_factory=lambda: value)


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the tables."""


class ListenerTable(Table, frozen=True, kw_only=True):
    """`[agents]` or `[http]`: where to listen, and the token that callers must show. Without one: loopback only."""

    listen: ListenAt = _given(ListenAt("127.0.0.1:8081"))
    token: SecretRef | None = None


class AgentsTable(ListenerTable, frozen=True, kw_only=True):
    """`[agents]`."""

    listen: ListenAt = _given(ListenAt("127.0.0.1:8080"))


class PolicyTable(Table, frozen=True, kw_only=True):
    """`[accounts.NAME.policy]`: every number of the delivery rules."""

    quota_replies: Annotated[int, Meta(ge=1, le=REPLIES_MAX)] = _POLICY.quota_replies
    quota_window: Duration = _given(Duration(_POLICY.quota_window_ms))
    share_replies: Annotated[int, Meta(ge=0, le=REPLIES_MAX)] = _POLICY.share_replies
    share_window: Duration = _given(Duration(_POLICY.share_window_ms))
    backlog_outputs: Annotated[int, Meta(ge=1, le=OUTPUTS_MAX)] = _POLICY.backlog_outputs
    backlog_age: Duration = _given(Duration(_POLICY.backlog_age_ms))
    answer_parts: Annotated[int, Meta(ge=1, le=REPLIES_MAX)] = _POLICY.answer_parts
    part_bytes: Annotated[int, Meta(ge=PART_BYTES_MIN, le=PART_BYTES_MAX)] = _POLICY.part_bytes
    mode: Literal["enforce", "observe"] = _POLICY.mode
    resend_unknown: Literal["never"] = _POLICY.resend_unknown
    client_timeout: Duration = _given(Duration(_POLICY.client_timeout_ms))
    pace: Duration = _given(Duration(_POLICY.pace_ms))
    pace_burst: Annotated[int, Meta(ge=1, le=100)] = _POLICY.pace_burst
    notice_after: Duration = _given(Duration(_POLICY.notice_after_ms))


class AccountTable(Table, frozen=True, kw_only=True):
    """`[accounts.NAME]`: one login on a channel."""

    channel: Literal["weixin"]
    base_url: Url = _given(Url("https://ilinkai.weixin.qq.com"))
    access: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(min_length=1, max_length=1_000)
    ] = ("owner",)
    push_origins: tuple[PushOrigin, ...] = ("scheduled", "desktop", "api")
    typing: bool = False
    login_lost: Literal["degrade", "exit"] = "degrade"
    policy: PolicyTable = msgspec.field(default_factory=PolicyTable)


class RetentionTable(Table, frozen=True, kw_only=True):
    """`[retention]`: how long texts, names and tokens are kept. Quota and audit outlive them."""

    bodies: Duration = _given(Duration(30 * 86_400_000))


class LoggingTable(Table, frozen=True, kw_only=True):
    """`[logging]`: what the running gateway tells on standard error."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class File(Table, frozen=True, kw_only=True):
    """The whole file."""

    state_dir: Annotated[str, Meta(min_length=1)] = "state"
    locale: Literal["zh-CN", "en"] = "zh-CN"
    clock: Url | None = None
    agents: AgentsTable = msgspec.field(default_factory=AgentsTable)
    http: ListenerTable = msgspec.field(default_factory=ListenerTable)
    logging: LoggingTable = msgspec.field(default_factory=LoggingTable)
    retention: RetentionTable = msgspec.field(default_factory=RetentionTable)
    accounts: dict[str, AccountTable] = {}


def json_schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of the file."""
    schema = msgspec.json.schema(File, schema_hook=values.schema)
    for struct in (ListenerTable, AgentsTable, PolicyTable, AccountTable, RetentionTable):
        properties = schema["$defs"][struct.__name__]["properties"]
        for field in msgspec.structs.fields(struct):
            default = field.default_factory
            if callable(default) and not isinstance(default, type):
                properties[field.name]["default"] = str(default())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "replyledger.toml", **schema}
