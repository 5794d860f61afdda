"""The configuration: found, read, checked whole, and turned into what the program uses.

Every refusal is a `ConfigRefused` (exit code 78) that names the file, the key and what would be right; all faults are listed at once
as far as one does not hide another. Secrets are read only when asked for.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actors.gateway.listen import Listen
from actors.gateway.strict import split_path, unknown_fields, with_choices
from events.base import Millis
from events.bot import Policy
from scripts.configuration import checks as config_checks
from scripts.configuration import values
from scripts.configuration.schema import AccountTable, File, ListenerTable, PolicyTable
from scripts.configuration.secret import Secret, read_secret
from scripts.configuration.values import SecretRef
from scripts.exits import ConfigRefused

FILE_NAME = "replyledger.toml"
FILE_BYTES_MAX = 1_048_576

T = TypeVar("T")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One login on a channel, as configured."""

    name: str
    channel: str
    base_url: str
    access: tuple[str, ...]  # "owner", "pairing", "all", ids of peers
    typing: bool
    exit_on_login_lost: bool
    policy: Policy  # with the account's push_origins

    @property
    def address(self) -> str:
        """`CHANNEL:ACCOUNT`."""
        return f"{self.channel}:{self.name}"


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and where the token is that callers must show."""

    key: str  # its table in the file
    listen: Listen
    token: SecretRef | None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A checked configuration."""

    path: Path
    file: File  # as written, defaults filled in
    state_dir: Path
    locale: str
    clock: str | None  # URL of a simulated clock
    agents: Listener
    http: Listener
    bodies_ms: Millis  # how long texts are kept
    log_format: str
    log_level: str
    accounts: tuple[Account, ...]

    def token(self, listener: Listener) -> Secret | None:
        """A listener's token, read now. Raises ConfigRefused."""
        if listener.token is None:
            return None
        return read_secret(listener.token, self.path.parent, f"{self.path.name}: {listener.key}.token")

    def account(self, name: str) -> Account:
        """An account by its name or `CHANNEL:ACCOUNT`. Raises ConfigRefused with near ones."""
        found = next((a for a in self.accounts if name in (a.name, a.address)), None)
        if found is None:
            known = ", ".join(a.name for a in self.accounts)
            raise ConfigRefused(f"{self.path}: there is no account {name!r}; known: {known}")
        return found


def places() -> tuple[Path, ...]:
    """Where a configuration is looked for, in this order."""
    return Path(FILE_NAME), user_folder() / FILE_NAME


def user_folder() -> Path:
    """The user's configuration folder of this program."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "replyledger"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "replyledger"
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".config") / "replyledger"


def find(given: Path | None = None) -> Path:
    """The configuration file to use. Raises ConfigRefused."""
    if given is not None:
        return given
    found = next((p for p in places() if p.is_file()), None)
    if found is None:
        looked = " and ".join(str(p) for p in places())
        raise ConfigRefused(f"no configuration in {looked}; `replyledger config example > {FILE_NAME}` writes one")
    return found


def load(given: Path | None = None) -> Config:
    """The configuration, found and checked; secrets are not read. Raises ConfigRefused."""
    path = find(given).absolute()
    return parse(_read(path), path)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigRefused(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigRefused(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigRefused(f"{path} is not UTF-8 at byte {error.start}") from None


def parse(text: str, path: Path) -> Config:
    """The configuration in a text that lies at `path`. Raises ConfigRefused."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also of a number that nobody can count
        raise ConfigRefused(f"{path} is not TOML: {error}") from None
    _refuse(path, _unknown(raw))
    _refuse(path, _wrong(raw))
    file = msgspec.convert(raw, File, dec_hook=values.decode)
    _refuse(path, config_checks.problems(file))
    return _built(file, path)


def _refuse(path: Path, problems: Iterator[str]) -> None:
    found = tuple(problems)
    if found:
        raise ConfigRefused("\n".join(f"{path}: {p}" for p in found))


def _unknown(raw: dict[str, Any]) -> Iterator[str]:
    for field in unknown_fields(raw, File, ""):
        place = f"{field.path}.{field.key}".lstrip(".")
        hint = f"; did you mean {field.near[0]!r}?" if field.near else ""
        yield f"{place}: unknown key {field.key!r}{hint}"


def _wrong(raw: dict[str, Any]) -> Iterator[str]:
    """What is of a wrong type or out of bounds: the first such of each table."""
    accounts = raw.get("accounts", {})
    yield from _wrong_in(raw | {"accounts": {}}, File, "")
    if not isinstance(accounts, dict):
        yield "accounts: write a table for each account, [accounts.NAME]"
        return
    for name, account in accounts.items():
        policy = account.get("policy", {}) if isinstance(account, dict) else {}
        yield from _wrong_in(account | {"policy": {}} if policy else account, AccountTable, f"accounts.{name}")
        yield from _wrong_in(policy, PolicyTable, f"accounts.{name}.policy")


def _wrong_in(raw: Any, kind: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    try:
        msgspec.convert(raw, kind, dec_hook=values.decode)
    except msgspec.ValidationError as error:
        message, path = split_path(str(error))
        place = f"{prefix}{path.removeprefix('$')}".lstrip(".") or "the file"
        yield f"{place}: {with_choices(message, kind, path)}"


def _built(file: File, path: Path) -> Config:
    return Config(
        path=path,
        file=file,
        state_dir=path.parent / Path(file.state_dir).expanduser(),
        locale=file.locale,
        clock=file.clock,
        agents=_listener("agents", file.agents),
        http=_listener("http", file.http),
        bodies_ms=int(file.retention.bodies),
        log_format=file.logging.format,
        log_level=file.logging.level,
        accounts=tuple(_account(name, table) for name, table in file.accounts.items()),
    )


def _listener(key: str, table: ListenerTable) -> Listener:
    return Listener(key=key, listen=table.listen.place, token=table.token)


def _account(name: str, table: AccountTable) -> Account:
    return Account(
        name=name,
        channel=table.channel,
        base_url=str(table.base_url),
        access=table.access,
        typing=table.typing,
        exit_on_login_lost=table.login_lost == "exit",
        policy=policy_of(table),
    )


def policy_of(table: AccountTable) -> Policy:
    """The delivery rules of an account."""
    given = table.policy
    return Policy(
        quota_replies=given.quota_replies,
        quota_window_ms=int(given.quota_window),
        share_replies=given.share_replies,
        share_window_ms=int(given.share_window),
        backlog_outputs=given.backlog_outputs,
        backlog_age_ms=int(given.backlog_age),
        answer_parts=given.answer_parts,
        part_bytes=given.part_bytes,
        mode=given.mode,
        resend_unknown=given.resend_unknown,
        client_timeout_ms=int(given.client_timeout),
        pace_ms=int(given.pace),
        pace_burst=given.pace_burst,
        notice_after_ms=int(given.notice_after),
        push_origins=table.push_origins,
    )
