"""`replyledger login weixin --account A [--import FILE]`: log an account in, and keep its login."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from actors.channels.errors import ChannelError
from actors.gateway.api import AccountOrder
from actors.gateway.views import AccountView
from actors.ports import Credentials
from scripts.asking.asker import who
from scripts.asking.client import client_of
from scripts.configuration import config
from scripts.configuration.config import Account, Config
from scripts.exits import ConfigRefused, Failed, Misused, NotRunning
from scripts.printing import Printer, plain
from scripts.running.credentials import LoginFile
from scripts.verbs import actions, start

app = actions("Log an account in.")

TOKENS_MAX = 10
"""How many known logins the server is told, newest first. iLink protocol notes 1.2."""

IMPORT_BYTES_MAX = 65_536


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A login that is kept."""

    account: str
    owner: str  # address of the person who logged in
    file: str
    fresh: bool  # False: the login that was there is still good


@app.command()
def weixin(
    ctx: typer.Context,
    account: Annotated[str, typer.Option("--account", "-a", help="The account's name in the configuration.")],
    import_: Annotated[
        Path | None,
        typer.Option("--import", help="Take over the account file of another client: token, baseUrl, userId."),
    ] = None,
) -> None:
    """Log a Weixin account in: scan the code with WeChat, or import a login. A running gateway takes it up at once."""
    given, printer = start(ctx)
    found = config.load(given.config)
    chosen = found.account(account)
    if chosen.channel != "weixin":
        raise Misused(f"{chosen.address} is no Weixin account")
    keep = LoginFile(found.state_dir, chosen.name)
    credentials = _imported(import_, chosen) if import_ else asyncio.run(_scanned(found, chosen, printer))
    if credentials is not None:
        _write(keep, credentials)
    _report(keep, chosen, printer, fresh=credentials is not None)
    if credentials is not None:
        _take_up(found, chosen, printer)


def _imported(path: Path, account: Account) -> Credentials:
    from actors.channels.weixin.login import import_credentials

    try:
        with path.open("rb") as file:
            return import_credentials(file.read(IMPORT_BYTES_MAX + 1), base_url=account.base_url)
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from None
    except ChannelError as error:
        raise Failed(f"{path}: {error}") from None


async def _scanned(found: Config, account: Account, printer: Printer) -> Credentials | None:
    """A new login, or None where the server says that the known one is still good. Raises Failed."""
    from actors.channels.weixin.login import log_in
    from actors.runtime.clock import SystemIds

    try:
        result = await log_in(
            base_url=account.base_url,
            ids=SystemIds(),
            tokens=_known_tokens(found, account),
            show=_show_code,
            ask_code=_typed_digits,
            say=printer.talk,
        )
    except ChannelError as error:
        raise Failed(str(error)) from None
    return result if isinstance(result, Credentials) else None


def _known_tokens(found: Config, account: Account) -> tuple[str, ...]:
    """This account's token first, then those of the others, newest first."""
    files = [LoginFile(found.state_dir, a.name) for a in found.accounts if a.channel == account.channel]
    there = [f for f in files if f.path.exists()]
    there.sort(key=lambda f: (f.path.stem != account.name, -f.path.stat().st_mtime_ns))
    return tuple(c.token for c in map(_readable, there) if c is not None)[:TOKENS_MAX]


def _readable(file: LoginFile) -> Credentials | None:
    """A damaged file is no reason not to log in: this login replaces it."""
    try:
        return file.read()
    except ConfigRefused:
        return None


def _show_code(url: str) -> None:
    """On standard error even with -q: without it nobody can log in."""
    import segno

    segno.make(url, error="l").terminal(out=sys.stderr, compact=True)
    sys.stderr.write(f"{plain(url)}\n")
    sys.stderr.flush()


async def _typed_digits() -> str:
    """A line of standard input, waited for without blocking the login's deadline. Raises Failed at its end."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[None] = loop.create_future()
    sys.stderr.write("Digits on the phone: ")
    sys.stderr.flush()
    loop.add_reader(sys.stdin, lambda: None if typed.done() else typed.set_result(None))
    try:
        await typed
    finally:
        loop.remove_reader(sys.stdin)
    line = sys.stdin.readline()
    if not line:
        raise Failed("the phone asks for digits, and standard input has ended")
    return line.strip()


def _write(keep: LoginFile, credentials: Credentials) -> None:
    try:
        keep.write(credentials)
    except OSError as error:
        raise Failed(f"{keep.path} cannot be written: {error.strerror}; the login is lost, log in again") from None


def _report(keep: LoginFile, account: Account, printer: Printer, *, fresh: bool) -> None:
    kept = keep.read()
    if kept is None:
        raise Failed(
            "this WeChat account is connected already, by a login that is not kept here; import it with --import"
        )
    row = LoggedIn(account=account.address, owner=f"{account.address}:{kept.user_id}", file=str(keep.path), fresh=fresh)
    said = "logged in" if fresh else "is logged in already"
    printer.row(row, f"{account.address} {said}: {row.owner}, kept in {keep.path}")


def _take_up(found: Config, account: Account, printer: Printer) -> None:
    """A running gateway begins anew with the login; none is no fault."""
    try:
        order = AccountOrder(account=account.address, action="restart", who=who())
        client_of(found).post(AccountView, "/v1/accounts", order)
    except NotRunning:
        printer.talk("no gateway runs yet; `replyledger run` starts one")
    except (ConfigRefused, Failed) as error:
        printer.talk(f"the login is kept; the running gateway did not take it up: {error}")
    else:
        printer.talk("the running gateway took it up")
