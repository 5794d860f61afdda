"""The iLink server as a pure model: (state, request, now) -> an answer, or a hold that is looked at again later.

No clock, no entropy, no I/O: the same requests at the same times give the same answers. The HTTP shell is server.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from scripts.simulators.weixin import aside, checks, login, polling, sending
from scripts.simulators.weixin.chats import Account, Identity
from scripts.simulators.weixin.checks import Broken
from scripts.simulators.weixin.codec import Raw, Reply, Request, read_cursor, read_object, write
from scripts.simulators.weixin.knobs import PREVENTS, Fault
from scripts.simulators.weixin.ledgers import Violation
from scripts.simulators.weixin.state import STALE, Answer, Call, Hold, State, refusal

PREFIX = "/ilink/bot/"
HTML = b"<html><head><title>Error</title></head><body><h1>Gateway error</h1></body></html>"

Act = Callable[[State, Call], Reply | Hold | Answer]


class Endpoint(NamedTuple):
    """How one path is handled; `authenticated` ones need a living token, `informed` ones carry base_info."""

    name: str
    act: Act
    methods: tuple[str, ...] = ("POST",)
    authenticated: bool = True
    informed: bool = True


ENDPOINTS = {
    "getupdates": Endpoint("poll", polling.poll),
    "sendmessage": Endpoint("send", sending.send),
    "getconfig": Endpoint("config", aside.config),
    "sendtyping": Endpoint("typing", aside.typing),
    "getuploadurl": Endpoint("upload", aside.upload),
    "msg/notifystart": Endpoint("start", aside.started),
    "msg/notifystop": Endpoint("stop", aside.ended),
    # GET is what clients up to 2.1 use for a new code (iLink protocol notes 1.2).
    "get_bot_qrcode": Endpoint("qr", login.create_code, ("POST", "GET"), authenticated=False, informed=False),
    "get_qrcode_status": Endpoint("qr_status", login.code_status, ("GET",), authenticated=False, informed=False),
}


class WeixinModel:
    """One iLink server; `state` holds everything it knows, and tests may look at it."""

    def __init__(self, *, seed: str = "replyledger", accounts: list[Identity] | None = None) -> None:
        self.seed = seed
        self.state = State(seed=seed)
        for identity in accounts or []:
            self.state.add_account(identity)

    def reset(self, accounts: list[Identity] | None = None) -> None:
        """Forget everything, except the accounts that were alive (or take these)."""
        living = [a.identity for a in self.state.accounts.values() if a.alive] if accounts is None else accounts
        base_url = self.state.base_url
        self.state = State(seed=self.seed, base_url=base_url)
        for identity in living:
            self.state.add_account(identity)

    def handle(self, request: Request, now: int) -> Answer | Hold:
        """Answer one request that arrived at `now` (ms since the epoch)."""
        self.state.counters["requests"] += 1
        endpoint = ENDPOINTS.get(request.path.removeprefix(PREFIX)) if request.path.startswith(PREFIX) else None
        if endpoint is None:
            return self._misdirected(request, now, 404, "path", f"no endpoint {request.path}")
        if request.method not in endpoint.methods:
            return self._misdirected(request, now, 405, "method", f"{request.method} {request.path}")
        call = self._read(endpoint, request, now)
        self._check(endpoint, call)
        return self._finish(call, self._act(endpoint, call))

    def resume(self, hold: Hold, now: int) -> Answer | Hold:
        """Look at a held request again: something changed, or its time has come."""
        again = login.resume_status if hold.poll is None else polling.resume_poll
        return self._finish(hold.call, again(self.state, hold, now))

    def release(self, hold: Hold) -> None:
        """Forget a held request whose client has gone."""
        polling.release(hold)

    def _misdirected(self, request: Request, now: int, status: int, rule: str, detail: str) -> Answer:
        self.state.violations.add(Violation(at=now, endpoint=request.path, rule=rule, detail=detail))
        return Answer(status=status, body=b"{}")

    def _read(self, endpoint: Endpoint, request: Request, now: int) -> Call:
        raw = read_object(request.body) if request.method == "POST" else {}
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        call = Call(endpoint=endpoint.name, request=request, now=now, raw=raw)
        call.account = self.state.accounts.get(token) if scheme == "Bearer" and endpoint.authenticated else None
        return call

    def _check(self, endpoint: Endpoint, call: Call) -> None:
        for rule, detail in _broken_rules(endpoint, call):
            call.broken.append(rule)
            self.state.violations.add(Violation(at=call.now, endpoint=endpoint.name, rule=rule, detail=detail))

    def _act(self, endpoint: Endpoint, call: Call) -> Reply | Hold | Answer:
        account: Account | None = call.account
        if endpoint.authenticated and (account is None or not account.alive):
            self._note(call, -14, "login")
            return STALE
        if "json" in call.broken:
            return refusal(-3, "invalid argument")
        call.fault = self.state.board.strike(endpoint.name, _user_of(call.raw or {}))
        if call.fault is not None and call.fault.kind in PREVENTS:
            self._note(call, call.fault.code if call.fault.kind == "ret" else 0, "forced")
            return _prevented(call.fault)
        return endpoint.act(self.state, call)

    def _note(self, call: Call, code: int, reason: str) -> None:
        if call.endpoint == "send":
            sending.note_refused(self.state, call, code, reason)

    def _finish(self, call: Call, result: Reply | Hold | Answer) -> Answer | Hold:
        """Turn a reply into bytes, marred as the fault of this call wants it."""
        if isinstance(result, Hold):
            return result
        answer = result if isinstance(result, Answer) else Answer(body=write(result))
        fault = call.fault
        match fault.kind if fault else "":
            case "empty_object":
                return Answer(body=b"{}")
            case "empty_body":
                return Answer(body=b"")
            case "cut_after":
                return Answer(cut=True)
            case "slow_headers":
                return msgspec.structs.replace(answer, headers_after_ms=fault.ms if fault else 0)
            case "slow_body":
                return msgspec.structs.replace(answer, body_after_ms=fault.ms if fault else 0)
            case _:
                return answer


def _prevented(fault: Fault) -> Reply | Answer:
    if fault.kind == "ret":
        return refusal(fault.code, fault.errmsg, fault.form)
    if fault.kind == "cut_before":
        return Answer(cut=True)
    body, kind = (HTML, "text/html") if fault.html else (b"", "text/plain")
    return Answer(status=fault.status, body=body, content_type=kind)


def _user_of(raw: Raw) -> str:
    message = raw.get("msg")
    found = message.get("to_user_id") if isinstance(message, dict) else raw.get("ilink_user_id", raw.get("to_user_id"))
    return found if isinstance(found, str) else ""


def _broken_rules(endpoint: Endpoint, call: Call) -> Iterator[Broken]:
    posts = call.request.method == "POST"
    yield from checks.check_headers(call, posts=posts, authenticated=endpoint.authenticated)
    if endpoint.informed and call.raw is not None:
        yield from checks.check_base_info(call.raw)
    if call.raw is None or (endpoint.authenticated and call.account is None):
        return
    match endpoint.name:
        case "send":
            yield from checks.check_send(call)
        case "upload":
            yield from checks.check_upload(call)
        case "config" | "typing":
            yield from checks.check_user(call, _user_of(call.raw))
        case "poll":
            yield from _check_cursor(call.raw.get("get_updates_buf"))
        case _:
            pass  # the others carry nothing of their own to check


def _check_cursor(cursor: object) -> Iterator[Broken]:
    if not isinstance(cursor, str):
        yield "cursor", "get_updates_buf is missing"
    elif cursor and read_cursor(cursor) is None:
        yield "cursor", "get_updates_buf is none that this server wrote"
