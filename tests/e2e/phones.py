"""The simulated Weixin server and its users, and the clock that everybody follows: through their control APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.asking import ask, path_with
from tests.e2e.processes import Child

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A login that the server knows."""

    token: str = "secret-bot-token-1@im.bot:0600"
    bot_id: str = "bot1@im.bot"
    user_id: str = "owner@im.wechat"

    @property
    def argument(self) -> str:
        return f"{self.token},{self.bot_id},{self.user_id}"


class ClockSource:
    """One clock for all processes."""

    def __init__(self, folder: Path, *, frozen: bool = False) -> None:
        self.child = Child("clock", ["scripts.simulators.clock_source", *(["--frozen"] if frozen else [])], folder)
        self.url = self.child.announced()["base_url"]

    @property
    def now(self) -> int:
        return int(ask(self.url, "GET", "/now").body["now"])

    def advance(self, ms: int) -> int:
        """Jump; the new time."""
        return int(ask(self.url, "POST", "/advance", {"ms": ms}).body["now"])

    def set(self, now: int) -> int:
        answer = ask(self.url, "POST", "/set", {"now": now})
        assert answer.status == 200, answer
        return int(answer.body["now"])


class Phones:
    """The Weixin server, seen from outside the protocol."""

    def __init__(self, folder: Path, clock: ClockSource | None, login: Login) -> None:
        args = ["scripts.simulators.weixin", "--account", login.argument, *(["--clock", clock.url] if clock else [])]
        self.child = Child("weixin", args, folder)
        self.url = self.child.announced()["base_url"]
        self.login = login

    def _post(self, what: str, body: dict[str, Any]) -> Any:
        answer = ask(self.url, "POST", f"/control/{what}", body)
        assert answer.status == 200, answer
        return answer.body

    def knobs(self, times: int | None = None, /, **values: Any) -> None:
        """Turn knobs, for good or for the next `times` uses."""
        self._post("knobs", {"set": values} | ({} if times is None else {"times": times}))

    def faults(self, **fault: Any) -> None:
        """Let something go wrong."""
        self._post("faults", fault)

    def calm(self) -> None:
        """Put every knob back, forget every fault."""
        assert ask(self.url, "DELETE", "/control/knobs").status == 200

    def post(self, what: str, **body: Any) -> Any:
        """Any other deed."""
        return self._post(what, body)

    def rows(self, ledger: str, user: str = "") -> list[dict[str, Any]]:
        """`accepted`, `shown`, `refused` or `violations`, of one user or all."""
        found: list[dict[str, Any]] = ask(self.url, "GET", f"/control/ledger/{ledger}").body[ledger]
        return [row for row in found if not user or row["user"] == user]

    def counters(self) -> dict[str, int]:
        return dict(ask(self.url, "GET", "/control/counters").body)

    def until(self, **least: int) -> None:
        """Return when every count is reached."""
        answer = ask(self.url, "GET", path_with("/control/wait", timeout=20, **least))
        assert answer.body["met"], (least, answer.body)

    def view(self, user: str) -> dict[str, Any]:
        """A user's windows and quota, as the server counts."""
        return dict(ask(self.url, "GET", path_with("/control/user", user=user)).body)


class Person:
    """A user of a bot, with a phone."""

    def __init__(self, phones: Phones, name: str, account: str = "main") -> None:
        self.phones, self.id, self.address = phones, name, f"weixin:{account}:{name}"

    def says(self, text: str, **message: Any) -> dict[str, Any]:
        """Write to the bot; `message` overrides keys on the wire, None removes one."""
        return dict(self.phones.post("say", text=text, user=self.id, message=message))

    @property
    def accepted(self) -> list[dict[str, Any]]:
        """Sends to this person that the server took, in its order."""
        return self.phones.rows("accepted", self.id)

    @property
    def refused(self) -> list[dict[str, Any]]:
        return self.phones.rows("refused", self.id)

    @property
    def reads(self) -> list[str]:
        """The bot's messages on the phone, in order."""
        return [row["text"] for row in self.phones.rows("shown", self.id) if row["by"] == "bot"]

    @property
    def view(self) -> dict[str, Any]:
        return self.phones.view(self.id)
