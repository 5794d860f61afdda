"""`replyledger doctor`: checks what the gateway needs, and says of each thing what would be right. Changes nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import typer

from actors.runtime.clock import BootClock
from actors.text.counts import counted
from actors.text.moments import show_span
from events.base import Millis
from events.codec import decode
from events.errors import EventError
from scripts.asking import spool, spoolable
from scripts.configuration.config import Config, Listener, find, load
from scripts.exits import ConfigRefused, Failed, Misused
from scripts.options import Options
from scripts.reading.opening import log_path
from scripts.running.credentials import LoginFile
from scripts.running.days import mixed_days
from scripts.verbs import start, verb
from store.errors import EventUnreadable, StoreError
from store.limits import DISK_RESERVE_BYTES
from store.opening import check_place
from store.reader import SqliteReader

app = verb()

DISK_SCARCE_BYTES = 256 * 1_048_576
"""Free space from which on a disk is called scarce."""

CLOCK_MIN = 1_735_689_600_000
"""2025-01-01: a clock before it was never set."""

READABLE = "a log that this version can read; `replyledger backup` makes copies of a good one"

REFUSED_SHOWN_MAX = 20
"""How many refused turns are named."""

AHEAD_MAX_MS = 60_000
"""How far the log's last event may be ahead of the clock."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `right` says what would be right, where it is not."""

    what: str
    state: Literal["good", "note", "bad"]
    found: str
    right: str = ""


def good(what: str, found: str) -> Check:
    """A thing as it should be."""
    return Check(what=what, state="good", found=found)


def note(what: str, found: str, right: str) -> Check:
    """A thing that may be as it should be."""
    return Check(what=what, state="note", found=found, right=right)


def bad(what: str, found: str, right: str) -> Check:
    """A thing that keeps the gateway from doing its work, or its secrets from being safe."""
    return Check(what=what, state="bad", found=found, right=right)


def examine(given: Options, now: Millis) -> Iterator[Check]:
    """Every check, in the order in which one depends on the other."""
    try:
        config = load(given.config)
    except ConfigRefused as error:
        yield bad("configuration", str(error), "a configuration that `replyledger config check` accepts")
        return
    yield good("configuration", f"{find(given.config)}: {len(config.accounts)} accounts")
    yield from check_secrets(config)
    yield from check_folder(config.state_dir)
    yield from check_disk(config.state_dir)
    yield check_clock(now)
    yield from check_log(log_path(config), now)
    yield from check_days(config)
    for account in config.accounts:
        yield check_login(LoginFile(config.state_dir, account.name), account.name)
    yield from check_spool(config)
    for listener in (config.agents, config.http):
        yield check_port(listener)


def check_secrets(config: Config) -> Iterator[Check]:
    """Whether the listeners' tokens can be read; they are never shown."""
    for listener in (config.agents, config.http):
        what = f"{listener.key}.token"
        try:
            token = config.token(listener)
        except ConfigRefused as error:
            yield bad(what, str(error), "a variable that is set, or a file that can be read")
            continue
        if token is not None:
            yield good(what, "there")
        else:
            yield note(what, "none", "a token, unless every user of this machine may use the listener")


def check_folder(folder: Path) -> Iterator[Check]:
    """The state folder: there, ours, private, writable, on a local disk."""
    what = "state folder"
    if not folder.exists():
        yield note(what, f"{folder} is not there yet", "`replyledger run` makes it, mode 0700")
        return
    if not folder.is_dir():
        yield bad(what, f"{folder} is not a folder", "another state_dir")
        return
    yield check_mode(what, folder, 0o700)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield bad(what, f"{folder} cannot be written by this user", "the user that runs the gateway owns it")
    try:
        check_place(folder.absolute())
    except StoreError as error:
        yield bad(what, str(error), "a local disk")


def check_mode(what: str, path: Path, most: int) -> Check:
    """Whether nobody but its owner can use a file or folder."""
    if os.name != "posix":
        return good(what, f"{path} (rights are not checked on this system)")
    mode = path.stat().st_mode & 0o777
    if mode & ~most:
        return bad(what, f"{path} has mode {mode:04o}: others can use it", f"chmod {most:04o} {path}")
    return good(what, f"{path}, mode {mode:04o}")


def check_disk(folder: Path) -> Iterator[Check]:
    """Room for the log."""
    place = next((p for p in (folder, *folder.parents) if p.is_dir()), None)
    if place is None:
        return
    free = shutil.disk_usage(place).free
    found = f"{free // 1_048_576} MB free at {place}"
    if free < DISK_RESERVE_BYTES:
        yield bad("disk", found, f"at least {DISK_RESERVE_BYTES // 1_048_576} MB: below it the log refuses to grow")
    elif free < DISK_SCARCE_BYTES:
        yield note("disk", found, f"more than {DISK_SCARCE_BYTES // 1_048_576} MB, so that it does not fill soon")
    else:
        yield good("disk", found)


def check_clock(now: Millis) -> Check:
    """Whether the clock was ever set."""
    if now < CLOCK_MIN:
        return bad("clock", f"{now} ms since 1970 is long past", "a clock that is set: quota windows are counted by it")
    return good("clock", "set")


