"""The login by QR code: a pure state machine (`begin`, `created`, `polled`, `coded`), and a thin shell that runs it.

Facts: iLink protocol notes 1.3. Redirects and base URLs that the server names are followed only to allowed hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

import msgspec

from actors.channels.errors import BadBaseUrl, BadCredentials, LoginFailed
from actors.channels.weixin import address, shapes, wire
from actors.channels.weixin.calls import NETWORK_ERRORS, Calls, agent
from actors.channels.weixin.wire import QrCode, QrStatus, Trouble
from actors.ports import Credentials
from actors.runtime.clock import Ids

QR_CODES_MAX = 3
DEADLINE_MS = 480_000
POLL_MS = 35_000
"""How long the client waits for a status; the server holds the question."""

PAUSE_MS = 1_000
CREATE_MS = 15_000
IMPORT_BYTES_MAX = 65_536
_BAD_TOKENS = -3  # the server refuses the tokens that were listed


class AlreadyConnected(msgspec.Struct, frozen=True, kw_only=True):
    """This person's account is bound to one of the known tokens already: those credentials are still good."""


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a QR code, telling the tokens that are known here."""

    tokens: tuple[str, ...]


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """Ask what became of the QR code, after a pause."""

    base_url: str
    query: dict[str, str]
    pause_ms: int = 0


class AskCode(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the person for the digits on the phone."""


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The login is over."""

    result: Credentials | AlreadyConnected


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    """The login is over without credentials."""

    reason: str


Step = Create | Poll | AskCode | Finish | Fail


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Where a login stands."""

    home: str  # the configured server
    tokens: tuple[str, ...]  # known here, newest first
    base_url: str  # the server that is asked now
    key: str = ""  # of the QR code shown
    code: str = ""  # digits on their way to the server
    shown: int = 0  # QR codes so far
    scanned: bool = False
    step: Step
    show: str = ""  # a new QR code to show
    say: str = ""  # what to tell the person


def begin(base_url: str, tokens: tuple[str, ...] = ()) -> Login:
    """A login at the configured server. Raises BadBaseUrl."""
    home = address.base_url(base_url)
    return Login(home=home, base_url=home, tokens=tokens, step=Create(tokens=tokens))


def created(login: Login, answer: QrCode | Trouble) -> Login:
    """After the answer to `Create`."""
    login = _to(login, show="", say="")
    if isinstance(answer, QrCode):
        said = "Scan the code with WeChat." if login.shown == 0 else "Here is a new code."
        fresh = _to(login, key=answer.key, shown=login.shown + 1, base_url=login.home, code="", scanned=False)
        return _poll(_to(fresh, show=answer.url, say=said))
    if answer.code == _BAD_TOKENS and login.tokens:
        return _to(login, tokens=(), step=Create(tokens=()))
    return _fail(login, f"the server gave no QR code: {answer.detail}")


def polled(login: Login, answer: QrStatus | Trouble) -> Login:
    """After the answer to `Poll`. A call that failed says nothing, like `wait`."""
    login = _to(login, show="", say="")
    if isinstance(answer, Trouble):
        return _poll(login, PAUSE_MS)
    match answer.status:
        case "wait":
            return _poll(login, PAUSE_MS)
        case "scaned":
            said = "" if login.scanned else "Scanned. Confirm on the phone."
            return _poll(_to(login, code="", scanned=True, say=said), PAUSE_MS)
        case "scaned_but_redirect":
            return _redirected(login, answer.redirect_host)
        case "need_verifycode":
            said = "These digits were wrong. Try again." if login.code else "The phone shows digits."
            return _to(login, code="", step=AskCode(), say=said)
        case "verify_code_blocked":
            return _renewed(login, "Too many wrong digits.")
        case "expired":
            return _renewed(login, "The code has expired.")
        case "binded_redirect":
            return _to(login, step=Finish(result=AlreadyConnected()))
        case "confirmed":
            return _confirmed(login, answer)
        case _:  # a newer server's word: nothing is lost by asking again
            return _poll(login, PAUSE_MS)


def coded(login: Login, digits: str) -> Login:
    """After the answer to `AskCode`."""
    digits = wire.as_text(digits, 32)
    if not digits:
        return _to(login, show="", say="No digits were typed. Try again.", step=AskCode())
    return _poll(_to(login, code=digits, show="", say=""))


def _to(login: Login, **changes: object) -> Login:
    return msgspec.structs.replace(login, **changes)


def _fail(login: Login, reason: str) -> Login:
    return _to(login, step=Fail(reason=reason))


def _poll(login: Login, pause_ms: int = 0) -> Login:
    query = {"qrcode": login.key, **({"verify_code": login.code} if login.code else {})}
    return _to(login, step=Poll(base_url=login.base_url, query=query, pause_ms=pause_ms))


def _renewed(login: Login, why: str) -> Login:
    if login.shown >= QR_CODES_MAX:
        return _fail(login, f"{why} {QR_CODES_MAX} codes were not used; start the login again")
    return _to(login, step=Create(tokens=login.tokens), say=why)


