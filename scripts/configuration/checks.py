"""What no single key of the configuration can tell: bounds of durations, and keys that contradict each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from actors.access import ACCESS_WORDS
from actors.channels.errors import BadBaseUrl
from actors.channels.weixin.address import base_url
from actors.channels.weixin.ids import is_person
from actors.gateway.errors import nearest
from actors.gateway.listen import is_loopback
from events.bot import DAY_MS, HOUR_MS, MINUTE_MS, SHARE_WINDOW_MS_MAX
from events.errors import BadAddress
from events.quota import SEND_WITHIN_MS
from events.streams import parse_address
from scripts.configuration.schema import AccountTable, File, PolicyTable
from scripts.configuration.values import Duration

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")

DURATIONS_MS: dict[str, tuple[int, int]] = {
    "quota_window": (MINUTE_MS, 30 * DAY_MS),
    "share_window": (MINUTE_MS, SHARE_WINDOW_MS_MAX),
    "backlog_age": (1_000, 30 * DAY_MS),
    "client_timeout": (1_000, 5 * MINUTE_MS),
    "pace": (0, HOUR_MS),
    "notice_after": (0, DAY_MS),
}
"""Least and most of each duration of a policy."""

IS_PERSON: dict[str, Callable[[str], bool]] = {"weixin": is_person}
"""What the ids of each channel's people look like."""

SERVER: dict[str, Callable[[str], str]] = {"weixin": base_url}
"""What reads the address of each channel's server, and raises BadBaseUrl."""

BODIES_MS = (DAY_MS, 3_650 * DAY_MS)
"""Least and most of `retention.bodies`."""


def problems(file: File) -> Iterator[str]:
    """Everything that is wrong with a file whose tables are right by themselves, as `KEY: WHAT`."""
    yield from _listeners(file)
    yield from _clock(file)
    yield from _within("retention.bodies", file.retention.bodies, *BODIES_MS)
    if not file.accounts:
        yield "accounts: there is no account; add a table [accounts.NAME] with a channel"
    for name, account in file.accounts.items():
        yield from _account(f"accounts.{name}", name, account)
        yield from _retention(f"accounts.{name}", account, file)


def _listeners(file: File) -> Iterator[str]:
    for key, table in (("agents", file.agents), ("http", file.http)):
        if table.token is None and not is_loopback(table.listen.place.host):
            yield f"{key}.listen: {table.listen} can be reached from other machines, so {key}.token is needed"
    if file.agents.listen == file.http.listen and file.http.listen.place.port:
        yield f"http.listen: {file.http.listen} is taken by [agents] already"


def _clock(file: File) -> Iterator[str]:
    """A simulated clock must never meet a real channel."""
    if file.clock is None:
        return
    why = "a simulated `clock` is for loopback alone"
    places = [("clock", file.clock.host), ("agents.listen", file.agents.listen.place.host)]
    places.append(("http.listen", file.http.listen.place.host))
    places += [(f"accounts.{n}.base_url", urlsplit(a.base_url).hostname or "") for n, a in file.accounts.items()]
    for key, host in places:
        if not is_loopback(host):
            yield f"{key}: {why}, and {host} is not loopback"


def _account(key: str, name: str, account: AccountTable) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f"{key}: a name has up to 40 of a-z, 0-9, _ and -, and begins with a letter or digit"
        return
    try:
        SERVER[account.channel](account.base_url)
    except BadBaseUrl as error:
        yield f"{key}.base_url: {error}"
    for who in account.access:
        yield from _access(f"{key}.access", name, account.channel, who)
    yield from _policy(f"{key}.policy", account.policy)


def _access(key: str, name: str, channel: str, who: str) -> Iterator[str]:
    """Ids are free text, but each channel's have a shape: whatever has not, and is no word, is mistyped and would let nobody in."""
    try:
        parse_address(f"{channel}:{name}:{who}")
    except BadAddress as error:
        yield f"{key}: {error}"
        return
    if who in ACCESS_WORDS or IS_PERSON[channel](who):
        return
    near = nearest(who, ACCESS_WORDS)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    yield f"{key}: {who!r} is neither one of {', '.join(ACCESS_WORDS)} nor the id of a person on {channel}{hint}"


def _policy(key: str, policy: PolicyTable) -> Iterator[str]:
    for name, (least, most) in DURATIONS_MS.items():
        yield from _within(f"{key}.{name}", getattr(policy, name), least, most)
    if policy.share_replies >= policy.quota_replies:
        yield (
            f"{key}.share_replies: {policy.share_replies} is not below quota_replies = {policy.quota_replies}; "
            "pushes would leave nothing for answers"
        )
    if policy.client_timeout + SEND_WITHIN_MS >= policy.quota_window:
        yield f"{key}.client_timeout: {policy.client_timeout} leaves nothing of quota_window = {policy.quota_window}"


def _retention(key: str, account: AccountTable, file: File) -> Iterator[str]:
    longest = max(account.policy.quota_window, account.policy.backlog_age)
    if file.retention.bodies < longest:
        yield f"retention.bodies: {file.retention.bodies} is shorter than {longest}, for which {key} may still need its texts"


def _within(key: str, value: Duration, least: int, most: int) -> Iterator[str]:
    if not least <= value <= most:
        yield f"{key}: {value} is not between {Duration(least)} and {Duration(most)}"
