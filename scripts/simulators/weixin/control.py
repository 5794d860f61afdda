"""The control API, `/control/...`: JSON for tests and demonstrations, answered to this machine only.

It speaks about the model from outside the protocol: what users do, what goes wrong, what was written down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from scripts.simulators.clock import Clock
from scripts.simulators.errors import ControlRefusedError, SimulatorError
from scripts.simulators.loopback import is_loopback
from scripts.simulators.pulse import Pulse
from scripts.simulators.weixin import login, polling
from scripts.simulators.weixin.chats import Chat, Identity, Window
from scripts.simulators.weixin.codec import Raw, write
from scripts.simulators.weixin.knobs import Fault
from scripts.simulators.weixin.model import WeixinModel

WAIT_MS_MAX = 60_000
"""The longest a `/control/wait` request is held."""

LEDGERS = ("accepted", "shown", "refused", "violations")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Body = TypeVar("Body")


class Say(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `/control/say`: `text`, or raw `items`; `message` overrides keys of the message on the wire."""

    text: str = ""
    items: list[Raw] = []
    bot: str | None = None
    user: str | None = None
    message: Raw = {}


class Redeliver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `/control/redeliver`."""

    message_id: int
    new_id: bool = False
    after_ms: int = 0
    bot: str | None = None


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `/control/users`."""

    user: str
    bot: str | None = None


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `/control/kill`: the bot whose token becomes stale (-14)."""

    bot: str | None = None


class Qr(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `/control/qr/...`: the newest code unless `qrcode` names one."""

    qrcode: str | None = None
    user_id: str = "o9cq80scanner@im.wechat"
    digits: str = ""
    host: str = ""
    words: list[str] = []


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `/control/knobs`: values by name, for good or for the next `times` uses."""

    set: dict[str, Any]
    times: int | None = None


def counts(model: WeixinModel, now: int) -> dict[str, int]:
    """Return every counter, the length of every ledger and the time: the names that `/control/wait` knows."""
    lengths = {name: len(getattr(model.state, name)) for name in LEDGERS}
    holding = sum(a.poll is not None for a in model.state.accounts.values())
    return dict(model.state.counters) | lengths | {"holding": holding, "now": now}


def chat_view(model: WeixinModel, chat: Chat, now: int) -> Raw:
    """Return a user's windows and what is left of the quota, as the server counts."""
    knobs = model.state.board.knobs
    window = chat.window
    stands = window is not None and window.is_open(now, knobs.window_ms)
    return {
        "bot": chat.bot,
        "user": chat.user,
        "now": now,
        "open": stands,
        "left": max(0, knobs.quota - window.spent) if window and stands else 0,
        "closes_at": window.opened_at + knobs.window_ms if window else None,
        "windows": [_window_view(one) for one in chat.windows],
        "typing_starts": chat.typing_starts,
        "typing_stops": chat.typing_stops,
        "throttled_until": chat.throttled_until,
    }


