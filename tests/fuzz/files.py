# ruff: noqa: PT017 (a refusal that is allowed is looked at)
"""Targets: files that people, other programs and broken disks leave, the log itself among them."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import msgspec

from actors.channels.errors import BadBaseUrl, BadCredentials
from actors.channels.weixin import address
from actors.channels.weixin.login import import_credentials
from actors.gateway.api import TurnOffer
from actors.ports import Credentials
from events import codec
from events.errors import CodecError
from scripts.asking import spool
from scripts.configuration import config, values
from scripts.configuration.toml_text import toml
from scripts.exits import ConfigRefused
from scripts.running.credentials import LoginFile, LoginRefused
from store import queries, schema
from store.errors import EventUnreadable, StoreError
from store.reader import SqliteReader
from store.verify import verify
from tests.fuzz.wires import HOME, assert_allowed, plain


def configuration(data: bytes) -> None:
    """A configuration is refused in words, or can be shown and read the same; its server is one that can be called."""
    path = Path("/nowhere/replyledger.toml")
    try:
        found = config.parse(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        return
    except ConfigRefused as refusal:
        assert str(refusal)
        return
    again = config.parse(toml(msgspec.to_builtins(found.file, enc_hook=values.encode)), path)
    assert again == found
    for account in found.accounts:
        try:
            address.base_url(account.base_url)
        except BadBaseUrl as error:
            raise AssertionError(f"accepted, and no server: {account.base_url}") from error


@cache
def _folder() -> Path:
    """Where files are put for their readers, for as long as the process lives."""
    folder = tempfile.mkdtemp(prefix="replyledger-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def spooled(data: bytes) -> None:
    """A file of the spool holds a turn, or something is wrong with it."""
    path = _folder() / "spool" / "1-a.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    (found,) = spool.spooled(_folder())
    assert (found.offer is None) == bool(found.problem)
    if found.offer is not None:
        assert isinstance(found.offer, TurnOffer)
        plain(found.offer)
    else:
        found.problem.encode()


def logins(data: bytes) -> None:
    """The account file of another client, and our own: credentials for an allowed host, or a refusal without what the file holds."""
    try:
        found = import_credentials(data, base_url=HOME)
    except BadCredentials as error:
        assert "secretsecret" not in str(error)
    else:
        assert_allowed(found.base_url)
        assert found.token.isprintable()
    kept = LoginFile(_folder(), "main")
    kept.path.parent.mkdir(exist_ok=True)
    kept.path.write_bytes(data)
    try:
        assert isinstance(kept.read(), Credentials)
    except LoginRefused as error:
        assert "secretsecret" not in str(error)


def event(data: bytes) -> None:
    """`TAG`, a line break, the data of an event: one of ours that is written as it was read, or a refusal."""
    tag, _, raw = data.partition(b"\n")
    try:
        found = codec.decode(tag.decode("utf-8", "replace"), raw)
    except CodecError as error:
        str(error).encode("utf-8", "backslashreplace")
        return
    written = codec.encode(found)
    assert codec.decode(codec.tag_of(found), written) == found
    assert codec.encode(codec.decode(codec.tag_of(found), written)) == written


GOOD = b'{"type":"login_lost","code":-14}'
BOT, OTHER = "bot-weixin:main", "bot-weixin:other"
INSERT = "INSERT INTO events (stream, version, type, at, epoch, cause, data, digest) VALUES (?, ?, ?, 5, 1, '', ?, zeroblob(32))"


@cache
def _log() -> sqlite3.Connection:
    log = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(log, b"s" * 32, 5)
    return log


def row(data: bytes) -> None:
    """`TAG`, a line break, data, in the log between two good rows. It is read, or named by its position; what stands before it, and every
    other stream, is read all the same."""
    tag, _, raw = data.partition(b"\n")
    log = _log()
    log.execute("BEGIN")
    try:
        log.execute(INSERT, (BOT, 1, "login_lost", GOOD))
        # SQLite keeps what it is given: also a text where bytes are due, and bytes where a tag is
        kind = tag.decode("utf-8", "replace") if not tag.startswith(b"\xff") else tag
        given = raw.decode() if raw.isascii() and len(raw) % 7 == 0 else raw
        at = log.execute(INSERT, (BOT, 2, kind, given)).lastrowid
        log.execute(INSERT, (OTHER, 1, "login_lost", GOOD))
        assert len(queries.read(log, OTHER, 0, 0)) == 1
        assert len(queries.read(log, BOT, 0, 1)) == 1
        try:
            found = queries.read(log, BOT, 0, 0)
        except EventUnreadable as error:
            assert (error.position, error.stream, error.version) == (at, BOT, 2)
            assert f"position {at}" in str(error)
        else:
            assert [r.version for r in found] == [1, 2]
            assert len(queries.page(log, 0, 0, 10)) == 3
    except sqlite3.IntegrityError:
        return  # the table itself refuses such a row
    finally:
        log.execute("ROLLBACK")


@cache
def _image() -> bytes:
    """A small log as it lies on the disk."""
    path = _folder() / "whole.db"
    log = sqlite3.connect(path, isolation_level=None)
    try:
        schema.create(log, b"s" * 32, 5)
        for version in range(1, 40):
            log.execute(INSERT, (BOT, version, "login_lost", GOOD))
    finally:
        log.close()
    return path.read_bytes()


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


def log_file(data: bytes) -> None:
    """Each four bytes say where (three) and how (one) a byte of a log's file is changed: it is read, or refused with a StoreError."""
    image = bytearray(_image())
    for at in range(0, min(len(data), 64) - 3, 4):
        image[int.from_bytes(data[at : at + 3], "big") % len(image)] ^= data[at + 3]
    path = _folder() / "changed.db"
    for left in path.parent.glob("changed.db*"):
        left.unlink()
    path.write_bytes(image)
    _runner().run(_examined(path))


async def _examined(path: Path) -> None:
    try:
        reader = await SqliteReader.open(path)
    except StoreError:
        return
    try:
        await reader.flaws()
        await verify(reader)
        async for _ in reader.page():
            pass
    except StoreError:
        return
    finally:
        await reader.close()
