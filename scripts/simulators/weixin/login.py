"""Login by QR code: get_bot_qrcode and get_qrcode_status with all eight status words (iLink protocol notes 1.3)."""

from __future__ import annotations

from scripts.simulators.errors import BadScriptError, UnknownCodeError
from scripts.simulators.weixin.codec import QrRequest, Reply
from scripts.simulators.weixin.state import Call, Hold, Qr, State, refusal

WRONG_DIGITS_MAX = 3
"""This many wrong pairing codes block the QR code."""

STATUS_WORDS = (
    "wait",
    "scaned",
    "scaned_but_redirect",
    "need_verifycode",
    "verify_code_blocked",
    "expired",
    "binded_redirect",
    "confirmed",
)
"""The server's words, spelled as it spells them."""

PENDING = frozenset({"wait", "scaned", "need_verifycode"})
"""States in which the phone may still do something, so that a status request is held."""


def create_code(state: State, call: Call) -> Reply:
    """Answer get_bot_qrcode with a new code."""
    local_tokens = call.body(QrRequest).local_token_list
    unknown = [token for token in local_tokens if token not in state.accounts]
    if unknown and state.board.use("bad_local_tokens") == "refuse":
        return refusal(-3, "invalid argument", form="both")
    code = state.mint.secret("qr", call.now)[:32]
    state.codes[code] = Qr(code=code, created_at=call.now, local_tokens=local_tokens)
    state.counters["codes"] += 1
    image = f"https://liteapp.weixin.qq.com/q/7GiQu1?qrcode={code}&bot_type=3"
    return Reply(ret=0, qrcode=code, qrcode_img_content=image)


def code_status(state: State, call: Call) -> Reply | Hold:
    """Answer get_qrcode_status at once when there is news, else hold it."""
    code = state.codes.get(call.request.query.get("qrcode", ""))
    if code is None:
        return Reply(ret=0, status="expired")
    state.counters["code_polls"] += 1
    _try_digits(code, call.request.query.get("verify_code"))
    if code.script:
        return _say(state, code, code.script.pop(0), call.now)
    return resume_status(state, Hold(call=call, until=call.now + state.board.use("qr_hold_ms")), call.now)


def resume_status(state: State, hold: Hold, now: int) -> Reply | Hold:
    """Look at a held status request again."""
    query = hold.call.request.query
    code = state.codes[query["qrcode"]]
    dies_at = code.created_at + state.board.look("qr_life_ms")
    if code.status in PENDING and now >= dies_at:
        code.status = "expired"
    if code.script:
        return _say(state, code, code.script.pop(0), now)
    no_news = code.status in PENDING and code.status == (code.said or "wait")
    wants_verdict = code.status == "need_verifycode" and "verify_code" in query
    if no_news and not wants_verdict and now < hold.until:
        return Hold(call=hold.call, until=min(hold.until, dies_at))
    return _say(state, code, code.status, now)


def _try_digits(code: Qr, digits: str | None) -> None:
    if code.status != "need_verifycode" or digits is None:
        return
    if digits == code.digits:
        code.status = "scaned"
        return
    code.wrong += 1
    if code.wrong >= WRONG_DIGITS_MAX:
        code.status = "verify_code_blocked"


def _say(state: State, code: Qr, status: str, now: int) -> Reply:
    code.said = status
    if status == "scaned_but_redirect":
        code.status = "scaned"  # from here on the client asks the other host, which is this one too
        return Reply(ret=0, status=status, redirect_host=code.redirect_host)
    if status != "confirmed":
        return Reply(ret=0, status=status)
    if code.granted is None:
        code.granted = state.mint.identity(code.user_id or "o9cq80scanner@im.wechat", now)
        state.add_account(code.granted)
    granted = code.granted
    return Reply(
        ret=0,
        status=status,
        bot_token=granted.token,
        ilink_bot_id=granted.bot_id,
        ilink_user_id=granted.user_id,
        baseurl=state.base_url,
    )


def find_code(state: State, code: str | None) -> Qr:
    """Return this login code, or the newest one for None."""
    if code is None and state.codes:
        return next(reversed(state.codes.values()))
    if code not in state.codes:
        raise UnknownCodeError
    return state.codes[code]


def scan(code: Qr, *, digits: str = "") -> None:
    """Let a phone scan the code; with `digits` it asks for them."""
    code.status, code.digits = ("need_verifycode", digits) if digits else ("scaned", "")


def confirm(state: State, code: Qr, user_id: str) -> None:
    """Let `user_id` confirm on the phone: a new bot, or none when one of the listed tokens is theirs and alive."""
    mine = [state.accounts[t] for t in code.local_tokens if t in state.accounts]
    bound = any(a.alive and a.identity.user_id == user_id for a in mine)
    code.user_id = user_id
    code.status = "binded_redirect" if bound else "confirmed"


def redirect(code: Qr, host: str) -> None:
    """Send the client to another host, as for an account of another data centre."""
    code.status, code.redirect_host = "scaned_but_redirect", host


def script(code: Qr, words: list[str], *, user_id: str = "", host: str = "") -> None:
    """Let the next status requests answer these words in turn, whatever the phone does."""
    wrong = sorted(set(words) - set(STATUS_WORDS))
    if wrong:
        raise BadScriptError(f"no status word: {', '.join(wrong)}; there are {', '.join(STATUS_WORDS)}")
    code.script = list(words)
    code.user_id = user_id or code.user_id
    code.redirect_host = host or code.redirect_host
