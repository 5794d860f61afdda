"""A gateway as a process, its HTTP API, and its command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.asking import Answer, ask, path_with
from tests.e2e.phones import Login
from tests.e2e.processes import WAIT_S, Child, environment, eventually, free_port

ACCOUNT = "weixin:main"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A verb that has ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self) -> Any:
        (only,) = self.rows
        return only


class Gateway:
    """A configuration in a folder, the processes that run it, and questions to them."""

    def __init__(self, folder: Path, login: Login, weixin_url: str, clock_url: str) -> None:
        self.folder, self.login, self.weixin_url = folder, login, weixin_url
        self.http_port, self.agents_port = free_port(), free_port()
        self.tables: dict[str, Any] = {
            "clock": clock_url,
            "locale": "en",
            "agents": {"listen": f"127.0.0.1:{self.agents_port}"},
            "http": {"listen": f"127.0.0.1:{self.http_port}"},
            "accounts": {"main": {"channel": "weixin", "base_url": weixin_url, "policy": {}}},
        }
        self.children: list[Child] = []
        self.offset = 0

    # --- configuration --------------------------------------------------------------------------------------------

    @property
    def account(self) -> dict[str, Any]:
        """The table of the account, to change before `write`."""
        found: dict[str, Any] = self.tables["accounts"]["main"]
        return found

    @property
    def policy(self) -> dict[str, Any]:
        found: dict[str, Any] = self.account["policy"]
        return found

    @property
    def config(self) -> Path:
        return self.folder / "replyledger.toml"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def write(self) -> None:
        """Write the configuration."""
        self.config.write_text(toml_of(self.tables), encoding="utf-8")

    def log_in(self, login: Login | None = None, account: str = "main") -> None:
        """Leave a login's credentials where the gateway looks for them."""
        login = login or self.login
        file = self.state / "accounts" / f"{account}.json"
        for folder in (self.state, file.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        new = file.with_suffix(".new")
        new.touch(mode=0o600)
        given = {"token": login.token, "base_url": self.weixin_url, "user_id": login.user_id, "bot_id": login.bot_id}
        new.write_text(json.dumps(given), encoding="utf-8")
        new.replace(file)

    # --- processes ------------------------------------------------------------------------------------------------

    @property
    def child(self) -> Child:
        """The newest process."""
        return self.children[-1]

    def launch(self, config: Path | None = None, **env: str) -> Child:
        """Start a process, without waiting for it."""
        name = f"gateway{len(self.children) + 1}"
        args = ["scripts", "--json", "run", "--config", str(config or self.config)]
        self.children.append(Child(name, args, self.folder, **env))
        return self.child

    def start(self, **env: str) -> Child:
        """Start a process and wait until it is ready."""
        self.launch(**env).announced()
        return self.child

    def restart(self, **env: str) -> Child:
        """Kill what runs, start anew."""
        self.child.kill()
        return self.start(**env)

    # --- questions ------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def agents_url(self) -> str:
        return f"ws://127.0.0.1:{self.agents_port}/agent/v1"

    def get(self, path: str, **query: Any) -> Any:
        """The body of a good answer."""
        answer = ask(self.url, "GET", path_with(path, **query))
        assert answer.status == 200, answer
        return answer.body

    def post(self, path: str, body: Any) -> Answer:
        return ask(self.url, "POST", path, body)

    def ready(self) -> Answer | None:
        """What /ready says; None while nobody answers."""
        try:
            return ask(self.url, "GET", "/ready")
        except (OSError, HTTPException):
            return None

    def offer(self, to: str, text: str, **more: Any) -> Any:
        """Offer a turn; the delivery, accepted."""
        answer = self.post("/v1/turns", {"to": to, "text": text, **more})
        assert answer.status == 202, answer
        (delivery,) = answer.body["deliveries"]
        return delivery

    def receipt(self, delivery: str, wait_s: float = WAIT_S) -> Any:
        """The receipt of a delivery, once it is final."""
        return self.get(f"/v1/deliveries/{delivery}", wait=wait_s)

    def peer(self, address: str) -> Any:
        return self.get(f"/v1/peers/{address}")

    def metric(self, name: str) -> float:
        """The value of one line of `/metrics`, by its name and labels."""
        lines = str(ask(self.url, "GET", "/metrics").body).splitlines()
        return float(next(line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")))

    def ledger(self, peer: str = "", *, free: bool = False) -> list[Any]:
        """All rows of the ledger, oldest first."""
        query = {"peer": peer, "limit": 1000} | ({"free": "true"} if free else {})
        found: list[Any] = self.get("/v1/ledger", **query)["rows"]
        return found

    def now_is(self, at: int) -> None:
        """Return when the gateway's clock has come so far, and what was due then has been looked at."""
        eventually(lambda: self.get("/v1/status")["now"] >= at, f"the gateway's clock at {at}")

    # --- command line ---------------------------------------------------------------------------------------------

    def run(self, *args: str, stdin: bytes = b"", folder: Path | None = None, **env: str) -> Ended:
        """Run a verb in the folder of the configuration."""
        done = subprocess.run(
            [sys.executable, "-m", "scripts", *args],
            cwd=folder or self.folder,
            env=environment(HOME=str(self.folder / "home"), **env),
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    def verb(self, *args: str, code: int = 0, stdin: bytes = b"") -> Ended:
        """Run a verb that must end with `code`; prints JSON."""
        ended = self.run("--json", *args, stdin=stdin)
        assert ended.code == code, ended
        return ended

    def explain(self, name: str) -> Any:
        """What `explain` tells of one thing: one story."""
        return self.verb("explain", name).row

    def sound(self) -> None:
        """The log proves itself, and its caches are what its events say."""
        self.verb("audit", "--verify")
        self.verb("replay", "--verify")

    def end(self) -> None:
        for child in self.children:
            child.end()


def toml_of(tables: dict[str, Any], prefix: str = "") -> str:
    """A configuration as TOML."""
    lines = [f"{k} = {json.dumps(v)}" for k, v in tables.items() if not isinstance(v, dict)]
    for name, table in tables.items():
        if isinstance(table, dict):
            lines.append(f"[{prefix}{name}]")
            lines.append(toml_of(table, f"{prefix}{name}."))
    return "\n".join(lines) + "\n"


def disk_bytes(folder: Path) -> bytes:
    """Everything that the files of a folder hold."""
    return b"".join(Path(root, name).read_bytes() for root, _, names in os.walk(folder) for name in names)