def _redirected(login: Login, host: str) -> Login:
    """A missing host keeps the current one."""
    try:
        base_url = address.redirected(host, login.home) if host else login.base_url
    except BadBaseUrl as error:
        return _fail(login, str(error))
    return _poll(_to(login, base_url=base_url), 0 if base_url != login.base_url else PAUSE_MS)


def _confirmed(login: Login, answer: QrStatus) -> Login:
    missing = [n for n, v in (("token", answer.token), ("bot", answer.bot_id), ("user", answer.user_id)) if not v]
    if missing:
        return _fail(login, f"the server confirmed the login without its {', '.join(missing)}")
    try:
        base_url = address.allowed_base_url(answer.base_url, login.home) if answer.base_url else login.base_url
    except BadBaseUrl as error:
        return _fail(login, str(error))
    credentials = Credentials(token=answer.token, base_url=base_url, user_id=answer.user_id, bot_id=answer.bot_id)
    return _to(login, step=Finish(result=credentials))


async def log_in(
    base_url: str = address.DEFAULT_BASE_URL,
    *,
    tokens: tuple[str, ...] = (),
    ids: Ids,
    show: Callable[[str], None],
    ask_code: Callable[[], Awaitable[str]],
    say: Callable[[str], None],
    deadline_ms: int = DEADLINE_MS,
    pause_ms: int = PAUSE_MS,
) -> Credentials | AlreadyConnected:
    """Run a login. `show` gets the URL to draw as a QR code; `tokens` are those known here, newest first.

    Raises LoginFailed, also when `deadline_ms` is over, and BadBaseUrl.
    """
    login = begin(base_url, tokens)
    calls = Calls(login.home, token="", agent=agent(), ids=ids)
    try:
        async with asyncio.timeout(deadline_ms / 1000):
            while not isinstance(login.step, Finish):
                login = await _taken(calls, login, ask_code, pause_ms)
                _tell(login, show, say)
    except TimeoutError:
        raise LoginFailed("nobody confirmed the login in time; start it again") from None
    finally:
        await calls.close()
    return login.step.result


def _tell(login: Login, show: Callable[[str], None], say: Callable[[str], None]) -> None:
    if login.say:
        say(login.say)
    if login.show:
        show(login.show)


async def _taken(calls: Calls, login: Login, ask_code: Callable[[], Awaitable[str]], pause_ms: int) -> Login:
    """The login after its next step."""
    match login.step:
        case Create(tokens=tokens):
            return created(login, await _create(calls, tokens))
        case Poll() as poll:
            if poll.pause_ms:
                await asyncio.sleep(pause_ms / 1000)
            return polled(login, await _status(calls, poll))
        case AskCode():
            return coded(login, await ask_code())
        case Fail(reason=reason):
            raise LoginFailed(reason)
        case Finish():
            return login
        case _:
            assert_never(login.step)


async def _create(calls: Calls, tokens: tuple[str, ...]) -> QrCode | Trouble:
    try:
        answer = await calls.post("get_bot_qrcode?bot_type=3", shapes.qr_request(tokens), timeout_ms=CREATE_MS)
    except NETWORK_ERRORS as error:
        return Trouble(kind="connection", detail=type(error).__name__)
    return wire.parse_qr_code(answer.status, answer.body)


async def _status(calls: Calls, poll: Poll) -> QrStatus | Trouble:
    try:
        answer = await calls.get(poll.base_url, "get_qrcode_status", poll.query, timeout_ms=POLL_MS)
    except NETWORK_ERRORS as error:
        return Trouble(kind="connection", detail=type(error).__name__)
    return wire.parse_qr_status(answer.status, answer.body)


class _Imported(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The account file of Tencent's own client. Notes 6.1."""

    token: str
    base_url: str
    user_id: str


def import_credentials(data: bytes, *, base_url: str = address.DEFAULT_BASE_URL) -> Credentials:
    """The credentials in an account file of Tencent's own client, `{token, baseUrl, userId}`.

    Raises BadCredentials that says what is wrong, without the file's content. `base_url` is the configured server.
    """
    if len(data) > IMPORT_BYTES_MAX:
        raise BadCredentials("the file is too large for an account file")
    try:
        read = msgspec.json.decode(data, type=_Imported)
    except msgspec.ValidationError as error:  # names a field, never its value
        raise BadCredentials(f"the account file is not as expected: {error}") from None
    except (ValueError, RecursionError):
        raise BadCredentials("the account file is not JSON") from None
    token, user_id = wire.as_text(read.token, 4096), wire.as_text(read.user_id, 256)
    if not token or not user_id:
        raise BadCredentials(f"the account file has no usable `{'userId' if token else 'token'}`")
    try:
        server = address.allowed_base_url(read.base_url, base_url) if read.base_url else address.base_url(base_url)
    except BadBaseUrl as error:
        raise BadCredentials(f"the account file's `baseUrl` cannot be used: {error}") from None
    bot_id = token.partition(":")[0] if "@im.bot:" in token else ""
    return Credentials(token=token, base_url=server, user_id=user_id, bot_id=bot_id)
