"""A faithful iLink client in a few lines, for tests of the simulator: builds requests and reads answers."""

from __future__ import annotations

import base64
import json
from typing import Any

from scripts.simulators.weixin.chats import Chat, Identity
from scripts.simulators.weixin.codec import Request
from scripts.simulators.weixin.knobs import Fault
from scripts.simulators.weixin.model import WeixinModel
from scripts.simulators.weixin.polling import Said, user_says
from scripts.simulators.weixin.state import Answer, Hold, State

START = 1_790_000_000_000
OWNER = Identity(token="a1b2@im.bot:0600aa", bot_id="a1b2@im.bot", user_id="o9cqOwner@im.wechat")
BASE_INFO = {"channel_version": "2.4.9", "bot_agent": "Test/1.0 (table)"}


def headers(number: int, token: str | None = OWNER.token) -> dict[str, str]:
    """Headers of request `number`, names in lower case as the model wants them."""
    plain = {
        "content-type": "application/json",
        "authorizationtype": "ilink_bot_token",
        "x-wechat-uin": base64.b64encode(str(number).encode()).decode(),
        "ilink-app-id": "bot",
        "ilink-app-clientversion": "132105",
    }
    return plain if token is None else plain | {"authorization": f"Bearer {token}"}


def text_item(text: str) -> dict[str, Any]:
    return {"type": 1, "text_item": {"text": text}}


def message(text: str, *, token: str, client_id: str, user: str = OWNER.user_id, **more: Any) -> dict[str, Any]:
    plain = {
        "from_user_id": "",
        "to_user_id": user,
        "client_id": client_id,
        "message_type": 2,
        "message_state": 2,
        "context_token": token,
        "item_list": [text_item(text)],
    }
    return plain | more


class Bot:
    """Talks to a model as the bot `identity`, at `now`, which the test moves."""

    def __init__(self, identity: Identity = OWNER, model: WeixinModel | None = None) -> None:
        self.model = model or WeixinModel(accounts=[identity])
        self.identity = identity
        self.now = START
        self.requests = 0
        self.cursor = ""

    @property
    def state(self) -> State:
        return self.model.state

    @property
    def chat(self) -> Chat:
        return self.state.accounts[self.identity.token].chats[self.identity.user_id]

    @property
    def token(self) -> str:
        """The newest context token of the owner."""
        return self.chat.newest_token

    @property
    def rules(self) -> list[str]:
        return [violation.rule for violation in self.state.violations]

    def knob(self, times: int | None = None, **values: Any) -> None:
        self.state.board.set(values, times)

    def fault(self, **values: Any) -> None:
        self.state.board.add(Fault(**values))

    def request(self, path: str, body: dict[str, Any], **changed: str | None) -> Request:
        """Build a request; `changed` headers are replaced, or left out for None."""
        self.requests += 1
        names = {name.replace("_", "-"): value for name, value in changed.items()}
        merged = headers(self.requests, self.identity.token) | names
        return Request(
            method="POST",
            path=f"/ilink/bot/{path}",
            headers={name: value for name, value in merged.items() if value is not None},
            body=json.dumps({"base_info": BASE_INFO} | body).encode(),
        )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Answer | Hold:
        return self.model.handle(self.request(path, body or {}), self.now)

    def get(self, path: str, **query: str) -> Answer | Hold:
        plain = {name: value for name, value in headers(0, None).items() if name.startswith("ilink")}
        request = Request(method="GET", path=f"/ilink/bot/{path}", headers=plain, query=query)
        return self.model.handle(request, self.now)

    def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask and read a JSON answer."""
        return read(self.ask(path, body))

    def say(self, text: str = "hello", **more: Any) -> Said:
        return user_says(self.state, self.now, items=more.pop("items", [text_item(text)]), **more)

    def send(self, text: str = "hi", **more: Any) -> dict[str, Any]:
        return read(self.try_send(text, **more))

    def try_send(self, text: str = "hi", **more: Any) -> Answer | Hold:
        token = more.pop("token", self.token)
        client_id = more.pop("client_id", f"c-{self.requests}")
        return self.ask("sendmessage", {"msg": message(text, token=token, client_id=client_id, **more)})

    def poll(self, cursor: str | None = None) -> Answer | Hold:
        return self.ask("getupdates", {"get_updates_buf": self.cursor if cursor is None else cursor})

    def updates(self, cursor: str | None = None, *, keep: bool = True) -> list[dict[str, Any]]:
        """Poll, and return the messages; an idle poll gives none. The cursor moves unless `keep` is False."""
        answer = self.poll(cursor)
        if isinstance(answer, Hold):
            self.model.release(answer)
            return []
        reply = read(answer)
        if keep:
            self.cursor = reply["get_updates_buf"]
        return reply["msgs"]


def read(answer: Answer | Hold) -> dict[str, Any]:
    assert isinstance(answer, Answer), "the request is held"
    assert not answer.cut, "the connection is cut"
    return json.loads(answer.body)


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [item["text_item"]["text"] for one in messages for item in one["item_list"]]