def _window_view(window: Window) -> Raw:
    return {name: getattr(window, name) for name in ("number", "opened_at", "spent", "over", "tried")}


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer the control API to this machine only, and its mistakes in JSON."""
    if not request.path.startswith("/control/"):
        return await handler(request)
    if not is_loopback(request.remote):
        return web.json_response({"error": "the control API answers to this machine only"}, status=403)
    try:
        return await handler(request)
    except ControlRefusedError as error:
        return web.json_response({"error": str(error)}, status=404)
    except (msgspec.MsgspecError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)
    except SimulatorError as error:
        return web.json_response({"error": str(error)}, status=503)


def _json(value: object) -> web.Response:
    return web.Response(body=write(value), content_type="application/json")


async def _body(request: web.Request, kind: type[Body]) -> Body:
    return msgspec.json.decode(await request.read() or b"{}", type=kind)


class Control:
    """The handlers; each change beats `changed`, so that held requests look again."""

    def __init__(self, model: WeixinModel, clock: Clock, changed: Pulse) -> None:
        self._model, self._clock, self._changed = model, clock, changed

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the control API."""
        posts = {
            "say": self.say,
            "redeliver": self.redeliver,
            "accounts": self.add_account,
            "users": self.add_user,
            "kill": self.kill,
            "qr/{deed}": self.qr,
            "knobs": self.set_knobs,
            "faults": self.add_fault,
            "reset": self.reset,
        }
        gets = {
            "ledger/{name}": self.ledger,
            "counters": self.counters,
            "user": self.user,
            "knobs": self.knobs,
            "wait": self.wait,
        }
        return [
            *(web.post(f"/control/{path}", handler) for path, handler in posts.items()),
            *(web.get(f"/control/{path}", handler) for path, handler in gets.items()),
            web.delete("/control/knobs", self.clear),
        ]

    async def say(self, request: web.Request) -> web.Response:
        """Let a user write to a bot."""
        said = await _body(request, Say)
        items = said.items or [{"type": 1, "text_item": {"text": said.text}}]
        state, now = self._model.state, self._clock.now()
        result = polling.user_says(state, now, items=items, bot=said.bot, user=said.user, extra=said.message)
        return self._done(result)

    async def redeliver(self, request: web.Request) -> web.Response:
        """Deliver an earlier message once more."""
        asked = await _body(request, Redeliver)
        state, now = self._model.state, self._clock.now()
        account = state.find_account(asked.bot)
        found = polling.find_delivery(account, asked.message_id)
        copy = polling.redeliver(state, now, account, found, new_id=asked.new_id, after_ms=asked.after_ms)
        return self._done({"message_id": copy.message_id, "visible_at": copy.visible_at})

    async def add_account(self, request: web.Request) -> web.Response:
        """Add a login, as if a QR code had been confirmed."""
        account = self._model.state.add_account(await _body(request, Identity))
        return self._done({"bot": account.bot})

    async def add_user(self, request: web.Request) -> web.Response:
        """Let the server know a user who has not written yet."""
        user = await _body(request, User)
        self._model.state.find_account(user.bot).add_user(user.user)
        return self._done({})

    async def kill(self, request: web.Request) -> web.Response:
        """Make a bot's token stale."""
        self._model.state.find_account((await _body(request, Kill)).bot).alive = False
        return self._done({})

    async def qr(self, request: web.Request) -> web.Response:
        """Do something with a login code on the phone: scan, confirm, expire, redirect, or a script of status words."""
        asked = await _body(request, Qr)
        code = login.find_code(self._model.state, asked.qrcode)
        match request.match_info["deed"]:
            case "scan":
                login.scan(code, digits=asked.digits)
            case "confirm":
                login.confirm(self._model.state, code, asked.user_id)
            case "expire":
                code.status = "expired"
            case "redirect":
                login.redirect(code, asked.host)
            case "script":
                login.script(code, asked.words, user_id=asked.user_id, host=asked.host)
            case other:
                raise ControlRefusedError(f"nobody can {other} a code")
        return self._done({"qrcode": code.code, "status": code.status})

    async def set_knobs(self, request: web.Request) -> web.Response:
        """Turn knobs."""
        turn = await _body(request, Turn)
        self._model.state.board.set(turn.set, turn.times)
        return self._done(self._model.state.board.knobs)

    async def add_fault(self, request: web.Request) -> web.Response:
        """Let something go wrong."""
        self._model.state.board.add(await _body(request, Fault))
        return self._done({})

    async def clear(self, _request: web.Request) -> web.Response:
        """Put every knob back and forget every fault."""
        self._model.state.board.clear()
        return self._done({})

    async def reset(self, _request: web.Request) -> web.Response:
        """Forget everything but the living accounts."""
        self._model.reset()
        return self._done({})

    async def ledger(self, request: web.Request) -> web.Response:
        """Return the rows of one ledger, from row `since` on."""
        name = request.match_info["name"]
        if name not in LEDGERS:
            raise ControlRefusedError(f"no ledger {name}; there are {', '.join(LEDGERS)}")
        rows = getattr(self._model.state, name).rows[int(request.query.get("since", 0)) :]
        return _json({name: rows})

    async def counters(self, _request: web.Request) -> web.Response:
        """Return what was counted so far."""
        return _json(self._counts())

    async def user(self, request: web.Request) -> web.Response:
        """Return the windows and the quota of one user."""
        chat = self._model.state.find_chat(request.query.get("bot"), request.query.get("user"))
        return _json(chat_view(self._model, chat, self._clock.now()))

    async def knobs(self, _request: web.Request) -> web.Response:
        """Return the knobs, the counted values and the faults."""
        board = self._model.state.board
        return _json({"knobs": board.knobs, "once": board.once, "faults": board.faults})

    async def wait(self, request: web.Request) -> web.Response:
        """Answer once every named count is reached (`accepted=3&polls=1`), or after `timeout` real seconds."""
        wanted = {name: int(value) for name, value in request.query.items() if name != "timeout"}
        timeout_ms = min(int(float(request.query.get("timeout", 10)) * 1000), WAIT_MS_MAX)
        met = await self._changed.until(lambda: reached(self._counts(), wanted), timeout_ms)
        return _json({"met": met, "counters": self._counts()})

    def _counts(self) -> dict[str, int]:
        return counts(self._model, self._clock.now())

    def _done(self, value: object) -> web.Response:
        self._changed.beat()
        return _json(value)


def reached(now: dict[str, int], wanted: dict[str, int]) -> bool:
    """Tell whether every wanted count has been reached."""
    return all(now.get(name, 0) >= least for name, least in wanted.items())