def check_log(path: Path, now: Millis) -> Iterator[Check]:
    """Whether the log can be read, every event of it, and does not come from the future."""
    if not path.exists():
        yield note("log", f"{path} is not there yet", "`replyledger run` makes it")
        return
    yield check_mode("log", path, 0o600)
    try:
        seen = asyncio.run(_look(path))
    except StoreError as error:
        yield bad("log", str(error), READABLE)
        return
    if seen.flaws:
        yield bad("log", f"{path} is damaged: {'; '.join(seen.flaws)}", READABLE)
    elif seen.strange:
        more = (
            f"; {seen.strange - 1} more of its {seen.events} events cannot be read either" if seen.strange > 1 else ""
        )
        yield bad("log", f"{seen.first}{more}", READABLE)
    else:
        yield good("log", f"{seen.events} events")
    if not seen.simulated and seen.last - now > AHEAD_MAX_MS:
        yield bad(
            "clock",
            f"the log's last event is {show_span(seen.last - now)} in the future: either the clock is behind now, or it was ahead when that"
            " was written; time goes on from there, quota and share are counted rightly, and what is shown and how old things"
            " are runs ahead",
            "a clock that is right; if it is, a new state_dir with a login of its own begins with the right time",
        )


def check_days(config: Config) -> Iterator[Check]:
    """Whether the log is of the days that the configuration is for."""
    if flaw := asyncio.run(mixed_days(log_path(config), simulated=config.clock is not None)):
        yield bad("clock", flaw, "a log of its own for simulated days; `run` refuses to mix them")


class Seen(msgspec.Struct):
    """What a look through a whole log found."""

    flaws: tuple[str, ...] = ()  # what SQLite says of the file
    events: int = 0
    last: Millis = 0  # time of the last event
    strange: int = 0  # events that this version cannot read
    first: str = ""  # what is the matter with the first of them
    simulated: bool = False


async def _look(path: Path) -> Seen:
    """Read every event, also behind one that cannot be read. Raises StoreError."""
    reader, seen = await SqliteReader.open(path), Seen()
    try:
        seen.flaws = await reader.flaws()
        seen.simulated = (await reader.meta()).get("simulated", "0") != "0"
        async for page in reader.rows():
            seen.events += len(page)
            seen.last = page[-1].at
            for row in page:
                try:
                    decode(row.type, row.data)
                except EventError as why:
                    seen.strange += 1
                    strange = EventUnreadable(row.stream, row.version, position=row.position, why=why)
                    seen.first = seen.first or str(strange)
        return seen
    finally:
        await reader.close()


def check_login(login: LoginFile, account: str) -> Check:
    """Whether somebody has logged in, and nobody else can read the login."""
    what = f"login of {account}"
    if not login.path.exists():
        return note(what, "nobody has logged in", f"replyledger login weixin --account {account}")
    mode = check_mode(what, login.path, 0o600)
    if mode.state != "good":
        return mode
    try:
        login.read()
    except ConfigRefused as error:
        return bad(what, str(error), f"replyledger login weixin --account {account}")
    return mode


def check_spool(config: Config) -> Iterator[Check]:
    """What waits in the spool, for whom, and what was refused and why."""
    try:
        waiting, refused = spool.waiting(config.state_dir), spool.refused(config.state_dir)
    except OSError as error:
        why = f"{spool.folder_of(config.state_dir)} cannot be read: {error.strerror}; nothing of it is taken in"
        yield bad("spool", why, "a folder that belongs to the user who runs the gateway")
        return
    there: dict[tuple[str, str], list[str]] = {}
    for path in waiting:
        taken = spool.read(path)
        reason, right = _spooled(config, taken)
        there.setdefault((reason, right), []).append(path.name)
    for (reason, right), names in there.items():
        wait = counted(len(names), "turn waits", "turns wait")
        yield note("spool", f"{wait}, {reason}; the first is {names[0]}", right)
    for path in refused[-REFUSED_SHOWN_MAX:]:
        seen = spool.why_refused(path)
        whose = f", turn {seen.turn_id} for {seen.to}" if seen.to else ""
        yield note(
            "spool", f"{seen.file}{whose} was refused: {seen.reason}", f"{path.stem}.json as its name offers it again"
        )
    if len(refused) > REFUSED_SHOWN_MAX:
        more = counted(len(refused) - REFUSED_SHOWN_MAX, "older one was", "older ones were")
        yield note("spool", f"{more} refused, too", f"look into {spool.folder_of(config.state_dir)}")


def _spooled(config: Config, taken: spool.Spooled) -> tuple[str, str]:
    """What is to be said of a file that waits, and what would be right."""
    if taken.offer is None:
        return (
            f"that cannot be offered: {taken.problem}",
            "a file that `send --spool` wrote, and that this user can read",
        )
    try:
        needed = spoolable.logins_needed(config, (taken.offer,))
    except Misused:
        return f"for {taken.to}: the configuration has no such account", "its name in the configuration"
    if needed:
        return f"for {taken.to}: nobody has logged in yet", needed[0]
    return f"for {taken.to}", "`replyledger run` takes in what waits"


def check_port(listener: Listener) -> Check:
    """Whether a listener's port is free. Where the gateway runs it is not, and that is right."""
    listen = listener.listen
    what = f"{listener.key}.listen"
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return note(what, f"{listen} is in use", "the gateway itself; if it does not run, another port")
            return bad(what, f"{listen}: {error.strerror}", "an address of this machine, and a port this user may take")
    return good(what, f"{listen} is free")


@app.command()
def run(ctx: typer.Context) -> None:
    """Check what the gateway needs; exit 1 if something is not right."""
    given, printer = start(ctx)
    wrong = 0
    for check in examine(given, BootClock().now()):
        wrong += check.state == "bad"
        right = f"\n      right would be: {check.right}" if check.right else ""
        printer.row(check, f"{check.state:<4}  {check.what}: {check.found}{right}")
    if wrong:
        raise Failed(f"{wrong} of these checks found something wrong")
